"""The budget of requests and bytes, per address before proof and per identity after it.

- A message is charged to its address before it is authenticated, and to its identity after that. The guard of the door
  does the first; the code that checked the proof does the second.
- Requests and bytes are one budget. A message costs one request, or more if it is large, so that neither the `requests` nor
  the `bytes` of a period are exceeded. A message that is larger than the whole budget uses all of it.
- A fault is a refusal before anything is proven. It costs the address as much as many requests (`spend_fault`) and may
  leave it in debt. An address that only sent too many requests is never in debt. Over HTTP the guard charges faults, and the
  server charges malformed requests; on links the code that refuses a message does.
- The addresses of this machine, and identities that come from there, are not charged, unless `limit_loopback` is set. The
  node's own user is never charged; the caller of this module checks that.
- VCP hellos, new pairs and audit entries of refused hellos have limits of their own, which are counted here too.
"""

import asyncio
import math
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from comity.store.audit_chain import privacy_hash
from comity.store.interface import Store
from comity.system import is_loopback
from comity.wire.errors import RateLimitedError, StorageFullError
from comity.wire.machine import Clock
from comity.wire.rate_limit import RateLimiter

HANDSHAKE_PERIOD: Final = 60.0
FAULTS: Final = 100
KINDS: Final = ("address", "identity", "new_pair")
"""What can be exhausted."""

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
        """Return whether this address has a limit."""
        return self._figures.limit_loopback or not is_loopback(address)

    def spend(self, address: str, size: int = 0) -> None:
        """Charge one message of that many bytes to its address. Raises RateLimitedError."""
        wait = self.take(address, size)
        if wait:
            raise self._too_much("address", size, wait)

    def spend_bytes(self, address: str, size: int) -> None:
        """Charge bytes of a message that was charged before its length was known."""
        if size and self.limits(address):
            wait = self._take("address", self._addresses, address, size * self._per_byte)
            if wait:
                raise self._too_much("address", size, wait)

    def spend_identity(self, identity: str, address: str, size: int = 0) -> None:
        """Charge one message from that address to its proven sender. Raise RateLimitedError."""
        wait = self.take_identity(identity, address, size)
        if wait:
            raise self._too_much("identity", size, wait)

    def take(self, address: str, size: int = 0) -> float:
        """Charge like `spend` and return 0.0, or charge nothing and return how many seconds to wait."""
        if not self.limits(address):
            return 0.0
        return self._take("address", self._addresses, address, max(1.0, size * self._per_byte))

    def take_identity(self, identity: str, address: str, size: int = 0) -> float:
        """Charge like `spend_identity`, for a connection that can wait."""
        if not self.limits(address):
            return 0.0
        return self._take("identity", self._identities, identity, max(1.0, size * self._per_byte))

    def spend_fault(self, address: str) -> None:
        """Charge a message that is refused before anything is proven: a bad signature or token, unreadable bytes. `FAULTS` of
        them use up the budget of an address, and more leave it in debt.
        """
        if self.limits(address):
            self._addresses.charge(address, self._clock.monotonic(), max(1.0, self._most / FAULTS))

    def is_in_debt(self, address: str) -> bool:
        """Return whether faults have cost this address more than it had."""
        return self.limits(address) and self._addresses.is_in_debt(address, self._clock.monotonic())

    def spend_new_pair(self, address: str) -> None:
        """Charge a caller that was never seen before. Raise RateLimitedError."""
        if self.limits(address):
            wait = self._take("new_pair", self._new_pairs, address, 1.0)
            if wait:
                raise _later(f"too many new callers from {address}", wait)

    def handshakes(self, address: str, *, repeats: bool = False) -> RateLimiter:
        """Return the limiter for hellos of an address. `repeats`: the hello was accepted a moment ago."""
        if repeats:
            return self._repeats
        return self._own_handshakes if is_loopback(address) else self._handshakes

    def take_entry(self, address: str) -> bool:
        """Take an audit entry about VCP from the share of an address. Return False if none is left."""
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
    """Name the whole seconds that the header Retry-After has."""
    seconds = max(1, math.ceil(wait))
    unit = "second" if seconds == 1 else "seconds"
    return RateLimitedError(f"{why}; try again in {seconds} {unit}", wait)


def _shares(handshakes: int) -> tuple[RateLimiter, RateLimiter]:
    """Return limiters for hellos, and for audit entries about their outcome."""
    return (
        RateLimiter(handshakes, HANDSHAKE_PERIOD),
        RateLimiter(_ENTRIES_PER_HANDSHAKE * handshakes, HANDSHAKE_PERIOD),
    )


# How many bytes unknown callers may make this node store (ruling 54).


