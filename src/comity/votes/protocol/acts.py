"""What parties do in a deliberation, and when they may (vcp 6.3; rulings 47, 50a, 50b).

`after_act` is the only way a deliberation changes: one act by one voice gives the next state, or a refusal. The
keeper applies it before it writes an entry, every reader applies it to the entries it was given, and so all come
to the same state. `time` is the moment the actor wrote down; nothing is decided by it.

| from | to | needs |
|---|---|---|
| draft | deliberation | the author |
| deliberation | convergence | a quorum of those who are no observers has acted |
| convergence | ratification | every clause has a winner |
| ratification | active | enough votes accept; without a vote never |
| ratification | deliberation | any stakeholder; ballots, results and votes are cleared |

An observer reads, and may send a text back; it neither acts, ranks, votes nor moves a deliberation forward.
"""

import itertools
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from comity.extensions.protocol.relational import MAX_SESSIONS, Attestation
from comity.extensions.protocol.texts import REASON_BYTES, read_id, read_text
from comity.identity.protocol.keys import is_key
from comity.vcp.protocol.extension_calls import ExtensionError, invalid, limit_exceeded, refused, shaped
from comity.votes.protocol.schulze import read_groups
from comity.votes.protocol.vote import (
    MAX_CLAUSES,
    MAX_STAKEHOLDERS,
    MAX_TEXT_BYTES,
    MAX_VARIANTS,
    PHASES,
    Act,
    CastVote,
    Clause,
    Deliberation,
    Phase,
    PhaseChange,
    Position,
    Stakeholder,
    StakeholderRole,
    Variant,
    Voice,
    Vote,
    WelfareSignal,
    acceptance,
    clause_of,
    is_decided,
    participation_rate,
    read_threshold,
    self_referential,
    stakeholder_of,
)

MAX_WELFARE_SIGNALS: Final = 1000
MAX_PHASE_CHANGES: Final = 1000
MAX_LEVEL_LENGTH: Final = 32
DEFAULT_QUORUM: Final = "1/2"
DEFAULT_RATIFICATION: Final = "2/3"


class _Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class NewClause(_Arguments, frozen=True, kw_only=True):
    text: str
    id: str | None = None


class NewStakeholder(_Arguments, frozen=True, kw_only=True):
    """`node` is the node that signs for a party without a key; left out, it is the keeper."""

    id: str
    role: StakeholderRole = "participant"
    node: str | None = None
    principal_id: str | None = None
    fidelity: float | None = None
    attestation: Attestation | None = None


class OpenArguments(_Arguments, frozen=True, kw_only=True):
    """`keeper` is filled in by the node that opens; a caller leaves it out."""

    title: str
    clauses: list[str | NewClause]
    stakeholders: list[NewStakeholder]
    quorum: float | str = DEFAULT_QUORUM
    ratification: float | str = DEFAULT_RATIFICATION
    keeper: str | None = None


class AddArguments(_Arguments, frozen=True, kw_only=True):
    delib_id: str
    stakeholder: NewStakeholder


class ActArguments(_Arguments, frozen=True, kw_only=True):
    delib_id: str
    action: Act
    clause_id: str | None = None
    text: str | None = None
    level: str | None = None
    concern: str | None = None


class BallotArguments(_Arguments, frozen=True, kw_only=True):
    delib_id: str
    ranking: list[str | list[str]]
    clause_id: str | None = None
    tied_groups: list[list[str]] = []


class AdvanceArguments(_Arguments, frozen=True, kw_only=True):
    delib_id: str
    to: Phase


class VoteArguments(_Arguments, frozen=True, kw_only=True):
    delib_id: str
    vote: Vote
    reason: str | None = None


class WelfareArguments(_Arguments, frozen=True, kw_only=True):
    delib_id: str
    signal: str


class _Turn(Struct, frozen=True):
    deliberation: Deliberation
    who: Stakeholder
    time: float


_Apply = Callable[[_Turn, Any], Deliberation]


def open_deliberation(delib_id: str, voice: Voice, args: OpenArguments, time: float) -> Deliberation:
    """A new deliberation in its draft. Who opens it is its author, named among the stakeholders or not."""
    read_id(delib_id, "delib_id")
    if args.keeper is None or not is_key(args.keeper):
        raise invalid("keeper must be the id of the node that keeps the log, in lower-case hex", "keeper")
    return Deliberation(
        id=delib_id,
        title=read_text(args.title, "title"),
        keeper=args.keeper,
        author=voice.stakeholder_id,
        phase="draft",
        quorum=read_threshold(args.quorum, "quorum", may_be_zero=True),
        ratification=read_threshold(args.ratification, "ratification", may_be_zero=False),
        created_at=time,
        stakeholders=_all_stakeholders(voice, args.stakeholders, args.keeper),
        clauses=_all_clauses(args.clauses, voice.stakeholder_id),
        phase_history=(PhaseChange(phase="draft", at=time, by=voice.stakeholder_id),),
    )


