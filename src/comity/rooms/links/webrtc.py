"""A link over a WebRTC data channel: peer to peer, or through a TURN server.

- The libraries are two, `wrtc` (fast) and `aiortc` (where the first has no wheel); each is imported when the
  first connection is made. What they have in common is `Connection` and `DataChannel` below.
- ICE servers are only those that are named; the list that a library would use by itself never is.
- There is no way to slow the peer down. A channel that nobody reads holds `UNREAD_BYTES`; then the link ends.
- No message leaves that is larger than what both sides announced in their SDP: a library may close the channel for
  good over one (peers 4).
- The two libraries tell that a peer is gone after 5 to 35 seconds without an answer (RFC 7675). A connection that
  is only disturbed gets `GRACE_SECONDS` to recover.
"""

import asyncio
import contextlib
import importlib
import importlib.util
import logging
import platform
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, Protocol, Self

from msgspec import Struct

from comity import system as extras
from comity.rooms.links.channels import ChannelCore, LinkCore
from comity.rooms.protocol.signalling import IceCandidate
from comity.wire.errors import ConfigError, InvalidError, MalformedError
from comity.wire.link import (
    CONTROL,
    MAX_MESSAGE_BYTES,
    SEND_MARK,
    UNREAD_BYTES,
    LinkClosed,
    LinkEnd,
    LinkStats,
    Message,
)

log = logging.getLogger("comity.links")

GRACE_SECONDS: Final = 12.0

Library = Literal["wrtc", "aiortc"]
LIBRARIES: Final[tuple[Library, ...]] = ("wrtc", "aiortc")
_IMPLEMENTATIONS: Final[dict[Library, str]] = {
    "wrtc": "comity.rooms.links.webrtc_wrtc",
    "aiortc": "comity.rooms.links.webrtc_aiortc",
}
_MODULES: Final = {"wrtc": "webrtc", "aiortc": "aiortc"}

_FINGERPRINT: Final = re.compile(r"^a=fingerprint:(\S+ [0-9A-Fa-f:]+)\s*$", re.MULTILINE)
_MAX_SIZE: Final = re.compile(r"^a=max-message-size:(\d{1,12})\s*$", re.MULTILINE)
_SIZE_WHEN_SILENT: Final = 65_536
_GONE: Final = "the peer cannot be reached any more"
_CLOSED_BY_PEER: Final = "the peer closed the connection"


class IceServer(Struct, frozen=True):
    """`urls` are stun:, turn: or turns: addresses."""

    urls: tuple[str, ...]
    username: str = ""
    credential: str = ""

    def options(self) -> dict[str, Any]:
        """Return them as both libraries take them."""
        login = {"username": self.username or None, "credential": self.credential or None}
        return {"urls": list(self.urls), **login}


class IceSettings(Struct, frozen=True):
    """No servers: only addresses of these two machines are tried. `force_turn`: only relayed ones."""

    servers: tuple[IceServer, ...] = ()
    force_turn: bool = False

    def __post_init__(self) -> None:
        urls = [url for server in self.servers for url in server.urls]
        for url in urls:
            if url.partition(":")[0] not in ("stun", "turn", "turns"):
                raise ConfigError("an ICE server's address starts with stun:, turn: or turns:")
        if self.force_turn and not any(url.startswith("turn") for url in urls):
            raise ConfigError(
                "force_turn needs a TURN server; name one in the ICE servers (turn:… or turns:…)"
            )


class DataChannelEvents(Struct, frozen=True, kw_only=True):
    """The callbacks of a data channel. `closed` gets whether the connection is gone, and not only this channel."""

    opened: Callable[[], None]
    message: Callable[[Message], None]
    low: Callable[[], None]
    closed: Callable[[bool], None]


class DataChannel(Protocol):
    """A data channel of either library. It reports nothing before `attach` sets the receiver."""

    @property
    def label(self) -> str: ...

    @property
    def buffered(self) -> int: ...

    def attach(self, events: DataChannelEvents) -> None: ...

    def tell_below(self, mark: int) -> None:
        """Call `low` when no more than this is buffered."""
        ...

    def send(self, message: Message) -> None: ...

    def close(self) -> None: ...


class ConnectionEvents(Struct, frozen=True, kw_only=True):
    """The callbacks of a connection."""

    candidate: Callable[[IceCandidate], None]
    channel: Callable[[DataChannel], None]
    state: Callable[[str], None]


