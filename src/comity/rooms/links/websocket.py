"""A link between two programs of one user on one host: a WebSocket on 127.0.0.1 (ruling 63).

- The side that waits for a peer lays a ticket: a private file in a folder of the user's that holds the address and a secret.
  The peer gets the ticket's name, which is random. It can use it only if it finds that file: so both are on one
  host and of one user, and no address that a peer names is ever dialled. A ticket lets one connection in, once,
  and only for a while.
- One WebSocket carries all channels. A message is: kind (1 byte), channel (2 bytes, big-endian), content. Channel 0 is the
  control channel; the side that dialled opens odd ones, the other even ones.
- Each channel has a window: a sender waits until the reader has taken enough of what came before. A peer that sends
  more than it may is cut off.
- A peer that answers no ping is gone after `SILENCE_SECONDS`, however its process hangs.
"""

import asyncio
import contextlib
import hashlib
import os
import secrets
import struct
import tempfile
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Literal, Protocol

import msgspec
from msgspec import Struct
from websockets.asyncio.client import connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed, ConnectionClosedOK, WebSocketException
from websockets.http11 import Request, Response

from comity.identity.private_files import create_private, ensure_private_folder, read_private
from comity.rooms.links.channels import MAX_CHANNELS, ChannelCore, LinkCore, check_label, cost_of
from comity.wire.errors import ForbiddenError, InvalidError, KeyRefusedError, PeerError
from comity.wire.link import CONTROL, LinkClosed, LinkEnd, LinkPath, LinkStats, Message

MAX_MESSAGE_BYTES: Final = 1_048_576
WINDOW_BYTES: Final = 8 * 1024 * 1024
TICKET_SECONDS: Final = 30.0
SILENCE_SECONDS: Final = 20.0
PING_SECONDS: Final = 5.0
CLOSE_SECONDS: Final = 2.0

_HOST: Final = "127.0.0.1"
_HEAD: Final = struct.Struct(">BH")
_CREDIT: Final = struct.Struct(">I")
_OPEN, _TEXT, _BYTES, _GRANT, _PING, _PONG = range(6)
SUBPROTOCOL: Final = "comity.link.1"
MAX_FRAME: Final = MAX_MESSAGE_BYTES + _HEAD.size
LINK_OPTIONS: Final[dict[str, Any]] = {
    "subprotocols": [SUBPROTOCOL],
    "compression": None,
    "max_size": MAX_FRAME,
    "ping_interval": None,
    "close_timeout": CLOSE_SECONDS,
}
LINK_NONCE: Final = "x-comity-nonce"
_REASON_BYTES: Final = 123