def _all_stakeholders(voice: Voice, given: list[NewStakeholder], keeper: str) -> dict[str, Stakeholder]:
    own = voice.stakeholder_id
    author = _named(
        NewStakeholder(id=own, role="author", node=None if voice.on_behalf is None else voice.actor),
        keeper,
        "stakeholders",
    )
    named, seen = {own: author}, set()
    for index, one in enumerate(given):
        field = f"stakeholders[{index}]"
        if one.id in seen:
            raise invalid(f"{field}.id is there twice; name each stakeholder once", f"{field}.id")
        seen.add(one.id)
        if one.id == own and (
            one.role not in {"author", "participant"} or one.node not in {None, author.node}
        ):
            raise refused(field, "opens the deliberation: it is the author, through its own node")
        if one.id != own and one.role == "author":
            raise invalid(f"{field}.role must not be author: there is one, and it opens", f"{field}.role")
        if one.id != own:
            named[one.id] = _named(one, keeper, field)
    if len(named) > MAX_STAKEHOLDERS:
        raise _too_many("stakeholders", MAX_STAKEHOLDERS)
    return named


def _all_clauses(given: list[str | NewClause], author: str) -> dict[str, Clause]:
    if not given:
        raise refused("clauses", "must hold at least one clause")
    if len(given) > MAX_CLAUSES:
        raise _too_many("clauses", MAX_CLAUSES)
    clauses: dict[str, Clause] = {}
    for index, one in enumerate(given):
        field = f"clauses[{index}]"
        new = NewClause(text=one) if isinstance(one, str) else one
        id_ = read_id(new.id or f"c{index + 1}", f"{field}.id")
        if id_ in clauses:
            raise invalid(f"{field}.id is there twice; name each clause once", f"{field}.id")
        text = read_text(new.text, f"{field}.text")
        phrases = self_referential(text)
        original = Variant(id="v0", text=text, author=author, is_original=True, self_referential=phrases)
        clauses[id_] = Clause(id=id_, variants=(original,))
    return clauses


def after_act(
    deliberation: Deliberation,
    voice: Voice | None,
    op: str,
    args: Any,
    time: float,
) -> Deliberation:
    """The state after one act. `args` are an object as received, or the arguments already read."""
    if op not in _ACTS:
        raise invalid(f"op must be one of {', '.join(_ACTS)}", "op")
    shape, apply = _ACTS[op]
    given = args if isinstance(args, shape) else shaped(args, shape)
    if given.delib_id != deliberation.id:
        raise refused("delib_id", "names another deliberation than the one this is about")
    return apply(_Turn(deliberation, stakeholder_of(deliberation, voice), time), given)


def _add(turn: _Turn, args: AddArguments) -> Deliberation:
    deliberation, who = turn.deliberation, turn.who
    if who.id != deliberation.author:
        raise ExtensionError("FORBIDDEN", "only the author adds stakeholders; ask the author")
    _need_phase(deliberation, "draft", "deliberation")
    given = args.stakeholder
    if given.role == "author":
        raise invalid("stakeholder.role must not be author: there is one already", "stakeholder.role")
    if given.id in deliberation.stakeholders:
        raise ExtensionError("CONFLICT", "this stakeholder takes part already", "stakeholder.id")
    if len(deliberation.stakeholders) >= MAX_STAKEHOLDERS:
        raise _too_many("stakeholders", MAX_STAKEHOLDERS)
    added = _named(given, deliberation.keeper, "stakeholder")
    return replace(deliberation, stakeholders={**deliberation.stakeholders, added.id: added})


