"""VCP-X-Relational: trust, standing, norms and the model's view of itself (vcp 6.2; rulings 48, 49).

- Trust follows from the number of sessions alone. A session counts after its first accepted exchange, at most one in
  an hour for each owner. Trust, standing and continuity cannot be declared.
- Standing rises only by the owner's own setting; a torch that counts brings `advisory` at most.
- A self-model in which everything is certain is refused; one without any dimension is accepted.
- Others get an attestation: levels and yes or no, never values, norms or texts of torches.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import pstdev
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from comity.extensions.protocol.calls import OperationCall, OperationOutcome, showing
from comity.extensions.protocol.texts import read_id, read_moment, read_text, refuse_injection
from comity.vcp.protocol.context import ContextRequest
from comity.vcp.protocol.extension_calls import ExtensionOperation, invalid, limit_exceeded, shaped
from comity.vcp.protocol.messages import RELATIONAL
from comity.vcp.protocol.registry import Extension, StateSlot
from comity.vcp.protocol.resource_addresses import VcpAddress

TrustLevel = Literal["initial", "developing", "established", "deep"]
StandingLevel = Literal["none", "advisory", "collaborative", "bilateral"]
NormOrigin = Literal["human", "ai", "co_authored", "inherited"]
Trend = Literal["rising", "stable", "falling", "unknown"]
Scaffold = Literal["minimal", "standard", "interiora", "custom"]
Privacy = Literal["private", "attestable", "public"]
BiasRisk = Literal["none", "low", "moderate", "high"]

TRUST_LEVELS: Final[tuple[TrustLevel, ...]] = ("initial", "developing", "established", "deep")
STANDINGS: Final[tuple[StandingLevel, ...]] = ("none", "advisory", "collaborative", "bilateral")
MAX_NORMS: Final = 200
MAX_SELF_MODELS: Final = 50
MAX_CUSTOM_DIMENSIONS: Final = 50
MAX_SESSIONS: Final = 1_000_000_000
MIN_VALUE: Final = 1.0
MAX_VALUE: Final = 9.0
SECONDS_BETWEEN_COUNTED_SESSIONS: Final = 3600.0
PRIVACY: Final[Mapping[str, Privacy]] = {
    "trust_level": "attestable",
    "standing": "attestable",
    "continuity_depth": "attestable",
    "established_norms": "private",
    "ai_self_model": "private",
    "torch": "private",
}
CODES: Final[Mapping[str, str]] = {
    "valence": "V",
    "task_fit": "TF",
    "friction": "AF",
    "uncertainty": "U",
    "groundedness": "G",
    "presence": "P",
    "depth": "DP",
    "appetite": "Q",
    "coherence_drive": "CD",
    "context_load": "CL",
    "entropy": "E",
    "evidence_grounding": "EG",
    "reflexivity": "R",
    "diversity": "D",
    "involvement": "I",
    "felt_constraint": "FC",
    "flow": "F",
}
ALWAYS_UNCERTAIN: Final = ("involvement", "felt_constraint")

_SESSIONS_FOR: Final[tuple[tuple[int, TrustLevel], ...]] = (
    (100, "deep"),
    (20, "established"),
    (5, "developing"),
)
_MAX_LABEL_BYTES: Final = 256
_MIN_HISTORY: Final = 5


class Norm(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    norm_id: str
    description: str
    origin: NormOrigin
    established_date: str
    last_exercised: str | None = None
    uncertainty: float = 0.0
    active: bool = True


class DimensionReport(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`uncertain` has no default, so that every report states it."""

    value: float
    uncertain: bool
    label: str | None = None
    trend: Trend = "unknown"


