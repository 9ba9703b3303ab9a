"""Votes in a terminal: parties, clauses, who said what, and how the variants rank.

Text of others is printed as one line, without control characters. In a pipe nothing is cut.
"""

from collections.abc import Callable, Sequence
from typing import Final

from comity.identity.protocol.keys import is_key
from comity.terminal.output import (
    Cell,
    follow_up,
    one_line,
    paint,
    print_fields,
    print_line,
    print_table,
)
from comity.votes.commands.moments import until_text
from comity.votes.logs import StoredVote, WaitingAct, dispute_of, is_superseded
from comity.votes.protocol.log import ConflictingRecord
from comity.votes.protocol.operations import ClauseReport, state_of
from comity.votes.protocol.rules import missing, needed
from comity.votes.protocol.schulze import Groups
from comity.votes.protocol.vote import COPIES, Stakeholder, Vote, accepting

_NEXT: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "draft": (("advance {id} deliberation", "start, as the author"),),
    "deliberation": (
        ("act {id} endorse --clause c1", "say what you think of a clause"),
        ("advance {id} convergence", "go on to rank the variants, once all have acted on each clause"),
    ),
    "convergence": (
        ("ballot {id} v1 v0 --clause c1", "rank the variants of a clause"),
        ("advance {id} ratification", "go on to vote on the whole text, once all have ranked"),
    ),
    "ratification": (
        ("cast {id} accept", "accept or reject the whole text, or abstain"),
        ("advance {id} deliberation", "send the text back, once"),
    ),
    "active": (("record {id} --out rules.json", "keep the proof"),),
    "closed": (("record {id} --out vote.json", "keep the proof"),),
    "question": (("yes {id}", "answer; also `no` and `abstain`"),),
}
"""What can be done in each phase; a question has its own answers."""
_OLDER: Final = ("advance {id} active", "put the rules into force")

_SHORT: Final = 12
_MAX_COLUMNS: Final = 8


def name_of(party: str, own: str) -> str:
    """Return a party as a table shows it: the first digits of a key, or a name."""
    if party == own:
        return f"{party[:_SHORT]} (you)"
    return party[:_SHORT] if is_key(party) else one_line(party)


def print_list(
    known: Sequence[StoredVote],
    waiting: Sequence[WaitingAct],
    id_in: Callable[[StoredVote], str],
    now: float,
) -> None:
    if not known:
        print_line(
            "No votes here. Ask a question with `comity vote ask`, or join a vote with `comity vote join`."
        )
        return
    rows = [
        [
            stored.id,
            state_of(stored.vote, is_superseded(stored, known)),
            deadline_of(stored.vote, now),
            stored.vote.stakeholders[id_in(stored)].role,
            f"{stored.head.tip.number:>7,}",
            one_line(stored.vote.title),
        ]
        for stored in known
    ]
    print_table(("id", "phase", "until", "you are", "entries", "title"), rows, unbroken="id")
    for stored in known:
        print_trouble(stored, [act for act in waiting if act.delib_id == stored.id])


def print_trouble(stored: StoredVote, waiting: Sequence[WaitingAct]) -> None:
    """Print conflicting records, why the result is disputed, and acts that wait or were refused."""
    if stored.conflict is not None:
        print_line(
            f"{paint('conflicting records', 'bold red')} in {stored.id}: {conflict_text(stored.conflict)}"
        )
    if why := dispute_of(stored, waiting):
        print_line(f"{paint('disputed', 'bold red')}: {stored.id}: {one_line(why)}")
    for act in waiting:
        what = f"{act.entry.action.op.removeprefix('consensus.')} in {stored.id}"
        if act.refusal:
            print_line(f"{paint('refused', 'yellow')}: {what}: {one_line(act.refusal)}")
        else:
            print_line(f"{paint('waiting', 'yellow')}: {what}, until the host answers")


def conflict_text(conflict: ConflictingRecord) -> str:
    return (
        f"the host {conflict.host} signed two entries with the number {conflict.first.number}: "
        f"{conflict.first.hash} and {conflict.second.hash}"
    )