def _act(turn: _Turn, args: ActArguments) -> Deliberation:
    deliberation, who = turn.deliberation, turn.who
    _need_part(who)
    _need_phase(deliberation, "deliberation")
    clause = clause_of(deliberation, args.clause_id)
    _refuse_strays(args)
    variant_id = None
    if args.action == "amend":
        if args.text is None:
            raise refused("text", "is needed to amend: the whole clause as it should read")
        if len(clause.variants) >= MAX_VARIANTS:
            raise _too_many("variants of a clause", MAX_VARIANTS)
        text = read_text(args.text, "text")
        if deliberation.text_bytes + len(text.encode()) > MAX_TEXT_BYTES:
            raise _too_many("bytes of text in a deliberation", MAX_TEXT_BYTES)
        variant_id = f"v{len(clause.variants)}"
        variant = Variant(id=variant_id, text=text, author=who.id, self_referential=self_referential(text))
        clause = replace(clause, variants=(*clause.variants, variant))
    if args.action == "object":
        if args.level is None or args.concern is None:
            missing = "level" if args.level is None else "concern"
            raise refused(("level", "concern"), "are needed to object", field=missing)
        if not 0 < len(args.level) <= MAX_LEVEL_LENGTH or not args.level.replace("_", "a").isalnum():
            raise refused("level", f"must be one word of at most {MAX_LEVEL_LENGTH} characters")
        read_text(args.concern, "concern", most_bytes=REASON_BYTES)
    position = Position(
        action=args.action, at=turn.time, variant_id=variant_id, level=args.level, concern=args.concern
    )
    clause = replace(clause, positions={**clause.positions, who.id: position})
    counted = replace(
        who,
        participation_count=who.participation_count + 1,
        standing_count=who.standing_count + (args.action in {"endorse", "amend", "object"}),
        abstention_count=who.abstention_count + (args.action == "abstain"),
        withdrawal_count=who.withdrawal_count + (args.action == "withdraw"),
    )
    return _with_clause(
        replace(deliberation, stakeholders={**deliberation.stakeholders, who.id: counted}), clause
    )


def _ballot(turn: _Turn, args: BallotArguments) -> Deliberation:
    deliberation, who = turn.deliberation, turn.who
    _need_part(who)
    _need_phase(deliberation, "convergence")
    clause = clause_of(deliberation, args.clause_id)
    named = sum(1 if isinstance(one, str) else len(one) for one in (*args.ranking, *args.tied_groups))
    if max(named, len(args.ranking), len(args.tied_groups)) > 2 * MAX_VARIANTS:
        raise _too_many("candidates and groups in a ballot", 2 * MAX_VARIANTS)
    known = {variant.id for variant in clause.variants}
    groups = tuple(
        left
        for group in read_groups(args.ranking, args.tied_groups)
        if (left := tuple(one for one in group if one in known))
    )
    if not groups:
        raise refused("ranking", f"must name at least one of {', '.join(sorted(known))}")
    return _with_clause(deliberation, replace(clause, ballots={**clause.ballots, who.id: groups}))


def _advance(turn: _Turn, args: AdvanceArguments) -> Deliberation:
    deliberation, who = turn.deliberation, turn.who
    if len(deliberation.phase_history) >= MAX_PHASE_CHANGES:
        raise _too_many("changes of phase", MAX_PHASE_CHANGES)
    change = PhaseChange(phase=args.to, at=turn.time, by=who.id)
    moved = replace(deliberation, phase=args.to, phase_history=(*deliberation.phase_history, change))
    step = (deliberation.phase, args.to)
    if step == ("ratification", "deliberation"):
        cleared = {id_: replace(clause, ballots={}) for id_, clause in deliberation.clauses.items()}
        return replace(moved, clauses=cleared, votes={})
    if step not in itertools.pairwise(PHASES):
        onward = [to for phase, to in itertools.pairwise(PHASES) if phase == deliberation.phase]
        remedy = f"; next is {onward[0]}" if onward else ""
        raise _not_yet(f"there is no way from {deliberation.phase} to {args.to}{remedy}", "to")
    _need_part(who)
    if args.to == "deliberation" and who.id != deliberation.author:
        raise ExtensionError("FORBIDDEN", "only the author begins the deliberation; ask the author")
    missing = _missing_for(args.to, deliberation)
    if missing is not None:
        raise _not_yet(missing)
    return moved


def _missing_for(phase: Phase, deliberation: Deliberation) -> str | None:
    """What has to happen before the deliberation enters this phase; None when nothing has."""
    match phase:
        case "convergence":
            acted = participation_rate(deliberation)
            if acted < Fraction(deliberation.quorum):
                return f"{deliberation.quorum} of the stakeholders have to act first; {acted} did"
        case "ratification":
            for clause in deliberation.clauses.values():
                if not is_decided(deliberation, clause):
                    return f"clause {clause.id} has no winner; cast a ballot on it"
        case "active":
            accepted = acceptance(deliberation)
            if accepted is None or accepted < Fraction(deliberation.ratification):
                return f"{deliberation.ratification} of the votes have to accept; {accepted or 0} do"
    return None


