"""How many connections there may be, and who has to go when there are too many.

- Each address that has a limit has a share; what it opens beyond that is refused.
- A connection that has said nothing yet is half open. There is room for `half_open` of them: one more
  displaces the one that has been silent for longest. So whoever speaks at once always gets in, however
  many sit there in silence.
- In all there are at most `connections`; where nobody is silent, a newcomer is told to come later.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable

from msgspec import Struct

from comity.core.errors import OverloadedError

_COME_AGAIN = 5.0


class Limits(Struct, frozen=True, kw_only=True):
    connections: int = 8000
    half_open: int = 2000
    per_address: int = 64


class Crowd:
    def __init__(self, limits: Limits, *, has_share: Callable[[str], bool]) -> None:
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
            raise OverloadedError("too many connections from this address; close some", _COME_AGAIN)
        if len(self._silent) >= self._limits.half_open:
            self._displace()
        if len(self._inside) >= self._limits.connections:
            if not self._silent:
                raise OverloadedError("too many connections are open; try again in a moment", _COME_AGAIN)
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
