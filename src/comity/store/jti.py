"""Ids that may be used once: the replay cache of signed objects (vcp 5.4).

- An id is stored under `vcp:jti:{issuer}:{jti}` until its object expires. An expired object is refused anyway, so its id
  can be forgotten. The first claim of an id wins, also among several processes.
- At most `limit` ids of each issuer are stored. Over the limit a claim is refused, and no older id is forgotten, because
  a forgotten id could be used again. Each process counts for itself: ids that other processes claim later are not counted.
- Claim an id only after its object is verified. Otherwise unknown callers could fill the cache.
"""

import asyncio
import heapq
from collections.abc import Sequence
from typing import Final

from comity.store.audit_chain import AuditDraft
from comity.store.interface import Put, Store, StoreConflict, scan_all
from comity.wire.errors import InvalidError, OverloadedError
from comity.wire.machine import Clock

SPACE: Final = "vcp:jti"
LIMIT: Final = 100_000
TEXT_LIMIT: Final = 256


class JtiReplayCache:
    def __init__(self, store: Store, clock: Clock, *, limit: int = LIMIT) -> None:
        """`clock` is the clock of the store."""
        self._store = store
        self._clock = clock
        self._limit = limit
        self._issuers: dict[str, _Remembered] = {}
        self._loading = asyncio.Lock()

    async def claim(self, issuer: str, jti: str, expires_at: float, audit: Sequence[AuditDraft] = ()) -> bool:
        """Return True for the first claim of an id, False for a replay. `audit` is written with a first claim only."""
        claim = claim_of(issuer, jti, expires_at)
        now = self._clock.now()
        if not now < expires_at < float("inf"):
            raise InvalidError("an object that has expired, or never does, has no place in the replay cache")
        remembered = await self._remembered(issuer)
        remembered.forget(now)
        if remembered.count >= self._limit:
            raise OverloadedError(
                f"{self._limit:,} ids of {issuer} are remembered already; try again when some have expired",
                remembered.until_the_next(now),
            )
        remembered.pending += 1
        try:
            await self._store.commit(claim, audit=audit)
        except StoreConflict:
            return False
        finally:
            remembered.pending -= 1
        remembered.add(expires_at)
        return True

    async def _remembered(self, issuer: str) -> "_Remembered":
        async with self._loading:
            remembered = self._issuers.get(issuer)
            if remembered is None:
                remembered = await self._load(issuer)
                self._issuers[issuer] = remembered
            return remembered

    async def _load(self, issuer: str) -> "_Remembered":
        remembered = _Remembered()
        async for _, held in scan_all(self._store, SPACE, _key(issuer, "")):
            remembered.add(held.expires_at or 0.0)
        return remembered


def claim_of(issuer: str, jti: str, expires_at: float) -> Put:
    """Return a claim as an operation, for a transaction of one's own: it conflicts when the id was claimed before."""
    for name, text in (("issuer", issuer), ("jti", jti)):
        if not 0 < len(text) <= TEXT_LIMIT or not text.isprintable():
            raise InvalidError(f"{name} must be 1 to {TEXT_LIMIT} printable characters")
    return Put(space=SPACE, key=_key(issuer, jti), value=b"", expect=0, expires_at=expires_at)


def _key(issuer: str, jti: str) -> str:
    # an issuer with a colon in its name must not be able to claim the ids of another
    issuer = issuer.replace("%", "%25").replace(":", "%3A")
    return f"vcp:jti:{issuer}:{jti}"


class _Remembered:
    """The moments at which an issuer's ids expire, soonest first, and claims on their way."""

    __slots__ = ("_moments", "pending")

    def __init__(self) -> None:
        self._moments: list[float] = []
        self.pending = 0

    @property
    def count(self) -> int:
        return len(self._moments) + self.pending

    def add(self, expires_at: float) -> None:
        heapq.heappush(self._moments, expires_at)

    def forget(self, now: float) -> None:
        while self._moments and self._moments[0] <= now:
            heapq.heappop(self._moments)

    def until_the_next(self, now: float) -> float:
        return max(1.0, self._moments[0] - now) if self._moments else 1.0
