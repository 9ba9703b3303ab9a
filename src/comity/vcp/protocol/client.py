"""The client's side of one connection: hello first, one answer, and then only what was agreed on.

    linkless    the link is there   -> asked: the hello is sent
    asked       ack                 -> active
                error               -> paused, where waiting helps; else refused
                10 s, or nonsense   -> ended: the connection is given up
    paused      time is up          -> asked
    refused     HelloAgain          -> asked
    active      error               -> refused: the server ended the session

- After an error nothing leaves but another hello (vcp 1.4).
- An ack that breaks an invariant is refused as a whole. Members that we do not know are overlooked; a feature
  that is not named is not there, and a warning says so.
- What goes out in a session is filtered to what is active in it; what was left out is reported. Calls of extensions
  leave in a session only.
- If the server is busy or fails, the client asks again on the same connection, a few times, with longer waits. The code
  that owns the connection can connect again, with the same waits.

The machine reports what happened with the effect `Ask`. It ignores the answers to these reports.

`alerts` tells what a server promised last time and does not promise now (vcp 1.9):

- A lower version, a core feature that was true, an extension that was there and is asked for again, and a
  capability that has shrunk: true became false, a number fell, a list lost a member, a key is gone.
- There is no alert for an extension that the client no longer requests. Flags that depend on another extension give no
  alert of their own.
- The alerts are for people, who decide whether to go on.
"""

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, NamedTuple

from msgspec import UNSET, Struct

from comity.vcp.protocol import agreement
from comity.vcp.protocol.agreement import V3_1, Session
from comity.vcp.protocol.built_in import built_in
from comity.vcp.protocol.context import Ignored, inactive_reason, reason_to_ignore
from comity.vcp.protocol.extension_calls import write_call
from comity.vcp.protocol.messages import (
    HANDSHAKE_LIMIT,
    MAX_EXTENSIONS,
    MAX_ID_LENGTH,
    MAX_IDENTITY_LENGTH,
    Ack,
    Hello,
    VcpError,
    encode,
    is_extension_id,
    read_ack,
    read_error,
)
from comity.wire import strict_json
from comity.wire.errors import InvalidError, MalformedError
from comity.wire.machine import (
    Ask,
    CancelTimer,
    Close,
    Effect,
    Event,
    LinkLost,
    Received,
    Send,
    SetTimer,
    Started,
    TimerFired,
)

MAX_WAIT_SECONDS: Final = 30.0

_STEPS_TO_MAX: Final = 5


class Notice(Struct, frozen=True):
    """`about` is a word for programs, `name` the subject, `message` a sentence for people."""

    about: Literal["version", "feature", "extension", "capability"]
    name: str
    message: str


def alerts(before: Ack, now: Ack) -> tuple[Notice, ...]:
    return tuple(_alerts(before, now))


def _alerts(before: Ack, now: Ack) -> Iterator[Notice]:
    if agreement.parse(now.version) < agreement.parse(before.version):
        yield Notice(
            "version", now.version, f"the server spoke VCP {before.version} and now only {now.version}"
        )
    for name in agreement.lost(before.core_features, now.core_features):
        yield Notice("feature", name, f"the server no longer has the core feature {name}")
    for extension in before.supported:
        if extension in now.unsupported:
            yield Notice("extension", extension, f"the server no longer supports {extension}")
        elif extension in now.supported:
            earlier, current = (ack.capabilities.get(extension, {}) for ack in (before, now))
            for key in _shrunk(earlier, current):
                yield Notice(
                    "capability", f"{extension}.{key}", f"{extension} now offers less than before: {key}"
                )


