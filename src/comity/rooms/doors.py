"""The signalling relay at a WebSocket (`/signal`): one text frame is one message (peers 7).

- The guard in front has looked at Host and Origin. A caller may bring the node's token, as a bearer token or,
  where a program can only be given an address, as `?token=`; a wrong one is refused, a right one makes the caller
  trusted. Where every caller needs one, those without are refused before the upgrade.
- Each message is charged to the budget of its address, unless the caller is trusted, and one that is refused is charged as
  a fault besides. Who has nothing left is not read until there is some again; the relay's own limits are stricter, and for each peer.
- What the relay says to a peer waits in that peer's own queue, and counts until the peer has taken it. A peer that does
  not read is let go when the queue is full: it holds up nobody else, and its stream ids are free again at once. All
  queues together have a limit too: beyond it, the peer with the fullest queue is cut off.
- The server below pings idle connections, so a peer that vanished is noticed.
"""

import asyncio
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

import msgspec
from msgspec import Struct

from comity.http.asgi import JSON, Endpoint, Receive, Scope, Send, header, read_json_body, while_connected
from comity.http.guard import caller_of
from comity.http.peer_address import peer_of
from comity.http.statuses import http_status
from comity.http.websocket import cut_off, set_limit
from comity.requests.budget import Budget
from comity.requests.record import Recorder
from comity.rooms.protocol.relay import MESSAGE_LIMIT, TRY_LATER, LetGo, RelayEffect, Say, SignallingRelay
from comity.system import is_loopback
from comity.wire import strict_json
from comity.wire.errors import (
    ComityError,
    ForbiddenError,
    InvalidError,
    OverloadedError,
    UnauthenticatedError,
)
from comity.wire.machine import Clock

if TYPE_CHECKING:
    from comity.rooms.tool_handlers import RoomTools

# `POST /v1/rooms`: the `vdo_*` tools for the command line of this node's own user, and invites.


ROOMS_PATH: Final = "/v1/rooms"
_OF_THE_OWNER: Final = ("links", "export", "invites", "revoke")
_OF_A_READER: Final = ("peek", "acknowledge")
_WAITING: Final = ("peek", "vdo_receive", "vdo_state_watch")
BODY_LIMIT: Final = 1_048_576


class RoomRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tool: str
    arguments: dict[str, Any] = {}
    client: str = "http"
    folder: str | None = None


Invite = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


def rooms_endpoint(tools: "Callable[[], Awaitable[RoomTools]]", invite: Invite, record: Recorder) -> Endpoint:
    async def take(scope: Scope, receive: Receive) -> dict[str, Any]:
        from comity.rooms.tool_handlers import ToolCaller

        body = await read_json_body(scope, receive, BODY_LIMIT, "the call of a tool")
        try:
            asked = _request.decode(body)
        except msgspec.MsgspecError as fault:
            raise InvalidError(f"the call of a tool cannot be read: {fault}") from None
        caller = caller_of(scope)
        if asked.folder is not None and not caller.may("files"):
            raise ForbiddenError(
                "only a command on the node's machine names a folder; without `folder`, files below `shared` and the "
                "folders of the setting peers.shared can be used"
            )
        if asked.tool == "invite":
            return await invite(asked.arguments)
        desk = await tools()
        if asked.tool in _OF_THE_OWNER:
            answer: dict[str, Any] = await getattr(desk, asked.tool)(asked.arguments)
            return answer
        client = f"http {asked.client[:100]}"
        if asked.tool in _OF_A_READER:
            return await _answer(asked.tool, receive, getattr(desk, asked.tool)(asked.arguments, client))
        who = ToolCaller(
            client=client,
            caller=caller,
            demands=desk.rooms.demands,
            profile="extended",
            folder=asked.folder,
            typed=asked.folder is not None,
        )
        return await _answer(asked.tool, receive, desk.call(asked.tool, asked.arguments, who))

    return Endpoint("POST", take, feature="peers", record=record)


