"""The connections and the sessions that are open now.

Rooms look up what was agreed in a session: version, active extensions, identity. There are never more sessions than
connections, and the number of connections is limited:
- Each address has a limit, unless it is exempt. A connection over the limit is refused.
- A connection that has sent nothing yet is half open. There are at most `half_open` of them: one more closes the one that
  has been silent for the longest time. So a client that speaks at once always gets in, however many others are silent.
- There are at most `connections` in total. If none of them is half open, a new client is told to try again later.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from comity.vcp.protocol.agreement import Identity, Session
from comity.wire.errors import ForbiddenError, NotFoundError, OverloadedError

_RETRY_SECONDS = 5.0


class ConnectionLimits(Struct, frozen=True, kw_only=True):
    connections: int = 8000
    half_open: int = 2000
    per_address: int = 64


class OpenConnections:
    def __init__(self, limits: ConnectionLimits, *, has_share: Callable[[str], bool]) -> None:
        """`has_share` tells an address with a limit from one that may open as many as there are."""
        self._limits = limits
        self._has_share = has_share
        self._silent: OrderedDict[int, Callable[[], None]] = OrderedDict()
        self._of_address: Counter[str] = Counter()
        self._inside: dict[int, str] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._inside)

    @property
    def half_open(self) -> int:
        return len(self._silent)

    def enter(self, peer: str, leave: Callable[[], None]) -> int:
        """A number for the newcomer. `leave` asks it to go. Raises OverloadedError."""
        if self._has_share(peer) and self._of_address[peer] >= self._limits.per_address:
            raise OverloadedError("too many connections from this address; close some", _RETRY_SECONDS)
        if len(self._silent) >= self._limits.half_open:
            self._displace()
        if len(self._inside) >= self._limits.connections:
            if not self._silent:
                raise OverloadedError("too many connections are open; try again in a moment", _RETRY_SECONDS)
            self._displace()
        self._next += 1
        self._silent[self._next] = leave
        self._inside[self._next] = peer
        self._of_address[peer] += 1
        return self._next

    def spoke(self, number: int) -> None:
        self._silent.pop(number, None)

    def gone(self, number: int) -> None:
        self._silent.pop(number, None)
        peer = self._inside.pop(number, None)
        if peer is None:
            return
        self._of_address[peer] -= 1
        if not self._of_address[peer]:
            del self._of_address[peer]

    def _displace(self) -> None:
        number, leave = self._silent.popitem(last=False)
        self.gone(number)
        leave()


class LiveSessions:
    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(tuple(self._sessions.values()))

    def __contains__(self, session_id: object) -> bool:
        return session_id in self._sessions

    def ids_for(self, session: Session | None, owner: str | None) -> Iterable[str]:
        """The session that asks, and those that are open of the same owner."""
        own = [] if session is None else [session.id]
        if owner is not None:
            own += [one.id for one in self if one.identity is not None and one.identity.owner == owner]
        return dict.fromkeys(own)

    def of(self, session_id: str, identity: Identity | None) -> Session:
        """The session, for its owner. One that nobody owns is for its own connection only."""
        session = self._sessions.get(session_id)
        if session is None:
            raise NotFoundError("there is no such session; begin a new one")
        owner = None if session.identity is None else session.identity.owner
        if owner is None or identity is None or identity.owner != owner:
            raise ForbiddenError("this session belongs to another owner; start your own session")
        return session

    def began(self, session: Session) -> None:
        self._sessions[session.id] = session

    def ended(self, session: Session) -> None:
        self._sessions.pop(session.id, None)