def _shrunk(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    dependent = {each.flag for extension in built_in().values() for each in extension.dependencies}
    for key, value in before.items():
        if key not in dependent and (key not in now or _is_less(now[key], value)):
            yield key


def _is_less(now: Any, before: Any) -> bool:
    if isinstance(before, bool):
        return before and now is not True
    if isinstance(before, int | float):
        return isinstance(now, bool) or not isinstance(now, int | float) or now < before
    if isinstance(before, list):
        return not isinstance(now, list) or any(member not in now for member in before)
    return False


REPLY_SECONDS: Final = 10.0
ATTEMPTS: Final = 5
MAX_WAIT: Final = 86_400

_REPLY: Final = "reply"
_RETRY: Final = "retry"
_REPORT: Final = "report"
# a tuple: the type that is received need not be hashable
_ANSWERS: Final = ("vcp-ack", "vcp-error")
_WAITING_HELPS: Final = frozenset(("RATE_LIMITED", "INTERNAL_ERROR"))


class RetryHello(Event, frozen=True):
    """Try with another hello on the same connection, after an error."""

    hello: Hello


class SendContext(Event, frozen=True):
    """Send a context request, or as much of it as the session takes."""

    request: dict[str, Any]


class SendCall(Event, frozen=True):
    """Call an operation of an extension. Its answer bears the same id."""

    id: str
    op: str
    args: dict[str, Any]


class Established(Struct, frozen=True, kw_only=True):
    """`warnings` are about this server, `alerts` about promises that it no longer makes."""

    session: Session
    ack: Ack
    warnings: tuple[str, ...]
    alerts: tuple[Notice, ...]


class NotEstablished(Struct, frozen=True, kw_only=True):
    """`retry_in` is None if waiting does not help."""

    error: VcpError
    retry_in: float | None


class SessionEnded(Struct, frozen=True):
    error: VcpError


class GivenUp(Struct, frozen=True):
    """The connection cannot be used: no answer, or one that breaks the protocol."""

    reason: str


class Delivered(Struct, frozen=True):
    """A message of the server within the session."""

    message: bytes


class Withheld(Struct, frozen=True):
    """What was not sent, and why."""

    fields: tuple[Ignored, ...]


class Outgoing(NamedTuple):
    message: bytes
    withheld: tuple[Ignored, ...]


def outgoing(request: Mapping[str, Any], session: Session) -> Outgoing:
    """Return a context request with only the data of active extensions, in the version of the session."""
    kept: dict[str, Any] = {"version": session.version}
    withheld: list[Ignored] = []
    for field, member in request.items():
        if field == "version":
            continue
        reason = reason_to_ignore(field, session)
        if reason is not None:
            withheld.append(Ignored(field, reason))
        elif field == "extensions" and isinstance(member, Mapping):
            kept[field] = payloads = {}
            for extension, payload in member.items():
                reason = inactive_reason(extension, session)
                if reason is None:
                    payloads[extension] = payload
                else:
                    withheld.append(Ignored(f"{field}.{extension}", reason))
        else:
            kept[field] = member
    return Outgoing(strict_json.dumps(kept), tuple(withheld))


class ClientPhase(enum.Enum):
    LINKLESS = "linkless"
    ASKED = "asked"
    PAUSED = "paused"
    REFUSED = "refused"
    ACTIVE = "active"
    ENDED = "ended"


_Handler = Callable[["ClientMachine", Any, float], list[Effect]]


class ClientMachine:
    """`random` draws evenly from 0 up to 1; `last_ack` is the last answer of this server."""

    def __init__(self, hello: Hello, *, random: Callable[[], float], last_ack: Ack | None = None) -> None:
        self._hello = _checked(hello)
        self._random = random
        self._last_ack = last_ack
        self._phase = ClientPhase.LINKLESS
        self._session: Session | None = None
        self._failures = 0

    @property
    def phase(self) -> ClientPhase:
        return self._phase

    @property
    def session(self) -> Session | None:
        """The session while it is active."""
        return self._session

    def receive(self, event: Event, now: float) -> Sequence[Effect]:
        handler = self._TABLE.get((self._phase, type(event)))
        return () if handler is None else handler(self, event, now)

    def _send_hello(self, _event: Event, now: float) -> list[Effect]:
        self._phase = ClientPhase.ASKED
        return [Send(encode(self._hello)), SetTimer(_REPLY, now + REPLY_SECONDS)]

    def _retry_hello(self, event: RetryHello, now: float) -> list[Effect]:
        self._hello = _checked(event.hello)
        self._failures = 0
        return [CancelTimer(_RETRY), *self._send_hello(event, now)]

    def _retry(self, event: TimerFired, now: float) -> list[Effect]:
        return self._send_hello(event, now) if event.name == _RETRY else []

    def _no_reply(self, event: TimerFired, _now: float) -> list[Effect]:
        if event.name != _REPLY:
            return []
        return self._give_up(f"the server did not answer the hello within {REPLY_SECONDS:g} seconds")

    def _answered(self, event: Received, now: float) -> list[Effect]:
        try:
            value = _handshake_message(event.message)
            if value["type"] == "vcp-error":
                return [CancelTimer(_REPLY), *self._refused(read_error(value), now)]
            return [CancelTimer(_REPLY), *self._acknowledged(value)]
        except (InvalidError, MalformedError) as fault:
            return [CancelTimer(_REPLY), *self._give_up(fault.message)]

    def _acknowledged(self, value: dict[str, Any]) -> list[Effect]:
        hello = self._hello
        ack = read_ack(value, hello.extensions)
        agreed = agreement.parse(ack.version)
        if not agreement.parse(hello.min_version) <= agreed <= agreement.parse(hello.version):
            raise InvalidError(
                f"the ack's version {ack.version} is outside of {hello.min_version} to {hello.version}"
            )
        warnings = []
        if value.get("core_features") is None:
            warnings.append("the server names no core features; none of them can be relied on")
        if not ack.core_features["encryption"]:
            warnings.append("the server does not encrypt what it stores")
        active = ack.supported
        if active and agreed < V3_1:
            warnings.append(f"the server lists extensions although VCP {agreed} has none; none is used")
            active = ()
        self._session = Session(
            id="" if ack.session_id is UNSET else ack.session_id,
            version=str(agreed),
            extensions=active,
            capabilities={name: ack.capabilities[name] for name in active if name in ack.capabilities},
            core_features=ack.core_features,
        )
        noticed = () if self._last_ack is None else alerts(self._last_ack, ack)
        self._last_ack = ack
        self._phase = ClientPhase.ACTIVE
        established = Established(session=self._session, ack=ack, warnings=tuple(warnings), alerts=noticed)
        return [Ask(_REPORT, established)]

    def _refused(self, error: VcpError, now: float) -> list[Effect]:
        self._failures += 1
        asked_for = error.retry_after or 0
        if error.code not in _WAITING_HELPS or self._failures >= ATTEMPTS or asked_for > MAX_WAIT:
            self._phase = ClientPhase.REFUSED
            return [Ask(_REPORT, NotEstablished(error=error, retry_in=None))]
        self._phase = ClientPhase.PAUSED
        wait = retry_delay(self._failures, self._random(), at_least=asked_for)
        return [Ask(_REPORT, NotEstablished(error=error, retry_in=wait)), SetTimer(_RETRY, now + wait)]

    def _delivered(self, event: Received, _now: float) -> list[Effect]:
        try:
            value = _handshake_message(event.message)
        except (InvalidError, MalformedError):
            return [Ask(_REPORT, Delivered(event.message))]
        if value["type"] == "vcp-ack":
            return self._give_up("the server sent a second ack")
        try:
            error = read_error(value)
        except InvalidError as fault:
            return self._give_up(fault.message)
        self._phase = ClientPhase.REFUSED
        self._session = None
        return [Ask(_REPORT, SessionEnded(error))]

    def _send_context(self, event: SendContext, _now: float) -> list[Effect]:
        assert self._session is not None
        message, withheld = outgoing(event.request, self._session)
        if not withheld:
            return [Send(message)]
        return [Send(message), Ask(_REPORT, Withheld(withheld))]

    def _send_call(self, event: SendCall, _now: float) -> list[Effect]:
        return [Send(write_call(event.id, event.op, event.args))]

    def _withhold(self, event: SendContext, _now: float) -> list[Effect]:
        # vcp 1.9: hello before any context data, and none after an error
        reason = "there is no session"
        return [Ask(_REPORT, Withheld(tuple(Ignored(field, reason) for field in event.request)))]

    def _give_up(self, reason: str) -> list[Effect]:
        self._phase = ClientPhase.ENDED
        self._session = None
        return [Ask(_REPORT, GivenUp(reason)), Close(reason)]

    def _link_lost(self, _event: LinkLost, _now: float) -> list[Effect]:
        self._phase = ClientPhase.ENDED
        self._session = None
        return []

    _TABLE: ClassVar[Mapping[tuple[ClientPhase, type[Event]], _Handler]] = {
        **dict.fromkeys([(phase, SendContext) for phase in ClientPhase], _withhold),
        **dict.fromkeys([(phase, LinkLost) for phase in ClientPhase], _link_lost),
        (ClientPhase.LINKLESS, Started): _send_hello,
        (ClientPhase.ASKED, Received): _answered,
        (ClientPhase.ASKED, TimerFired): _no_reply,
        (ClientPhase.PAUSED, TimerFired): _retry,
        (ClientPhase.PAUSED, RetryHello): _retry_hello,
        (ClientPhase.REFUSED, RetryHello): _retry_hello,
        (ClientPhase.ACTIVE, Received): _delivered,
        (ClientPhase.ACTIVE, SendContext): _send_context,
        (ClientPhase.ACTIVE, SendCall): _send_call,
    }


def _checked(hello: Hello) -> Hello:
    """Return the hello if it is within the bounds of the protocol."""
    try:
        lowest, highest = agreement.parse(hello.min_version), agreement.parse(hello.version)
    except MalformedError as fault:
        raise InvalidError(f"the hello's versions are malformed: {fault.message}") from None
    if (str(lowest), str(highest)) != (hello.min_version, hello.version):
        raise InvalidError("the hello's versions must be written without a patch, such as 3.1")
    if lowest > highest:
        raise InvalidError(f"min_version {lowest} must not be above version {highest}")
    ids = hello.extensions
    if len(ids) > MAX_EXTENSIONS or len(set(ids)) != len(ids) or not all(map(is_extension_id, ids)):
        raise InvalidError(
            f"extensions must be at most {MAX_EXTENSIONS} different ids such as VCP-X-Personal"
        )
    if hello.identity is not None and len(hello.identity) > MAX_IDENTITY_LENGTH:
        raise InvalidError(f"identity must be at most {MAX_IDENTITY_LENGTH} characters")
    if hello.client_id is not UNSET and not 0 < len(hello.client_id) <= MAX_ID_LENGTH:
        raise InvalidError(f"client_id must be 1 to {MAX_ID_LENGTH} characters")
    try:
        encode(hello)
    except UnicodeEncodeError:
        raise InvalidError("identity and client_id must not hold half a surrogate pair") from None
    return hello


def _handshake_message(message: bytes) -> dict[str, Any]:
    """Read an ack or an error. Raises InvalidError or MalformedError for anything else."""
    if len(message) > HANDSHAKE_LIMIT:
        raise InvalidError(f"the server's answer exceeds the limit of {HANDSHAKE_LIMIT:,} bytes")
    value = strict_json.loads(message, unique_keys=True)
    if type(value) is not dict or value.get("type") not in _ANSWERS:
        raise InvalidError("the server answered the hello with neither an ack nor an error")
    return value


def retry_delay(failures: int, random: float, at_least: float = 0.0) -> float:
    """Return seconds to wait after this many failures in a row (from 1); `random` is drawn evenly from 0 up to 1 (vcp 1.9).

    The step is 1 s, doubled with each failure, at most 30 s. A wait is half to one and a half of the step, so that clients
    that failed together do not return together; at most 30 s, and at least what the server asked for.
    """
    step = min(2.0 ** min(failures - 1, _STEPS_TO_MAX), MAX_WAIT_SECONDS)
    return max(min(step * (0.5 + random), MAX_WAIT_SECONDS), at_least)