def print_overview(stored: StoredVote, own: str, now: float, known: Sequence[StoredVote] = ()) -> None:
    found = stored.vote
    print_line(paint(one_line(found.title), "bold"))
    fields = [("id", found.id), ("phase", state_of(found, is_superseded(stored, known)))]
    if found.deadline is not None:
        fields.append(("until", deadline_of(found, now)))
    if names := [name_of(id_, own) for id_ in missing(found)] if found.deadline is not None else []:
        fields.append(("missing", ", ".join(names)))
    fields += [
        ("entries", f"{stored.head.tip.number:,}, the last is {stored.head.tip.hash[:_SHORT]}"),
        ("host", "this node" if found.host == own else f"{found.host[:_SHORT]} at {stored.url}"),
        *_thresholds(found),
    ]
    if found.supersedes is not None:
        fields.append(("replaces", found.supersedes))
    print_fields(fields)
    _heading("Parties")
    rows = [_party_row(found, one, own) for one in found.stakeholders.values()]
    print_table(("party", "role", "acts", "vote", "reason"), rows)


def _thresholds(found: Vote) -> list[tuple[str, str]]:
    if found.form == "question":
        return [("decided", progress_text(found))]
    if found.rules > 1:
        quorum = f"{found.quorum} of the parties must act in each phase"
        return [("quorum", quorum), ("to ratify", progress_text(found))]
    entitled = [one for one in found.stakeholders.values() if one.role != "observer"]
    acted = f"{sum(one.participation_count > 0 for one in entitled)} of {len(entitled)}"
    return [
        ("rules", "older: any party can end a phase, and a minority can decide"),
        ("quorum", f"{found.quorum} of the parties must act; {acted} did"),
        ("to ratify", f"{found.ratification} of the votes must accept; {accepted_text(found)}"),
    ]


def deadline_of(found: Vote, now: float) -> str:
    return "" if found.deadline is None else until_text(found.deadline, now)


def progress_text(found: Vote) -> str:
    """Say what is decided, or how many votes are still needed."""
    if found.rules == 1:
        return f"{found.ratification} of the votes must accept, {accepted_text(found)}"
    parties, yes = len(found.eligible), accepting(found)
    one, many = ("says yes", "say yes") if found.form == "question" else ("accepts", "accept")
    those = f"{yes} {one if yes == 1 else many}"
    if found.outcome == "failed":
        return "nothing is decided: too few had acted at the deadline"
    if found.outcome is not None:
        answer = {"accepted": "yes", "rejected": "no"}[found.outcome]
        decided = f"the answer is {answer}" if found.form == "question" else f"the text is {found.outcome}"
        return f"{decided}: {those} of {parties}, and {needed(found)} must"
    voted = sum(id_ in found.votes for id_ in found.eligible)
    return f"{needed(found)} of {parties} must {many}; {voted} voted, {those}"


def accepted_text(found: Vote) -> str:
    """Count the accepting votes. Parties that only advise are left out."""
    votes = [cast.vote for id_, cast in found.votes.items() if found.stakeholders[id_].copies > 0]
    return f"{votes.count('accept')} of {len(votes)} do" if votes else "nobody has voted"


def print_next(found: Vote) -> None:
    print_line()
    print_line("Next:")
    asks = found.form == "question" and not found.is_over
    steps = _NEXT["question" if asks else found.phase]
    if found.rules == 1 and found.phase == "ratification":
        steps = (*steps, _OLDER)
    for command, what in steps:
        print_line(f"  {what}:")
        print_line("    " + follow_up(f"comity vote {command.format(id=found.id)}"))


def _party_row(found: Vote, one: Stakeholder, own: str) -> list[Cell]:
    cast = found.votes.get(one.id)
    role: str = one.role
    if one.principal_id is not None:
        role += f" of {name_of(one.principal_id, own)}, {one.fidelity:g}"
    style = {"accept": "green", "reject": "red", "abstain": "dim"}
    return [
        name_of(one.id, own),
        role,
        f"{one.participation_count:>4,}",
        (cast.vote, style[cast.vote]) if cast else "",
        one_line(cast.reason or "") if cast else "",
    ]