class Connection(Protocol):
    """An RTCPeerConnection of either library."""

    def attach(self, events: ConnectionEvents) -> None: ...

    def create_channel(self, label: str) -> DataChannel: ...

    async def offer(self) -> str: ...

    async def answer(self, offer: str) -> str: ...

    async def accept(self, answer: str) -> None: ...

    async def add_candidate(self, candidate: IceCandidate) -> None: ...

    async def path(self) -> tuple[Literal["direct", "relayed", "unknown"], float | None]:
        """Return the kind of path in use, and its round trip in seconds where the library tells it."""
        ...

    async def close(self) -> None: ...


def available_libraries() -> tuple[Library, ...]:
    """Return those that are installed, the faster first. Nothing is imported."""
    return tuple(name for name in LIBRARIES if importlib.util.find_spec(_MODULES[name]) is not None)


def install_command() -> str:
    """Return a command that adds a library to this very installation; `wrtc` has no wheel for musl."""
    is_musl = sys.platform == "linux" and platform.libc_ver()[0] != "glibc"
    return extras.install_command("aiortc" if is_musl else "wrtc")


async def new_connection(ice: IceSettings, library: Library | None = None) -> Connection:
    """`library` None: the fastest that is installed. The first time takes half a second, in another thread."""
    installed = available_libraries()
    chosen = library or next(iter(installed), None)
    if chosen is None or chosen not in installed:
        raise ConfigError(
            f"WebRTC needs {chosen or 'the library wrtc or aiortc'}, which is not installed; "
            f"run: {install_command()}"
        )
    module = await asyncio.to_thread(importlib.import_module, _IMPLEMENTATIONS[chosen])
    connection: Connection = module.new_connection(ice)
    return connection


def fingerprint_of(sdp: str) -> str:
    found = _FINGERPRINT.search(sdp)
    if found is None:
        raise MalformedError("the session description has no certificate fingerprint")
    return found[1]


def message_limit_of(sdp: str) -> int:
    """Return what the sender of this SDP takes in one message; 0 in it means any size (RFC 8841)."""
    found = _MAX_SIZE.search(sdp)
    limit = int(found[1]) if found else _SIZE_WHEN_SILENT
    return min(limit, MAX_MESSAGE_BYTES) if limit else MAX_MESSAGE_BYTES


