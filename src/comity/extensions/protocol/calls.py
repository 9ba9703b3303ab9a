"""What an operation is told besides its arguments, and what each operation does (ruling 47).

Every operation is a function of a call and its arguments, and gives the state after it and a result. Who calls,
when, and what the operator has set are facts of the call. A model that calls sees less than the owner does
(ruling 49): of Personal the ModelSafeContext, of Intent a category and its confidence.
"""

from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from comity.extensions.protocol import intent, personal, relational, torch
from comity.extensions.protocol.personal import PersonalRules, PersonalState, SignalReport
from comity.extensions.protocol.relational import (
    Attestation,
    PerformanceBias,
    RelationalContext,
    RelationalState,
)
from comity.extensions.protocol.state import ExtensionState
from comity.extensions.protocol.torch import TorchLineage, TorchReceipt, TorchRules
from comity.identity.protocol.keys import SigningKey
from comity.vcp.protocol.extension_calls import ExtensionError, invalid
from comity.vcp.protocol.injection import Severity
from comity.vcp.protocol.messages import PERSONAL, RELATIONAL
from comity.vcp.protocol.signals import Categorical, ModelSafeContext, model_safe
from comity.votes.protocol.acts import (
    ActArguments,
    BallotArguments,
    OpenArguments,
    after_act,
    open_deliberation,
)
from comity.votes.protocol.provenance import Provenance, provenance_of
from comity.votes.protocol.schulze import Groups, Ranking
from comity.votes.protocol.vote import (
    Clause,
    Deliberation,
    Phase,
    Voice,
    ballots_of,
    clause_of,
    result_of,
    stakeholder_of,
)

Audience = Literal["owner", "model"]


class ExtensionRules(Struct, frozen=True, kw_only=True):
    """What the operator has set."""

    personal: PersonalRules = PersonalRules()
    torch: TorchRules = TorchRules()
    scan_threshold: Severity = "medium"


class CallFacts(Struct, frozen=True, kw_only=True):
    """Who calls. `fresh_id` is random and names what the call makes; `key` is this node's.

    `owner` is None for who is anonymous. `voice` is how the caller speaks in deliberations; an anonymous caller
    has none.
    """

    session_id: str
    active: frozenset[str]
    key: SigningKey
    fresh_id: str
    owner: str | None = None
    audience: Audience = "owner"
    voice: Voice | None = None
    categorical: Categorical | None = None

    @property
    def owner_id(self) -> str:
        return f"session:{self.session_id}" if self.owner is None else self.owner


class OperationCall(Struct, frozen=True, kw_only=True):
    state: ExtensionState
    facts: CallFacts
    rules: ExtensionRules
    now: float


OperationOutcome = tuple[ExtensionState, Any]


class PersonalReport(Struct, frozen=True, kw_only=True):
    """`unchanged_for` is in seconds; None when nothing fades."""

    signals: dict[str, SignalReport]
    unchanged_for: float | None
    model_safe_context: ModelSafeContext


class RelationalReport(RelationalContext, frozen=True, kw_only=True):
    performance_bias: PerformanceBias


class ClauseReport(Struct, frozen=True, kw_only=True):
    """A clause, who said what of it, and how its variants rank.

    The members of an election's result stand beside the clause. They are empty before convergence. `ballots` are
    those that are counted, cast or derived.
    """

    delib_id: str
    phase: Phase
    clause: Clause
    ballots: dict[str, Groups]
    candidates: tuple[str, ...]
    winner: str | None = None
    ranking: tuple[Ranking, ...] = ()
    pairwise_matrix: tuple[tuple[int, ...], ...] = ()
    strongest_paths: tuple[tuple[int, ...], ...] = ()
    ballot_count: int = 0
    has_condorcet_winner: bool = False
    ties: tuple[tuple[str, str], ...] = ()


class ResultReport(Struct, frozen=True, kw_only=True):
    delib_id: str
    phase: Phase
    clauses: tuple[ClauseReport, ...]


class DeliberationSummary(Struct, frozen=True, kw_only=True):
    delib_id: str
    title: str
    phase: str
    role: str
    keeper: str


class DeliberationList(Struct, frozen=True, kw_only=True):
    deliberations: tuple[DeliberationSummary, ...]