async def _answer(tool: str, receive: Receive, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """A tool that waits does not take events for a client that has gone; what changes something is finished."""
    return await (while_connected(receive, work) if tool in _WAITING else work)


_request = msgspec.json.Decoder(RoomRequest)


SIGNAL_PATH: Final = "/signal"
QUEUE_BYTES: Final = 2 * 1024 * 1024
QUEUE_MESSAGES: Final = 1000
ALL_QUEUES_BYTES: Final = 8 * 1024 * 1024
FAREWELL_SECONDS: Final = 2.0

_TOO_BIG: Final = LetGo("", 1009, f"a message has at most {MESSAGE_LIMIT:,} bytes")
_BINARY: Final = LetGo("", 1003, "binary frames are not used here; send text")
_UNREAD: Final = LetGo("", TRY_LATER, "too much is waiting that this peer does not read")


class SignallingDoor:
    """Raw ASGI."""

    def __init__(
        self,
        relay: SignallingRelay,
        clock: Clock,
        budget: Budget,
        *,
        knows_token: Callable[[str], bool] = lambda _token: False,
        needs_token: bool = False,
        all_queues_bytes: int = ALL_QUEUES_BYTES,
    ) -> None:
        self._relay = relay
        self._all_queues_bytes = all_queues_bytes
        self._queued = _Queued()
        self._clock = clock
        self._budget = budget
        self._knows_token = knows_token
        self._needs_token = needs_token
        self._outboxes: dict[str, _Outbox] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        event = await receive()
        if event["type"] != "websocket.connect":
            return
        who = str(uuid.uuid4())
        try:
            trusted = self._check_token(scope)
            address = peer_of(scope)
            refusal = self._relay.connect(who, None if is_loopback(address) else address, trusted=trusted)
            if refusal is not None:
                raise OverloadedError(refusal.reason)
        except ComityError as refused:
            await _refuse(send, refused)
            return
        outbox = self._outboxes[who] = _Outbox(self._queued, partial(cut_off, scope))
        charged = None if trusted else address
        try:
            await self._serve(scope, who, charged, receive, send, outbox)
        finally:
            self._outboxes.pop(who, None)
            outbox.clear()
            self._relay.disconnect(who)

    def _check_token(self, scope: Scope) -> bool:
        kind, _, token = (header(scope, b"authorization") or "").partition(" ")
        given = token.strip() if kind.lower() == "bearer" else ""
        if not given:
            given = _token_in(scope.get("query_string", b"").decode("latin-1"))
        if given:
            if not self._knows_token(given):
                raise ForbiddenError("the token is not this relay's; ask its owner for the right one")
            return True
        if self._needs_token:
            raise UnauthenticatedError("this relay needs a token; ask its owner")
        return False

    async def _serve(
        self,
        scope: Scope,
        who: str,
        charged: str | None,
        receive: Receive,
        send: Send,
        outbox: "_Outbox",
    ) -> None:
        try:
            await send({"type": "websocket.accept"})
        except OSError:
            return
        set_limit(scope, MESSAGE_LIMIT)
        reading = asyncio.create_task(self._read(who, charged, receive, outbox))
        writing = asyncio.create_task(outbox.write_to(send))
        try:
            await asyncio.wait((reading, writing, outbox.over), return_when=asyncio.FIRST_COMPLETED)
            self._relay.disconnect(who)  # free its streams before the last messages are sent
            if not reading.done():
                async with asyncio.timeout(FAREWELL_SECONDS):
                    await writing
        except TimeoutError:
            return
        finally:
            for task in (reading, writing):
                task.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)

    async def _read(self, who: str, charged: str | None, receive: Receive, outbox: "_Outbox") -> None:
        while not outbox.over.done():
            if not await self._read_one(who, charged, receive, outbox):
                return

    async def _read_one(self, who: str, charged: str | None, receive: Receive, outbox: "_Outbox") -> bool:
        """Apart from the loop, so that nothing of a message is kept while the next one is waited for. False: it was the
        last.
        """
        event = await receive()
        if event["type"] == "websocket.disconnect":
            return False
        text: str | None = event.get("text")
        if text is None:
            if charged is not None:
                self._budget.spend_fault(charged)
            outbox.let_go(_TOO_BIG if event.get("oversize") else _BINARY)
            await asyncio.Event().wait()  # the writer says it and ends this
            return False
        message = text.encode()
        while charged is not None and (wait := self._budget.take(charged, len(message))):
            await self._clock.sleep(wait)  # the next message is not read meanwhile
        for effect in self._relay.receive(who, message, self._clock.monotonic()):
            if charged is not None and isinstance(effect, Say) and effect.is_fault:
                self._budget.spend_fault(charged)
            self._perform(effect)
        return True

    def _perform(self, effect: RelayEffect) -> None:
        whose = effect.to if isinstance(effect, Say) else effect.who
        outbox = self._outboxes.get(whose)
        if outbox is None:
            return
        if isinstance(effect, LetGo):
            outbox.let_go(effect)
        elif not outbox.put(effect.message):
            outbox.let_go(_UNREAD)
            self._relay.disconnect(whose)
        elif self._queued.bytes > self._all_queues_bytes:
            fullest = max(self._outboxes, key=lambda each: self._outboxes[each].bytes)
            self._outboxes.pop(fullest).drop(_UNREAD)
            self._relay.disconnect(fullest)


