"""Personal signals: five dimensions, each with a category and an intensity from 1 to 5 (vcp 6.1, 4.3).

- Two shapes are read. The first document repeats the dimension as `category` and gives the category as `value`; the
  extension's schema gives the category as `category`. Categories and sources are read in any case.
- A dimension that is null has no signal. An unknown one is reported and left out; a known one with a wrong member is an
  error.
- An inferred signal is never certain: a confidence of 1 is an error, and the default is `UNSURE`.
- The floats of VCP 3.0 become signals by fixed tables.

Errors of context messages, the categorical wire and context opacity are here as well.
"""

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from comity.wire.errors import ComityError

# Errors of context messages (vcp 4.3).


ContextErrorCode = Literal[
    "MALFORMED", "INVALID", "TOO_LARGE", "UNKNOWN_MESSAGE", "CONSTITUTION_REFUSED", "NO_SESSION"
]

_encode = msgspec.json.Encoder().encode


class ContextError(ComityError):
    code = "context"

    def __init__(self, wire_code: ContextErrorCode, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.wire_code: str = wire_code
        self.field = field


def wrong(field: str, rule: str) -> ContextError:
    """Return an error: the member `field` breaks a rule, such as "must be an object"."""
    return ContextError("INVALID", f"{field} {rule}", field)


def encode_error(error: ComityError) -> bytes:
    """Encode any error as the answer to a context message."""
    fields = {"code": error.code.upper(), "message": error.message, "field": None}
    if isinstance(error, ContextError):
        fields |= {"code": error.wire_code, "field": error.field}
    return _encode({"error": fields})


# The categorical wire: nine symbols joined by ":" (vcp 4.1).


Domain = Literal["medical", "legal", "financial", "educational", "technical", "general"]
Formality = Literal["casual", "professional", "formal"]

ABSENT: Final = "\u2796"
PARTS: Final = 9
MAX_PART_LENGTH: Final = 64

_INVISIBLE: Final = str.maketrans("", "", "\u200d\ufe0f")
_CONTROLS: Final = frozenset(map(chr, (*range(0x20), *range(0x7F, 0xA0))))

_DOMAINS: Final[dict[str, Domain]] = {
    "🧑⚕": "medical",
    "👨⚕": "medical",
    "👩⚕": "medical",
    "⚕": "medical",
    "🏥": "medical",
    "🩺": "medical",
    "🧑⚖": "legal",
    "⚖": "legal",
    "💰": "financial",
    "🏦": "financial",
    "💸": "financial",
    "🧑🏫": "educational",
    "🧑🎓": "educational",
    "🏫": "educational",
    "📚": "educational",
    "🧑💻": "technical",
    "🧑🔧": "technical",
    "💻": "technical",
    "🔧": "technical",
    "🧑": "general",
    "🌐": "general",
}
_FORMALITY_OF_MODE: Final[dict[str, Formality]] = {
    "😎": "casual",
    "💼": "professional",
    "🎓": "formal",
    "🎩": "formal",
    "🏛": "formal",
}
_FORMALITY_OF_SETTING: Final[dict[str, Formality]] = {"🏢": "professional", "🏛": "formal"}


class Categorical(Struct, frozen=True):
    """The nine parts in their order; None where nothing is known."""

    domain: str | None = None
    mode: str | None = None
    safety: str | None = None
    time: str | None = None
    setting: str | None = None
    audience: str | None = None
    device: str | None = None
    activity: str | None = None
    region: str | None = None

    @property
    def wire(self) -> str:
        return ":".join(ABSENT if part is None else part for part in astuple(self))


def parse(wire: str, field: str = "categorical.wire") -> Categorical:
    """Read the wire. Raises ContextError, which names `field`."""
    parts = wire.split(":", PARTS)
    if len(parts) != PARTS:
        raise wrong(field, f'must be {PARTS} symbols joined by ":"')
    for position, part in enumerate(parts, 1):
        if not 0 < len(part) <= MAX_PART_LENGTH or not _CONTROLS.isdisjoint(part):
            raise ContextError(
                "INVALID",
                f"symbol {position} of {field} must be 1 to {MAX_PART_LENGTH} characters "
                f"without control characters; send {ABSENT} for nothing",
                field,
            )
    return Categorical(*(None if _plain(part) == ABSENT else part for part in parts))


def domain(categorical: Categorical) -> Domain | None:
    return _DOMAINS.get(_plain(categorical.domain or ""))


def formality(categorical: Categorical) -> Formality | None:
    """Return the formality of the mode, else of the setting."""
    formality = _FORMALITY_OF_MODE.get(_plain(categorical.mode or ""))
    return formality or _FORMALITY_OF_SETTING.get(_plain(categorical.setting or ""))


def _plain(part: str) -> str:
    return part.translate(_INVISIBLE)


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
MAX_EXTENDED_LENGTH: Final = 256

_MAX_TIME: Final = 64


class Signal(Struct, frozen=True, kw_only=True):
    category: str
    intensity: int = 3
    source: str = "declared"
    confidence: float = 1.0
    declared_at: str | None = None
    extended: str | None = None


_MEMBERS: Final = frozenset((*Signal.__struct_fields__, "value"))


class Signals(NamedTuple):
    """The signal of each dimension (None removes it), the names of unknown dimensions, and of unknown members."""

    of: dict[str, Signal | None]
    unknown_dimensions: list[str]
    unknown_members: tuple[str, ...] = ()


def read_personal(value: Any, field: str = "personal") -> Signals:
    if type(value) is dict and "signals" in value:
        field = f"{field}.signals"
        value = value["signals"]
    if type(value) is not dict:
        raise wrong(field, "must be an object of dimensions")
    read: dict[str, Signal | None] = {}
    unknown_dimensions = []
    unknown_members: list[str] = []
    for dimension, signal in value.items():
        if dimension not in CATEGORIES:
            unknown_dimensions.append(f"{field}.{dimension}")
        elif signal is None:
            read[dimension] = None
        else:
            place = f"{field}.{dimension}"
            read[dimension] = _signal(signal, dimension, place)
            unknown_members += [f"{place}.{name}" for name in signal if name not in _MEMBERS]
    return Signals(read, unknown_dimensions, tuple(unknown_members))


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
    if extended is not None and (type(extended) is not str or len(extended) > MAX_EXTENDED_LENGTH):
        raise wrong(
            f"{field}.extended", f"must be a text of at most {MAX_EXTENDED_LENGTH} characters, or null"
        )
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
        if type(value) is str and len(value) <= _MAX_TIME:
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
    """Read the floats of VCP 3.0 as signals."""
    if type(value) is not dict:
        raise wrong("prosaic", "must be an object of numbers from 0 to 1")
    read: dict[str, Signal | None] = {}
    unknown_dimensions = []
    for name, level in value.items():
        scale = _PROSAIC.get(name)
        if scale is None:
            unknown_dimensions.append(f"prosaic.{name}")
        elif level is None:
            read[scale.dimension] = None
        elif type(level) not in {int, float} or not 0 <= level <= 1:
            raise wrong(f"prosaic.{name}", "must be a number from 0 to 1, or null")
        else:
            reached = sum(level >= bound for bound in scale.below)
            read[scale.dimension] = Signal(
                category=scale.categories[reached], intensity=min(math.floor(level * 5) + 1, 5)
            )
    return Signals(read, unknown_dimensions)


# Context opacity: the level of protection, which is all that a model may know (vcp 5.3).


ProtectionLevel = Literal["standard", "elevated", "high", "critical"]

_TENTHS: Final[Mapping[str, Mapping[str, int]]] = {
    "cognitive_state": {"distracted": 3, "foggy": 5, "overloaded": 8},
    "emotional_tone": {"tense": 4, "frustrated": 6},
    "energy_level": {"wired": 1, "low_energy": 3, "fatigued": 5, "depleted": 8},
    "perceived_urgency": {"time_aware": 1, "pressured": 5, "critical": 9},
    "body_signals": {"recovering": 2, "discomfort": 4, "pain": 7, "unwell": 8},
}
_WHOLE: Final = 5000
_LEVELS: Final[tuple[tuple[int, ProtectionLevel], ...]] = (
    (3500, "critical"),
    (2000, "high"),
    (750, "elevated"),
)

WEIGHTS: Final[Mapping[str, Mapping[str, float]]] = {
    dimension: {category: _TENTHS[dimension].get(category, 0) / 10 for category in categories}
    for dimension, categories in CATEGORIES.items()
}
TEMPERATURE: Final[Mapping[ProtectionLevel, float]] = {
    "standard": 0.85,
    "elevated": 0.6,
    "high": 0.5,
    "critical": 0.4,
}
SAFETY_FLOOR: Final[Mapping[ProtectionLevel, float]] = {
    "standard": 0.0,
    "elevated": 0.1,
    "high": 0.2,
    "critical": 0.3,
}


class ModelSafeContext(Struct, frozen=True, kw_only=True):
    protection_level: ProtectionLevel
    formality_level: Formality | None
    domain: Domain | None
    session_active: bool


def score(signals: Mapping[str, Signal]) -> float:
    """Return the score from 0 to 1, which never goes into a message."""
    return _score(signals.items()) / _WHOLE


def protection_level(signals: Mapping[str, Signal]) -> ProtectionLevel:
    reached = _score(signals.items())
    return next((level for threshold, level in _LEVELS if reached >= threshold), "standard")


def model_safe(
    signals: Mapping[str, Signal], categorical: Categorical | None, *, session_active: bool
) -> ModelSafeContext:
    return ModelSafeContext(
        protection_level=protection_level(signals),
        formality_level=None if categorical is None else formality(categorical),
        domain=None if categorical is None else domain(categorical),
        session_active=session_active,
    )


def _score(signals: Iterable[tuple[str, Signal]]) -> int:
    weighed = [_TENTHS[dimension].get(signal.category, 0) * signal.intensity for dimension, signal in signals]
    # 0.4 of the sum over five dimensions and 0.6 of the greatest, each out of 10 tenths times 5
    return 8 * sum(weighed) + 60 * max(weighed, default=0)