def print_clause(report: ClauseReport, own: str) -> None:
    clause = report.clause
    _heading(f"Clause {clause.id}")
    variants: list[list[Cell]] = [
        [
            (one.id, "bold green") if one.id == report.winner else one.id,
            "original" if one.is_original else name_of(one.author, own),
            one_line(one.text),
        ]
        for one in clause.variants
    ]
    print_table(("variant", "by", "text"), variants)
    flagged = {phrase: None for one in clause.variants for phrase in one.self_referential}
    if flagged:
        print_line(f"speaks of the parties themselves: {', '.join(flagged)}")
    if clause.positions:
        print_line()
        print_table(("who", "said", "of", "words"), _positions(report, own))
    if report.winner is not None:
        _print_election(report, own)


def _positions(report: ClauseReport, own: str) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for party, said in report.clause.positions.items():
        words = "" if said.concern is None else f"({said.level}) {one_line(said.concern)}"
        rows.append([name_of(party, own), f"{said.action}s", said.variant_id or "v0", words])
    return rows


def _print_election(report: ClauseReport, own: str) -> None:
    several = len(report.candidates) > 1
    if report.ballots and several:
        print_line()
        cast = report.clause.ballots
        rows: list[list[Cell]] = [
            [name_of(party, own), ranking_text(groups), "cast" if party in cast else "derived"]
            for party, groups in report.ballots.items()
        ]
        print_table(("ballot of", "ranking", "how"), rows)
    print_line()
    if not several:
        print_line(paint(f"{report.winner} is the only variant", "bold green"))
        return
    how = "beats every other" if report.has_condorcet_winner else "wins by the strongest paths"
    ranks = ", ".join(f"{one.rank}. {one.candidate}" for one in report.ranking)
    print_line(f"{paint(f'{report.winner} {how}', 'bold green')}; {ranks}")
    title = f"Pairwise: who ranks the row above the column ({COPIES} for each ballot)"
    _print_matrix(title, report, report.pairwise_matrix)
    _print_matrix("Strongest paths from the row to the column", report, report.strongest_paths)
    tied = [pair for pair in report.ties if pair[0] != pair[1]]
    if tied:
        shown = ", ".join(f"{one} and {other}" for one, other in tied[:_MAX_COLUMNS])
        print_line(f"tied: {shown}; the variant that came first goes first")


def _print_matrix(title: str, report: ClauseReport, matrix: Sequence[Sequence[int]]) -> None:
    """Print the best variants, as many as fit on a line. A number greater than the opposite one is green."""
    order = [report.candidates.index(one.candidate) for one in report.ranking[:_MAX_COLUMNS]]
    names = [report.candidates[index] for index in order]
    wide = max(len(str(number)) for row in matrix for number in row)
    rows: list[list[Cell]] = []
    for row in order:
        cells: list[Cell] = [report.candidates[row]]
        for column in order:
            text = "·" if row == column else str(matrix[row][column])
            greater = matrix[row][column] > matrix[column][row]
            cells.append((text.rjust(max(wide, 2)), "green" if greater else "dim"))
        rows.append(cells)
    print_line()
    print_line(title)
    print_table(("", *(name.rjust(max(wide, 2)) for name in names)), rows)
    if len(report.candidates) > _MAX_COLUMNS:
        print_line(f"… and {len(report.candidates) - _MAX_COLUMNS} variants more; --json shows all of them.")


def ranking_text(groups: Groups) -> str:
    return " > ".join(" = ".join(map(one_line, group)) for group in groups)


def print_welfare(found: Vote, own: str) -> None:
    if not found.welfare:
        return
    _heading("Welfare signals")
    print_table(
        ("who", "signal"), [[name_of(one.stakeholder_id, own), one_line(one.signal)] for one in found.welfare]
    )


def _heading(text: str) -> None:
    print_line()
    print_line(paint(text, "bold"))
