"""A negotiated session with a server: what was agreed on, context requests, and calls of extensions.

- Every context request gets exactly one answer, in order. So each answer belongs to the oldest open request, also if its
  sender has stopped waiting. At most eight requests are open at the same time.
- Calls of extensions are answered in any order, by their ids. At most sixteen are in flight (ruling 47).
- Content that the session does not support is not sent, and the answer lists it under `withheld`.
- After the end of the session nothing is sent. Callers that wait, and later callers, get an error with the reason.

`VcpConversation` is the client's machine as the conductor runs it. The machine asks for the next message, and gets that
of the program as the answer. Reports of the machine are handled at once.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET, Struct

from comity.vcp.protocol.client import (
    ClientMachine,
    Delivered,
    Established,
    GivenUp,
    NotEstablished,
    Notice,
    Outgoing,
    SendCall,
    SendContext,
    SessionEnded,
    outgoing,
)
from comity.vcp.protocol.context import Ignored
from comity.vcp.protocol.extension_calls import (
    MAX_CALL_ID_LENGTH,
    MAX_CALLS_IN_FLIGHT,
    RESULT,
    ExtensionError,
    call_id,
    read_result,
    write_call,
)
from comity.vcp.protocol.messages import VcpError
from comity.vcp.protocol.signals import ContextError
from comity.wire import strict_json
from comity.wire.errors import (
    ComityError,
    InvalidError,
    MalformedError,
    NoAnswerError,
    TooLargeError,
    UnreachableError,
    UnusableAnswerError,
    printable,
)
from comity.wire.machine import Answered, Ask, Effect, Event, Send, Started, TimerFired

_REMEDIES: Final = {
    "IDENTITY_REQUIRED": "connect with an identity, or without the extensions that need one",
    "IDENTITY_INVALID": "get a fresh token and connect with it",
    "EXTENSION_CONFLICT": "leave one of the two out",
    "INTERNAL_ERROR": "try again later",
}


class VcpRefusedError(ComityError):
    """There is no session, or no longer. `error` is the server's; its text is cleaned before it is shown."""

    code = "vcp_refused"

    def __init__(self, error: VcpError) -> None:
        super().__init__(f"{clean(error.code)}: {clean(error.message).rstrip('.')}; {remedy(error)}")
        self.error = error


def remedy(error: VcpError) -> str:
    if error.code == "VERSION_UNSUPPORTED" and error.supported_versions is not UNSET:
        offered = ", ".join(map(clean, error.supported_versions[:16]))
        return f"the server speaks {offered or 'none'}: ask for one of these, or another server"
    if error.retry_after is not None:
        return f"try again in {error.retry_after} s"
    return _REMEDIES.get(error.code, "change the hello or ask another server")


def clean(foreign: str) -> str:
    """Return one line without control characters."""
    return " ".join(printable(foreign).split())


MAX_WAITING: Final = 8
GROUPS: Final = ("personal", "relational", "consensus", "torch", "intent")

_NEXT_MESSAGE: Final = "to say"
_NOT_SENT: Final = "the session has ended before this was sent: nothing was sent; connect again"


class OutgoingMessage(Struct, frozen=True):
    """A message to send, the future of its answer, and the limit that it counts against until then."""

    event: SendContext | SendCall
    answer: asyncio.Future[bytes]
    limit: asyncio.Semaphore


class ContextAnswer(Struct, frozen=True, kw_only=True):
    """`message` is the server's, as it was received; `withheld` is what was not sent, and why."""

    message: dict[str, Any]
    withheld: tuple[Ignored, ...]


