"""What the connections of one server share: the application, the limits, and what is open now."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from msgspec import Struct

from comity.http.asgi import App
from comity.http.heads import HeadCache
from comity.http.peer_address import as_outside, counted_as

if TYPE_CHECKING:
    from comity.http.connection import HttpConnection
    from comity.http.websocket import WebSocketConnection

    Connection: TypeAlias = "HttpConnection | WebSocketConnection"

LISTENER: Final = "comity.listener"
"""Under this key of the ASGI scope stands the name of the listener that a request came through, if it is not the port."""
OWNER_SOCKET: Final = "owner socket"
OUTSIDE: Final = "outside"
"""The listener for other machines. No address that comes through it counts as this machine's own."""
LINGER_SECONDS: Final = 2.0
"""The system resets a connection that is closed while the peer still sends, and the peer loses the answer. So we stop
sending first, and discard what still comes for this long.
"""
LINGER_BYTES: Final = 8 * 1024 * 1024
"""After this much discarded data the connection is aborted."""
READ_BYTES: Final = 65_536
PIECE_BYTES: Final = 16_384
AHEAD_BYTES: Final = 4096


class ServerLimits(Struct, frozen=True, kw_only=True):
    """`patience` and `keep_alive` are in seconds and checked periodically, so they may take half as long again.
    `messages` are those of one WebSocket in a second, pings included.
    """

    connections: int = 800
    head_bytes: int = 64 * 1024
    headers: int = 256
    patience: float = 20.0
    keep_alive: float = 75.0
    messages: int = 500


class FaultPolicy(NamedTuple):
    """What is done about faulty peers: `charge` malformed requests to their address, close new connections of an address
    that `is_in_debt`, and begin at most one request in `turn_seconds` for an address that `takes_turns`, however many
    connections it has; with 0 one in each iteration of the loop.
    """

    charge: Callable[[str], None] = lambda _address: None
    is_in_debt: Callable[[str], bool] = lambda _address: False
    takes_turns: Callable[[str], bool] = lambda _address: False
    turn_seconds: float = 0.0


NO_FAULT_POLICY: Final = FaultPolicy()


class ConnectionEnds(NamedTuple):
    """Both ends of a connection, as ASGI names them."""

    client: tuple[str, int] | None
    server: tuple[str, int] | None
    encrypted: bool


class Serving:
    def __init__(
        self,
        app: App,
        limits: ServerLimits,
        *,
        refused: Callable[[str], None] = lambda _code: None,
        hung_up: Callable[[], None] = lambda: None,
        faults: FaultPolicy = NO_FAULT_POLICY,
        websockets: Collection[str] = (),
        listener: str = "",
    ) -> None:
        """`refused` is called with the code of each refusal, `hung_up` for each peer that disconnects before its answer;
        `websockets` are the paths of WebSockets.
        """
        self.app = app
        self.limits = limits
        self.refused = refused
        self.hung_up = hung_up
        self.faults = faults
        self.websockets = frozenset(websockets)
        self.listener = listener
        self.heads = HeadCache()
        self.connections: dict[Connection, str] = {}
        self._by_address: dict[str, dict[Connection, None]] = {}
        self._waiting_to_start: dict[str, deque[HttpConnection]] = {}
        """By address, for addresses that began a request a moment ago."""
        self.unfinished: dict[WebSocketConnection, int] = {}
        """Bytes of messages that are not complete."""
        self.unfinished_bytes = 0
        self.tasks: set[asyncio.Task[None]] = set()
        self.date = b""
        self.buffer = memoryview(bytearray(READ_BYTES))
        """Shared by all connections; it is copied before the next one reads."""

    def join(self, connection: "Connection", address: str) -> bool:
        """Count a connection; return False if there is no place for it. When all places are taken, the address with the most
        connections loses its oldest idle one.
        """
        own = self._by_address.setdefault(address, {})
        free = len(self.connections) < self.limits.connections or self._make_place(len(own))
        own[connection] = None
        self.connections[connection] = address
        return free

    def leave(self, connection: "Connection") -> None:
        address = self.connections.pop(connection, None)
        if address is not None:
            del self._by_address[address][connection]
            if not self._by_address[address]:
                del self._by_address[address]

    def counted(self, ends: ConnectionEnds) -> str:
        """Return the address that a connection is counted under; a network of 64 bits counts as one."""
        address = counted_as(ends.client[0]) if ends.client is not None else ""
        return as_outside(address) if self.listener == OUTSIDE else address

    def may_start(self, connection: "HttpConnection", address: str) -> bool:
        """Return whether a connection of an address that takes turns may begin a request now. If not, its `start` is called later, so
        another address waits for one of these requests and not for one of each connection.
        """
        waiting = self._waiting_to_start.get(address)
        if waiting is not None:
            waiting.append(connection)
            return False
        if not self._waiting_to_start:
            self._schedule_turn()
        self._waiting_to_start[address] = deque()
        return True

    def _next_turn(self) -> None:
        for address, waiting in [*self._waiting_to_start.items()]:
            if waiting:
                waiting.popleft().start()
            else:
                del self._waiting_to_start[address]
        if self._waiting_to_start:
            self._schedule_turn()

    def _schedule_turn(self) -> None:
        asyncio.get_running_loop().call_later(self.faults.turn_seconds, self._next_turn)

    def _make_place(self, held: int) -> bool:
        """Free one place for an address that holds so many."""
        most = max(self._by_address.values(), key=len)
        oldest = next((one for one in most if one.idle), None)
        if len(most) <= held or oldest is None:
            return False
        self.leave(oldest)
        oldest.abort()
        return True


def address_of(transport: asyncio.Transport) -> ConnectionEnds:
    client, server = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
    return ConnectionEnds(
        (str(client[0]), int(client[1])) if isinstance(client, tuple) else None,
        (str(server[0]), int(server[1])) if isinstance(server, tuple) else None,
        transport.get_extra_info("sslcontext") is not None,
    )
