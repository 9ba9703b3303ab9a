"""Rules 2: votes that nobody can hurry (ruling 67). They are stricter than the contract, whose rules are in `acts`.

- Eligible are all parties but observers and representatives without weight. They are fixed when the deliberation begins.
- A phase ends when every eligible party has acted, or by the entry `consensus.close` of the host, at its deadline or
  later. It never ends by the word of one party. An act that was signed after the deadline is refused.
- `advance` starts the next phase once nobody is missing. The ratification ends by itself with the last vote.
- At a deadline a quorum must have acted, at least half; else the vote has failed, and the text stays as it was.
- Thresholds are counted over all eligible parties, so silence accepts nothing. More than half must accept, always.
- A party that is no observer sends the text back once. A question has one clause, begins with the ratification, and cannot be sent back.

| phase | a party has acted when | it counts for the quorum when |
|---|---|---|
| deliberation | it has acted on each clause | on one clause |
| convergence | it has ranked each clause with several variants | one of them |
| ratification | it has voted | it has voted |
"""

from fractions import Fraction
from typing import Final

from msgspec.structs import replace

from comity.vcp.protocol.extension_calls import ExtensionError, limit_exceeded, refused
from comity.votes.protocol.vote import (
    Outcome,
    Phase,
    PhaseChange,
    Voice,
    Vote,
    accepting,
    is_decided,
)
from comity.wire.machine import clock_words

RULES: Final = 2
DEFAULT_PHASE_SECONDS: Final = 7 * 86_400
MIN_PHASE_SECONDS: Final = 60
MAX_PHASE_SECONDS: Final = 366 * 86_400
MAX_ACTS: Final = 1000
END_OF_TIME: Final = 253_402_300_800.0
HALF: Final = Fraction(1, 2)

_OPEN_PHASES: Final = ("deliberation", "convergence", "ratification")
_NEXT: Final[dict[str, Phase]] = {"deliberation": "convergence", "convergence": "ratification"}
_MAX_NAMED: Final = 8
_NAME_LENGTH: Final = 12