class VcpConversation:
    """A machine. `reports` holds the results of the handshake: an answer, or the end of the connection."""

    def __init__(self, machine: ClientMachine) -> None:
        self.reports: asyncio.Queue[Established | NotEstablished | ComityError] = asyncio.Queue()
        self.ended: ComityError | None = None
        self._machine = machine
        self._outbox: asyncio.Queue[OutgoingMessage] = asyncio.Queue()
        self._taken: OutgoingMessage | None = None  # taken by the conductor, not yet given to the machine
        self._waiting: deque[OutgoingMessage] = deque()
        self._calls: dict[str, OutgoingMessage] = {}
        self._requests_at_once = asyncio.Semaphore(MAX_WAITING)
        self._calls_at_once = asyncio.Semaphore(MAX_CALLS_IN_FLIGHT)
        self._call_number = 0

    async def next_message(self, _question: Any) -> OutgoingMessage:
        self._taken = await self._outbox.get()
        return self._taken

    async def send_context(self, request: dict[str, Any]) -> bytes:
        """The answer to the request. Raises what ended the session, if that came first."""
        return await self._sent(SendContext(request), self._requests_at_once)

    async def call(self, op: str, args: dict[str, Any]) -> bytes:
        """The answer to a call of an extension. Raises the same."""
        self._call_number += 1
        return await self._sent(SendCall(str(self._call_number), op, args), self._calls_at_once)

    async def _sent(self, event: SendContext | SendCall, limit: asyncio.Semaphore) -> bytes:
        await limit.acquire()
        if self.ended is not None:
            limit.release()
            raise _not_sent_error(self.ended)
        message_out = OutgoingMessage(event, asyncio.get_running_loop().create_future(), limit)
        self._outbox.put_nowait(message_out)
        return await message_out.answer

    def receive(self, event: Event, now: float) -> Sequence[Effect]:
        sending: OutgoingMessage | None = None
        effects: list[Effect] = []
        if type(event) is Answered and event.tag == _NEXT_MESSAGE:
            sending = event.answer
            assert sending is not None
            self._taken = None
            if sending.answer.cancelled():  # its caller was cancelled
                sending.limit.release()
                return (Ask(_NEXT_MESSAGE, None),)
            event = sending.event
        for effect in self._machine.receive(event, now):
            if isinstance(effect, Ask):
                self._handle_report(effect.request, event)
                continue
            effects.append(effect)
            if sending is not None and isinstance(effect, Send):
                if isinstance(sending.event, SendCall):
                    self._calls[sending.event.id] = sending
                else:
                    self._waiting.append(sending)
                sending = None
        if sending is not None:
            self._resolve(sending, _not_sent_error(self.ended))
        if isinstance(event, Started | SendContext | SendCall):
            effects.append(Ask(_NEXT_MESSAGE, None))
        return effects

    def end(self, why: ComityError) -> None:
        """End the session: nothing more is sent or received. Only the first reason is stored."""
        if self.ended is None:
            self.ended = why
            self.reports.put_nowait(why)
        while self._waiting:
            self._resolve(self._waiting.popleft(), self.ended)
        while self._calls:
            self._resolve(self._calls.popitem()[1], self.ended)
        if self._taken is not None:
            self._resolve(self._taken, _not_sent_error(self.ended))
            self._taken = None
        while not self._outbox.empty():
            self._resolve(self._outbox.get_nowait(), _not_sent_error(self.ended))

    def _handle_report(self, report: Any, event: Event) -> None:
        match report:
            case Established() | NotEstablished():
                self.reports.put_nowait(report)
            case Delivered(message):
                waiting = self._take_waiting(message)
                if waiting is not None:  # a message without a waiting request is dropped (ruling 4)
                    self._resolve(waiting, message)
            case SessionEnded(error):
                self.end(VcpRefusedError(error))
            case GivenUp(reason):
                if isinstance(event, TimerFired):
                    self.end(NoAnswerError(reason))
                else:
                    fault = clean(reason.partition(";")[0])  # the rest is a remedy for the sender
                    self.end(UnusableAnswerError(f"the server's answer is not VCP as agreed on: {fault}"))

    def _take_waiting(self, message: bytes) -> OutgoingMessage | None:
        """Remove and return the message that this one answers."""
        answered = _answered_call(message)
        if answered is not None:
            return self._calls.pop(answered, None)
        if self._waiting:
            return self._waiting.popleft()
        # a server that knows no calls answers them in order, as if they were context requests
        return self._calls.pop(next(iter(self._calls))) if self._calls else None

    def _resolve(self, message_out: OutgoingMessage, answer: bytes | ComityError) -> None:
        message_out.limit.release()
        if message_out.answer.done():
            return
        if isinstance(answer, bytes):
            message_out.answer.set_result(answer)
        else:
            message_out.answer.set_exception(answer)


