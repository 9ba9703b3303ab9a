"""Time comes in from outside: the core never reads a clock, it is told.

`now` is seconds since 1970 (wall time, for what is written down); `monotonic` never goes back
(for limits and deadlines).
"""

from typing import Protocol


class Clock(Protocol):
    def now(self) -> float: ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...