def needed(vote: Vote) -> int:
    """Return how many parties must accept: the share that the vote names, and more than half."""
    parties = len(vote.eligible)
    share = Fraction(vote.ratification) * parties
    return max(-(-share.numerator // share.denominator), parties // 2 + 1)


def missing(vote: Vote) -> tuple[str, ...]:
    """Return the eligible parties that have not acted in this phase. Nobody is missing outside of the three phases."""
    if vote.phase == "ratification":
        return tuple(id_ for id_ in vote.eligible if id_ not in vote.votes)
    due = _clauses_due(vote)
    return tuple(id_ for id_ in vote.eligible if not due <= {*vote.acted_on.get(id_, ())})


def _clauses_due(vote: Vote) -> set[str]:
    if vote.phase == "deliberation":
        return {*vote.clauses}
    if vote.phase == "convergence":
        return {clause.id for clause in vote.clauses.values() if len(clause.variants) > 1}
    return set()


def has_quorum(vote: Vote) -> bool:
    if not missing(vote):
        return True
    acted = vote.votes if vote.phase == "ratification" else vote.acted_on
    return Fraction(sum(id_ in acted for id_ in vote.eligible), len(vote.eligible)) >= Fraction(vote.quorum)


def deadline_text(vote: Vote) -> str:
    """Return the deadline as RFC 3339, to the second; empty if there is none."""
    return "" if vote.deadline is None else clock_words(vote.deadline)


def missing_text(vote: Vote) -> str:
    """Name the missing parties, keys by their first digits."""
    names = [id_[:_NAME_LENGTH] for id_ in missing(vote)]
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def need_time(vote: Vote, time: float) -> None:
    """Refuse what was signed after the deadline of the phase."""
    if vote.deadline is not None and time > vote.deadline:
        raise _not_yet(
            f"the deadline of the phase {vote.phase} was {deadline_text(vote)}, and this was signed after it; the host "
            "closes the phase"
        )


def entering(vote: Vote, phase: Phase, time: float, by: str, *, closed: bool = False) -> Vote:
    """Return the vote in another phase: nobody has acted, and the time of the phase begins."""
    at = max(time, vote.phase_history[-1].at) if vote.phase_history else time
    change = PhaseChange(phase=phase, at=at, by=by, closed=closed)
    seconds = vote.phase_seconds or DEFAULT_PHASE_SECONDS
    deadline = min(at + seconds, END_OF_TIME - 1) if phase in _OPEN_PHASES else None
    history = (*vote.phase_history, change)
    return replace(vote, phase=phase, phase_history=history, deadline=deadline, acted_on={}, acts={})


def acting(vote: Vote, party: str, clause_id: str) -> Vote:
    """Note that a party has acted on a clause in this phase."""
    on = vote.acted_on.get(party, ())
    noted = vote if clause_id in on else replace(vote, acted_on={**vote.acted_on, party: (*on, clause_id)})
    return _with_act(noted, party)


def after_vote(vote: Vote, time: float, by: str) -> Vote:
    """End the ratification if this was the last vote."""
    vote = _with_act(vote, by)
    return vote if missing(vote) else _counted(vote, time, by, closed=False)


def _with_act(vote: Vote, party: str) -> Vote:
    """Count an act, so that nobody fills the log and keeps the others from acting."""
    acts = vote.acts.get(party, 0) + 1
    if acts > MAX_ACTS:
        raise limit_exceeded(f"a party acts at most {MAX_ACTS:,} times in a phase")
    return replace(vote, acts={**vote.acts, party: acts})


def _counted(vote: Vote, time: float, by: str, *, closed: bool) -> Vote:
    if accepting(vote) >= needed(vote):
        return _over(vote, "accepted", time, by, closed=closed)
    return _over(vote, "rejected", time, by, closed=closed)


def _over(vote: Vote, outcome: Outcome, time: float, by: str, *, closed: bool) -> Vote:
    phase: Phase = "active" if outcome == "accepted" else "closed"
    return replace(entering(vote, phase, time, by, closed=closed), outcome=outcome)


def refuse_step(vote: Vote, to: Phase) -> None:
    """Refuse to start the next phase while a party is missing."""
    if to == "active" or missing(vote):
        ended = "it ends by itself" if to == "active" else f"{to} begins"
        number = len(missing(vote))
        raise _not_yet(
            f"{number} of {len(vote.eligible)} parties {'has' if number == 1 else 'have'} not acted in the phase "
            f"{vote.phase}: "
            f"{missing_text(vote)}; {ended} when all have, or at the deadline {deadline_text(vote)}"
        )


def sent_back(vote: Vote, party: str, time: float) -> Vote:
    """Return the text to deliberation. Ballots and votes are cleared."""
    if vote.form == "question":
        raise _not_yet("a question is not deliberated; ask another one", "to")
    if party in vote.returned:
        raise _not_yet("you have sent this text back once, as often as a party may", "to")
    need_time(vote, time)
    cleared = {id_: replace(clause, ballots={}) for id_, clause in vote.clauses.items()}
    back = entering(vote, "deliberation", time, party)
    return replace(back, clauses=cleared, votes={}, returned=(*vote.returned, party))


def after_close(vote: Vote, voice: Voice | None, phase: Phase, time: float) -> Vote:
    """End a phase at its deadline, as the host."""
    if voice != Voice(vote.host):
        raise ExtensionError("FORBIDDEN", "only the host closes a phase, at its deadline")
    if vote.deadline is None or phase != vote.phase:
        raise _not_yet(f"there is nothing to close: the phase is {vote.phase}", "phase")
    if time < vote.deadline:
        raise _not_yet(f"the phase {phase} ends at {deadline_text(vote)}, and not before", "time")
    undecided = phase == "convergence" and not all(is_decided(vote, one) for one in vote.clauses.values())
    if undecided or not has_quorum(vote):
        return _over(vote, "failed", time, vote.host, closed=True)
    if phase == "ratification":
        return _counted(vote, time, vote.host, closed=True)
    return entering(vote, _NEXT[phase], time, vote.host, closed=True)


def read_phase_seconds(seconds: int | None) -> int:
    if seconds is None:
        return DEFAULT_PHASE_SECONDS
    if not MIN_PHASE_SECONDS <= seconds <= MAX_PHASE_SECONDS:
        raise refused(
            "phase_seconds",
            f"must be from a minute to a year: {MIN_PHASE_SECONDS} to {MAX_PHASE_SECONDS:,} seconds",
        )
    return seconds


def refuse_minority(threshold: str, field: str) -> None:
    """Refuse a threshold with which less than half could decide."""
    if Fraction(threshold) < HALF:
        raise refused(field, "must be from 1/2 to 1: less than half of the parties decides nothing")


def _not_yet(message: str, field: str | None = None) -> ExtensionError:
    return ExtensionError("PRECONDITION_FAILED", message, field)