class VcpSession:
    """`warnings` are about this server, `alerts` about promises that it no longer makes."""

    def __init__(
        self, established: Established, conversation: VcpConversation, limit: int, seconds: float
    ) -> None:
        session, ack = established.session, established.ack
        self._session = session
        self._conversation = conversation
        self._limit = limit
        self._seconds = seconds
        self.id: str | None = session.id or None
        self.server_id: str | None = None if ack.server_id is UNSET else ack.server_id
        self.version = session.version
        self.extensions = session.extensions
        self.unsupported = tuple(
            name for name in (*ack.supported, *ack.unsupported) if not session.active(name)
        )
        self.capabilities = session.capabilities
        self.core_features = session.core_features
        self.warnings: tuple[str, ...] = established.warnings
        self.alerts: tuple[Notice, ...] = established.alerts

    @property
    def active(self) -> bool:
        """Whether the session can still be used."""
        return self._conversation.ended is None

    async def send_context(self, request: Mapping[str, Any]) -> ContextAnswer:
        """Send what the session takes of a context request, and wait for the answer.

        Raises ContextError for a request that the server refused, VcpRefusedError when it ended the
        session, and InvalidError for a request of which nothing could be sent.
        """
        copied = dict(request)
        withheld = self._prepared(copied).withheld
        received = await self._in_time("the context request", self._conversation.send_context(copied))
        return ContextAnswer(message=_read_answer(received), withheld=withheld)

    async def call(self, op: str, args: Mapping[str, Any] | None = None) -> Any:
        """Run an operation of an extension, such as `personal.set`, and return its result.

        Raises ExtensionError where the server refuses it, and VcpRefusedError when it ended the session. What belongs
        to an extension that is not active here is not sent.
        """
        extension = f"VCP-X-{op.partition('.')[0].capitalize()}"
        if not self._session.active(extension):
            raise ExtensionError(
                "EXTENSION_INACTIVE",
                f"{extension} is not active in this session; ask for it when you connect",
            )
        calling = self._conversation.call(op, self._writable(op, dict(args or {})))
        return _read_result(await self._in_time(op, calling))

    async def _in_time(self, what: str, answer: Awaitable[bytes]) -> bytes:
        try:
            async with asyncio.timeout(self._seconds):
                return await answer
        except TimeoutError:
            raise NoAnswerError(
                f"the server did not answer {what} within {self._seconds:g} seconds"
            ) from None

    def _writable(self, op: str, args: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments if they can be sent."""
        try:
            size = len(write_call("", op, args))
        except (TypeError, ValueError, RecursionError) as fault:
            raise InvalidError(f"the arguments of {op} cannot be written as JSON: {fault}") from None
        if size > self._limit - MAX_CALL_ID_LENGTH:
            raise TooLargeError(f"the call of {op}", self._limit)
        return args

    def __getattr__(self, name: str) -> "OperationGroup":
        """The operations of one extension: `await session.personal.set(signals={…})`."""
        if name not in GROUPS:
            raise AttributeError(name)
        return OperationGroup(self, name)

    def _prepared(self, request: dict[str, Any]) -> Outgoing:
        try:
            prepared = outgoing(request, self._session)
        except (TypeError, ValueError, RecursionError) as fault:
            raise InvalidError(f"the request cannot be written as JSON: {fault}") from None
        if len(prepared.message) > self._limit:
            raise TooLargeError("the context request", self._limit)
        left_out = {ignored.field for ignored in prepared.withheld}
        if all(field in left_out or field == "version" for field in request):
            reasons = "; ".join(
                f"{ignored.field[:128]}: {ignored.reason}" for ignored in prepared.withheld[:5]
            )
            raise InvalidError(
                f"nothing of the request can be sent in this session ({reasons or 'it is empty'})"
            )
        return prepared


class OperationGroup:
    """The operations of one extension, as methods."""

    def __init__(self, session: VcpSession, name: str) -> None:
        self._session = session
        self._name = name

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        if verb.startswith("_"):
            raise AttributeError(verb)

        def run(**args: Any) -> Awaitable[Any]:
            return self._session.call(f"{self._name}.{verb}", args)

        return run


def _answered_call(message: bytes) -> str | None:
    """Return the id of the call that a message answers; None if it answers no call."""
    if b"vcp-result" not in message:
        return None
    try:
        value = strict_json.loads(message, unique_keys=True)
    except MalformedError:
        return None
    return call_id(value) if type(value) is dict and value.get("type") == RESULT else None


def _read_result(received: bytes) -> Any:
    try:
        result = read_result(strict_json.loads(received, unique_keys=True))
    except (ExtensionError, MalformedError) as fault:
        raise UnusableAnswerError(f"the server's answer cannot be read: {fault.message}") from None
    if result.error is None:
        return result.result
    error = result.error
    raise ExtensionError(error.code, clean(error.message[:1024]), error.field and clean(error.field[:1024]))


def _read_answer(received: bytes) -> dict[str, Any]:
    try:
        answer = strict_json.loads(received, unique_keys=True)
    except MalformedError as fault:
        raise UnusableAnswerError(f"the server's answer cannot be read: {fault.message}") from None
    if type(answer) is not dict:
        raise UnusableAnswerError("the server's answer is not a JSON object")
    if "error" not in answer:
        return answer
    error = answer["error"] if type(answer["error"]) is dict else {}
    code, message, field = (_text(error.get(name)) for name in ("code", "message", "field"))
    raise ContextError(code or "UNKNOWN", message or "the server gave no reason", field or None)  # type: ignore[arg-type] # the code is the server's


def _text(value: Any) -> str:
    return clean(value[:1024]) if type(value) is str else ""


def _not_sent_error(why: ComityError | None) -> ComityError:
    """Return the error for a message that was not sent."""
    return why if isinstance(why, VcpRefusedError) else UnreachableError(_NOT_SENT)
