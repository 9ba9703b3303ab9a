"""How two peers are joined.

- A `PeerLink` carries whole messages of bytes in both directions and says when it is gone. That is all that a
  protocol with one stream needs (VCP).
- A `ChannelLink` joins two peers of a room. It has channels: ordered streams of text and bytes, each with a label.
  The first one, `CONTROL`, is there from the start. Further ones are opened by either side and reach the other
  through `accept_channel`.

How a link stays connected, and what the messages mean, is decided elsewhere.
"""

from typing import Final, Literal, Protocol

from msgspec import Struct

Message = str | bytes

CONTROL: Final = "sendChannel"
"""The channel that a data channel of the reference has too (peers 7)."""

MAX_MESSAGE_BYTES: Final = 262_144
"""What both WebRTC libraries announce (peers 4); the loopback link has the same limit."""

SEND_MARK: Final = 4 * 1024 * 1024
"""A sender waits while more than this is buffered (ruling 56)."""

UNREAD_BYTES: Final = 32 * 1024 * 1024
"""How much a channel buffers for a slow reader: twice the largest window of a file."""

GONE: Final = "the peer is gone"
"""The reason of a connection that broke without being closed."""


class LinkClosed(Exception):  # noqa: N818 - an end, not a failure
    """The other side is gone, or this side closed. `reason` is for people."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class PeerLink(Protocol):
    @property
    def max_message_bytes(self) -> int: ...

    @property
    def peer(self) -> str:
        """Return an address for limits and logs; never an identity."""
        ...

    async def send(self, message: bytes) -> None:
        """Wait until the link takes the message (back-pressure). Raise LinkClosed."""
        ...

    async def receive(self) -> bytes:
        """Return the next whole message. Raise LinkClosed."""
        ...

    async def close(self, reason: str = "") -> None: ...


class LinkEnd(Struct, frozen=True):
    """Why a link is over. `us` and `peer` closed it on purpose; `fault` is a loss or a broken rule."""

    reason: str
    by: Literal["us", "peer", "fault"]


LinkPath = Literal["loopback", "websocket", "direct", "relayed", "unknown"]


class LinkStats(Struct, frozen=True, kw_only=True):
    """`path` is loopback, websocket, direct (peer to peer) or relayed (by a TURN server). Bytes are those of the
    messages; the round trip is in seconds and None while it is not known.
    """

    path: LinkPath
    round_trip: float | None
    bytes_sent: int
    bytes_received: int
    max_message_bytes: int


class Channel(Protocol):
    @property
    def label(self) -> str: ...

    @property
    def buffered(self) -> int:
        """Return how many bytes were taken from the sender and have not left yet."""
        ...

    async def send(self, message: Message) -> None:
        """Wait while too much is buffered, then send. Raise TooLargeError, or LinkClosed at the end."""
        ...

    async def wait_buffered(self, at_most: int) -> None:
        """Wait until no more than this is buffered. Raise LinkClosed."""
        ...

    async def receive(self) -> Message:
        """Return the next message; text is str. Messages before the end can still be read. Raise LinkClosed."""
        ...


class ChannelLink(Protocol):
    @property
    def max_message_bytes(self) -> int:
        """Return the size of the largest message that either side takes, headers included."""
        ...

    @property
    def is_offerer(self) -> bool:
        """Return True on exactly one of the two sides, which does what only one side should do."""
        ...

    @property
    def binding(self) -> tuple[str, str]:
        """Return what identifies this connection, ours first: the fingerprints of the certificates as in SDP, or nonces
        without certificates (ruling 57).
        """
        ...

    @property
    def control(self) -> Channel: ...

    @property
    def end(self) -> LinkEnd | None: ...

    async def open_channel(self, label: str) -> Channel:
        """Open a channel. Raise InvalidError for an unusable label or too many channels, LinkClosed at the end."""
        ...

    async def accept_channel(self) -> Channel:
        """Return the next channel that the other side opened. Raise LinkClosed."""
        ...

    async def stats(self) -> LinkStats: ...

    async def wait_closed(self) -> LinkEnd: ...

    async def close(self, reason: str = "") -> None:
        """Close the link. What is still buffered may be lost; wait for it first if it matters."""
        ...


class LinkOpened(Struct, frozen=True, kw_only=True):
    """A link to a peer of a room. `uuid` is the peer's at the relay, and `stream` what the relay says of it; neither
    proves who it is. `attempt` numbers the links of this room.
    """

    attempt: int
    uuid: str
    stream: str | None
    link: ChannelLink
