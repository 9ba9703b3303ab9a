"""Context opacity: how much care a person needs now, and all that a model may know of it (vcp 5.3).

- The value of a signal is the weight of its category times its intensity. The sum and the greatest of these values give a
  score, and the score gives one of four levels. More intensity never lowers the level.
- The arithmetic uses whole numbers (tenths of weights, a score in 5,000ths), so that every node gets the same level at a
  threshold.
- The score and the signals are never given to a model. A model gets a ModelSafeContext: a level, two words that come only
  from the categorical wire, and whether there is a session. It has no other member.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from msgspec import Struct

from comity.vcp.protocol import categorical as wire
from comity.vcp.protocol.categorical import Categorical, Domain, Formality
from comity.vcp.protocol.signals import CATEGORIES, Signal

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
    """From 0 to 1; for tests and decisions on this side, never for a message."""
    return _score(signals.items()) / _WHOLE


def protection_level(signals: Mapping[str, Signal]) -> ProtectionLevel:
    reached = _score(signals.items())
    return next((level for threshold, level in _LEVELS if reached >= threshold), "standard")


def model_safe(
    signals: Mapping[str, Signal], categorical: Categorical | None, *, session_active: bool
) -> ModelSafeContext:
    return ModelSafeContext(
        protection_level=protection_level(signals),
        formality_level=None if categorical is None else wire.formality(categorical),
        domain=None if categorical is None else wire.domain(categorical),
        session_active=session_active,
    )


def _score(signals: Iterable[tuple[str, Signal]]) -> int:
    weighed = [_TENTHS[dimension].get(signal.category, 0) * signal.intensity for dimension, signal in signals]
    # 0.4 of the sum over five dimensions and 0.6 of the greatest, each out of 10 tenths times 5
    return 8 * sum(weighed) + 60 * max(weighed, default=0)
