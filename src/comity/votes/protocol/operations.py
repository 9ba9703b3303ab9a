"""VCP-X-Consensus as an extension: its operations, and what their answers hold (vcp 6.3, ruling 47).

An act becomes an entry of the log of the vote. The node runs these operations through `comity.votes.extension`.
"""

from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from comity.vcp.protocol.extension_calls import Code, ExtensionError, ExtensionOperation
from comity.vcp.protocol.messages import CONSENSUS
from comity.vcp.protocol.registry import Extension
from comity.vcp.protocol.resource_addresses import VcpAddress
from comity.votes.protocol.acts import (
    ActArguments,
    AddArguments,
    AdvanceArguments,
    BallotArguments,
    OpenArguments,
    VoteArguments,
    WelfareArguments,
)
from comity.votes.protocol.rules import deadline_text, missing, needed
from comity.votes.protocol.schulze import Groups, Ranking
from comity.votes.protocol.vote import (
    MAX_STAKEHOLDERS,
    PHASES,
    Clause,
    Form,
    Outcome,
    Phase,
    Voice,
    Vote,
    ballots_of,
    clause_of,
    result_of,
    stakeholder_of,
)


class JoinArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: str
    delib_id: str


class VoteIdArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    delib_id: str


class ResultArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    delib_id: str
    clause_id: str | None = None


class Progress(Struct, frozen=True, kw_only=True):
    """How far a vote by rules 2 is: who is missing in this phase, until when, and how many votes decide.

    `deadline` is RFC 3339, None in a draft and at the end. The counts are of eligible parties, `needed` is how many must
    accept. `disputed` is why this node does not believe the result, if so.
    """

    form: Form
    deadline: str | None
    eligible: int
    missing: tuple[str, ...]
    accept: int
    reject: int
    abstain: int
    needed: int
    outcome: Outcome | None = None
    supersedes: str | None = None
    disputed: str | None = None