def _vote(turn: _Turn, args: VoteArguments) -> Deliberation:
    deliberation, who = turn.deliberation, turn.who
    _need_part(who)
    _need_phase(deliberation, "ratification")
    if args.reason is not None:
        read_text(args.reason, "reason", most_bytes=REASON_BYTES)
    elif args.vote == "reject":
        raise refused("reason", "is needed to reject")
    cast = CastVote(vote=args.vote, at=turn.time, reason=args.reason)
    return replace(deliberation, votes={**deliberation.votes, who.id: cast})


def _welfare(turn: _Turn, args: WelfareArguments) -> Deliberation:
    deliberation, who = turn.deliberation, turn.who
    if not who.is_ai:
        raise ExtensionError("FORBIDDEN", "welfare signals are for AI stakeholders")
    _need_phase(deliberation, "deliberation", "convergence")
    if len(deliberation.welfare) >= MAX_WELFARE_SIGNALS:
        raise _too_many("welfare signals", MAX_WELFARE_SIGNALS)
    text = read_text(args.signal, "signal", most_bytes=REASON_BYTES)
    signal = WelfareSignal(stakeholder_id=who.id, signal=text, at=turn.time)
    return replace(deliberation, welfare=(*deliberation.welfare, signal))


_ACTS: Final[Mapping[str, tuple[type[Any], _Apply]]] = {
    "consensus.add": (AddArguments, _add),
    "consensus.act": (ActArguments, _act),
    "consensus.ballot": (BallotArguments, _ballot),
    "consensus.advance": (AdvanceArguments, _advance),
    "consensus.vote": (VoteArguments, _vote),
    "consensus.welfare": (WelfareArguments, _welfare),
}


def _named(given: NewStakeholder, keeper: str, field: str) -> Stakeholder:
    read_id(given.id, f"{field}.id")
    node = given.node
    if node is None and not is_key(given.id):
        node = keeper
    if node is not None and not is_key(node):
        raise invalid(f"{field}.node must be the id of a node, in lower-case hex", f"{field}.node")
    represents = given.role == "ai_representative"
    if represents and (given.principal_id is None or given.fidelity is None):
        missing = "principal_id" if given.principal_id is None else "fidelity"
        raise invalid(f"{field}.{missing} is needed for an ai_representative", f"{field}.{missing}")
    if not represents and (given.principal_id is not None or given.fidelity is not None):
        raise invalid(f"{field}: only an ai_representative has principal_id and fidelity", f"{field}.role")
    if given.principal_id is not None:
        read_id(given.principal_id, f"{field}.principal_id")
    if given.fidelity is not None and not 0 <= given.fidelity <= 1:
        raise invalid(f"{field}.fidelity must be a number from 0 to 1", f"{field}.fidelity")
    if given.attestation is not None and not 0 <= given.attestation.continuity_depth <= MAX_SESSIONS:
        place = f"{field}.attestation.continuity_depth"
        raise invalid(f"{place} must be from 0 to {MAX_SESSIONS:,}", place)
    return Stakeholder(
        id=given.id,
        role=given.role,
        node=node,
        principal_id=given.principal_id,
        fidelity=given.fidelity,
        attestation=given.attestation,
    )


def _with_clause(deliberation: Deliberation, clause: Clause) -> Deliberation:
    return replace(deliberation, clauses={**deliberation.clauses, clause.id: clause})


def _refuse_strays(args: ActArguments) -> None:
    """An argument that belongs to another action is a mistake, not a thing to drop."""
    allowed = {"amend": {"text"}, "object": {"level", "concern"}}.get(args.action, set())
    for name in ("text", "level", "concern"):
        if name not in allowed and getattr(args, name) is not None:
            raise refused(name, f"does not belong to {args.action}; leave it out")


def _need_part(who: Stakeholder) -> None:
    if who.role == "observer":
        raise ExtensionError("FORBIDDEN", "an observer reads and takes no part; ask the author for a role")


def _need_phase(deliberation: Deliberation, *phases: Phase) -> None:
    if deliberation.phase not in phases:
        raise _not_yet(f"this needs the phase {' or '.join(phases)}; now it is {deliberation.phase}")


def _not_yet(message: str, field: str | None = None) -> ExtensionError:
    return ExtensionError("PRECONDITION_FAILED", message, field)


def _too_many(what: str, most: int) -> ExtensionError:
    return limit_exceeded(f"there are at most {most:,} {what}")
