"""A token bucket per key: `capacity` at once, refilled over `per_seconds`.

- Time is an argument. Only its progress counts: a clock that steps back is taken to stand still for that call, so it
  neither adds tokens nor locks keys out.
- Memory is bounded by `max_keys`. A key whose bucket is full again may be removed at any time. A key in debt is never
  removed, so a flood of new keys cannot clear a debt.
- While `max_keys` keys are all in debt, new keys share one bucket of the same size. A flood then limits other new keys,
  never known ones.
- A call does a constant amount of work: each new key also checks four known keys, in turn.
"""

from collections import OrderedDict
from collections.abc import Hashable

from comity.wire.errors import InvalidError

_CHECKED_PER_NEW_KEY = 4
# Less than any token, more than rounding loses: waiting for the returned time is always enough.
_ROUNDING = 1e-6


class RateLimiter:
    def __init__(self, capacity: float, per_seconds: float, max_keys: int = 16_384) -> None:
        if not (0 < capacity < float("inf") and 0 < per_seconds < float("inf") and max_keys > 0):
            raise InvalidError("a rate limit needs a capacity, a period and a number of keys above zero")
        self._capacity = capacity
        self._rate = capacity / per_seconds
        self._max_keys = max_keys
        self._buckets: OrderedDict[Hashable, _Bucket] = OrderedDict()
        self._shared: _Bucket | None = None
        self._clock: float | None = None
        self._time = 0.0

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: Hashable, now: float, cost: float = 1) -> float:
        """Take the cost and return 0.0, or take nothing and return after how many seconds to come again."""
        if not 0 < cost <= self._capacity:
            raise InvalidError(f"cost must be above 0 and at most the capacity of {self._capacity}")
        time = self._advance(now)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._admit(key, time)
        tokens = min(self._capacity, bucket.tokens + (time - bucket.at) * self._rate)
        bucket.at = time
        if tokens >= cost - _ROUNDING:
            bucket.tokens = max(0.0, tokens - cost)
            return 0.0
        bucket.tokens = tokens
        return (cost - tokens) / self._rate

    def charge(self, key: Hashable, now: float, cost: float) -> None:
        """Take the cost, also if that leaves a debt, which is at most as large as the capacity."""
        time = self._advance(now)
        bucket = self._buckets.get(key) or self._admit(key, time)
        tokens = min(self._capacity, bucket.tokens + (time - bucket.at) * self._rate)
        bucket.at = time
        bucket.tokens = max(-self._capacity, tokens - cost)

    def is_in_debt(self, key: Hashable, now: float) -> bool:
        bucket = self._buckets.get(key)
        return bucket is not None and bucket.tokens + (self._advance(now) - bucket.at) * self._rate < 0

    def _advance(self, now: float) -> float:
        if self._clock is not None and now > self._clock:
            self._time += now - self._clock
        self._clock = now
        return self._time

    def _admit(self, key: Hashable, time: float) -> "_Bucket":
        for _ in range(min(_CHECKED_PER_NEW_KEY, len(self._buckets))):
            known, bucket = self._buckets.popitem(last=False)
            if bucket.tokens + (time - bucket.at) * self._rate < self._capacity:
                self._buckets[known] = bucket
        if len(self._buckets) < self._max_keys:
            bucket = self._buckets[key] = _Bucket(self._capacity, time)
            return bucket
        if self._shared is None:
            self._shared = _Bucket(self._capacity, time)
        return self._shared


class _Bucket:
    __slots__ = ("at", "tokens")

    def __init__(self, tokens: float, at: float) -> None:
        self.tokens = tokens
        self.at = at