class ClauseReport(Struct, frozen=True, kw_only=True):
    """A clause, the positions on it, and how its variants rank.

    The members of an election's result stand beside the clause. They are empty before convergence. `ballots` are
    those that are counted, cast or derived. `progress` is None in a vote by older rules.
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
    progress: Progress | None = None


class ResultReport(Struct, frozen=True, kw_only=True):
    delib_id: str
    phase: Phase
    clauses: tuple[ClauseReport, ...]
    progress: Progress | None = None


class VoteSummary(Struct, frozen=True, kw_only=True):
    delib_id: str
    title: str
    phase: str
    role: str
    keeper: str
    form: Form = "text"
    deadline: str | None = None
    outcome: Outcome | None = None


class VoteList(Struct, frozen=True, kw_only=True):
    deliberations: tuple[VoteSummary, ...]


def progress_of(vote: Vote) -> Progress | None:
    if vote.rules == 1:
        return None
    eligible = vote.eligible
    votes = [vote.votes[id_].vote for id_ in eligible if id_ in vote.votes]
    return Progress(
        form=vote.form,
        deadline=deadline_text(vote) or None,
        eligible=len(eligible),
        missing=missing(vote),
        accept=votes.count("accept"),
        reject=votes.count("reject"),
        abstain=votes.count("abstain"),
        needed=needed(vote),
        outcome=vote.outcome,
        supersedes=vote.supersedes,
    )


def is_superseded_by(vote: Vote, newer: Vote) -> bool:
    """Return whether a vote in force replaces another: it names it, and asked at least all of its parties."""
    named = newer.supersedes == vote.id and newer.phase == "active" == vote.phase
    return named and {*vote.eligible} <= {*newer.eligible}


def state_of(vote: Vote, superseded: bool = False) -> str:
    """Return the phase of a vote, and how it ended."""
    if superseded:
        return "active, replaced"
    if vote.outcome is None or vote.phase == "active":
        return vote.phase
    return f"{vote.phase}: {vote.outcome}"


def clause_report(vote: Vote, clause: Clause) -> ClauseReport:
    result = result_of(vote, clause)
    report = ClauseReport(
        delib_id=vote.id,
        phase=vote.phase,
        clause=clause,
        ballots=ballots_of(clause, vote.stakeholders),
        candidates=tuple(variant.id for variant in clause.variants),
        progress=progress_of(vote),
    )
    return report if result is None else replace(report, **asdict(result))


def result_report(vote: Vote, clause_id: str | None = None) -> ClauseReport | ResultReport:
    """Return one clause by itself when it is named or the only one; else all of them."""
    if clause_id is not None or len(vote.clauses) == 1:
        return clause_report(vote, clause_of(vote, clause_id))
    clauses = tuple(clause_report(vote, clause) for clause in vote.clauses.values())
    return ResultReport(delib_id=vote.id, phase=vote.phase, clauses=clauses, progress=progress_of(vote))


def summary_of(vote: Vote, voice: Voice) -> VoteSummary:
    return VoteSummary(
        delib_id=vote.id,
        title=vote.title,
        phase=vote.phase,
        role=stakeholder_of(vote, voice).role,
        keeper=vote.host,
        form=vote.form,
        deadline=deadline_text(vote) or None,
        outcome=vote.outcome,
    )


def voice_of(own_id: str, owner: str | None) -> Voice:
    """Return how a caller of this node speaks. Raises ExtensionError for an anonymous one."""
    if owner is None:
        raise ExtensionError("FORBIDDEN", "votes need an identity; send a hello with one")
    return Voice(own_id, None if owner == own_id else owner)


_PARTIES: Final[tuple[Code, ...]] = ("NOT_FOUND", "FORBIDDEN")
_ACT_CODES: Final[tuple[Code, ...]] = (*_PARTIES, "CONFLICT", "PRECONDITION_FAILED", "LIMIT_EXCEEDED")
_act: Final = partial(ExtensionOperation, writes=("shared",), codes=_ACT_CODES)

EXTENSION: Final = Extension(
    id=CONSENSUS,
    capability=lambda: {
        "voting_method": "schulze",
        "deliberation_phases": [phase.upper() for phase in PHASES],
        "max_stakeholders": MAX_STAKEHOLDERS,
        "ai_standing": True,
        "self_referential_detection": True,
    },
    remedy="take part in a vote with the operations of consensus",
    resource=VcpAddress(
        host="consensus",
        parameter="deliberation_id",
        title="Vote",
        description="Phase, clauses and results of a vote",
        extension=CONSENSUS,
        scope="shared",
    ),
    reads=("consensus.result", "delib_id"),
    operations=(
        ExtensionOperation(
            "consensus.open",
            "vcp_consensus_open",
            "Open a vote on clauses, or a question, with its stakeholders and deadline",
            OpenArguments,
            writes=("shared",),
            codes=("FORBIDDEN", "LIMIT_EXCEEDED"),
        ),
        ExtensionOperation(
            "consensus.join",
            "vcp_consensus_join",
            "Fetch a vote that another node hosts",
            JoinArguments,
            calls_nodes=True,
            codes=(*_PARTIES, "CONFLICT", "BAD_SIGNATURE"),
        ),
        ExtensionOperation(
            "consensus.list",
            "vcp_consensus_list",
            "Votes in which the caller takes part",
            codes=("FORBIDDEN",),
        ),
        _act(
            "consensus.add", "vcp_consensus_add", "Add a stakeholder to a draft; for the author", AddArguments
        ),
        _act(
            "consensus.act",
            "vcp_consensus_act",
            "Endorse, amend, object to, abstain from or withdraw from a clause",
            ActArguments,
        ),
        _act(
            "consensus.ballot",
            "vcp_submit_ballot",
            "Rank the variants of a clause",
            BallotArguments,
            tool_members=("voter_id",),
        ),
        _act(
            "consensus.advance",
            "vcp_consensus_advance",
            "Start the next phase once all have acted, or go back to deliberation",
            AdvanceArguments,
        ),
        _act(
            "consensus.vote",
            "vcp_consensus_vote",
            "Accept or reject the whole text or the question, or abstain",
            VoteArguments,
        ),
        _act(
            "consensus.welfare",
            "vcp_consensus_welfare",
            "Record a concern about the welfare of an AI stakeholder",
            WelfareArguments,
        ),
        ExtensionOperation(
            "consensus.result",
            "vcp_get_election_result",
            "Each clause, the acts on it, and how its variants rank",
            ResultArguments,
            codes=_PARTIES,
        ),
        ExtensionOperation(
            "consensus.record",
            "vcp_consensus_record",
            "The provenance of rules that are active",
            VoteIdArguments,
            codes=(*_PARTIES, "PRECONDITION_FAILED"),
        ),
    ),
)
