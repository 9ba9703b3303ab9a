"""What parties do in a vote, and when they may (vcp 6.3; rulings 47, 50a, 50b).

`after_act` is the only way a vote changes: one act by one voice gives the next state, or a refusal. The host applies it
before it writes an entry, and every reader applies it to the entries that it got, so all compute the same state. `time`
is the time that the actor wrote down; in rules 1 nothing is decided by it.

This table is of rules 1. In rules 2 a phase has a deadline and waits for every party: see `rules`.

| from | to | needs |
|---|---|---|
| draft | deliberation | the author |
| deliberation | convergence | a quorum of those who are no observers has acted |
| convergence | ratification | every clause has a winner |
| ratification | active | enough votes accept; without a vote never |
| ratification | deliberation | any stakeholder; ballots, results and votes are cleared |

An observer reads, and may send a text back (not in rules 2); it does not act, rank, vote or start the next phase.
"""

import itertools
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final, Literal, NoReturn

from msgspec import Struct
from msgspec.structs import asdict, replace

from comity.extensions.protocol.relational import MAX_SESSIONS, Attestation
from comity.extensions.protocol.texts import REASON_BYTES, read_id, read_text
from comity.identity.protocol.keys import is_key
from comity.vcp.protocol.extension_calls import ExtensionError, invalid, limit_exceeded, refused, shaped
from comity.votes.protocol import rules
from comity.votes.protocol.schulze import read_groups
from comity.votes.protocol.vote import (
    MAX_CLAUSES,
    MAX_STAKEHOLDERS,
    MAX_TEXT_BYTES,
    MAX_VARIANTS,
    PHASES,
    Act,
    CastVote,
    Choice,
    Clause,
    Form,
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
CLOSE: Final = "consensus.close"
"""The act of the host that ends a phase at its deadline. It is no operation for callers."""
NO: Final = "no"
"""The second variant of a question; the first is the question itself."""
DEFAULT_QUORUM: Final = "1/2"
DEFAULT_RATIFICATION: Final = "2/3"


class _Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class NewClause(_Arguments, frozen=True, kw_only=True):
    text: str
    id: str | None = None


class NewStakeholder(_Arguments, frozen=True, kw_only=True):
    """`node` is the node that signs for a party without a key. Default: the host of the vote."""

    id: str
    role: StakeholderRole = "participant"
    node: str | None = None
    principal_id: str | None = None
    fidelity: float | None = None
    attestation: Attestation | None = None


class OpenArguments(_Arguments, frozen=True, kw_only=True):
    """The node that opens the vote fills in `keeper`, its host, and `rules`; a caller leaves them out.

    `phase_seconds` is how long a phase lasts at most. `supersedes` is the id of the vote that this one replaces.
    """

    title: str
    clauses: list[str | NewClause]
    stakeholders: list[NewStakeholder]
    quorum: float | str = DEFAULT_QUORUM
    ratification: float | str = DEFAULT_RATIFICATION
    keeper: str | None = None
    rules: int | None = None
    form: Form = "text"
    phase_seconds: int | None = None
    supersedes: str | None = None


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
    to: Literal["draft", "deliberation", "convergence", "ratification", "active"]


class VoteArguments(_Arguments, frozen=True, kw_only=True):
    delib_id: str
    vote: Choice
    reason: str | None = None


class CloseArguments(_Arguments, frozen=True, kw_only=True):
    """`phase` is the phase that ends."""

    delib_id: str
    phase: Literal["deliberation", "convergence", "ratification"]


class WelfareArguments(_Arguments, frozen=True, kw_only=True):
    delib_id: str
    signal: str


_Apply = Callable[[Vote, Stakeholder, Any, float], Vote]


def open_vote(delib_id: str, voice: Voice, args: OpenArguments, time: float) -> Vote:
    """Return a new vote, a question in ratification and a text in draft. Whoever opens it is its author, named among the
    stakeholders or not.
    """
    read_id(delib_id, "delib_id")
    if args.rules not in {None, 1, rules.RULES}:
        raise refused("rules", "must be 1 or 2; update Comity to take part in this vote")
    if args.keeper is None or not is_key(args.keeper):
        raise invalid("keeper must be the id of the node that hosts the vote, in lower-case hex", "keeper")
    draft = Vote(
        id=delib_id,
        title=read_text(args.title, "title"),
        host=args.keeper,
        author=voice.stakeholder_id,
        phase="draft",
        quorum=read_threshold(args.quorum, "quorum", may_be_zero=True),
        ratification=read_threshold(args.ratification, "ratification", may_be_zero=False),
        created_at=time,
        stakeholders=_all_stakeholders(voice, args.stakeholders, args.keeper),
        clauses=_all_clauses(args.clauses, voice.stakeholder_id),
        phase_history=(PhaseChange(phase="draft", at=time, by=voice.stakeholder_id),),
    )
    return _with_rules(draft, args) if args.rules == rules.RULES else draft


def _with_rules(draft: Vote, args: OpenArguments) -> Vote:
    """Apply the arguments of rules 2 to a draft."""
    rules.refuse_minority(draft.quorum, "quorum")
    rules.refuse_minority(draft.ratification, "ratification")
    supersedes = None if args.supersedes is None else read_id(args.supersedes, "supersedes")
    seconds = rules.read_phase_seconds(args.phase_seconds)
    draft = replace(draft, rules=rules.RULES, form=args.form, phase_seconds=seconds, supersedes=supersedes)
    if args.form == "text":
        return draft
    if len(draft.clauses) > 1:
        raise refused("clauses", "must hold one clause: the question")
    (clause,) = draft.clauses.values()
    no = Variant(id="v1", text=NO, author=draft.author, is_original=True)
    asked = _with_clause(draft, replace(clause, variants=(*clause.variants, no)))
    return rules.entering(replace(asked, phase_history=()), "ratification", draft.created_at, draft.author)


def _all_stakeholders(voice: Voice, given: list[NewStakeholder], host: str) -> dict[str, Stakeholder]:
    if len(given) > MAX_STAKEHOLDERS:
        raise _too_many("stakeholders", MAX_STAKEHOLDERS)
    own = voice.stakeholder_id
    author = _stakeholder(
        NewStakeholder(id=own, role="author", node=None if voice.on_behalf is None else voice.actor),
        host,
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
            raise refused(field, "opens the vote: it is the author, through its own node")
        if one.id != own and one.role == "author":
            raise invalid(f"{field}.role must not be author: there is one, and it opens", f"{field}.role")
        if one.id != own:
            named[one.id] = _stakeholder(one, host, field)
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


def after_act(vote: Vote, voice: Voice | None, op: str, args: Any, time: float) -> Vote:
    """Return the state after one act. `args` are an object as received, or the decoded arguments."""
    if op == CLOSE:
        closing = _decoded(vote, args, CloseArguments)
        return rules.after_close(vote, voice, closing.phase, time)
    if op not in _ACTS:
        raise invalid(f"op must be one of {', '.join(_ACTS)}", "op")
    shape, apply = _ACTS[op]
    decoded = _decoded(vote, args, shape)
    return apply(vote, stakeholder_of(vote, voice), decoded, time)


def _decoded(vote: Vote, args: Any, shape: type[Any]) -> Any:
    decoded = args if isinstance(args, shape) else shaped(args, shape)
    if decoded.delib_id != vote.id:
        raise refused("delib_id", "names another vote than the one this is about")
    return decoded


def _add(vote: Vote, who: Stakeholder, args: AddArguments, _: float) -> Vote:
    if who.id != vote.author:
        raise ExtensionError("FORBIDDEN", "only the author adds stakeholders; ask the author")
    # in rules 2, who decides is fixed before anybody acts
    _need_phase(vote, *(("draft", "deliberation") if vote.rules == 1 else ("draft",)))
    given = args.stakeholder
    if given.role == "author":
        raise invalid("stakeholder.role must not be author: there is one already", "stakeholder.role")
    if given.id in vote.stakeholders:
        raise ExtensionError("CONFLICT", "this stakeholder takes part already", "stakeholder.id")
    if len(vote.stakeholders) >= MAX_STAKEHOLDERS:
        raise _too_many("stakeholders", MAX_STAKEHOLDERS)
    added = _stakeholder(given, vote.host, "stakeholder")
    return replace(vote, stakeholders={**vote.stakeholders, added.id: added})


def _act(vote: Vote, who: Stakeholder, args: ActArguments, time: float) -> Vote:
    _need_part(who)
    _need_phase(vote, "deliberation")
    rules.need_time(vote, time)
    clause = clause_of(vote, args.clause_id)
    _refuse_strays(args)
    variant_id = None
    if args.action == "amend":
        if args.text is None:
            raise refused("text", "is needed to amend: the whole clause as it should read")
        if len(clause.variants) >= MAX_VARIANTS:
            raise _too_many("variants of a clause", MAX_VARIANTS)
        text = read_text(args.text, "text")
        if vote.text_bytes + len(text.encode()) > MAX_TEXT_BYTES:
            raise _too_many("bytes of text in a vote", MAX_TEXT_BYTES)
        variant_id = f"v{len(clause.variants)}"
        variant = Variant(id=variant_id, text=text, author=who.id, self_referential=self_referential(text))
        clause = replace(clause, variants=(*clause.variants, variant))
    if args.action == "object":
        if args.level is None or args.concern is None:
            missing = "level" if args.level is None else "concern"
            raise refused(("level", "concern"), "are needed to object", field=missing)
        if not 0 < len(args.level) <= MAX_LEVEL_LENGTH or not args.level.replace("_", "a").isalnum():
            raise refused("level", f"must be one word of at most {MAX_LEVEL_LENGTH} characters")
        read_text(args.concern, "concern", max_bytes=REASON_BYTES)
    position = Position(
        action=args.action, at=time, variant_id=variant_id, level=args.level, concern=args.concern
    )
    clause = replace(clause, positions={**clause.positions, who.id: position})
    counted = replace(
        who,
        participation_count=who.participation_count + 1,
        standing_count=who.standing_count + (args.action in {"endorse", "amend", "object"}),
        abstention_count=who.abstention_count + (args.action == "abstain"),
        withdrawal_count=who.withdrawal_count + (args.action == "withdraw"),
    )
    after = _with_clause(replace(vote, stakeholders={**vote.stakeholders, who.id: counted}), clause)
    return after if vote.rules == 1 else rules.acting(after, who.id, clause.id)


def _ballot(vote: Vote, who: Stakeholder, args: BallotArguments, time: float) -> Vote:
    _need_part(who)
    _need_phase(vote, "convergence")
    rules.need_time(vote, time)
    clause = clause_of(vote, args.clause_id)
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
    after = _with_clause(vote, replace(clause, ballots={**clause.ballots, who.id: groups}))
    return after if vote.rules == 1 else rules.acting(after, who.id, clause.id)


def _advance(vote: Vote, who: Stakeholder, args: AdvanceArguments, time: float) -> Vote:
    if len(vote.phase_history) >= MAX_PHASE_CHANGES:
        raise _too_many("changes of phase", MAX_PHASE_CHANGES)
    step = (vote.phase, args.to)
    if step == ("ratification", "deliberation"):
        return _send_back(vote, who, time)
    if step not in itertools.pairwise(PHASES):
        raise _not_yet(_what_follows(vote), "to")
    _need_part(who)
    if args.to == "deliberation" and who.id != vote.author:
        raise ExtensionError("FORBIDDEN", "only the author starts the deliberation; ask the author")
    if vote.rules == rules.RULES:
        rules.refuse_step(vote, args.to)
        return rules.entering(vote, args.to, time, who.id)
    missing = _missing_for(args.to, vote)
    if missing is not None:
        raise _not_yet(missing)
    return _moved(vote, args.to, time, who)


def _send_back(vote: Vote, who: Stakeholder, time: float) -> Vote:
    if vote.rules == rules.RULES:
        _need_part(who)
        return rules.sent_back(vote, who.id, time)
    cleared = {id_: replace(clause, ballots={}) for id_, clause in vote.clauses.items()}
    return replace(_moved(vote, "deliberation", time, who), clauses=cleared, votes={})


def _moved(vote: Vote, to: Phase, time: float, who: Stakeholder) -> Vote:
    change = PhaseChange(phase=to, at=time, by=who.id)
    return replace(vote, phase=to, phase_history=(*vote.phase_history, change))


def _what_follows(vote: Vote) -> str:
    if vote.rules == rules.RULES and vote.is_over:
        return "this vote is over; only a new vote that names it replaces it"
    following = [to for phase, to in itertools.pairwise(PHASES) if phase == vote.phase]
    return f"after {vote.phase} comes {following[0]}" if following else f"{vote.phase} is the last phase"


def _missing_for(phase: Phase, vote: Vote) -> str | None:
    """Return what must happen before the vote can enter this phase, or None."""
    if phase == "convergence" and (rate := participation_rate(vote)) < Fraction(vote.quorum):
        return f"{_share(Fraction(vote.quorum))} of the parties must respond first; {_share(rate)} has"
    if phase == "ratification":
        undecided = [clause.id for clause in vote.clauses.values() if not is_decided(vote, clause)]
        if undecided:
            return f"clause {undecided[0]} has no winner; cast a ballot on it"
    if phase == "active" and (rate := acceptance(vote) or Fraction(0)) < Fraction(vote.ratification):
        return f"{_share(Fraction(vote.ratification))} of the votes must accept; {_share(rate)} does"
    return None


def _share(fraction: Fraction) -> str:
    return {Fraction(0): "none", Fraction(1, 2): "half", Fraction(1): "all"}.get(fraction, str(fraction))


def _vote(vote: Vote, who: Stakeholder, args: VoteArguments, time: float) -> Vote:
    _need_part(who)
    _need_phase(vote, "ratification")
    rules.need_time(vote, time)
    if args.reason is not None:
        read_text(args.reason, "reason", max_bytes=REASON_BYTES)
    elif args.vote == "reject" and vote.form == "text":
        raise refused("reason", "is needed to reject")
    if args.vote == "abstain" and vote.rules == 1:
        raise refused("vote", "must be accept or reject: this vote counts by the older rules")
    cast = CastVote(vote=args.vote, at=time, reason=args.reason)
    after = replace(vote, votes={**vote.votes, who.id: cast})
    return after if vote.rules == 1 else rules.after_vote(after, time, who.id)


def _welfare(vote: Vote, who: Stakeholder, args: WelfareArguments, time: float) -> Vote:
    if not who.is_ai:
        raise ExtensionError("FORBIDDEN", "welfare signals are for AI stakeholders")
    _need_phase(vote, "deliberation", "convergence")
    if len(vote.welfare) >= MAX_WELFARE_SIGNALS:
        raise _too_many("welfare signals", MAX_WELFARE_SIGNALS)
    text = read_text(args.signal, "signal", max_bytes=REASON_BYTES)
    signal = WelfareSignal(stakeholder_id=who.id, signal=text, at=time)
    return replace(vote, welfare=(*vote.welfare, signal))


_ACTS: Final[Mapping[str, tuple[type[Any], _Apply]]] = {
    "consensus.add": (AddArguments, _add),
    "consensus.act": (ActArguments, _act),
    "consensus.ballot": (BallotArguments, _ballot),
    "consensus.advance": (AdvanceArguments, _advance),
    "consensus.vote": (VoteArguments, _vote),
    "consensus.welfare": (WelfareArguments, _welfare),
}


def _stakeholder(new: NewStakeholder, host: str, field: str) -> Stakeholder:
    def refuse(member: str, what: str) -> NoReturn:
        raise invalid(f"{field}.{member} {what}", f"{field}.{member}")

    read_id(new.id, f"{field}.id")
    node = host if new.node is None and not is_key(new.id) else new.node
    if node is not None and not is_key(node):
        refuse("node", "must be the id of a node, in lower-case hex")
    if new.role == "ai_representative":
        for member in ("principal_id", "fidelity"):
            if getattr(new, member) is None:
                refuse(member, "is needed for an ai_representative")
    elif new.principal_id is not None or new.fidelity is not None:
        raise invalid(f"{field}: only an ai_representative has principal_id and fidelity", f"{field}.role")
    if new.principal_id is not None:
        read_id(new.principal_id, f"{field}.principal_id")
    if new.fidelity is not None and not 0 <= new.fidelity <= 1:
        refuse("fidelity", "must be a number from 0 to 1")
    if new.attestation is not None and not 0 <= new.attestation.continuity_depth <= MAX_SESSIONS:
        refuse("attestation.continuity_depth", f"must be from 0 to {MAX_SESSIONS:,}")
    return Stakeholder(**asdict(new) | {"node": node})


def _with_clause(vote: Vote, clause: Clause) -> Vote:
    return replace(vote, clauses={**vote.clauses, clause.id: clause})


def _refuse_strays(args: ActArguments) -> None:
    """Refuse arguments that belong to another action: they are mistakes and not to be ignored."""
    allowed = {"amend": {"text"}, "object": {"level", "concern"}}.get(args.action, set())
    for name in ("text", "level", "concern"):
        if name not in allowed and getattr(args, name) is not None:
            raise refused(name, f"does not belong to {args.action}; leave it out")


def _need_part(who: Stakeholder) -> None:
    if who.role == "observer":
        raise ExtensionError("FORBIDDEN", "an observer reads and takes no part; ask the author for a role")


def _need_phase(vote: Vote, *phases: Phase) -> None:
    if vote.phase not in phases:
        if vote.is_over:
            raise _not_yet(f"this vote is over: it is {vote.phase}")
        raise _not_yet(f"this needs the phase {' or '.join(phases)}; now it is {vote.phase}")


def _not_yet(message: str, field: str | None = None) -> ExtensionError:
    return ExtensionError("PRECONDITION_FAILED", message, field)


def _too_many(what: str, most: int) -> ExtensionError:
    return limit_exceeded(f"there are at most {most:,} {what}")
