"""The server's side of one connection: the hello timer, the one answer, and the session after it.

    waiting     hello, no token        -> active or refused
                hello with a token     -> checking
                5 s, or anything else  -> active: VCP 1.0, nothing is advertised
    checking    verdict, or 4.5 s      -> active or refused
    refused     hello                  -> as from waiting; anything else: an error, there is no session
    active      context request        -> exchanging, until it is answered
                vcp-call               -> active: it is answered when it is done

- Only a complete message stops the hello timer. A message that is too large is refused by its length, unread; a link
  need hand over no more of it than shows that (vcp 1.5, ruling 14).
- Every message gets exactly one answer. Context requests are answered in order: meanwhile the next messages are queued.
  Calls of extensions run side by side; the code that runs the machine limits their number, and stops reading while
  the machine `is_full`: nothing is lost or closed.
- A second hello, also after the fallback to VCP 1.0, gets an error and changes nothing.
- If the identity check hangs, the client is answered in time, and a late verdict is ignored.
- A session ends with an error when a feature that it was promised is lost (vcp 1.9), or when its identity is revoked
  (ruling 45).
"""

import enum
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from msgspec import UNSET, Struct

from comity.vcp.protocol import agreement
from comity.vcp.protocol.agreement import Identity, Session, Version
from comity.vcp.protocol.context import ContextResponse, encode_response, read_request
from comity.vcp.protocol.extension_calls import (
    ExtensionError,
    call_id,
    is_call,
    read_call,
    write_refusal,
    write_result,
)
from comity.vcp.protocol.messages import (
    HANDSHAKE_LIMIT,
    MAX_SESSION_ID_LENGTH,
    ErrorCode,
    HandshakeError,
    Hello,
    VcpError,
    encode,
    is_extension_id,
    is_hello,
    is_meant_as_hello,
    read_hello,
)
from comity.vcp.protocol.negotiation import (
    INVALID_IDENTITY,
    NO_ENCRYPTION,
    CheckIdentity,
    ExchangeContext,
    Happened,
    Happening,
    IdentityRefusedError,
    RunOperation,
    ServerPolicy,
    SessionEndedError,
    WatchFeatures,
    conclude,
    implicit_session,
    refusal,
    screen,
    session_from,
)
from comity.vcp.protocol.signals import ContextError, encode_error
from comity.wire import strict_json
from comity.wire.errors import ComityError, ForbiddenError, InvalidError, MalformedError, UnauthenticatedError
from comity.wire.machine import (
    Answered,
    Ask,
    CancelTimer,
    Close,
    Effect,
    Event,
    LinkLost,
    Received,
    Refused,
    Send,
    SetTimer,
    Started,
    TimerFired,
)
from comity.wire.rate_limit import RateLimiter

NOT_TEXT: Final = b"\xff"
"""What a link hands over for a message that is not text: no UTF-8 begins like that."""
MAX_QUEUED: Final = 16
MAX_QUEUED_BYTES: Final = 4 * HANDSHAKE_LIMIT

_HELLO: Final = "hello"
_IDENTITY: Final = "identity"
_IDLE: Final = "idle"
_EXCHANGE: Final = "exchange"
_CALL: Final = "call"
_FEATURES: Final = "features"
_RECORD: Final = "record"

_NOT_ACCEPTED: Final = (UnauthenticatedError, ForbiddenError, InvalidError, MalformedError)
_UNCHECKED: Final = VcpError(
    code="INTERNAL_ERROR", message="The identity could not be checked; try again later", retry_after=5
)
_SECOND_HELLO: Final = VcpError(
    code="INTERNAL_ERROR",
    message="This connection has its session already; to negotiate again, open a new connection",
)
_NOT_RUN: Final = ExtensionError("CONFLICT", "the operation could not be run; try again later")


class ServerPhase(enum.Enum):
    WAITING = "waiting"
    CHECKING = "checking"
    REFUSED = "refused"
    ACTIVE = "active"
    EXCHANGING = "exchanging"
    ENDED = "ended"


_OPEN: Final = [phase for phase in ServerPhase if phase is not ServerPhase.ENDED]
_BUSY: Final = frozenset((ServerPhase.CHECKING, ServerPhase.EXCHANGING))

_Handler = Callable[["ServerMachine", Any, float], list[Effect]]


class _Checking(Struct, frozen=True):
    tag: str
    hello: Hello
    version: Version


