"""How a personal signal fades: three curves, five states of its life (vcp 6.1).

- Inside the fresh window the declared intensity holds. After it the curve counts from the declaration.
- An intensity is a whole number, rounded down, never below the baseline, and it never rises with time.
- A pinned signal does not fade.
"""

import math
from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

from comity.core.errors import ConfigError

Curve = Literal["exponential", "linear", "step"]
LifecycleState = Literal["set", "active", "decaying", "stale", "expired"]

# a value that is whole but for the last bits of a float counts as whole
_ALMOST: Final = 1e-9


class DecayStep(Struct, frozen=True, kw_only=True):
    after_seconds: float
    intensity: int


class DecayConfig(Struct, frozen=True, kw_only=True):
    """`full_decay_seconds` belongs to the linear curve (None or 0: no decay), `steps` to the step curve."""

    half_life_seconds: float = 1800
    fresh_window_seconds: float = 60
    stale_threshold: float = 0.3
    reset_on_engagement: bool = False
    baseline: int = 1
    curve: Curve = "exponential"
    full_decay_seconds: float | None = None
    steps: tuple[DecayStep, ...] = ()
    pinned: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.half_life_seconds < math.inf:
            raise ConfigError("half_life_seconds must be more than 0")
        if not 0 <= self.fresh_window_seconds < math.inf:
            raise ConfigError("fresh_window_seconds must be 0 or more")
        if not 0 <= self.stale_threshold <= 1:
            raise ConfigError("stale_threshold must be from 0 to 1")
        if not 1 <= self.baseline <= 5:
            raise ConfigError("baseline must be from 1 to 5")
        if self.full_decay_seconds is not None and not 0 <= self.full_decay_seconds < math.inf:
            raise ConfigError("full_decay_seconds must be 0 or more")
        for earlier, later in zip(self.steps, self.steps[1:], strict=False):
            if not earlier.after_seconds < later.after_seconds or later.intensity > earlier.intensity:
                raise ConfigError("steps must come in the order of time, and their intensities must not rise")


DECAY_CONFIGS: Final[Mapping[str, DecayConfig]] = {
    "cognitive_state": DecayConfig(half_life_seconds=720, reset_on_engagement=True),
    "emotional_tone": DecayConfig(half_life_seconds=1800, stale_threshold=0.25),
    "energy_level": DecayConfig(half_life_seconds=7200, fresh_window_seconds=300, stale_threshold=0.2),
    "perceived_urgency": DecayConfig(half_life_seconds=900, stale_threshold=0.35),
    "body_signals": DecayConfig(half_life_seconds=14400, fresh_window_seconds=600, stale_threshold=0.15),
}


def decayed_intensity(declared: int, config: DecayConfig, elapsed: float) -> int:
    """What the curve alone makes of it after so many seconds."""
    base, elapsed = config.baseline, max(elapsed, 0.0)
    match config.curve:
        case "exponential":
            left = base + (declared - base) * math.exp2(-elapsed / config.half_life_seconds)
        case "linear":
            full = config.full_decay_seconds
            left = declared - (declared - base) * min(1.0, elapsed / full) if full else float(declared)
        case "step":
            reached = [step.intensity for step in config.steps if step.after_seconds <= elapsed]
            left = float(min(declared, reached[-1]) if reached else declared)
    return max(base, math.floor(left + _ALMOST))


def effective_intensity(declared: int, config: DecayConfig, elapsed: float) -> int:
    if config.pinned or elapsed < config.fresh_window_seconds:
        return max(config.baseline, declared)
    return decayed_intensity(declared, config, elapsed)


def lifecycle_state(declared: int, config: DecayConfig, elapsed: float) -> LifecycleState:
    if config.pinned:
        return "active"
    if elapsed <= 0:
        return "set"
    if elapsed < config.fresh_window_seconds:
        return "active"
    effective = effective_intensity(declared, config, elapsed)
    if effective <= config.baseline:
        return "expired"
    if effective <= config.baseline + (declared - config.baseline) * config.stale_threshold:
        return "stale"
    return "decaying"


def next_drop(declared: int, config: DecayConfig, elapsed: float) -> float | None:
    """How many seconds from now the effective intensity stays as it is; None when it stays for good."""
    now = effective_intensity(declared, config, elapsed)
    base = config.baseline
    if config.pinned or now <= base:
        return None
    match config.curve:
        case "exponential":
            at = config.half_life_seconds * math.log2((declared - base) / (now - base))
        case "linear":
            if not config.full_decay_seconds:
                return None
            at = config.full_decay_seconds * (declared - now) / (declared - base)
        case "step":
            lower = [step.after_seconds for step in config.steps if step.intensity < now]
            if not lower:
                return None
            at = lower[0]
    return max(max(at, config.fresh_window_seconds) - max(elapsed, 0.0), 0.0)