class Ticket(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the file says."""

    port: int
    secret: str


def ticket_folder() -> Path:
    """Return a folder that all programs of this user find, and nobody else may enter."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        return Path(runtime) / "comity-links"
    user = os.getuid() if hasattr(os, "getuid") else "user"
    return Path(tempfile.gettempdir()) / f"comity-links-{user}"


class WebSocketChannel(ChannelCore):
    buffered = 0

    def __init__(self, label: str, link: "WebSocketLink", number: int) -> None:
        super().__init__(label, link)
        self.number = number
        self._link: WebSocketLink = link
        self._credit = WINDOW_BYTES
        self._taken = 0
        self._turn = asyncio.Lock()

    async def send(self, message: Message) -> None:
        self.check_open()
        size = self.count_sent(message)
        kind, content = (_TEXT, message.encode()) if isinstance(message, str) else (_BYTES, message)
        self.buffered += size
        cost = cost_of(message)
        try:
            async with self._turn:  # those who wait for the window go in the order in which they came
                while self._credit < cost:
                    self._changed.clear()
                    await self._changed.wait()
                    self.check_open()
                async with self._link.writing:
                    # from here on nothing waits until it is written, so a cancelled sender has not spent its credit
                    self._credit -= cost
                    await self._link.write(kind, self.number, content)
            self._link.bytes_sent += size
        finally:
            self.buffered -= size
            self._changed.set()

    async def receive(self) -> Message:
        message = await super().receive()
        self._taken += cost_of(message)
        if self._taken >= WINDOW_BYTES // 2 and self._link.end is None:
            granted, self._taken = self._taken, 0
            self._link.write_soon(_GRANT, self.number, _CREDIT.pack(granted))
        return message

    def grant(self, credit: int) -> None:
        self._credit += credit
        if self._credit > WINDOW_BYTES:
            raise InvalidError("the peer granted more than was sent")
        self._changed.set()

    def arrived(self, message: Message) -> None:
        super().arrived(message)
        if self.inbox.unread + self._taken > WINDOW_BYTES:
            raise InvalidError("the peer sent more than it may")


class LinkConnection(Protocol):
    """What a link needs of a connection. It raises ConnectionClosed at the end."""

    @property
    def transport(self) -> Any: ...

    async def send(self, message: bytes) -> None: ...

    async def recv(self, *, decode: Literal[False]) -> bytes: ...

    async def close(self, *, reason: str) -> None: ...


class WebSocketLink(LinkCore[WebSocketChannel]):
    def __init__(
        self,
        connection: LinkConnection,
        binding: tuple[str, str],
        *,
        is_offerer: bool,
        path: LinkPath = "websocket",
    ) -> None:
        super().__init__(MAX_MESSAGE_BYTES, is_offerer=is_offerer)
        self.binding = binding
        self._path: LinkPath = path
        self.control = WebSocketChannel(CONTROL, self, 0)
        self.add(self.control)
        self.writing = asyncio.Lock()
        self._connection = connection
        self._by_number = {0: self.control}
        self._next_number = 2 if is_offerer else 1
        self._round_trip: float | None = None
        self._last_received = perf_counter()
        self._soon: set[asyncio.Task[None]] = set()
        self._tasks = [asyncio.create_task(work) for work in (self._read(), self._keep_alive())]

    async def open_channel(self, label: str) -> WebSocketChannel:
        self.check_new_channel(label)
        channel = WebSocketChannel(label, self, self._next_number)
        self._next_number += 2
        self._by_number[channel.number] = channel
        self.add(channel)
        async with self.writing:
            await self.write(_OPEN, channel.number, label.encode())
        return channel

    async def stats(self) -> LinkStats:
        return self.stats_of(self._path, self._round_trip)

    async def close(self, reason: str = "") -> None:
        first = self.finish(LinkEnd(reason, "us"))
        for task in (*self._tasks, *self._soon):
            task.cancel()
        if first:
            shown = reason.encode()[:_REASON_BYTES].decode(errors="ignore")
            await self._connection.close(reason=shown)

    async def write(self, kind: int, channel: int, content: bytes) -> None:
        """The caller must hold the lock `writing`."""
        self.check_open()
        try:
            await self._connection.send(_HEAD.pack(kind, channel) + content)
        except ConnectionClosed as closed:
            self._lost(closed)
            self.check_open()

    def write_soon(self, kind: int, channel: int, content: bytes) -> None:
        async def write() -> None:
            with contextlib.suppress(LinkClosed):
                async with self.writing:
                    await self.write(kind, channel, content)

        task = asyncio.create_task(write())
        self._soon.add(task)
        task.add_done_callback(self._soon.discard)

    async def _read(self) -> None:
        try:
            while True:
                message = await self._connection.recv(decode=False)
                self._last_received = perf_counter()
                self._take(message)
        except ConnectionClosed as closed:
            self._lost(closed)
        except InvalidError as broken:
            self.finish(LinkEnd(broken.message, "fault"))
            self._connection.transport.abort()  # a farewell would wait behind all that it still sends

    def _take(self, message: bytes) -> None:
        if len(message) < _HEAD.size:
            raise InvalidError("the peer sent a message without a head")
        kind, number = _HEAD.unpack_from(message)
        content = message[_HEAD.size :]
        channel = self._by_number.get(number)
        if kind == _OPEN and channel is None:
            self._opened_by_peer(number, content)
        elif channel is not None and kind == _BYTES:
            channel.arrived(content)
        elif channel is not None and kind == _TEXT:
            channel.arrived(_text(content))
        elif channel is not None and kind == _GRANT and len(content) == _CREDIT.size:
            channel.grant(_CREDIT.unpack(content)[0])
        elif kind == _PING and len(content) <= _REASON_BYTES:
            self.write_soon(_PONG, 0, content)
        elif kind == _PONG:
            self._round_trip = perf_counter() - _sent_at(content, perf_counter())
        else:
            raise InvalidError("the peer sent a message that this link does not know")

    def _opened_by_peer(self, number: int, label: bytes) -> None:
        if number % 2 == self._next_number % 2 or len(self._channels) >= MAX_CHANNELS:
            raise InvalidError("the peer opened a channel that it may not open")
        name = _text(label)
        check_label(name)
        channel = WebSocketChannel(name, self, number)
        self._by_number[number] = channel
        self.add(channel, offered=True)

    async def _keep_alive(self) -> None:
        while self.end is None:
            self.write_soon(_PING, 0, struct.pack(">d", perf_counter()))
            await asyncio.sleep(PING_SECONDS)
            if perf_counter() - self._last_received > SILENCE_SECONDS:
                self.finish(LinkEnd("the peer does not answer any more", "fault"))
                self._connection.transport.abort()

    def _lost(self, closed: ConnectionClosed) -> None:
        if isinstance(closed, ConnectionClosedOK) and closed.rcvd is not None:
            self.finish(LinkEnd(closed.rcvd.reason, "peer"))
        else:
            self.finish(LinkEnd("the connection to the peer was lost", "fault"))


class WebSocketListener:
    """Lays tickets and waits for those who bring them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server: Server | None = None
        self._starting = asyncio.Lock()
        self._waiting: dict[bytes, asyncio.Future[WebSocketLink]] = {}
        self._links: set[WebSocketLink] = set()

    async def lay_ticket(self) -> "LaidTicket":
        server = await self._started()
        port: int = next(iter(server.sockets)).getsockname()[1]
        name, secret = secrets.token_hex(16), secrets.token_urlsafe(32)
        path = self._folder / name
        await asyncio.to_thread(create_private, path, msgspec.json.encode(Ticket(port=port, secret=secret)))
        came: asyncio.Future[WebSocketLink] = asyncio.get_running_loop().create_future()
        key = digest_of(secret)
        self._waiting[key] = came

        def withdraw() -> None:
            path.unlink(missing_ok=True)
            self._waiting.pop(key, None)
            came.cancel()

        return LaidTicket(name, came, withdraw)

    async def close(self) -> None:
        for link in list(self._links):
            await link.close("this side stops")
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _started(self) -> Server:
        async with self._starting:
            if self._server is None:
                await asyncio.to_thread(ensure_private_folder, self._folder)
                self._server = await serve(
                    self._serve,
                    _HOST,
                    0,
                    process_request=self._check,
                    process_response=self._greet,
                    server_header=None,
                    **LINK_OPTIONS,
                )
            return self._server

    def _check(self, connection: ServerConnection, request: Request) -> Response | None:
        """Refuse a request without the secret of a ticket, and every page in a browser."""
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        if (
            "origin" in request.headers
            or kind.lower() != "bearer"
            or digest_of(secret) not in self._waiting
            or not request.headers.get(LINK_NONCE)
        ):
            return connection.respond(HTTPStatus.FORBIDDEN, "this needs a ticket\n")
        return None

    def _greet(self, connection: ServerConnection, _request: Request, response: Response) -> None:
        connection.nonce = secrets.token_hex(16)  # type: ignore[attr-defined]
        response.headers[LINK_NONCE] = connection.nonce  # type: ignore[attr-defined]

    async def _serve(self, connection: ServerConnection) -> None:
        request = connection.request
        assert request is not None
        secret = request.headers["authorization"].partition(" ")[2]
        came = self._waiting.pop(digest_of(secret), None)
        if came is None or came.done():  # two came with one ticket: the first is in
            return
        binding = (connection.nonce, request.headers[LINK_NONCE][:64])  # type: ignore[attr-defined]
        link = WebSocketLink(connection, binding, is_offerer=True)
        self._links.add(link)
        came.set_result(link)
        try:
            await link.wait_closed()
        finally:
            self._links.discard(link)


class LaidTicket:
    """`name` is sent to the peer. The creator of the ticket must withdraw it in the end, used or not."""

    def __init__(
        self, name: str, came: "asyncio.Future[WebSocketLink]", withdraw: Callable[[], None]
    ) -> None:
        self.name = name
        self.withdraw = withdraw
        self._came = came

    async def wait_link(self, seconds: float = TICKET_SECONDS) -> WebSocketLink:
        """Raise PeerError when nobody comes, LinkClosed when the ticket is withdrawn."""
        try:
            async with asyncio.timeout(seconds):
                await asyncio.wait((self._came,))
        except TimeoutError:
            raise PeerError(f"nobody came with the ticket within {seconds:g} seconds") from None
        else:
            if self._came.cancelled():
                raise LinkClosed("the ticket was withdrawn")
            return self._came.result()
        finally:
            self.withdraw()


async def use_ticket(folder: Path, name: str) -> WebSocketLink | None:
    """Return the link that a ticket stands for. None where there is no such ticket: the peer is not on this host."""
    if len(name) != 32 or not all(digit in "0123456789abcdef" for digit in name):
        return None
    path = folder / name
    try:
        ticket = msgspec.json.decode(await asyncio.to_thread(read_private, path), type=Ticket)
    except (KeyRefusedError, msgspec.DecodeError):
        return None
    if not 0 < ticket.port < 65_536:
        return None
    nonce = secrets.token_hex(16)
    try:
        connection = await connect(
            f"ws://{_HOST}:{ticket.port}/",
            additional_headers={"Authorization": f"Bearer {ticket.secret}", LINK_NONCE: nonce},
            proxy=None,
            open_timeout=TICKET_SECONDS,
            **LINK_OPTIONS,
        )
    except (OSError, TimeoutError, WebSocketException):
        raise ForbiddenError("the ticket was used or has expired; a new one is needed") from None
    response = connection.response
    theirs = response.headers.get(LINK_NONCE, "") if response is not None else ""
    return WebSocketLink(connection, (nonce, theirs[:64]), is_offerer=False)


def digest_of(secret: str) -> bytes:
    """Secrets are looked up by their hash, so that the time of a lookup does not reveal them."""
    return hashlib.sha256(secret.encode()).digest()


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InvalidError("the peer sent text that is not UTF-8") from None


def _sent_at(content: bytes, now: float) -> float:
    return float(struct.unpack(">d", content)[0]) if len(content) == 8 else now
