"""The signalling relay at a WebSocket (`/signal`): one text frame is one message (peers 7).

- The guard in front has looked at Host and Origin. On the outside door no token is read, and only rooms are served to which
  this node has invited. Elsewhere a caller may bring the node's token, as a bearer token or,
  where a program can only be given an address, as `?token=`; a wrong one is refused, a right one makes the caller
  trusted. Where every caller needs one, those without are refused before the upgrade.
- Each message is charged to the budget of its address, unless the caller is the node's own user, and one that is refused is
  charged as a fault as well. An address without budget is not read until it has some again; the relay's own limits are
  stricter, and for each peer. A token that every caller needs is no privilege here.
- The peers of one address take turns, one message at a time, and pay for all messages that theirs cause: one that joins a
  full room causes 80. Their pace is limited, so that others do not wait behind them.
- Messages for a peer wait in that peer's own queue, and count until the peer has taken them. A peer that does not read
  is disconnected when its queue is full: it blocks nobody else, and its stream ids are free again at once. All queues
  together have a limit too: beyond it, the peer with the fullest queue is cut off.
- The server below pings idle connections, so a peer that vanished is noticed.
"""

import asyncio
import uuid
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

import msgspec
from msgspec import Struct

from comity.http.asgi import (
    Endpoint,
    Receive,
    Scope,
    Send,
    header,
    read_json_body,
    refuse_websocket,
    while_connected,
)
from comity.http.guard import caller_of
from comity.http.peer_address import peer_of
from comity.http.serving import LISTENER, OUTSIDE
from comity.http.websocket import cut_off, set_limit
from comity.requests.budget import Budget
from comity.requests.record import Recorder
from comity.rooms.protocol.relay import (
    MESSAGE_LIMIT,
    TRY_LATER,
    Deliver,
    Disconnect,
    RelayEffect,
    SignallingRelay,
)
from comity.wire.errors import (
    ComityError,
    ForbiddenError,
    InvalidError,
    OverloadedError,
    UnauthenticatedError,
)
from comity.wire.machine import Clock
from comity.wire.rate_limit import RateLimiter

if TYPE_CHECKING:
    from comity.rooms.tool_handlers import RoomTools

# `POST /v1/rooms`: the `vdo_*` tools for the command line of this node's own user, and invites.


ROOMS_PATH: Final = "/v1/rooms"
_WAITING: Final = ("delivery", "peek", "vdo_receive", "vdo_state_watch")
BODY_LIMIT: Final = 1_048_576


class RoomRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tool: str
    arguments: dict[str, Any] = {}
    client: str = "http"
    folder: str | None = None


def rooms_endpoint(open_tools: "Callable[[], Awaitable[RoomTools]]", record: Recorder) -> Endpoint:
    async def handle(scope: Scope, receive: Receive) -> dict[str, Any]:
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
        work = (await open_tools()).call_by_owner(
            asked.tool,
            asked.arguments,
            client=f"http {asked.client[:100]}",
            caller=caller,
            folder=asked.folder,
        )
        # a tool that waits does not take events for a client that has gone; what changes something is finished
        return await (while_connected(receive, work) if asked.tool in _WAITING else work)

    return Endpoint("POST", handle, feature="peers", record=record)


_request = msgspec.json.Decoder(RoomRequest)


SIGNAL_PATH: Final = "/signal"
QUEUE_BYTES: Final = 2 * 1024 * 1024
QUEUE_MESSAGES: Final = 1000
ALL_QUEUES_BYTES: Final = 8 * 1024 * 1024
PACE, PACE_SECONDS = 200, 2.0
"""Messages from one address, and those that they cause; the ones beyond wait."""
FAREWELL_SECONDS: Final = 2.0

