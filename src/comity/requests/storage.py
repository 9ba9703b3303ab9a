"""What strangers may make this node store, in bytes (ruling 54).

- A quota has a total. One address may use at most a 32nd of it. The last quarter is for known callers: a pair that has a
  chain, a card that is refreshed. For programs on this machine only the total counts.
- A request that does not fit is refused, with a code and a sentence. Nothing that was stored before is deleted for it.
- Bytes are reserved before the work and settled after its commit. The store keeps the sums, in the same transaction as the
  rows. This module keeps an upper bound. Only when the bound is reached, the store is asked, at most once a second.
- An account is named by a hash of the address; the address itself is not stored.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from comity.store.audit_chain import privacy_hash
from comity.store.interface import Store
from comity.wire.clock import Clock
from comity.wire.errors import StorageFullError

CARDS: Final = "cards"
KEPT_SECONDS: Final = 24 * 3600.0
"""How long the reply to a signed call stays where much is stored."""
SHARES: Final = 32
"""How many addresses it takes to fill a quota."""

_KNOWN_ACCOUNTS: Final = 16_384
_ASK_AGAIN: Final = 1.0


class Quota:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        name: str,
        total: int,
        has_share: Callable[[str], bool],
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
        """At most so many bytes are held or reserved; exactly so many after `look`."""
        return self._all.most

    def holder_of(self, address: str) -> str:
        """On whose account is what comes from that address; empty for nobody's."""
        return privacy_hash(f"address:{address}") if self._has_share(address) else ""

    async def look(self) -> None:
        """Ask the store what is held."""
        await self._look(self._all, None)

    def _limit(self, known: bool) -> int:
        return self.total if known else self.total - self.total // 4

    async def reserve(self, holder: str, size: int, *, known: bool) -> None:
        """Set bytes aside; whoever does settles them later. Raises StorageFullError."""
        if self.reserve_at_once(holder, size, known=known):
            return
        if self._all.most + size > self._limit(known):
            await self._ask(self._all, None)
        account = self._account(holder)
        if account is not None and account.most + size > self.total // SHARES:
            await self._ask(account, holder)
        if not self.reserve_at_once(holder, size, known=known):
            raise self._full(account, size)

    def reserve_at_once(self, holder: str, size: int, *, known: bool) -> bool:
        """As `reserve`, but without asking the store. False: it does not fit, or only the store knows."""
        if self._all.most + size > self._limit(known):
            return False
        if holder:
            account = self._accounts.get(holder)
            if account is None or account.most + size > self.total // SHARES:
                return False
            account.reserve(size)
        self._all.reserve(size)
        return True

    def settle(self, holder: str, size: int, *, stored: bool) -> None:
        """The bytes that were set aside have been stored, or will not be."""
        self._all.settle(size, stored=stored)
        account = self._accounts.get(holder)
        if account is not None:
            account.settle(size, stored=stored)

    async def _ask(self, account: "_Account", holder: str | None) -> None:
        """Look, unless that was done a moment ago. Who asks at the same time waits for the same answer."""
        if account.asking is None:
            if self._clock.monotonic() - account.asked_at < _ASK_AGAIN:
                return
            account.asking = asyncio.ensure_future(self._look(account, holder))
        await asyncio.shield(account.asking)

    async def _look(self, account: "_Account", holder: str | None) -> None:
        settled = account.settled
        try:
            held = await self._store.held(self.name, holder)
        finally:
            account.asking = None
        account.asked_at = self._clock.monotonic()
        # the answer may or may not include what was committed in between
        account.most = held + account.reserved + account.settled - settled

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
    """`most` is what may be held (all, before the store was asked), `reserved` the part of it that is not committed yet, `settled` all that ever
    was committed.
    """

    __slots__ = ("asked_at", "asking", "most", "reserved", "settled")

    def __init__(self, most: int = 0) -> None:
        self.most = most
        self.reserved = 0
        self.settled = 0
        self.asked_at = -_ASK_AGAIN
        self.asking: asyncio.Future[None] | None = None

    def reserve(self, size: int) -> None:
        self.most += size
        self.reserved += size

    def settle(self, size: int, *, stored: bool) -> None:
        self.reserved -= size
        if stored:
            self.settled += size
        else:
            self.most -= size