CARDS: Final = "cards"
KEPT_SECONDS: Final = 24 * 3600.0
"""How long replies to signed calls are kept when the quota is half used."""
SHARES: Final = 32
"""How many addresses can fill a quota together."""

_KNOWN_ACCOUNTS: Final = 16_384
_ASK_AGAIN: Final = 1.0


class Quota:
    def __init__(
        self, store: Store, clock: Clock, *, name: str, total: int, has_share: Callable[[str], bool]
    ) -> None:
        """`has_share` says whether an address has a limit of its own; otherwise only the total counts."""
        self.name = name
        self.total = total
        self._store = store
        self._clock = clock
        self._has_share = has_share
        self._all = _Account()
        self._accounts: OrderedDict[str, _Account] = OrderedDict()

    @property
    def held(self) -> int:
        """Return how many bytes are held or reserved at most; exact after `refresh`."""
        return self._all.most

    def holder_of(self, address: str) -> str:
        """Return the account of that address; empty if it has none."""
        return privacy_hash(f"address:{address}") if self._has_share(address) else ""

    async def refresh(self) -> None:
        """Ask the store how much is held."""
        await self._refresh(self._all, None)

    def _limit(self, known: bool) -> int:
        return self.total if known else self.total - self.total // 4

    async def reserve(self, holder: str, size: int, *, known: bool) -> None:
        """Reserve bytes until `end_reservation`. Raise StorageFullError."""
        if self.try_reserve(holder, size, known=known):
            return
        if self._all.most + size > self._limit(known):
            await self._ask(self._all, None)
        account = self._account(holder)
        if account is not None and account.most + size > self.total // SHARES:
            await self._ask(account, holder)
        if not self.try_reserve(holder, size, known=known):
            raise self._full(account, size)

    def try_reserve(self, holder: str, size: int, *, known: bool) -> bool:
        """Reserve without asking the store. Return False if it does not fit, or only the store knows."""
        if self._all.most + size > self._limit(known):
            return False
        if holder:
            account = self._accounts.get(holder)
            if account is None or account.most + size > self.total // SHARES:
                return False
            account.reserve(size)
        self._all.reserve(size)
        return True

    def end_reservation(self, holder: str, size: int, *, stored: bool) -> None:
        """Note that reserved bytes have been stored, or will not be."""
        self._all.end_reservation(size, stored=stored)
        account = self._accounts.get(holder)
        if account is not None:
            account.end_reservation(size, stored=stored)

    async def _ask(self, account: "_Account", holder: str | None) -> None:
        """Refresh the account, unless that was done a moment ago. Concurrent callers share one query."""
        if account.asking is None:
            if self._clock.monotonic() - account.asked_at < _ASK_AGAIN:
                return
            account.asking = asyncio.ensure_future(self._refresh(account, holder))
        await asyncio.shield(account.asking)

    async def _refresh(self, account: "_Account", holder: str | None) -> None:
        committed = account.committed
        try:
            held = await self._store.held(self.name, holder)
        finally:
            account.asking = None
        account.asked_at = self._clock.monotonic()
        # the answer may or may not include what was committed in between
        account.most = held + account.reserved + account.committed - committed

    def _account(self, holder: str) -> "_Account | None":
        if not holder:
            return None
        account = self._accounts.get(holder)
        if account is None:
            account = self._accounts[holder] = _Account(self.total)
            oldest = next(iter(self._accounts))
            if len(self._accounts) > _KNOWN_ACCOUNTS and not self._accounts[oldest].reserved:
                del self._accounts[oldest]
        self._accounts.move_to_end(holder)
        return account

    def _full(self, account: "_Account | None", size: int) -> StorageFullError:
        share = self.total // SHARES
        if account is not None and account.most + size > share:
            return StorageFullError(
                f"what is stored for this address would exceed its {share:,} bytes of {self.name}; "
                "nothing was stored"
            )
        return StorageFullError(
            f"this node has no room for {size:,} more bytes of {self.name}; nothing was stored, try again later"
        )


class _Account:
    """`most` is the upper bound of what is held (all, before the store was asked), `reserved` the part of it that is not
    committed yet, `committed` the sum of all commits.
    """

    __slots__ = ("asked_at", "asking", "committed", "most", "reserved")

    def __init__(self, most: int = 0) -> None:
        self.most = most
        self.reserved = 0
        self.committed = 0
        self.asked_at = -_ASK_AGAIN
        self.asking: asyncio.Future[None] | None = None

    def reserve(self, size: int) -> None:
        self.most += size
        self.reserved += size

    def end_reservation(self, size: int, *, stored: bool) -> None:
        self.reserved -= size
        if stored:
            self.committed += size
        else:
            self.most -= size
