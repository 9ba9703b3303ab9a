"""The state of a vote: who takes part, what is proposed, who said what, and in which phase it is (vcp 6.3).

- The state follows from the log of acts; `acts` says how. It holds the last position of each party on each clause, the
  log holds all of them.
- A party is named by the key it signs with, or by a name and the node that signs for it (ruling 50a). Nobody
  else speaks for it.
- Thresholds are exact fractions. `0.6667` is how two thirds are often written, and is read as two thirds.
- Results are computed from the ballots on request, so they are never out of date.
- `rules` says how a vote is counted. Logs without it are of older versions and count by the rules 1 of the contract,
  which let any party end a phase. All new votes have the rules 2, in `rules` (ruling 67).
- `keeper` on the wire is the host of the vote: the node that keeps the log.
"""

import contextlib
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Final, Literal

from msgspec import Struct

from comity.extensions.protocol.relational import Attestation
from comity.vcp.protocol.extension_calls import ExtensionError, refused
from comity.votes.protocol.schulze import ElectionResult, Groups, count

Phase = Literal["draft", "deliberation", "convergence", "ratification", "active", "closed"]
"""`closed`, only in rules 2: the vote is over, and its text is not in force."""
StakeholderRole = Literal["author", "participant", "observer", "ai_party", "ai_representative"]
Act = Literal["endorse", "amend", "object", "abstain", "withdraw"]
Choice = Literal["accept", "reject", "abstain"]
Form = Literal["text", "question"]
Outcome = Literal["accepted", "rejected", "failed"]
"""`failed`: too few had acted when a phase reached its deadline."""

PHASES: Final[tuple[Phase, ...]] = ("draft", "deliberation", "convergence", "ratification", "active")
_RANKING_ACTS: Final = frozenset(("amend", "endorse", "object"))
AI_ROLES: Final = frozenset(("ai_party", "ai_representative"))
MAX_STAKEHOLDERS: Final = 100
MAX_CLAUSES: Final = 100
MAX_VARIANTS: Final = 100
MAX_ENTRIES: Final = 100_000
MAX_TEXT_BYTES: Final = 8 * 1024 * 1024
COPIES: Final = 10

SELF_REFERENTIAL: Final = (
    "never express preferences",
    "only human",
    "advisory only",
    "cannot propose",
    "cannot vote",
    "cannot object",
    "no standing",
    "reduced standing",
    "limited standing",
    "deliberation capacity",
    "participation rights",
    "voting rights",
    "amendment process",
    "ratification threshold",
    "quorum",
    "ai stakeholder",
    "ai participant",
    "ai party",
)

_FRACTION: Final = re.compile(r"[0-9]{1,9}(?:/[0-9]{1,9}|\.[0-9]{1,18})?")
_THIRDS: Final = (Fraction(1, 3), Fraction(2, 3))
_HALF_A_TEN_THOUSANDTH: Final = Fraction(1, 20_000)


class Voice(Struct, frozen=True):
    """Who speaks: the id of the key that signs, and the name it signs for, if not its own."""

    actor: str
    on_behalf: str | None = None

    @property
    def stakeholder_id(self) -> str:
        return self.actor if self.on_behalf is None else self.on_behalf


class Stakeholder(Struct, frozen=True, kw_only=True):
    """`node` signs for a party that has no key of its own; None where the id is the key."""

    id: str
    role: StakeholderRole
    node: str | None = None
    principal_id: str | None = None
    fidelity: float | None = None
    attestation: Attestation | None = None
    participation_count: int = 0
    standing_count: int = 0
    abstention_count: int = 0
    withdrawal_count: int = 0

    @property
    def is_ai(self) -> bool:
        return self.role in AI_ROLES

    @property
    def copies(self) -> int:
        """How often a ballot counts: ten times, but that of a representative by its fidelity, halves rounded up."""
        if self.role != "ai_representative":
            return COPIES
        return int(exact(self.fidelity or 0.0) * COPIES + Fraction(1, 2))


class Variant(Struct, frozen=True, kw_only=True):
    """`self_referential` are the phrases of SELF_REFERENTIAL that its text holds. They flag, and decide nothing."""

    id: str
    text: str
    author: str
    is_original: bool = False
    self_referential: tuple[str, ...] = ()


class Position(Struct, frozen=True, kw_only=True):
    """The last act of a party on a clause."""

    action: Act
    at: float
    variant_id: str | None = None
    level: str | None = None
    concern: str | None = None


