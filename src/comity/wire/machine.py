"""The events and effects that all protocol machines share.

A machine is sans-I/O: `receive(event, now) -> effects`. It never waits. It asks for work that takes time with the effect
`Ask`; the result comes back as the event `Answered` or `Refused` with the same tag. Each machine defines its own requests
inside an `Ask`.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from msgspec import Struct

from comity.wire.errors import ComityError

# The clock is an argument: protocols never read the time themselves.


class Clock(Protocol):
    def now(self) -> float: ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


SKEW_SECONDS: Final = 300.0
"""How far ahead of our clock a stamp of another machine may lie (ruling 71). It never makes anything last longer."""


def clock_words(seconds: float) -> str:
    """Return a moment of some clock, for a refusal because of time, which names the clocks of both machines."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, OSError, ValueError):
        return "a time outside the years 1 to 9999"


def duration_words(seconds: float) -> str:
    """Return a duration in its two largest units, such as `3 min 12 s`."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def size_words(size: int) -> str:
    """Return a number of bytes in the largest unit that fits, such as `1 GiB` or `2.5 MiB`."""
    if not size:
        return "0"
    number, units = float(size), ["TiB", "GiB", "MiB", "KiB", "B"]
    while number >= 1024 and len(units) > 1:
        number /= 1024
        units.pop()
    return f"{number:,.1f}".removesuffix(".0") + f" {units[-1]}"


class Event(Struct, frozen=True):
    """Something that happened."""


class Started(Event, frozen=True):
    """The link is open; nothing was sent yet."""


class Received(Event, frozen=True):
    message: bytes


class TimerFired(Event, frozen=True):
    name: str


class Answered(Event, frozen=True):
    tag: str
    answer: Any


class Refused(Event, frozen=True):
    tag: str
    error: ComityError


class LinkLost(Event, frozen=True):
    reason: str


class Effect(Struct, frozen=True):
    """Something the machine wants done."""


class Send(Effect, frozen=True):
    message: bytes


class SetTimer(Effect, frozen=True):
    """`at` is monotonic time; setting a name again moves its timer."""

    name: str
    at: float


class CancelTimer(Effect, frozen=True):
    name: str


class Ask(Effect, frozen=True):
    tag: str
    request: Any


class Close(Effect, frozen=True):
    """End the link after what was sent before has left."""

    reason: str = ""


class Machine(Protocol):
    def receive(self, event: Event, now: float) -> Sequence[Effect]: ...