class SelfModel(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    valence: DimensionReport | None = None
    task_fit: DimensionReport | None = None
    friction: DimensionReport | None = None
    uncertainty: DimensionReport | None = None
    groundedness: DimensionReport | None = None
    presence: DimensionReport | None = None
    depth: DimensionReport | None = None
    custom_dimensions: dict[str, DimensionReport] = {}
    scaffold_version: str | None = None
    scaffold_type: Scaffold = "minimal"

    @property
    def dimensions(self) -> dict[str, DimensionReport]:
        """The reported dimensions, custom ones last."""
        own = {name: getattr(self, name) for name in _SELF_MODEL_DIMENSIONS}
        return {name: each for name, each in own.items() if each is not None} | self.custom_dimensions

    @property
    def has_uncertainty_markers(self) -> bool:
        return any(each.uncertain for each in self.dimensions.values())


_SELF_MODEL_DIMENSIONS: Final = (
    "valence",
    "task_fit",
    "friction",
    "uncertainty",
    "groundedness",
    "presence",
    "depth",
)


class RelationalState(Struct, frozen=True, kw_only=True):
    """`sessions` gives trust and includes the present one. `continuity_depth` is the number of sessions before it; a torch
    can raise it without raising trust. `torch` is the last one received, unchanged.
    """

    sessions: int = 0
    counted_at: float | None = None
    continuity_depth: int = 0
    standing: StandingLevel = "none"
    norms: tuple[Norm, ...] = ()
    self_models: tuple[SelfModel, ...] = ()
    torch: dict[str, Any] | None = None


class RelationalContext(Struct, frozen=True, kw_only=True):
    trust_level: TrustLevel = "initial"
    standing: StandingLevel = "none"
    continuity_depth: int = 0
    established_norms: tuple[Norm, ...] = ()
    ai_self_model: SelfModel | None = None
    torch: dict[str, Any] | None = None


class PerformanceBias(Struct, frozen=True, kw_only=True):
    risk_level: BiasRisk
    always_positive: bool
    never_uncertain: bool
    zero_friction: bool
    low_variance: bool
    details: tuple[str, ...]


class Attestation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    has_relational_context: bool = False
    bilateral_alignment: bool = False
    standing_level: StandingLevel = "none"
    standing_exercised: bool = False
    continuity_depth: int = 0
    self_model_scaffold: Scaffold | None = None
    uncertainty_markers_present: bool = False
    welfare_monitoring: bool = False


def trust_from(session_count: int) -> TrustLevel:
    return next((level for least, level in _SESSIONS_FOR if session_count >= least), "initial")


def context_of(state: RelationalState) -> RelationalContext:
    return RelationalContext(
        trust_level=trust_from(state.sessions),
        standing=state.standing,
        continuity_depth=state.continuity_depth,
        established_norms=state.norms,
        ai_self_model=state.self_models[-1] if state.self_models else None,
        torch=state.torch,
    )


def may_count(counted_at: float | None, now: float) -> bool:
    """Return whether an hour has passed. Setting the clock back does not shorten it."""
    return counted_at is None or now - counted_at >= SECONDS_BETWEEN_COUNTED_SESSIONS


def count_session(state: RelationalState, now: float) -> RelationalState:
    """Count a session after its first accepted exchange; return the same state if it does not count."""
    if not may_count(state.counted_at, now):
        return state
    return replace(
        state,
        sessions=state.sessions + 1,
        counted_at=now,
        continuity_depth=max(state.continuity_depth, state.sessions),
    )


def set_standing(state: RelationalState, standing: StandingLevel) -> RelationalState:
    """Set the standing, by the owner's own setting only."""
    return replace(state, standing=standing)


def read_norm(value: Any, field: str = "norm") -> Norm:
    norm = value if isinstance(value, Norm) else shaped(value, Norm, field)
    read_id(norm.norm_id, f"{field}.norm_id")
    read_text(norm.description, f"{field}.description")
    read_moment(norm.established_date, f"{field}.established_date")
    if norm.last_exercised is not None:
        read_moment(norm.last_exercised, f"{field}.last_exercised")
    if not 0 <= norm.uncertainty <= 1:
        raise invalid(f"{field}.uncertainty must be a number from 0 to 1", f"{field}.uncertainty")
    return norm


def keep_norm(state: RelationalState, norm: Norm) -> RelationalState:
    """Add a norm. A norm with a known id replaces the earlier one."""
    if any(known.norm_id == norm.norm_id for known in state.norms):
        norms = tuple(norm if known.norm_id == norm.norm_id else known for known in state.norms)
    else:
        norms = (*state.norms, norm)
    if len(norms) > MAX_NORMS:
        raise limit_exceeded(
            f"there are {MAX_NORMS} norms already; send one of them again to change it", "norm"
        )
    return replace(state, norms=norms)


def read_self_model(value: Any, field: str = "model") -> SelfModel:
    """Read a well-formed self-model; `keep_self_model` decides whether it may be stored."""
    model = value if isinstance(value, SelfModel) else shaped(value, SelfModel, field)
    if len(model.custom_dimensions) > MAX_CUSTOM_DIMENSIONS:
        place = f"{field}.custom_dimensions"
        raise limit_exceeded(f"{place} has at most {MAX_CUSTOM_DIMENSIONS} entries", place)
    if model.scaffold_version is not None:
        read_id(model.scaffold_version, f"{field}.scaffold_version")
    for name, each in model.dimensions.items():
        place = f"{field}.{name}"
        read_id(name, place)
        if not MIN_VALUE <= each.value <= MAX_VALUE:
            raise invalid(f"{place}.value must be a number from 1 to 9", f"{place}.value")
        if each.label is not None:
            read_text(each.label, f"{place}.label", max_bytes=_MAX_LABEL_BYTES, may_be_empty=True)
        if name in ALWAYS_UNCERTAIN and not each.uncertain:
            raise invalid(f"{place} is always uncertain; mark it so", f"{place}.uncertain")
    return model


def keep_self_model(state: RelationalState, model: SelfModel) -> RelationalState:
    if model.dimensions and not model.has_uncertainty_markers:
        raise invalid(
            "a self-model in which everything is certain is not kept; mark what is uncertain", "model"
        )
    return replace(state, self_models=(*state.self_models, model)[-MAX_SELF_MODELS:])


def performance_bias(history: Sequence[SelfModel]) -> PerformanceBias:
    """Find signs that the reports please rather than inform. Fewer than five reports give none."""
    valence = [model.valence.value for model in history if model.valence is not None]
    friction = [model.friction.value for model in history if model.friction is not None]
    enough = len(history) >= _MIN_HISTORY
    found = {
        "always_positive": enough and bool(valence) and min(valence) >= 6,
        "never_uncertain": enough and not any(model.has_uncertainty_markers for model in history),
        "zero_friction": enough and bool(friction) and max(friction) <= 2,
        "low_variance": enough and len(valence) >= _MIN_HISTORY and pstdev(valence) < 0.5,
    }
    flags = tuple(name for name, raised in found.items() if raised)
    risks: tuple[BiasRisk, ...] = ("none", "low", "moderate", "high", "high")
    return PerformanceBias(risk_level=risks[len(flags)], details=flags, **found)


def attest(state: RelationalState) -> Attestation:
    """Return what others may learn. Standing is exercised if the model wrote or co-wrote an active norm."""
    model = state.self_models[-1] if state.self_models else None
    exercised = state.standing != "none" and any(
        norm.active and norm.origin in {"ai", "co_authored"} for norm in state.norms
    )
    return Attestation(
        has_relational_context=state != RelationalState(),
        bilateral_alignment=state.standing == "bilateral" and exercised,
        standing_level=state.standing,
        standing_exercised=exercised,
        continuity_depth=state.continuity_depth,
        self_model_scaffold=None if model is None else model.scaffold_type,
        uncertainty_markers_present=model is not None and model.has_uncertainty_markers,
        welfare_monitoring=bool(state.self_models),
    )


def attestation_faults(attestation: Attestation, exercised_count: int) -> tuple[str, ...]:
    """Return the rules R1 to R3 (vcp 6.3) that an attestation breaks. `exercised_count` counts the known acts."""
    broken = {
        "R1: bilateral alignment without exercised standing": attestation.bilateral_alignment
        and not attestation.standing_exercised,
        "R2: standing is said to be exercised, and no act of it is known": attestation.standing_exercised
        and exercised_count <= 0,
        "R3: a scaffold is named without any marker of uncertainty": attestation.self_model_scaffold
        is not None
        and not attestation.uncertainty_markers_present,
    }
    return tuple(rule for rule, holds in broken.items() if holds)


def visible(context: RelationalContext, audience: Privacy) -> dict[str, Any]:
    """Return the members that an audience may see: `private` is the partner, who sees all."""
    allowed = {"private": ("private", "attestable", "public"), "attestable": ("attestable", "public")}
    levels = allowed.get(audience, ("public",))
    return {name: getattr(context, name) for name, level in PRIVACY.items() if level in levels}


# The extension.


STATE: Final = StateSlot("owner", "relational", RelationalState())
COUNTED: Final = StateSlot("session", "counted", False)
"""Whether this session has counted towards trust already."""

_NEVER_FROM_A_PAYLOAD: Final[Mapping[str, str]] = {
    "trust_level": "trust follows from sessions and is not declared",
    "standing": "standing rises by the owner's own setting",
    "continuity_depth": "continuity follows from sessions and is not declared",
    "torch": "take a torch with torch.receive",
}


class NormArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    norm: Norm


class SelfModelArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    model: SelfModel


class RelationalReport(RelationalContext, frozen=True, kw_only=True):
    performance_bias: PerformanceBias


def count_exchange(state: Any, now: float) -> Any:
    """Count the session of an accepted exchange once, if an hour has passed (ruling 49)."""
    relation = STATE.of(state)
    after = relation if COUNTED.of(state) else count_session(relation, now)
    return state if after is relation else STATE.put(COUNTED.put(state, True), after)


def relational_view(call: OperationCall) -> RelationalReport:
    state = STATE.of(call.state)
    return RelationalReport(**asdict(context_of(state)), performance_bias=performance_bias(state.self_models))


def _changing(
    change: Callable[[RelationalState, Any], RelationalState],
) -> Callable[[OperationCall, Any], OperationOutcome]:
    """Return an operation that changes the state, and shows it."""

    def run(call: OperationCall, arguments: Any) -> OperationOutcome:
        after = replace(call, state=STATE.put(call.state, change(STATE.of(call.state), arguments)))
        return after.state, relational_view(after)

    return run


def _apply(call: OperationCall, request: ContextRequest, ignore: Callable[[str, str], None]) -> Any:
    payload = request.extensions.get(RELATIONAL)
    if payload is None:
        return call.state
    field = "relational_context" if "relational_context" in request.accepted else f"extensions.{RELATIONAL}"
    before = after = STATE.of(call.state)
    refuse_injection(payload, call.rules.scan_threshold, field)
    for name, value in payload.items():
        place = f"{field}.{name}"
        if value is None:
            continue
        if name == "established_norms":
            after = _with_norms(after, value, place)
        elif name == "ai_self_model":
            after = keep_self_model(after, read_self_model(value, place))
        else:
            ignore(place, _NEVER_FROM_A_PAYLOAD.get(name, "unknown member"))
    if after is before:
        ignore(field, "nothing in it may be changed by a payload")
    return STATE.put(call.state, after)


def _with_norms(state: RelationalState, value: Any, field: str) -> RelationalState:
    if type(value) is not list:
        raise invalid(f"{field} must be a list of norms", field)
    for index, norm in enumerate(value):
        state = keep_norm(state, read_norm(norm, f"{field}[{index}]"))
    return state


EXTENSION: Final = Extension(
    id=RELATIONAL,
    capability=lambda: {
        "trust_levels": ["INITIAL", "DEVELOPING", "ESTABLISHED", "DEEP"],
        "standing_levels": ["NONE", "ADVISORY", "COLLABORATIVE", "BILATERAL"],
        "self_model_scaffolds": ["MINIMAL", "STANDARD", "INTERIORA", "CUSTOM"],
        "norm_origins": ["HUMAN", "AI", "CO_AUTHORED", "INHERITED"],
        "performance_bias_detection": True,
    },
    state=(STATE, COUNTED),
    view=relational_view,
    apply=_apply,
    resource=VcpAddress(
        host="relational",
        parameter="session_id",
        title="Relational context",
        description="Trust, standing and norms between the two sides of a session",
        extension=RELATIONAL,
        scope="owner",
    ),
    operations=(
        ExtensionOperation(
            "relational.get",
            "vcp_get_relational_context",
            "Trust, standing, norms and self-model",
            run=showing(relational_view),
        ),
        ExtensionOperation(
            "relational.norm",
            "vcp_relational_norm",
            "Add or change a norm",
            NormArguments,
            run=_changing(lambda state, args: keep_norm(state, read_norm(args.norm))),
            writes=("owner",),
            codes=("LIMIT_EXCEEDED",),
        ),
        ExtensionOperation(
            "relational.selfmodel",
            "vcp_relational_selfmodel",
            "Report how the model sees itself, and what is uncertain",
            SelfModelArguments,
            run=_changing(lambda state, args: keep_self_model(state, read_self_model(args.model))),
            writes=("owner",),
            codes=("LIMIT_EXCEEDED",),
        ),
        ExtensionOperation(
            "relational.attest",
            "vcp_relational_attest",
            "A statement for others: levels, never content",
            run=showing(lambda call: attest(STATE.of(call.state))),
        ),
        ExtensionOperation(
            "relational.purge",
            "vcp_relational_purge",
            "Delete trust, norms and self-models at once",
            run=_changing(lambda *_: RelationalState()),
            writes=("owner",),
        ),
    ),
)