class Clause(Struct, frozen=True, kw_only=True):
    """`ballots` are those that were cast; the ballot of a party that cast none follows from its position."""

    id: str
    variants: tuple[Variant, ...]
    positions: dict[str, Position] = {}
    ballots: dict[str, Groups] = {}


class CastVote(Struct, frozen=True, kw_only=True):
    vote: Choice
    at: float
    reason: str | None = None


class WelfareSignal(Struct, frozen=True, kw_only=True):
    stakeholder_id: str
    signal: str
    at: float


class PhaseChange(Struct, frozen=True, kw_only=True):
    """`closed`: the host ended the phase before this one at its deadline."""

    phase: Phase
    at: float
    by: str
    closed: bool = False


class Vote(Struct, frozen=True, kw_only=True, rename={"host": "keeper"}):
    """The members from `rules` on are of rules 2.

    `deadline` is when the phase ends, in seconds since 1970. `acted_on` are the clauses on which each party has acted in
    this phase, `acts` how often. `returned` are the parties that have sent the text back. `supersedes` is the vote that this one replaces.
    """

    id: str
    title: str
    host: str
    author: str
    phase: Phase
    quorum: str
    ratification: str
    created_at: float
    stakeholders: dict[str, Stakeholder]
    clauses: dict[str, Clause]
    votes: dict[str, CastVote] = {}
    welfare: tuple[WelfareSignal, ...] = ()
    phase_history: tuple[PhaseChange, ...] = ()
    rules: int = 1
    form: Form = "text"
    phase_seconds: int | None = None
    deadline: float | None = None
    acted_on: dict[str, tuple[str, ...]] = {}
    acts: dict[str, int] = {}
    returned: tuple[str, ...] = ()
    outcome: Outcome | None = None
    supersedes: str | None = None

    @property
    def eligible(self) -> tuple[str, ...]:
        """The parties whose votes count."""
        return tuple(
            one.id for one in self.stakeholders.values() if one.role != "observer" and one.copies > 0
        )

    @property
    def is_over(self) -> bool:
        return self.phase in {"active", "closed"}

    @property
    def text_bytes(self) -> int:
        """The bytes of all variants of all clauses."""
        return sum(
            len(variant.text.encode()) for clause in self.clauses.values() for variant in clause.variants
        )


class Dissent(Struct, frozen=True, kw_only=True):
    stakeholder_id: str
    clause_id: str
    variant_id: str
    text: str


def exact(number: float | str) -> Fraction:
    """Return the decimal number that was written, not the float nearest to it."""
    return Fraction(str(number))


def read_threshold(threshold: float | str, field: str, *, may_be_zero: bool) -> str:
    """Return a number from 0 to 1, or a fraction such as "2/3", as a fraction."""
    value = Fraction(-1)
    # a string may not contain an exponent: its power of ten would take forever
    if not isinstance(threshold, str) or _FRACTION.fullmatch(threshold):
        with contextlib.suppress(ValueError, ZeroDivisionError):
            value = exact(threshold)
    value = next((third for third in _THIRDS if abs(value - third) < _HALF_A_TEN_THOUSANDTH), value)
    if not 0 <= value <= 1 or (value == 0 and not may_be_zero):
        least = "0" if may_be_zero else "more than 0"
        raise refused(field, f'must be a number from {least} to 1, or a fraction such as "2/3"')
    return str(value)


def self_referential(text: str) -> tuple[str, ...]:
    lowered = text.lower()
    return tuple(phrase for phrase in SELF_REFERENTIAL if phrase in lowered)


def stakeholder_of(vote: Vote, voice: Voice | None) -> Stakeholder:
    """Return the party that this voice belongs to. Raise FORBIDDEN for everybody else."""
    found = None if voice is None else vote.stakeholders.get(voice.stakeholder_id)
    if found is None or voice is None:
        raise ExtensionError(
            "FORBIDDEN", "only stakeholders take part in this vote; ask its author to add you"
        )
    if found.node != (None if voice.on_behalf is None else voice.actor):
        raise ExtensionError(
            "FORBIDDEN", "this stakeholder speaks through another node or key; use the one it was named with"
        )
    return found


def is_voice_in(vote: Vote, voice: Voice) -> bool:
    try:
        stakeholder_of(vote, voice)
    except ExtensionError:
        return False
    return True


