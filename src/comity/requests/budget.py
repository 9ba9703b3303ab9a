"""The budget: how much one address, and then one identity, may ask of this node.

- A message is charged to its address before it is authenticated, and to its identity after that. The guard of the door
  does the first; the code that checked the proof does the second.
- Requests and bytes are one budget. A message costs one request, or more if it is large, so that neither the `requests` nor
  the `bytes` of a period are exceeded. A message that is larger than the whole budget uses all of it.
- A fault, which is a refusal before anything is proven, costs the address as much as many requests (`spend_fault`). After
  that the address may be in debt. An address that only sent too many requests is never in debt. Over HTTP the guard
  charges faults, and the server those that are no request; on links the code that refuses a message does.
- The addresses of this machine, and identities that come from there, are not charged, unless `limit_loopback` is set. The
  node's own user is never charged; the caller of this module checks that.
- VCP hellos, new pairs and audit entries of refused hellos have limits of their own, which are counted here too.
"""

import math
from collections import Counter
from typing import Final

from msgspec import Struct

from comity.system import is_loopback
from comity.wire.clock import Clock
from comity.wire.errors import RateLimitedError
from comity.wire.rate_limit import RateLimiter

HANDSHAKE_PERIOD: Final = 60.0
FAULTS: Final = 100
KINDS: Final = ("address", "identity", "new_pair")
"""What can be used up."""

_HOUR: Final = 3600.0
_ENTRIES_PER_HANDSHAKE: Final = 4
_REPEATS: Final = 1_000_000  # they came inside requests, which were charged


class Figures(Struct, frozen=True, kw_only=True):
    """`requests` and `bytes` in `per_seconds`, for each address and each identity; `new_pairs` in an hour and
    `handshakes` in a minute, for each address; `loopback_handshakes` for those of this machine.
    """

    requests: int = 6000
    bytes: int = 67_108_864
    per_seconds: float = 60.0
    new_pairs: int = 1000
    handshakes: int = 10
    loopback_handshakes: int = 600
    limit_loopback: bool = False


class Budget:
    def __init__(self, clock: Clock, figures: Figures | None = None) -> None:
        """`refused` counts how often nothing was left, by kind."""
        self.refused: Counter[str] = Counter()
        self._clock = clock
        self._figures = figures = figures or Figures()
        self._most = float(figures.requests)
        self._per_byte = figures.requests / figures.bytes
        self._addresses = RateLimiter(figures.requests, figures.per_seconds)
        self._identities = RateLimiter(figures.requests, figures.per_seconds)
        self._new_pairs = RateLimiter(figures.new_pairs, _HOUR)
        self._repeats = RateLimiter(_REPEATS, HANDSHAKE_PERIOD)
        self._handshakes, self._entries = _shares(figures.handshakes)
        self._own_handshakes, self._own_entries = _shares(figures.loopback_handshakes)

    def limits(self, address: str) -> bool:
        """Whether this address has a limit at all."""
        return self._figures.limit_loopback or not is_loopback(address)

    def spend(self, address: str, size: int = 0) -> None:
        """Charge one message of that many bytes to its address. Raises RateLimitedError."""
        wait = self.take(address, size)
        if wait:
            raise self._too_much("address", size, wait)

    def spend_bytes(self, address: str, size: int) -> None:
        """Charge bytes of a message that was charged before it was known how many it has."""
        if size and self.limits(address):
            wait = self._take("address", self._addresses, address, size * self._per_byte)
            if wait:
                raise self._too_much("address", size, wait)

    def spend_identity(self, identity: str, address: str, size: int = 0) -> None:
        """Charge one message to who proved to have sent it, from that address. Raises RateLimitedError."""
        wait = self.take_identity(identity, address, size)
        if wait:
            raise self._too_much("identity", size, wait)

    def take(self, address: str, size: int = 0) -> float:
        """`spend` for a connection that can wait: 0.0, or nothing was taken and so many seconds are to wait."""
        if not self.limits(address):
            return 0.0
        return self._take("address", self._addresses, address, max(1.0, size * self._per_byte))

    def take_identity(self, identity: str, address: str, size: int = 0) -> float:
        """`spend_identity` for a connection that can wait."""
        if not self.limits(address):
            return 0.0
        return self._take("identity", self._identities, identity, max(1.0, size * self._per_byte))

    def spend_fault(self, address: str) -> None:
        """Charge a message that is refused before its sender has proven anything (a bad signature or token, bytes that
        cannot be read): it has cost us more than a request, and nobody sends many of them in good faith. `FAULTS` of them use up the
        budget of an address, and more leave it in debt.
        """
        if self.limits(address):
            self._addresses.charge(address, self._clock.monotonic(), max(1.0, self._most / FAULTS))

    def is_in_debt(self, address: str) -> bool:
        """Whether faults have cost this address more than it had."""
        return self.limits(address) and self._addresses.is_in_debt(address, self._clock.monotonic())

    def spend_new_pair(self, address: str) -> None:
        """Charge a caller never heard of before. Raises RateLimitedError."""
        if self.limits(address):
            wait = self._take("new_pair", self._new_pairs, address, 1.0)
            if wait:
                raise _later(f"too many new callers from {address}", wait)

    def handshakes(self, address: str, *, repeats: bool = False) -> RateLimiter:
        """What the hellos of an address are counted by. `repeats`: the hello was accepted a moment ago."""
        if repeats:
            return self._repeats
        return self._own_handshakes if is_loopback(address) else self._handshakes

    def take_entry(self, address: str) -> bool:
        """Take an audit entry about VCP from the share of an address; False where none is left."""
        share = self._own_entries if is_loopback(address) else self._entries
        return not share.take(address, self._clock.monotonic())

    def _take(self, kind: str, limiter: RateLimiter, key: str, cost: float) -> float:
        wait = limiter.take(key, self._clock.monotonic(), min(cost, self._most))
        if wait:
            self.refused[kind] += 1
        return wait

    def _too_much(self, whose: str, size: int, wait: float) -> RateLimitedError:
        what = "requests" if size * self._per_byte <= 1 else "bytes"
        return _later(f"too many {what} of this {whose}", wait)


def _later(why: str, wait: float) -> RateLimitedError:
    """As long as the header says, which has whole seconds."""
    seconds = max(1, math.ceil(wait))
    unit = "second" if seconds == 1 else "seconds"
    return RateLimitedError(f"{why}; try again in {seconds} {unit}", wait)


def _shares(handshakes: int) -> tuple[RateLimiter, RateLimiter]:
    """Of hellos, and of audit entries about what came of them."""
    return (
        RateLimiter(handshakes, HANDSHAKE_PERIOD),
        RateLimiter(_ENTRIES_PER_HANDSHAKE * handshakes, HANDSHAKE_PERIOD),
    )
