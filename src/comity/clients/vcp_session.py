"""A negotiated session with a server: what was agreed on, and context sent within it.

- Every message gets exactly one answer, in order; so each answer belongs to the request that has waited
  longest, also when its sender has stopped waiting. At most eight wait at a time.
- What the session does not take is not sent, and the answer says so under `withheld`.
- Once the session has ended nothing leaves: who waits and who comes later is told why.

`VcpConversation` is the machine of the client as the conductor runs it: what the program wants said comes in
as the answer to a question, and what the machine reports is heard at once.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET, Struct

from comity.clients.refusals import NoAnswerError, UnreachableError, UnusableAnswerError
from comity.clients.vcp_refusals import VcpRefusedError, clean
from comity.core.context.errors import ContextError
from comity.core.context.request import Ignored
from comity.core.errors import ComityError, InvalidError, MalformedError, TooLargeError
from comity.core.machine import Answered, Ask, Effect, Event, Send, Started, TimerFired
from comity.core.negotiation.client import (
    ClientMachine,
    Delivered,
    Established,
    GivenUp,
    NotEstablished,
    Outgoing,
    SayContext,
    SessionEnded,
    outgoing,
)
from comity.core.negotiation.downgrade import Notice
from comity.core.wire import strict_json

MOST_WAITING: Final = 8

_TO_SAY: Final = "to say"
_NOT_SAID: Final = "the session has ended before this was sent: nothing was sent; connect again"


class Utterance(Struct, frozen=True):
    """A request on its way, and where its answer is awaited."""

    request: dict[str, Any]
    answer: asyncio.Future[bytes]


class ContextAnswer(Struct, frozen=True, kw_only=True):
    """`message` is the server's, as it was received; `withheld` is what was not sent, and why."""

    message: dict[str, Any]
    withheld: tuple[Ignored, ...]


class VcpConversation:
    """A machine. `reports` tells of the handshake: an answer of the server's, or what became of the connection."""

    def __init__(self, machine: ClientMachine) -> None:
        self.reports: asyncio.Queue[Established | NotEstablished | ComityError] = asyncio.Queue()
        self.ended: ComityError | None = None
        self._machine = machine
        self._to_say: asyncio.Queue[Utterance] = asyncio.Queue()
        self._in_hand: Utterance | None = None  # taken by the conductor, not yet given to the machine
        self._waiting: deque[Utterance] = deque()
        self._room = asyncio.Semaphore(MOST_WAITING)

    async def next_to_say(self, _question: Any) -> Utterance:
        self._in_hand = await self._to_say.get()
        return self._in_hand

    async def say(self, request: dict[str, Any]) -> bytes:
        """The answer to the request. Raises what ended the session, if that came first."""
        await self._room.acquire()
        if self.ended is not None:
            self._room.release()
            raise _too_late(self.ended)
        utterance = Utterance(request, asyncio.get_running_loop().create_future())
        self._to_say.put_nowait(utterance)
        return await utterance.answer

    def receive(self, event: Event, now: float) -> Sequence[Effect]:
        said: Utterance | None = None
        effects: list[Effect] = []
        if type(event) is Answered and event.tag == _TO_SAY:
            said = event.answer
            assert said is not None
            self._in_hand = None
            if said.answer.cancelled():  # nobody wants it said any more
                self._room.release()
                return (Ask(_TO_SAY, None),)
            event = SayContext(said.request)
        for effect in self._machine.receive(event, now):
            if isinstance(effect, Ask):
                self._hear(effect.request, event)
                continue
            effects.append(effect)
            if said is not None and isinstance(effect, Send):
                self._waiting.append(said)
                said = None
        if said is not None:
            self._settle(said, _too_late(self.ended))
        if isinstance(event, Started | SayContext):
            effects.append(Ask(_TO_SAY, None))
        return effects

    def end(self, why: ComityError) -> None:
        """Nothing more is said or heard. The first reason counts."""
        if self.ended is None:
            self.ended = why
            self.reports.put_nowait(why)
        while self._waiting:
            self._settle(self._waiting.popleft(), self.ended)
        if self._in_hand is not None:
            self._settle(self._in_hand, _too_late(self.ended))
            self._in_hand = None
        while not self._to_say.empty():
            self._settle(self._to_say.get_nowait(), _too_late(self.ended))

    def _hear(self, report: Any, event: Event) -> None:
        match report:
            case Established() | NotEstablished():
                self.reports.put_nowait(report)
            case Delivered(message):
                if self._waiting:  # what nobody asked for is dropped (ruling 4)
                    self._settle(self._waiting.popleft(), message)
            case SessionEnded(error):
                self.end(VcpRefusedError(error))
            case GivenUp(reason):
                if isinstance(event, TimerFired):
                    self.end(NoAnswerError(reason))
                else:
                    fault = clean(reason.partition(";")[0])  # what follows tells the sender what to do
                    self.end(UnusableAnswerError(f"the server's answer is not VCP as agreed on: {fault}"))

    def _settle(self, utterance: Utterance, answer: bytes | ComityError) -> None:
        self._room.release()
        if utterance.answer.done():
            return
        if isinstance(answer, bytes):
            utterance.answer.set_result(answer)
        else:
            utterance.answer.set_exception(answer)


class VcpSession:
    """`warnings` are about this server as it is, `alerts` about what it no longer promises."""

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
        """Whether something can still be said in it."""
        return self._conversation.ended is None

    async def send_context(self, request: Mapping[str, Any]) -> ContextAnswer:
        """Send what the session takes of a context request, and wait for the answer.

        Raises ContextError for a request that the server refused, VcpRefusedError when it ended the
        session, and InvalidError for a request of which nothing could be sent.
        """
        told = dict(request)
        withheld = self._prepared(told).withheld
        try:
            async with asyncio.timeout(self._seconds):
                received = await self._conversation.say(told)
        except TimeoutError:
            raise NoAnswerError(
                f"the server did not answer the context request within {self._seconds:g} seconds"
            ) from None
        return ContextAnswer(message=_read_answer(received), withheld=withheld)

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


def _read_answer(received: bytes) -> dict[str, Any]:
    try:
        answer = strict_json.loads(received, unique_keys=True)
    except MalformedError as fault:
        raise UnusableAnswerError(f"the server's answer cannot be read: {fault.message}") from None
    if type(answer) is not dict:
        raise UnusableAnswerError("the server's answer is not a JSON object")
    if "error" not in answer:
        return answer
    told = answer["error"] if type(answer["error"]) is dict else {}
    code, message, field = (_text(told.get(name)) for name in ("code", "message", "field"))
    raise ContextError(code or "UNKNOWN", message or "the server gave no reason", field or None)  # type: ignore[arg-type] # the code is the server's


def _text(value: Any) -> str:
    return clean(value[:1024]) if type(value) is str else ""


def _too_late(why: ComityError | None) -> ComityError:
    """Why something never left."""
    return why if isinstance(why, VcpRefusedError) else UnreachableError(_NOT_SAID)