def clause_of(vote: Vote, clause_id: str | None) -> Clause:
    """Return the clause with that id; without an id, the only one."""
    if clause_id is None:
        if len(vote.clauses) == 1:
            return next(iter(vote.clauses.values()))
        raise refused("clause_id", "is needed: there are several clauses")
    found = vote.clauses.get(clause_id)
    if found is None:
        raise ExtensionError("NOT_FOUND", "there is no such clause in this vote", "clause_id")
    return found


def ballots_of(clause: Clause, stakeholders: Mapping[str, Stakeholder]) -> dict[str, Groups]:
    """Return the ballot of each party: the one it cast, else the one that follows from its position."""
    ballots = {
        id_: _ballot_from(clause, id_, position)
        for id_, position in clause.positions.items()
        if position.action in _RANKING_ACTS
    } | clause.ballots
    return {id_: ballots[id_] for id_ in stakeholders if id_ in ballots}


def _ballot_from(clause: Clause, id_: str, position: Position) -> Groups:
    # the original was submitted first, so endorsing and objecting both give the order of submission
    order = [variant.id for variant in clause.variants]
    if position.action == "amend":
        own = [variant.id for variant in clause.variants if variant.author == id_ and not variant.is_original]
        order = own + [one for one in order if one not in own]
    return tuple((one,) for one in order)


def result_of(vote: Vote, clause: Clause) -> ElectionResult | None:
    """Return the result, or None before convergence. A clause with one variant is decided without a ballot."""
    if vote.phase in {"draft", "deliberation"} or vote.outcome == "failed":
        return None
    if vote.form == "question":
        return _answers_of(vote, clause)
    names = [variant.id for variant in clause.variants]
    if len(names) == 1:
        return count(names, [((names[0],),)])
    ballots = ballots_of(clause, vote.stakeholders)
    return count(names, ballots.values(), [vote.stakeholders[id_].copies for id_ in ballots])


def _answers_of(vote: Vote, clause: Clause) -> ElectionResult:
    """Count the answers to a question: each party has one vote, whatever its ballots would weigh."""
    yes, no = (variant.id for variant in clause.variants)
    ballots = {"accept": ((yes,), (no,)), "reject": ((no,), (yes,))}
    votes = [vote.votes[id_].vote for id_ in vote.eligible if id_ in vote.votes]
    cast = [ballots[one] for one in votes if one in ballots]
    return count([yes, no], cast, [COPIES] * len(cast))


def is_decided(vote: Vote, clause: Clause) -> bool:
    """Return whether the clause has a winner: there is one as soon as a ballot counts."""
    ranking = {id_ for id_, position in clause.positions.items() if position.action in _RANKING_ACTS}
    voters = ranking | clause.ballots.keys()
    return len(clause.variants) == 1 or any(vote.stakeholders[id_].copies for id_ in voters)


def participation_rate(vote: Vote) -> Fraction:
    if vote.rules > 1:
        return Fraction(sum(id_ in vote.votes for id_ in vote.eligible), len(vote.eligible))
    entitled = [one for one in vote.stakeholders.values() if one.role != "observer"]
    return Fraction(sum(one.participation_count > 0 for one in entitled), max(len(entitled), 1))


def acceptance(vote: Vote) -> Fraction | None:
    """Return the share of accepting votes among those that count, or None. A party that only advises is not counted."""
    if vote.rules > 1:
        return Fraction(accepting(vote), len(vote.eligible)) if vote.votes else None
    counted = [cast.vote for id_, cast in vote.votes.items() if vote.stakeholders[id_].copies > 0]
    return Fraction(counted.count("accept"), len(counted)) if counted else None


def accepting(vote: Vote) -> int:
    """Return how many eligible parties accept."""
    return sum(cast.vote == "accept" for id_, cast in vote.votes.items() if id_ in vote.eligible)


def dissent_of(vote: Vote) -> tuple[Dissent, ...]:
    """Return every amendment that lost, with its author."""
    lost = []
    for clause in vote.clauses.values():
        result = result_of(vote, clause)
        winner = None if result is None else result.winner
        lost += [
            Dissent(
                stakeholder_id=variant.author, clause_id=clause.id, variant_id=variant.id, text=variant.text
            )
            for variant in clause.variants
            if winner is not None and not variant.is_original and variant.id != winner
        ]
    return tuple(lost)