class Empty(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class SetArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    signals: dict[str, dict[str, Any] | None]


class PresetArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str


class PinArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    dimension: str
    pinned: bool


class NormArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    norm: relational.Norm


class SelfModelArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    model: relational.SelfModel


class JoinArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: str
    delib_id: str


class DeliberationArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    delib_id: str


class ResultArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    delib_id: str
    clause_id: str | None = None


class GenerateArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    to: str | None = None


class ReceiveArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    torch: dict[str, Any]


class CorrectArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    category: str | None


def personal_set(call: OperationCall, args: SetArguments) -> OperationOutcome:
    told = personal.read_signals(args.signals)
    return _personal(call, personal.tell(call.state.session.personal, told, call.rules.personal, call.now))


def personal_preset(call: OperationCall, args: PresetArguments) -> OperationOutcome:
    state = call.state.session.personal
    return _personal(call, personal.apply_preset(state, args.id, call.rules.personal, call.now))


def personal_pin(call: OperationCall, args: PinArguments) -> OperationOutcome:
    return _personal(call, personal.pin(call.state.session.personal, args.dimension, args.pinned))


def personal_engage(call: OperationCall, _: Empty) -> OperationOutcome:
    return _personal(call, personal.engage(call.state.session.personal, call.rules.personal, call.now))


def personal_purge(call: OperationCall, _: Empty) -> OperationOutcome:
    return _personal(call, PersonalState())


def relational_norm(call: OperationCall, args: NormArguments) -> OperationOutcome:
    norm = relational.read_norm(args.norm)
    return _relational(call, relational.keep_norm(call.state.owner.relational, norm))


def relational_selfmodel(call: OperationCall, args: SelfModelArguments) -> OperationOutcome:
    model = relational.read_self_model(args.model)
    return _relational(call, relational.keep_self_model(call.state.owner.relational, model))


def relational_purge(call: OperationCall, _: Empty) -> OperationOutcome:
    return _relational(call, RelationalState())


def consensus_open(call: OperationCall, args: OpenArguments) -> OperationOutcome:
    own = call.facts.key.vacant_id.hex()
    if args.keeper not in {None, own}:
        raise invalid("keeper is the node that opens; leave it out", "keeper")
    made = open_deliberation(call.facts.fresh_id, _voice(call), replace(args, keeper=own), call.now)
    return replace(call.state, deliberation=made), made


def consensus_join(call: OperationCall, args: JoinArguments) -> OperationOutcome:
    """Its log was fetched and recounted before; what is left to say is whether the caller takes part."""
    return call.state, _read_deliberation(call, args.delib_id)


def consensus_list(call: OperationCall) -> DeliberationList:
    id_ = _voice(call).stakeholder_id
    return DeliberationList(
        deliberations=tuple(
            DeliberationSummary(
                delib_id=one.id,
                title=one.title,
                phase=one.phase,
                role=one.stakeholders[id_].role,
                keeper=one.keeper,
            )
            for one in call.state.deliberations
            if _takes_part(one, call.facts.voice)
        )
    )


def consensus_result(
    call: OperationCall, args: ResultArguments
) -> tuple[ExtensionState, ClauseReport | ResultReport]:
    """One clause by itself when it is named or the only one; else all of them."""
    found = _read_deliberation(call, args.delib_id)
    if args.clause_id is not None or len(found.clauses) == 1:
        return call.state, clause_report(found, clause_of(found, args.clause_id))
    clauses = tuple(clause_report(found, clause) for clause in found.clauses.values())
    return call.state, ResultReport(delib_id=found.id, phase=found.phase, clauses=clauses)


def consensus_record(call: OperationCall, args: DeliberationArguments) -> tuple[ExtensionState, Provenance]:
    return call.state, provenance_of(_read_deliberation(call, args.delib_id))


def torch_generate(call: OperationCall, args: GenerateArguments) -> OperationOutcome:
    facts, owner = call.facts, call.state.owner
    after, given = torch.hand_over(
        owner.torch,
        _relation(call),
        call.rules.torch,
        owner=facts.owner_id,
        session_id=facts.session_id,
        jti=facts.fresh_id,
        key=facts.key,
        now=call.now,
        to=args.to,
    )
    return replace(call.state, owner=replace(owner, torch=after)), given


def torch_receive(call: OperationCall, args: ReceiveArguments) -> tuple[ExtensionState, TorchReceipt]:
    facts, owner = call.facts, call.state.owner
    after, relation, receipt = torch.receive(
        owner.torch,
        _relation(call),
        call.rules.torch,
        args.torch,
        owner=facts.owner_id,
        session_id=facts.session_id,
        own_key=facts.key.vacant_id.hex(),
        now=call.now,
    )
    owner = replace(owner, torch=after)
    session = call.state.session
    if relation is not None:
        counts_now = relation.counted_at == call.now
        session = replace(session, counted=True) if counts_now and not session.counted else session
        owner = replace(owner, relational=relation)
    return replace(call.state, owner=owner, session=session), receipt


def torch_purge(call: OperationCall, _: Empty) -> tuple[ExtensionState, TorchLineage]:
    """The ids of used torches are kept, so that no torch can be taken twice."""
    owner = call.state.owner
    after = replace(owner, torch=torch.TorchState(used=owner.torch.used))
    told = replace(call, state=replace(call.state, owner=after))
    return told.state, torch_view(told)


def intent_correct(call: OperationCall, args: CorrectArguments) -> OperationOutcome:
    session = replace(call.state.session, intent=intent.correct(args.category))
    after = replace(call, state=replace(call.state, session=session))
    return after.state, intent_view(after)


def personal_view(call: OperationCall) -> PersonalReport | ModelSafeContext:
    state, rules = call.state.session.personal, call.rules.personal
    safe = model_safe(
        personal.effective_signals(state, rules, call.now), call.facts.categorical, session_active=True
    )
    if call.facts.audience == "model":
        return safe
    return PersonalReport(
        signals=personal.report(state, rules, call.now),
        unchanged_for=personal.unchanged_for(state, rules, call.now),
        model_safe_context=safe,
    )


def relational_view(call: OperationCall) -> RelationalReport:
    state = call.state.owner.relational
    bias = relational.performance_bias(state.self_models)
    return RelationalReport(**asdict(relational.context_of(state)), performance_bias=bias)


def attestation_view(call: OperationCall) -> Attestation:
    return relational.attest(call.state.owner.relational)


def torch_view(call: OperationCall) -> TorchLineage:
    return torch.lineage_of(call.state.owner.torch, _relation(call))


def intent_view(call: OperationCall) -> intent.IntentReport | intent.IntentForModel:
    # vcp 1.5: the dependency has to be active in this session
    signals = (
        personal.effective_signals(call.state.session.personal, call.rules.personal, call.now)
        if PERSONAL in call.facts.active
        else {}
    )
    told = intent.report(call.state.session.intent, signals, intent.words_of(call.facts.categorical))
    return intent.for_model(told) if call.facts.audience == "model" else told


def _personal(call: OperationCall, after: PersonalState) -> OperationOutcome:
    session = replace(call.state.session, personal=after)
    told = replace(call, state=replace(call.state, session=session))
    return told.state, personal_view(told)


def _relational(call: OperationCall, after: RelationalState) -> OperationOutcome:
    owner = replace(call.state.owner, relational=after)
    told = replace(call, state=replace(call.state, owner=owner))
    return told.state, relational_view(told)


def _relation(call: OperationCall) -> RelationalState | None:
    """None is the degraded mode of a torch: Relational is not active in this session."""
    return call.state.owner.relational if RELATIONAL in call.facts.active else None


def _voice(call: OperationCall) -> Voice:
    if call.facts.voice is None:
        raise ExtensionError("FORBIDDEN", "deliberations need an identity; send a hello with one")
    return call.facts.voice


def _takes_part(deliberation: Deliberation, voice: Voice | None) -> bool:
    try:
        stakeholder_of(deliberation, voice)
    except ExtensionError:
        return False
    return True


def _read_deliberation(call: OperationCall, delib_id: str) -> Deliberation:
    voice = _voice(call)
    found = call.state.deliberation
    if found is None or found.id != delib_id:
        raise ExtensionError("NOT_FOUND", "there is no such deliberation here; join it first", "delib_id")
    stakeholder_of(found, voice)
    return found


def acted(op: str, call: OperationCall, args: Any) -> tuple[ExtensionState, Deliberation]:
    """An operation that is an act: it becomes an entry of the log."""
    before = _read_deliberation(call, args.delib_id)
    after = after_act(before, call.facts.voice, op, args, call.now)
    return replace(call.state, deliberation=after), after


def acted_on_clause(op: str, call: OperationCall, args: ActArguments | BallotArguments) -> OperationOutcome:
    state, after = acted(op, call, args)
    return state, clause_report(after, clause_of(after, args.clause_id))


def clause_report(deliberation: Deliberation, clause: Clause) -> ClauseReport:
    result = result_of(deliberation, clause)
    told = ClauseReport(
        delib_id=deliberation.id,
        phase=deliberation.phase,
        clause=clause,
        ballots=ballots_of(clause, deliberation.stakeholders),
        candidates=tuple(variant.id for variant in clause.variants),
    )
    return told if result is None else replace(told, **asdict(result))
