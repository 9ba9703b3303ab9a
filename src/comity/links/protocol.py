"""A PeerLink: how two peers are joined.

It carries whole messages in both directions and says when it is gone. How it stays connected is
its own affair; what the messages mean is nobody's affair here.
"""

from typing import Final, Protocol

GONE: Final = "the peer is gone"
"""The reason where a connection broke that nobody had closed."""


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
        """An address for limits and logs; never an identity."""
        ...

    async def send(self, message: bytes) -> None:
        """Wait until the link takes the message (back-pressure). Raises LinkClosed."""
        ...

    async def receive(self) -> bytes:
        """The next whole message. Raises LinkClosed."""
        ...

    async def close(self, reason: str = "") -> None: ...
