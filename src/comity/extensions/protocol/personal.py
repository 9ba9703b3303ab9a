"""VCP-X-Personal: what a person declared about their state, and how it fades (vcp 6.1; rulings 48, 49).

- State holds the declarations and their times; effective values are computed on reading, so no timer writes.
- One wrong signal refuses all of them. Null removes a signal. A declaration in the future counts as now.
- Body signals are never inferred unless the person has opted in.
- An expired signal is shown to its owner until it is purged, and used for nothing.

A signal fades by one of three curves, through five lifecycle states:

- Inside the fresh window the declared intensity holds. After it the curve counts from the declaration.
- An intensity is a whole number, rounded down, never below the baseline, and never rises with time.
- A pinned signal does not fade.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from comity.extensions.protocol.calls import OperationCall, OperationOutcome, showing
from comity.extensions.protocol.texts import read_moment, refuse_injection
from comity.store.audit_chain import timestamp
from comity.vcp.protocol.context import ContextRequest
from comity.vcp.protocol.extension_calls import ExtensionError, ExtensionOperation, invalid
from comity.vcp.protocol.messages import MAX_INTENSITY, PERSONAL
from comity.vcp.protocol.registry import Extension, StateSlot
from comity.vcp.protocol.resource_addresses import VcpAddress
from comity.vcp.protocol.signals import (
    CATEGORIES,
    INFERRED,
    ContextError,
    ModelSafeContext,
    Signal,
    model_safe,
    read_personal,
)
from comity.wire.errors import ConfigError

Curve = Literal["exponential", "linear", "step"]
LifecycleState = Literal["set", "active", "decaying", "stale", "expired"]

# a value within this of a whole number counts as whole
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
    """Return the intensity that the curve alone gives after so many seconds."""
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
    """Return for how many seconds the effective intensity stays the same; None if it never changes."""
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


class PersonalRules(Struct, frozen=True, kw_only=True):
    """What the operator and the person have set."""

    decay: Mapping[str, DecayConfig] = MappingProxyType(DECAY_CONFIGS)
    presets: Mapping[str, Mapping[str, Signal]] = {}
    infer_body_signals: bool = False


class HeldSignal(Struct, frozen=True, kw_only=True):
    category: str
    intensity: int
    source: str
    confidence: float
    declared_at: float
    extended: str | None = None
    pinned: bool = False


class PersonalState(Struct, frozen=True):
    signals: dict[str, HeldSignal] = {}


class SignalReport(Struct, frozen=True, kw_only=True):
    """One dimension for its owner. `source` is `decayed` when the effective intensity differs from the declared
    one.
    """

    category: str
    intensity: int
    effective_intensity: int
    lifecycle_state: LifecycleState
    source: str
    confidence: float
    declared_at: str
    extended: str | None
    pinned: bool


def read_signals(value: Any, field: str = "signals") -> dict[str, Signal | None]:
    """Read declared signals. Raises ExtensionError, also for an unknown dimension."""
    try:
        signals = read_personal(value, field)
    except ContextError as fault:
        raise invalid(fault.message, fault.field) from None
    if signals.unknown_dimensions:
        place = signals.unknown_dimensions[0][:128]
        raise invalid(f"{place} is no dimension; use {', '.join(DECAY_CONFIGS)}", place)
    if signals.unknown_members:
        place = signals.unknown_members[0][:128]
        raise invalid(f"{place} is no member of a signal; leave it out", place)
    return signals.of


def declare(
    state: PersonalState,
    signals: Mapping[str, Signal | None],
    rules: PersonalRules,
    now: float,
    field: str = "signals",
) -> PersonalState:
    """Return the state after these signals are declared. A dimension that was pinned stays pinned."""
    held = dict(state.signals)
    for dimension, signal in signals.items():
        if signal is None:
            held.pop(dimension, None)
            continue
        place = f"{field}.{dimension}"
        if dimension == "body_signals" and signal.source in INFERRED and not rules.infer_body_signals:
            raise invalid(
                f"{place} must not be inferred without the person's consent; let them declare it",
                f"{place}.source",
            )
        before = held.get(dimension)
        held[dimension] = HeldSignal(
            category=signal.category,
            intensity=signal.intensity,
            source=signal.source,
            confidence=signal.confidence,
            declared_at=_declared_at(signal, f"{place}.declared_at", now),
            extended=signal.extended,
            pinned=before is not None and before.pinned,
        )
    return PersonalState(held)


def apply_preset(state: PersonalState, preset_id: str, rules: PersonalRules, now: float) -> PersonalState:
    preset = rules.presets.get(preset_id)
    if preset is None:
        known = ", ".join(sorted(rules.presets))
        remedy = f"known are {known}" if known else "the owner of this node has set none"
        raise ExtensionError("NOT_FOUND", f"there is no such preset; {remedy}", "id")
    signals = {
        dimension: replace(signal, source="preset", declared_at=None) for dimension, signal in preset.items()
    }
    return declare(state, signals, rules, now)


def pin(state: PersonalState, dimension: str, pinned: bool) -> PersonalState:
    if dimension not in DECAY_CONFIGS:
        raise invalid(f"dimension must be one of {', '.join(DECAY_CONFIGS)}", "dimension")
    signal = state.signals.get(dimension)
    if signal is None:
        raise ExtensionError(
            "PRECONDITION_FAILED", f"{dimension} has no signal to pin; declare one first", "dimension"
        )
    return PersonalState({**state.signals, dimension: replace(signal, pinned=pinned)})


def engage(state: PersonalState, rules: PersonalRules, now: float) -> PersonalState:
    """Restart the signals that reset on engagement, except pinned ones."""
    return PersonalState(
        {
            dimension: replace(signal, declared_at=now)
            if rules.decay[dimension].reset_on_engagement and not signal.pinned
            else signal
            for dimension, signal in state.signals.items()
        }
    )


def purge_expired(state: PersonalState, rules: PersonalRules, now: float) -> PersonalState:
    """Return the state without expired signals."""
    kept = {
        dimension: signal
        for dimension, signal in state.signals.items()
        if _report(signal, rules.decay[dimension], now).lifecycle_state != "expired"
    }
    return state if len(kept) == len(state.signals) else PersonalState(kept)


def report(state: PersonalState, rules: PersonalRules, now: float) -> dict[str, SignalReport]:
    return {
        dimension: _report(signal, rules.decay[dimension], now) for dimension, signal in state.signals.items()
    }


def effective_signals(state: PersonalState, rules: PersonalRules, now: float) -> dict[str, Signal]:
    """Return the effective intensities of signals that have not expired."""
    return {
        dimension: Signal(
            category=shown.category,
            intensity=shown.effective_intensity,
            source=shown.source,
            confidence=shown.confidence,
            declared_at=shown.declared_at,
        )
        for dimension, shown in report(state, rules, now).items()
        if shown.lifecycle_state != "expired"
    }


def unchanged_for(state: PersonalState, rules: PersonalRules, now: float) -> float | None:
    """Return for how many seconds every effective value stays the same; None if nothing fades."""
    drops = [
        next_drop(signal.intensity, _config(signal, rules.decay[dimension]), now - signal.declared_at)
        for dimension, signal in state.signals.items()
    ]
    return min((drop for drop in drops if drop is not None), default=None)


def _config(signal: HeldSignal, config: DecayConfig) -> DecayConfig:
    return replace(config, pinned=True) if signal.pinned else config


def _report(signal: HeldSignal, config: DecayConfig, now: float) -> SignalReport:
    config, elapsed = _config(signal, config), now - signal.declared_at
    effective = effective_intensity(signal.intensity, config, elapsed)
    return SignalReport(
        category=signal.category,
        intensity=signal.intensity,
        effective_intensity=effective,
        lifecycle_state=lifecycle_state(signal.intensity, config, elapsed),
        source=signal.source if effective == signal.intensity else "decayed",
        confidence=signal.confidence,
        declared_at=timestamp(signal.declared_at),
        extended=signal.extended,
        pinned=config.pinned,
    )


def _declared_at(signal: Signal, field: str, now: float) -> float:
    return now if signal.declared_at is None else min(now, read_moment(signal.declared_at, field))


# The extension.


STATE: Final = StateSlot("session", "personal", PersonalState())


class SetArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    signals: dict[str, dict[str, Any] | None]


class PresetArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str


class PinArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    dimension: str
    pinned: bool


class PersonalReport(Struct, frozen=True, kw_only=True):
    """`unchanged_for` is in seconds; None when nothing fades."""

    signals: dict[str, SignalReport]
    unchanged_for: float | None
    model_safe_context: ModelSafeContext


def personal_view(call: OperationCall) -> PersonalReport | ModelSafeContext:
    state, rules = STATE.of(call.state), call.rules.personal
    safe = model_safe(effective_signals(state, rules, call.now), call.facts.categorical, session_active=True)
    if call.facts.audience == "model":
        return safe
    return PersonalReport(
        signals=report(state, rules, call.now),
        unchanged_for=unchanged_for(state, rules, call.now),
        model_safe_context=safe,
    )


def seconds_unchanged(call: OperationCall) -> float | None:
    return unchanged_for(STATE.of(call.state), call.rules.personal, call.now)


def _changing(
    change: Callable[[PersonalState, Any, PersonalRules, float], PersonalState],
) -> Callable[[OperationCall, Any], OperationOutcome]:
    """Return an operation that changes the state, and shows it."""

    def run(call: OperationCall, arguments: Any) -> OperationOutcome:
        changed = change(STATE.of(call.state), arguments, call.rules.personal, call.now)
        after = replace(call, state=STATE.put(call.state, changed))
        return after.state, personal_view(after)

    return run


def _apply(call: OperationCall, request: ContextRequest, ignore: Callable[[str, str], None]) -> Any:
    rules, now = call.rules.personal, call.now
    after = STATE.of(call.state)
    members = request.extensions.get(PERSONAL, {})
    if "preset_id" in members:
        try:
            after = apply_preset(after, members["preset_id"], rules, now)
        except ExtensionError as fault:
            ignore("preset_id", fault.message)
    if "transition" in members:
        ignore("transition", "signals change by being declared")
    if request.signals:
        for dimension, signal in request.signals.items():
            if signal is not None:
                refuse_injection(signal.extended, call.rules.scan_threshold, f"personal.{dimension}.extended")
        after = declare(after, request.signals, rules, now, "personal")
    return STATE.put(call.state, after)


_SIGNALS_SCHEMA: Final = {
    "type": "object",
    "properties": {
        dimension: {
            "type": ["object", "null"],
            "properties": {
                "category": {"type": "string", "description": f"one of {', '.join(categories)}"},
                "intensity": {"type": "integer", "minimum": 1, "maximum": 5},
            },
        }
        for dimension, categories in CATEGORIES.items()
    },
}
_reading: Final = partial(ExtensionOperation, tool_members=("session_id",))
_writing: Final = partial(_reading, writes=("session",))

EXTENSION: Final = Extension(
    id=PERSONAL,
    capability=lambda: {
        "decay": True,
        "dimensions": [
            "cognitive_state",
            "emotional_tone",
            "energy_level",
            "perceived_urgency",
            "body_signals",
        ],
        "intensity_range": [1, MAX_INTENSITY],
        "max_intensity": MAX_INTENSITY,
        "lifecycle_tracking": True,
        "lifecycle_states": ["SET", "ACTIVE", "DECAYING", "STALE", "EXPIRED"],
        "signal_sources": ["DECLARED", "INFERRED", "INFERRED_LOCAL", "PRESET", "DECAYED"],
    },
    state=(STATE,),
    view=personal_view,
    unchanged_for=seconds_unchanged,
    apply=_apply,
    resource=VcpAddress(
        host="personal-state",
        parameter="session_id",
        title="Personal state",
        description="How much care the person in a session needs, and no more than that",
        extension=PERSONAL,
    ),
    operations=(
        _writing(
            "personal.set",
            "vcp_set_personal_state",
            "Declare signals; null removes one",
            SetArguments,
            run=_changing(
                lambda state, args, rules, now: declare(state, read_signals(args.signals), rules, now)
            ),
            described={"signals": _SIGNALS_SCHEMA},
        ),
        _reading(
            "personal.get",
            "vcp_get_personal_state",
            "The current signals; a model gets only the protection level",
            run=showing(personal_view),
        ),
        _writing(
            "personal.preset",
            "vcp_personal_preset",
            "Declare the signals of a preset",
            PresetArguments,
            run=_changing(lambda state, args, rules, now: apply_preset(state, args.id, rules, now)),
            codes=("NOT_FOUND",),
        ),
        _writing(
            "personal.pin",
            "vcp_personal_pin",
            "Stop a signal from fading, or let it fade again",
            PinArguments,
            run=_changing(lambda state, args, _rules, _now: pin(state, args.dimension, args.pinned)),
            described={"dimension": {"type": "string", "enum": list(CATEGORIES)}},
            codes=("PRECONDITION_FAILED",),
        ),
        _writing(
            "personal.engage",
            "vcp_personal_engage",
            "Report that the person is active again",
            run=_changing(lambda state, _args, rules, now: engage(state, rules, now)),
        ),
        _writing(
            "personal.purge",
            "vcp_personal_purge",
            "Delete all signals at once",
            run=_changing(lambda *_: PersonalState()),
        ),
    ),
)