class ServerMachine:
    """`peer` is the address that the rate limit counts; `session_id` is the id of a new session."""

    def __init__(self, policy: ServerPolicy, *, peer: str, session_id: str, limiter: RateLimiter) -> None:
        if not 0 < len(session_id) <= MAX_SESSION_ID_LENGTH:
            raise InvalidError(f"session_id must be 1 to {MAX_SESSION_ID_LENGTH} characters")
        self._policy = policy
        self._peer = peer
        self._session_id = session_id
        self._limiter = limiter
        self._phase = ServerPhase.WAITING
        self._session: Session | None = None
        self._client_id = ""
        self._checking: _Checking | None = None
        self._exchange = ""
        self._calls: dict[str, str] = {}
        self._questions = 0
        self._last_message_at = 0.0
        self._watches_idleness = False
        self._queued: deque[bytes] = deque()
        self._queued_bytes = 0

    @property
    def phase(self) -> ServerPhase:
        return self._phase

    @property
    def session(self) -> Session | None:
        return self._session

    @property
    def is_full(self) -> bool:
        """Whether no more messages may be queued."""
        return len(self._queued) >= MAX_QUEUED or self._queued_bytes >= MAX_QUEUED_BYTES

    def receive(self, event: Event, now: float) -> Sequence[Effect]:
        handler = self._TABLE.get((self._phase, type(event)))
        if handler is None:
            return ()
        if type(event) is Received:
            self._last_message_at = now
        effects = handler(self, event, now)
        while self._queued and self._phase not in _BUSY:
            message = self._queued.popleft()
            self._queued_bytes -= len(message)
            effects += self.receive(Received(message), now)
        return effects

    def _start(self, _event: Started, now: float) -> list[Effect]:
        return [SetTimer(_HELLO, now + self._policy.hello_seconds)]

    def _first(self, event: Received, now: float) -> list[Effect]:
        return [CancelTimer(_HELLO), *self._before_session(event.message, now, self._serve_at_baseline)]

    def _again(self, event: Received, now: float) -> list[Effect]:
        return self._before_session(event.message, now, self._answer_no_session)

    def _before_session(
        self, message: bytes, now: float, otherwise: Callable[[bytes, float], list[Effect]]
    ) -> list[Effect]:
        """Handle a message while there is no session: a hello, or else `otherwise`."""
        if len(message) > HANDSHAKE_LIMIT:
            return self._refuse_and_close(
                VcpError(
                    code="INTERNAL_ERROR",
                    message=f"The message exceeds the limit of {HANDSHAKE_LIMIT:,} bytes; connect again and send less",
                )
            )
        hello = _hello_in(message, strict=self._policy.strict)
        if hello is None:
            return otherwise(message, now)
        wait = self._limiter.take(self._peer, now)
        if wait:
            return self._refuse(
                VcpError(
                    code="RATE_LIMITED",
                    message="Too many hellos from this address; wait before the next one",
                    retry_after=max(1, math.ceil(wait)),
                ),
                now,
            )
        if isinstance(hello, HandshakeError):
            return self._refuse(refusal(hello, self._policy), now)
        return self._hello(hello, now)

    def _hello(self, hello: Hello, now: float) -> list[Effect]:
        self._client_id = "" if hello.client_id is UNSET else hello.client_id
        version = screen(hello, self._policy)
        if isinstance(version, VcpError):
            return self._refuse(version, now)
        if hello.identity is None:
            return self._conclude(hello, version, None, now)
        self._phase = ServerPhase.CHECKING
        self._questions += 1
        self._checking = _Checking(f"{_IDENTITY}:{self._questions}", hello, version)
        return [
            SetTimer(_IDENTITY, now + self._policy.identity_seconds),
            Ask(self._checking.tag, CheckIdentity(hello.identity)),
        ]

    def _identity_checked(self, event: Answered | Refused, now: float) -> list[Effect]:
        checking = self._checking
        if checking is None or event.tag != checking.tag:
            return []
        if isinstance(event, Refused) and not isinstance(event.error, _NOT_ACCEPTED):
            return [CancelTimer(_IDENTITY), *self._refuse(_UNCHECKED, now)]
        identity = event.answer if isinstance(event, Answered) else None
        if not isinstance(identity, Identity):
            return [CancelTimer(_IDENTITY), *self._refuse(_not_accepted(event), now)]
        return [CancelTimer(_IDENTITY), *self._conclude(checking.hello, checking.version, identity, now)]

    def _conclude(
        self, hello: Hello, version: Version, identity: Identity | None, now: float
    ) -> list[Effect]:
        answer = conclude(hello, version, self._policy, identity, session_id=self._session_id)
        if isinstance(answer, VcpError):
            return self._refuse(answer, now)
        session = session_from(answer, self._session_id, identity)
        invalid_names: tuple[str, ...] = ()
        if len(answer.supported) + len(answer.unsupported) < len(hello.extensions):
            invalid_names = tuple(name for name in hello.extensions if not is_extension_id(name))
        return [
            Ask(
                _RECORD,
                Happened(
                    what="HANDSHAKE_ACK",
                    session=session,
                    invalid_names=invalid_names,
                    client_id=self._client_id,
                ),
            ),
            Send(encode(answer)),
            *self._begin(session, now),
        ]

    def _refuse(self, error: VcpError, now: float) -> list[Effect]:
        self._phase = ServerPhase.REFUSED
        self._checking = None
        error_sent = _send_error("HANDSHAKE_ERROR", error, client_id=self._client_id)
        return [*error_sent, *self._watch_idleness(now)]

    def _refuse_and_close(self, error: VcpError) -> list[Effect]:
        self._phase = ServerPhase.ENDED
        return [*_send_error("HANDSHAKE_ERROR", error), Close(error.message)]

    def _begin(self, session: Session, now: float) -> list[Effect]:
        self._phase = ServerPhase.ACTIVE
        self._checking = None
        self._session = session
        watch = Ask(_FEATURES, WatchFeatures(self._policy.core_features))
        return [*self._watch_idleness(now), watch]

    def _fall_back(self, now: float) -> list[Effect]:
        """Begin a VCP 1.0 session without a hello, unless encryption is missing."""
        if self._policy.lacks_encryption:
            return self._refuse_and_close(NO_ENCRYPTION)
        session = implicit_session(self._policy, self._session_id)
        return [Ask(_RECORD, Happened(what="SESSION_IMPLICIT", session=session)), *self._begin(session, now)]

    def _serve_at_baseline(self, message: bytes, now: float) -> list[Effect]:
        effects = self._fall_back(now)
        if self._session is not None:
            effects += self._handle_message(Received(message), now)
        return effects

    def _answer_no_session(self, _message: bytes, _now: float) -> list[Effect]:
        # vcp 1.4: after an error there is no session, and VCP 1.0 does not take its place
        error = ContextError("NO_SESSION", "the handshake failed; send a hello that can be accepted")
        return _context_refused(error, None)

    def _handle_message(self, event: Received, _now: float) -> list[Effect]:
        session, message, limit = self._session, event.message, self._policy.message_limit
        assert session is not None
        if len(message) > limit:
            error = ContextError("TOO_LARGE", f"a message is limited to {limit:,} bytes; send less")
            return _context_refused(error, session)
        if message == NOT_TEXT:
            return _context_refused(ContextError("MALFORMED", "a message is JSON text; send text"), session)
        try:
            value = strict_json.loads(message, unique_keys=True)
            if is_hello(value):
                return _send_error("HANDSHAKE_ERROR", _SECOND_HELLO, session)
            if is_call(value):
                return self._call(value, session)
            request = read_request(value, session, self._policy.scan_threshold)
        except MalformedError as fault:
            if len(message) <= HANDSHAKE_LIMIT and is_meant_as_hello(message):
                return _send_error("HANDSHAKE_ERROR", _SECOND_HELLO, session)
            return _context_refused(ContextError("MALFORMED", fault.message), session)
        except ContextError as refusal:
            return _context_refused(refusal, session)
        self._phase = ServerPhase.EXCHANGING
        self._questions += 1
        self._exchange = f"{_EXCHANGE}:{self._questions}"
        return [Ask(self._exchange, ExchangeContext(session, request))]

    def _call(self, value: dict[str, Any], session: Session) -> list[Effect]:
        try:
            call = read_call(value)
        except ExtensionError as refusal:
            happened = Happened(
                what="CALL_REFUSED", session=session, code=refusal.wire_code, reason=refusal.message
            )
            return [Ask(_RECORD, happened), Send(write_refusal(call_id(value), refusal))]
        self._questions += 1
        tag = f"{_CALL}:{self._questions}"
        self._calls[tag] = call.id
        return [Ask(tag, RunOperation(session, call))]

    def _call_done(self, event: Answered | Refused) -> list[Effect]:
        id_ = self._calls.pop(event.tag)
        if isinstance(event, Answered):
            return [Send(write_result(id_, event.answer))]
        if isinstance(event.error, SessionEndedError):
            return self._end(event.error.message, event.error.vcp_code)
        refusal = event.error if isinstance(event.error, ExtensionError) else _NOT_RUN
        return [Send(write_refusal(id_, refusal))]

    def _exchange_done(self, event: Answered | Refused, now: float) -> list[Effect]:
        if event.tag != self._exchange:
            return self._compare_features(event, now)
        self._phase = ServerPhase.ACTIVE
        if isinstance(event, Refused):
            if isinstance(event.error, SessionEndedError):
                return self._end(event.error.message, event.error.vcp_code)
            return [Send(encode_error(event.error))]
        if not isinstance(event.answer, ContextResponse):
            return [Send(encode_error(ComityError("the request could not be served; try again later")))]
        return [Send(encode_response(event.answer))]

    def _compare_features(self, event: Answered | Refused, _now: float) -> list[Effect]:
        """End the session if a promised feature does not run any more."""
        if event.tag in self._calls:
            return self._call_done(event)
        session = self._session
        if event.tag != _FEATURES or session is None:
            return []
        if isinstance(event, Refused):
            return self._end("The session ends because the server cannot check its features; connect again")
        running = agreement.configured(event.answer)
        claimed = agreement.claimed(running, session.speaks, production=self._policy.production)
        lost = agreement.lost(session.core_features, claimed)
        if lost:
            return self._end(lost_message(lost))
        return [Ask(_FEATURES, WatchFeatures(running))]

    def _end(self, why: str, code: ErrorCode = "INTERNAL_ERROR") -> list[Effect]:
        self._phase = ServerPhase.ENDED
        error = VcpError(code=code, message=why)
        return [*_send_error("SESSION_ENDED", error, self._session), Close(why)]

    def _queue(self, event: Received, _now: float) -> list[Effect]:
        self._queued.append(event.message)
        self._queued_bytes += len(event.message)
        return []

    def _watch_idleness(self, now: float) -> list[Effect]:
        """Start the only idle timer of a connection. When it fires, it checks the time of the last message."""
        if self._watches_idleness:
            return []
        self._watches_idleness = True
        self._last_message_at = now
        return [SetTimer(_IDLE, now + self._policy.idle_seconds)]

    def _timer(self, event: TimerFired, now: float) -> list[Effect]:
        if event.name == _HELLO and self._phase is ServerPhase.WAITING:
            return self._fall_back(now)
        if event.name == _IDENTITY and self._phase is ServerPhase.CHECKING:
            return self._refuse(_UNCHECKED, now)
        return self._idle(now) if event.name == _IDLE else []

    def _idle(self, now: float) -> list[Effect]:
        since = now if self._phase in _BUSY else self._last_message_at
        ends_at = since + self._policy.idle_seconds
        if now < ends_at:
            return [SetTimer(_IDLE, ends_at)]
        self._phase = ServerPhase.ENDED
        why = f"no message was received for {self._policy.idle_seconds:g} seconds"
        if self._session is None:
            return [Close(why)]
        return [Ask(_RECORD, Happened(what="SESSION_ENDED", session=self._session, reason=why)), Close(why)]

    def _link_lost(self, _event: LinkLost, _now: float) -> list[Effect]:
        self._phase = ServerPhase.ENDED
        return []

    _TABLE: ClassVar[Mapping[tuple[ServerPhase, type[Event]], _Handler]] = {
        **dict.fromkeys([(phase, TimerFired) for phase in _OPEN], _timer),
        **dict.fromkeys([(phase, LinkLost) for phase in _OPEN], _link_lost),
        (ServerPhase.WAITING, Started): _start,
        (ServerPhase.WAITING, Received): _first,
        (ServerPhase.CHECKING, Received): _queue,
        (ServerPhase.CHECKING, Answered): _identity_checked,
        (ServerPhase.CHECKING, Refused): _identity_checked,
        (ServerPhase.REFUSED, Received): _again,
        (ServerPhase.ACTIVE, Received): _handle_message,
        (ServerPhase.ACTIVE, Answered): _compare_features,
        (ServerPhase.ACTIVE, Refused): _compare_features,
        (ServerPhase.EXCHANGING, Received): _queue,
        (ServerPhase.EXCHANGING, Answered): _exchange_done,
        (ServerPhase.EXCHANGING, Refused): _exchange_done,
    }


