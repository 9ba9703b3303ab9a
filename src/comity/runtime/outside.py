"""What the rest of a node knows of its outside door: the listener for other machines.

The door is open while any reason for it holds. The switch of the owner is one reason, and every invite is another; those who
give a reason take it back. A reason other than the switch opens what two machines need to meet, and nothing else.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Protocol

from comity.wire.errors import ConfigError

if TYPE_CHECKING:
    from comity.http.server import HttpServer

    Serve = Callable[[HttpServer, Callable[[str], bool]], Awaitable[None]]
    """Starts a server that was bound, for the paths that are wanted."""

SWITCH: Final = "switch"
"""The reason that opens all open paths."""


class OutsideDoor(Protocol):
    @property
    def is_open(self) -> bool: ...

    @property
    def port(self) -> int:
        """Return the port; 0 while the door is closed."""
        ...

    @property
    def pin(self) -> str:
        """Return the SHA-256 of the public key that it shows, in hex; empty if it was never open."""
        ...

    def addresses(self) -> list[str]:
        """Return the https URLs by which other machines may reach it, the most useful first; none while it is closed."""
        ...

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` whenever the addresses or the state of the door may have become others."""
        ...

    async def begin(self, serve: "Serve") -> None:
        """Serve with that function from now on, whenever the door is open. The node calls this once."""
        ...

    async def open_for(self, reason: str) -> None:
        """Open the door until that reason is taken back. Raise ConfigError if it cannot be opened."""
        ...

    async def close_for(self, reason: str) -> None:
        """Take a reason back. With the last one the door closes."""
        ...


class NoOutsideDoor:
    """The door of a node that has none: the part is switched off, or the node is a guest in its data folder."""

    is_open = False
    port = 0
    pin = ""

    def addresses(self) -> list[str]:
        return []

    def watch(self, changed: Callable[[], None]) -> None:
        pass

    async def begin(self, serve: "Serve") -> None:
        pass

    async def open_for(self, reason: str) -> None:
        raise ConfigError(
            f"the door for other machines cannot be opened for {reason}: start a node with `comity up`, without "
            "`outside` in the setting `off`"
        )

    async def close_for(self, reason: str) -> None:
        pass
