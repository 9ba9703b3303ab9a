"""The clock is an argument: the core never reads the time itself.

`now` is seconds since 1970, for times that are stored or sent. `monotonic` never goes back, for limits and timeouts.
"""

from typing import Protocol


class Clock(Protocol):
    def now(self) -> float: ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


def duration_words(seconds: float) -> str:
    """Such as `3 min 12 s`: the two largest units."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