class WebRtcChannel(ChannelCore):
    def __init__(self, label: str, link: "WebRtcLink", data_channel: DataChannel) -> None:
        super().__init__(label, link)
        self._link: WebRtcLink = link
        self._data_channel = data_channel
        self._marks: list[int] = []
        self.opened = asyncio.Event()
        data_channel.attach(
            DataChannelEvents(
                opened=self.opened.set,
                message=self._message,
                low=self._changed.set,
                closed=lambda lost: link.channel_closed(self, lost=lost),
            )
        )

    @property
    def buffered(self) -> int:
        return self._data_channel.buffered

    async def send(self, message: Message) -> None:
        self.check_open()
        size = self.count_sent(message)
        if self._data_channel.buffered + size > SEND_MARK:
            await self.wait_buffered(SEND_MARK // 2)  # not to be woken for each message that leaves
        try:
            self._data_channel.send(message)
        except LinkClosed:
            self.check_open()
            raise
        self._link.bytes_sent += size

    async def wait_buffered(self, at_most: int) -> None:
        self.check_open()
        self._marks.append(at_most)
        try:
            while self._data_channel.buffered > at_most:
                # the event may have fired already: it is cleared first, then the amount is looked at again
                self._changed.clear()
                self._data_channel.tell_below(max(self._marks))
                if self._data_channel.buffered <= at_most:
                    break
                await self._changed.wait()
                self.check_open()
        finally:
            self._marks.remove(at_most)

    async def wait_opened(self) -> None:
        await self.opened.wait()
        self.check_open()

    def finish(self, reason: str, *, readable: bool) -> None:
        super().finish(reason, readable=readable)
        self.opened.set()

    def _message(self, message: Message) -> None:
        self.arrived(message)
        if self.inbox.unread > UNREAD_BYTES:
            self._link.fail(
                f"nobody read {UNREAD_BYTES:,} bytes on the channel {self.label}; the link was ended"
            )

    def close_data_channel(self) -> None:
        with contextlib.suppress(Exception):  # it may be closed already, each library has its own word for it
            self._data_channel.close()


class WebRtcLink(LinkCore[WebRtcChannel]):
    """First the two descriptions are exchanged, then it is a ChannelLink: `wait_open` says when."""

    def __init__(
        self,
        connection: Connection,
        *,
        is_offerer: bool,
        candidate: Callable[[IceCandidate], None] = lambda _candidate: None,
    ) -> None:
        """`candidate` gets each address of ours that is found after the description was made."""
        super().__init__(MAX_MESSAGE_BYTES, is_offerer=is_offerer)
        self._connection = connection
        self._ours = self._theirs = ""
        self._control: WebRtcChannel | None = None
        self._control_there = asyncio.Event()
        self._grace: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None
        connection.attach(
            ConnectionEvents(
                candidate=candidate, channel=self._data_channel_arrived, state=self._state_changed
            )
        )

    @property
    def binding(self) -> tuple[str, str]:
        return self._ours, self._theirs

    @property
    def control(self) -> WebRtcChannel:
        if self._control is None:
            raise InvalidError("the link is not open yet")
        return self._control

    async def offer(self) -> str:
        self._control = WebRtcChannel(CONTROL, self, self._connection.create_channel(CONTROL))
        self.add(self._control)
        self._control_there.set()
        sdp = await self._connection.offer()
        self._ours = fingerprint_of(sdp)
        return sdp

    async def answer(self, offer: str) -> str:
        self._learn(offer)
        sdp: str = await self._apply(self._connection.answer(offer))
        self._ours = fingerprint_of(sdp)
        return sdp

    async def accept(self, answer: str) -> None:
        self._learn(answer)
        await self._apply(self._connection.accept(answer))

    async def add_candidates(self, candidates: Sequence[IceCandidate]) -> None:
        """One that cannot be used is left out: there are others."""
        for candidate in candidates:
            if self.end is None:
                with contextlib.suppress(Exception):  # each library raises its own exceptions
                    await self._connection.add_candidate(candidate)

    async def wait_open(self) -> Self:
        """Return the link, when messages can be sent on it. Raise LinkClosed."""
        await self._control_there.wait()
        self.check_open()
        await self.control.wait_opened()
        return self

    async def open_channel(self, label: str) -> WebRtcChannel:
        self.check_new_channel(label)
        channel = WebRtcChannel(label, self, self._connection.create_channel(label))
        self.add(channel)
        await channel.wait_opened()
        return channel

    async def stats(self) -> LinkStats:
        path, round_trip = ("unknown", None) if self.end is not None else await self._connection.path()
        return self.stats_of(path, round_trip)

    async def close(self, reason: str = "") -> None:
        self._end(LinkEnd(reason, "us"))
        if self._closing is not None:
            await asyncio.shield(self._closing)

    def fail(self, reason: str) -> None:
        self._end(LinkEnd(reason, "fault"))

    def channel_closed(self, channel: WebRtcChannel, *, lost: bool) -> None:
        if lost:
            self._end(LinkEnd(_GONE, "fault"), say_so=False)
        elif channel is self._control:
            self._end(LinkEnd(_CLOSED_BY_PEER, "peer"))
        else:
            channel.finish("the peer closed this channel", readable=True)
            self.remove(channel)

    def _learn(self, sdp: str) -> None:
        self._theirs = fingerprint_of(sdp)
        self.max_message_bytes = message_limit_of(sdp)

    async def _apply(self, applying: Any) -> Any:
        try:
            return await applying
        except (LinkClosed, asyncio.CancelledError):
            raise
        except Exception as fault:  # noqa: BLE001 - a stranger's SDP breaks each library in its own way
            raise MalformedError(f"the session description cannot be used ({type(fault).__name__})") from None

    def _data_channel_arrived(self, data_channel: DataChannel) -> None:
        try:
            self.check_new_channel(data_channel.label)
        except (InvalidError, LinkClosed):
            data_channel.close()
            return
        first = self._control is None and data_channel.label == CONTROL
        channel = WebRtcChannel(data_channel.label, self, data_channel)
        self.add(channel, offered=not first)
        if first:
            self._control = channel
            self._control_there.set()

    def _state_changed(self, state: str) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
        if state == "disconnected":
            self._grace = asyncio.get_running_loop().call_later(GRACE_SECONDS, self.fail, _GONE)
        elif state == "failed":
            self._end(LinkEnd(_GONE, "fault"), say_so=False)
        elif state == "closed":
            self._end(LinkEnd(_CLOSED_BY_PEER, "peer"), say_so=False)

    def _end(self, end: LinkEnd, *, say_so: bool = True) -> None:
        """`say_so`: close the channels, which the peer notices. Where the connection is gone, a library that is just
        taking its own channels away is not to be disturbed.
        """
        if not self.finish(end):
            return
        self._control_there.set()
        if self._grace is not None:
            self._grace.cancel()
        if say_so:
            for channel in self._channels:
                channel.close_data_channel()
        self._closing = asyncio.get_running_loop().create_task(self._close_connection())

    async def _close_connection(self) -> None:
        try:
            await self._connection.close()
        except Exception:  # a link that is over harms nobody by how it ended
            log.warning("a WebRTC connection did not close as it should", exc_info=True)