_TOO_BIG: Final = Disconnect("", 1009, f"a message has at most {MESSAGE_LIMIT:,} bytes")
_BINARY: Final = Disconnect("", 1003, "binary frames are not used here; send text")
_UNREAD: Final = Disconnect("", TRY_LATER, "too much is waiting that this peer does not read")


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
        serves_outside: Callable[[str], bool] = lambda _room: False,
        all_queues_bytes: int = ALL_QUEUES_BYTES,
    ) -> None:
        """`serves_outside` says which rooms are served to those who come through the outside door."""
        self._relay = relay
        self._serves_outside = serves_outside
        self._all_queues_bytes = all_queues_bytes
        self._queued = _Queued()
        self._clock = clock
        self._budget = budget
        self._knows_token = knows_token
        self._needs_token = needs_token
        self._outboxes: dict[str, _Outbox] = {}
        self._strangers: dict[str, _Stranger] = {}
        self._pace = RateLimiter(PACE, PACE_SECONDS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        event = await receive()
        if event["type"] != "websocket.connect":
            return
        peer_id = str(uuid.uuid4())
        try:
            trusted = self._check_token(scope)
            address = peer_of(scope)
            limited = self._budget.limits(address)
            refusal = self._relay.connect(
                peer_id,
                address if limited else None,
                trusted=trusted,
                serves=self._serves_outside if _is_outside(scope) else None,
            )
            if refusal is not None:
                raise OverloadedError(refusal.reason)
        except ComityError as refused:
            await refuse_websocket(scope, send, refused)
            return
        outbox = self._outboxes[peer_id] = _Outbox(self._queued, partial(cut_off, scope))
        is_own_user = trusted and not self._needs_token
        stranger = self._stranger_at(address) if limited and not is_own_user else None
        try:
            await self._serve(scope, peer_id, stranger, receive, send, outbox)
        finally:
            if stranger is not None:
                stranger.connections -= 1
                if not stranger.connections:
                    del self._strangers[address]
            self._outboxes.pop(peer_id, None)
            outbox.clear()
            self._relay.disconnect(peer_id)

    def _stranger_at(self, address: str) -> "_Stranger":
        stranger = self._strangers.setdefault(address, _Stranger(address))
        stranger.connections += 1
        return stranger

    def _check_token(self, scope: Scope) -> bool:
        if _is_outside(scope):  # no token counts there
            return False
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
        peer_id: str,
        stranger: "_Stranger | None",
        receive: Receive,
        send: Send,
        outbox: "_Outbox",
    ) -> None:
        try:
            await send({"type": "websocket.accept"})
        except OSError:
            return
        set_limit(scope, MESSAGE_LIMIT)
        reading = asyncio.create_task(self._read(peer_id, stranger, receive, outbox))
        writing = asyncio.create_task(outbox.write_to(send))
        try:
            await asyncio.wait((reading, writing, outbox.over), return_when=asyncio.FIRST_COMPLETED)
            self._relay.disconnect(peer_id)  # free its streams before the last messages are sent
            if not reading.done():
                async with asyncio.timeout(FAREWELL_SECONDS):
                    await writing
        except TimeoutError:
            return
        finally:
            for task in (reading, writing):
                task.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)

    async def _read(
        self, peer_id: str, stranger: "_Stranger | None", receive: Receive, outbox: "_Outbox"
    ) -> None:
        while not outbox.over.done():
            if not await self._read_one(peer_id, stranger, receive, outbox):
                return

    async def _read_one(
        self, peer_id: str, stranger: "_Stranger | None", receive: Receive, outbox: "_Outbox"
    ) -> bool:
        """Apart from the loop, so that nothing of a message is kept while the next one is waited for. False: it was the
        last.
        """
        event = await receive()
        if event["type"] == "websocket.disconnect":
            return False
        text: str | None = event.get("text")
        if text is None:
            if stranger is not None:
                self._budget.spend_fault(stranger.address)
            outbox.disconnect(_TOO_BIG if event.get("oversize") else _BINARY)
            await asyncio.Event().wait()  # the writer says it and ends this
            return False
        message = text.encode()
        if stranger is None:
            self._receive(peer_id, message)
            return True
        await asyncio.sleep(0)  # others read their next message before this peer does
        async with stranger.turn:
            address = stranger.address
            while wait := self._pace.take(address, self._clock.monotonic()):
                await self._clock.sleep(wait)  # the next message is not read meanwhile
            while wait := self._budget.take(address, len(message)):
                await self._clock.sleep(wait)
            caused, faults = self._receive(peer_id, message)
            if caused:
                self._pace.charge(address, self._clock.monotonic(), caused)
            for _ in range(faults):
                self._budget.spend_fault(address)
        return True

    def _receive(self, peer_id: str, message: bytes) -> tuple[int, int]:
        """Return how many messages it causes, and how many of them say that it is refused."""
        effects = self._relay.receive(peer_id, message, self._clock.monotonic())
        for effect in effects:
            self._perform(effect)
        return len(effects), sum(isinstance(effect, Deliver) and effect.is_fault for effect in effects)

    def _perform(self, effect: RelayEffect) -> None:
        whose = effect.to if isinstance(effect, Deliver) else effect.peer_id
        outbox = self._outboxes.get(whose)
        if outbox is None:
            return
        if isinstance(effect, Disconnect):
            outbox.disconnect(effect)
        elif not outbox.put(effect.message):
            outbox.disconnect(_UNREAD)
            self._relay.disconnect(whose)
        elif self._queued.bytes > self._all_queues_bytes:
            fullest = max(self._outboxes, key=lambda each: self._outboxes[each].bytes)
            self._outboxes.pop(fullest).drop(_UNREAD)
            self._relay.disconnect(fullest)


class _Stranger:
    """What the peers of one address share: one of them is served at a time, in the order in which they come."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.connections = 0
        self.turn = asyncio.Lock()


class _Queued:
    """What waits in all queues together."""

    bytes = 0


class _Outbox:
    """The messages for one peer, until it reads them."""

    def __init__(self, queued: _Queued, cut_off: Callable[[], None]) -> None:
        self.bytes = 0
        self._queued = queued
        self._cut_off = cut_off
        self.over: asyncio.Future[Disconnect] = asyncio.get_running_loop().create_future()
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

    def disconnect(self, why: Disconnect) -> None:
        """Disconnect after the queued messages were sent, if the peer reads them."""
        if not self.over.done():
            self.over.set_result(why)
            self._changed.set()

    def drop(self, why: Disconnect) -> None:
        """Without what is waiting, and without a farewell."""
        self.clear()
        self.disconnect(why)
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


def _is_outside(scope: Scope) -> bool:
    return scope.get(LISTENER) == OUTSIDE


def _token_in(query: str) -> str:
    try:
        return parse_qs(query, max_num_fields=16).get("token", [""])[0]
    except ValueError:  # more fields than anybody needs
        return ""