def _hello_in(message: bytes, *, strict: bool) -> Hello | HandshakeError | None:
    """Return the hello, or what is wrong with it; None if the message is not meant as one."""
    try:
        value = strict_json.loads(message, unique_keys=True)
        return read_hello(value, strict=strict) if is_hello(value) else None
    except HandshakeError as fault:
        return fault
    except MalformedError as fault:
        if not is_meant_as_hello(message):
            return None
        return HandshakeError("INTERNAL_ERROR", f"The hello is invalid: {fault.message}")


def lost_message(lost: Sequence[str]) -> str:
    return f"The session ends because the server lost {', '.join(lost)}; connect again"


def _not_accepted(event: Answered | Refused) -> VcpError:
    if isinstance(event, Refused) and isinstance(event.error, IdentityRefusedError):
        return VcpError(
            code="IDENTITY_INVALID", message=event.error.message, retry_after=event.error.retry_after
        )
    return INVALID_IDENTITY


def _send_error(
    what: Happening, error: VcpError, session: Session | None = None, client_id: str = ""
) -> list[Effect]:
    """Return an error as effects: for the record and for the client."""
    happened = Happened(
        what=what, session=session, code=error.code, reason=error.message, client_id=client_id
    )
    return [Ask(_RECORD, happened), Send(encode(error))]


def _context_refused(error: ContextError, session: Session | None) -> list[Effect]:
    happened = Happened(what="CONTEXT_REFUSED", session=session, code=error.wire_code, reason=error.message)
    return [Ask(_RECORD, happened), Send(encode_error(error))]
