"""Personal signals: five dimensions, each with a category and an intensity from 1 to 5 (vcp 6.1, 4.3).

- Two shapes are read. The first document repeats the dimension as `category` and gives the category as
  `value`; the extension's schema gives the category as `category`. Case means nothing in categories and
  sources.
- A dimension that is null has no signal. One that we do not know is reported and left out; a known one with
  a wrong member is an error.
- What was inferred is never certain: a confidence of 1 is an error there, and none given means `UNSURE`.
- VCP 3.0 had floats from 0 to 1 instead; they become signals by fixed tables.
- How signals fade with time belongs to the extension, not to this file.
"""

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from msgspec import Struct

from comity.vcp.protocol.errors import wrong

CATEGORIES: Final[Mapping[str, tuple[str, ...]]] = {
    "cognitive_state": ("focused", "distracted", "overloaded", "foggy", "reflective"),
    "emotional_tone": ("calm", "tense", "frustrated", "neutral", "uplifted"),
    "energy_level": ("rested", "low_energy", "fatigued", "wired", "depleted"),
    "perceived_urgency": ("unhurried", "time_aware", "pressured", "critical"),
    "body_signals": ("neutral", "discomfort", "pain", "unwell", "recovering"),
}
SOURCES: Final = ("declared", "inferred", "inferred_local", "preset", "decayed", "elicitation", "measured")
INFERRED: Final = frozenset(("inferred", "inferred_local"))
UNSURE: Final = 0.5
INTENSITIES: Final = range(1, 6)
LONGEST_EXTENDED: Final = 256

_LONGEST_TIME: Final = 64


class Signal(Struct, frozen=True, kw_only=True):
    category: str
    intensity: int = 3
    source: str = "declared"
    confidence: float = 1.0
    declared_at: str | None = None
    extended: str | None = None


_MEMBERS: Final = frozenset((*Signal.__struct_fields__, "value"))


class Signals(NamedTuple):
    """What was told of each dimension, None for "no signal"; the names that are no dimension, and those that are no
    member of a signal.
    """

    of: dict[str, Signal | None]
    unknown: list[str]
    strange: tuple[str, ...] = ()


def read_personal(value: Any, field: str = "personal") -> Signals:
    if type(value) is dict and "signals" in value:
        field = f"{field}.signals"
        value = value["signals"]
    if type(value) is not dict:
        raise wrong(field, "must be an object of dimensions")
    told: dict[str, Signal | None] = {}
    unknown = []
    strange: list[str] = []
    for dimension, signal in value.items():
        if dimension not in CATEGORIES:
            unknown.append(f"{field}.{dimension}")
        elif signal is None:
            told[dimension] = None
        else:
            place = f"{field}.{dimension}"
            told[dimension] = _signal(signal, dimension, place)
            strange += [f"{place}.{name}" for name in signal if name not in _MEMBERS]
    return Signals(told, unknown, tuple(strange))


def _signal(value: Any, dimension: str, field: str) -> Signal:
    if type(value) is not dict:
        raise wrong(field, "must be an object or null")
    category, place = value.get("category"), f"{field}.category"
    if value.get("value") is not None:
        if category != dimension:
            raise wrong(place, f"must repeat {dimension} where a value is given beside it")
        category, place = value["value"], f"{field}.value"
    intensity = value.get("intensity", 3)
    if type(intensity) is not int or intensity not in INTENSITIES:
        raise wrong(f"{field}.intensity", "must be a whole number from 1 to 5")
    source = _one_of(SOURCES, value.get("source", "declared"), f"{field}.source")
    confidence = value.get("confidence", UNSURE if source in INFERRED else 1.0)
    if type(confidence) not in {int, float} or not 0 <= confidence <= 1:
        raise wrong(f"{field}.confidence", "must be a number from 0 to 1")
    if source in INFERRED and confidence >= 1:
        raise wrong(f"{field}.confidence", f"must be below 1 where the source is {source}")
    extended = value.get("extended")
    if extended is not None and (type(extended) is not str or len(extended) > LONGEST_EXTENDED):
        raise wrong(f"{field}.extended", f"must be a text of at most {LONGEST_EXTENDED} characters, or null")
    return Signal(
        category=_one_of(CATEGORIES[dimension], category, place),
        intensity=intensity,
        source=source,
        confidence=float(confidence),
        declared_at=_moment(value.get("declared_at"), f"{field}.declared_at"),
        extended=extended,
    )


def _one_of(allowed: tuple[str, ...], value: Any, field: str) -> str:
    word = value.lower() if type(value) is str else None
    if word not in allowed:
        raise wrong(field, f"must be one of {', '.join(allowed)}")
    return word


def _moment(value: Any, field: str) -> str | None:
    if value is None:
        return None
    try:
        if type(value) is str and len(value) <= _LONGEST_TIME:
            datetime.fromisoformat(value)
            return value
    except ValueError:
        pass
    raise wrong(field, "must be a time such as 2026-02-28T21:30:00Z, or null")


class _Scale(NamedTuple):
    dimension: str
    below: tuple[float, ...]
    categories: tuple[str, ...]


_FIFTHS: Final = (0.2, 0.4, 0.6, 0.8)
_PROSAIC: Final[Mapping[str, _Scale]] = {
    "urgency": _Scale(
        "perceived_urgency", (0.3, 0.5, 0.8), ("unhurried", "time_aware", "pressured", "critical")
    ),
    "health": _Scale("body_signals", _FIFTHS, ("neutral", "discomfort", "pain", "unwell", "recovering")),
    "cognitive": _Scale(
        "cognitive_state", _FIFTHS, ("focused", "reflective", "distracted", "foggy", "overloaded")
    ),
    "affect": _Scale("emotional_tone", _FIFTHS, ("calm", "neutral", "tense", "frustrated", "uplifted")),
}


def read_prosaic(value: Any) -> Signals:
    """The floats of VCP 3.0 as signals."""
    if type(value) is not dict:
        raise wrong("prosaic", "must be an object of numbers from 0 to 1")
    told: dict[str, Signal | None] = {}
    unknown = []
    for name, level in value.items():
        scale = _PROSAIC.get(name)
        if scale is None:
            unknown.append(f"prosaic.{name}")
        elif level is None:
            told[scale.dimension] = None
        elif type(level) not in {int, float} or not 0 <= level <= 1:
            raise wrong(f"prosaic.{name}", "must be a number from 0 to 1, or null")
        else:
            reached = sum(level >= bound for bound in scale.below)
            told[scale.dimension] = Signal(
                category=scale.categories[reached], intensity=min(math.floor(level * 5) + 1, 5)
            )
    return Signals(told, unknown)