class _Queued:
    """What waits in all queues together."""

    bytes = 0


class _Outbox:
    """What one peer has to be told, until it reads it."""

    def __init__(self, queued: _Queued, cut_off: Callable[[], None]) -> None:
        self.bytes = 0
        self._queued = queued
        self._cut_off = cut_off
        self.over: asyncio.Future[LetGo] = asyncio.get_running_loop().create_future()
        self._messages: deque[bytes] = deque()
        self._changed = asyncio.Event()

    def put(self, message: bytes) -> bool:
        """False when it is full."""
        if len(self._messages) >= QUEUE_MESSAGES or self.bytes + len(message) > QUEUE_BYTES:
            return False
        self._messages.append(message)
        self._count(len(message))
        self._changed.set()
        return True

    def let_go(self, why: LetGo) -> None:
        """Disconnect after the queued messages were sent, if the peer reads them."""
        if not self.over.done():
            self.over.set_result(why)
            self._changed.set()

    def drop(self, why: LetGo) -> None:
        """Without what is waiting, and without a farewell."""
        self.clear()
        self.let_go(why)
        self._cut_off()

    def clear(self) -> None:
        """Forget what is waiting."""
        self._count(-sum(map(len, self._messages)))
        self._messages.clear()

    def _count(self, size: int) -> None:
        self.bytes += size
        self._queued.bytes += size

    async def write_to(self, send: Send) -> None:
        try:
            while self._messages or not self.over.done():
                while self._messages:
                    await self._write_one(self._messages.popleft(), send)
                if not self.over.done():
                    self._changed.clear()
                    await self._changed.wait()
            why = self.over.result()
            await send({"type": "websocket.close", "code": why.code, "reason": why.reason})
        except OSError:
            return

    async def _write_one(self, message: bytes, send: Send) -> None:
        size, text = len(message), message.decode()
        del message
        try:
            await send({"type": "websocket.send", "text": text})
        finally:
            self._count(-size)


def _token_in(query: str) -> str:
    try:
        return parse_qs(query, max_num_fields=16).get("token", [""])[0]
    except ValueError:  # more fields than anybody needs
        return ""


async def _refuse(send: Send, refusal: ComityError) -> None:
    body = strict_json.dumps({"detail": refusal.message, "code": refusal.code})
    headers = [(b"content-type", JSON)]
    if isinstance(refusal, OverloadedError):
        headers.append((b"retry-after", b"%d" % refusal.retry_after))
    if isinstance(refusal, UnauthenticatedError):
        headers.append((b"www-authenticate", b'Bearer realm="comity"'))
    try:
        await send(
            {"type": "websocket.http.response.start", "status": http_status(refusal), "headers": headers}
        )
        await send({"type": "websocket.http.response.body", "body": body})
    except OSError:
        return
