"""The events and effects that all protocol machines share.

A machine is sans-I/O: `receive(event, now) -> effects`. It never waits. It asks for work that takes time with the effect
`Ask`; the result comes back as the event `Answered` or `Refused` with the same tag. Each machine defines its own requests
inside an `Ask`.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct

from comity.wire.errors import ComityError


class Event(Struct, frozen=True):
    """Something that happened."""


class Started(Event, frozen=True):
    """The link is there; nothing was said yet."""


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
    """End the link, after what was sent before has left."""

    reason: str = ""


class Machine(Protocol):
    def receive(self, event: Event, now: float) -> Sequence[Effect]: ...
