"""The record of a vote: its result, and how anybody verifies it with the file alone (vcp 6.3).

- A record file is one JSON object: `format`, `delib_id`, all `entries` in order, and the `provenance` once the rules are
  active. A recount checks every signature, link, act and result.
- A recount stops at the first bad entry and says why. A provenance that does not follow from the entries is refused.
- Provenance exists only for a vote that is active.
"""

import itertools
import math
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from comity.extensions.protocol.relational import attestation_faults
from comity.store.audit_chain import timestamp
from comity.vcp.protocol.extension_calls import ExtensionError
from comity.votes.protocol.acts import MAX_PHASE_CHANGES
from comity.votes.protocol.log import LogHead, VoteEntry, follow, read_entry, write_entry
from comity.votes.protocol.rules import deadline_text
from comity.votes.protocol.schulze import ElectionResult
from comity.votes.protocol.vote import (
    MAX_ENTRIES,
    CastVote,
    Clause,
    Dissent,
    Stakeholder,
    Vote,
    acceptance,
    dissent_of,
    participation_rate,
    result_of,
)
from comity.wire import strict_json
from comity.wire.canonical import envelope_form
from comity.wire.errors import ComityError, MalformedError

FORMAT: Final = "comity-deliberation-1"
MAX_RECORD_BYTES: Final = 256 * 1024 * 1024


class ClauseRecord(Struct, frozen=True, kw_only=True):
    clause_id: str
    text: str
    winner: str
    result: ElectionResult
    clause: Clause


class PhaseRecord(Struct, frozen=True, kw_only=True):
    phase: str
    at: str
    by: str


class Provenance(Struct, frozen=True, kw_only=True):
    """`attestation_findings` are the faults of bilateral attestations, and warnings. The last members are those of rules 2;
    a record of older rules does not have them.
    """

    constitution_id: str
    version: str
    title: str
    created_at: str
    deliberation_id: str
    phase_history: tuple[PhaseRecord, ...]
    duration: str
    stakeholders: tuple[Stakeholder, ...]
    clause_records: tuple[ClauseRecord, ...]
    votes: dict[str, CastVote]
    consensus_strength: float
    dissent_preserved: tuple[Dissent, ...]
    ai_standing_exercised: bool
    bilateral_attestation_valid: bool
    attestation_findings: tuple[str, ...]
    participation_rate: float
    self_referential_clauses: dict[str, tuple[str, ...]]
    rules: int | msgspec.UnsetType = msgspec.UNSET
    form: str | msgspec.UnsetType = msgspec.UNSET
    eligible: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    supersedes: str | msgspec.UnsetType | None = msgspec.UNSET


class Recount(Struct, frozen=True, kw_only=True):
    """`bad_entry` is the number of the first entry that is not valid, or None if there is none or the file is no record.
    `findings` are what a reader should know of a record, also of a good one.
    """

    ok: bool
    entries: int
    bad_entry: int | None = None
    reason: str | None = None
    head: LogHead | None = None
    findings: tuple[str, ...] = ()


def provenance_of(vote: Vote) -> Provenance:
    if vote.phase != "active":
        raise ExtensionError(
            "PRECONDITION_FAILED",
            f"a record of provenance exists once the rules are active; now the phase is {vote.phase}",
        )
    accepted = acceptance(vote)
    faults, warnings = _attestation_findings(vote)
    ai_parties = [one for one in vote.stakeholders.values() if one.is_ai]
    exercised = any(one.standing_count > 0 for one in ai_parties)
    ended = vote.phase_history[-1].at
    return Provenance(
        constitution_id=f"constitution:{vote.id}",
        version="1.0.0",
        title=vote.title,
        created_at=timestamp(ended),
        deliberation_id=vote.id,
        phase_history=tuple(
            PhaseRecord(phase=change.phase, at=timestamp(change.at), by=change.by)
            for change in vote.phase_history
        ),
        duration=iso_duration(ended - vote.created_at),
        stakeholders=tuple(vote.stakeholders.values()),
        clause_records=tuple(_clause_record(vote, clause) for clause in vote.clauses.values()),
        votes=vote.votes,
        consensus_strength=float(accepted or 0),
        dissent_preserved=dissent_of(vote),
        ai_standing_exercised=exercised,
        bilateral_attestation_valid=exercised and not faults,
        attestation_findings=(*faults, *warnings),
        participation_rate=float(participation_rate(vote)),
        self_referential_clauses=_self_referential(vote),
        **_of_newer_rules(vote),
    )


def _of_newer_rules(vote: Vote) -> dict[str, Any]:
    if vote.rules == 1:
        return {}
    return {
        "rules": vote.rules,
        "form": vote.form,
        "eligible": vote.eligible,
        "supersedes": vote.supersedes,
    }


def iso_duration(seconds: float) -> str:
    """Return whole seconds as an ISO 8601 duration, at least zero: the clocks of parties differ."""
    whole = max(math.floor(seconds), 0)
    days, rest = divmod(whole, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, left = divmod(rest, 60)
    time = "".join(
        f"{number}{unit}" for number, unit in ((hours, "H"), (minutes, "M"), (left, "S")) if number
    )
    date = f"{days}D" if days else ""
    return f"P{date}T{time}" if time else f"P{date or 'T0S'}"


def write_record(entries: list[VoteEntry], head: LogHead) -> bytes:
    """Return the bytes of a record file."""
    record: dict[str, Any] = {
        "format": FORMAT,
        "delib_id": head.vote.id,
        "entries": [write_entry(entry) for entry in entries],
    }
    if head.vote.phase == "active":
        record["provenance"] = _plain(provenance_of(head.vote))
    return strict_json.dumps(record)


def verify_record(data: bytes, now: float | None = None) -> Recount:
    """Recount a record from its bytes alone. Raise nothing, whatever the file contains. `now` is the clock of the reader:
    a phase that was closed before its deadline by that clock is a bad entry. Without it, deadlines are not compared.
    """
    if len(data) > MAX_RECORD_BYTES:
        return _no_record(f"the file has more than {MAX_RECORD_BYTES:,} bytes")
    try:
        record = strict_json.loads(data, unique_keys=True)
    except MalformedError as fault:
        return _no_record(fault.message)
    if type(record) is not dict or record.get("format") != FORMAT or type(record.get("entries")) is not list:
        return _no_record(f"this is no record: it needs format {FORMAT} and a list of entries")
    unknown = record.keys() - {"format", "delib_id", "entries", "provenance"}
    if unknown:
        return _no_record(f"a record has no member {min(unknown)[:64]}")
    found = recount(record["entries"], now)
    if not found.ok or found.head is None:
        return found
    state = found.head.vote
    if record.get("delib_id") != state.id:
        return _wrong_summary(found, "delib_id is not that of the entries")
    expected = _plain(provenance_of(state)) if state.phase == "active" else None
    if envelope_form(record.get("provenance")) != envelope_form(expected):
        return _wrong_summary(found, "the provenance is not what the entries give")
    return found


def recount(entries: list[Any], now: float | None = None) -> Recount:
    """Follow all entries from the first one on."""
    if not entries:
        return _no_record("a record has at least one entry")
    if len(entries) > MAX_ENTRIES + MAX_PHASE_CHANGES:
        return _no_record(f"a record has at most {MAX_ENTRIES:,} entries, and those that close a phase")
    head: LogHead | None = None
    for number, value in enumerate(entries, 1):
        try:
            head = follow(head, read_entry(value), now)
        except ComityError as fault:
            return Recount(ok=False, entries=len(entries), bad_entry=number, reason=fault.message, head=head)
    findings = () if head is None else tuple(_findings(head.vote, now))
    return Recount(ok=True, entries=len(entries), head=head, findings=findings)


def _findings(vote: Vote, now: float | None) -> Iterator[str]:
    if vote.rules == 1:
        yield "it counts by the older rules: any party could end a phase, and a minority could decide"
    for before, change in itertools.pairwise(vote.phase_history):
        if change.closed:
            yield f"the phase {before.phase} was closed by the host at its deadline"
    if silent := [id_ for id_ in vote.eligible if vote.rules > 1 and vote.is_over and id_ not in vote.votes]:
        yield f"{len(silent)} of {len(vote.eligible)} parties did not vote: {', '.join(one[:12] for one in silent)}"
    signed_by_host = [
        one.id for one in vote.stakeholders.values() if one.node == vote.host and one.id in vote.votes
    ]
    if signed_by_host:
        yield f"the host signed the votes of {', '.join(one[:64] for one in signed_by_host)}, which have no key"
    if now is not None and vote.deadline is not None and vote.deadline < now:
        yield f"the phase {vote.phase} is past its deadline {deadline_text(vote)}, and this log does not end it"
    if vote.supersedes is not None and vote.phase == "active":
        yield f"it replaces the vote {vote.supersedes}"


def _no_record(reason: str) -> Recount:
    return Recount(ok=False, entries=0, reason=reason)


def _wrong_summary(found: Recount, reason: str) -> Recount:
    return msgspec.structs.replace(found, ok=False, reason=reason)


def _plain(provenance: Provenance) -> Any:
    """Return the provenance as decoded JSON, for a comparison."""
    return strict_json.loads(strict_json.dumps(msgspec.to_builtins(provenance)))


def _clause_record(vote: Vote, clause: Clause) -> ClauseRecord:
    result = result_of(vote, clause)
    # the way to active leads through a winner for every clause
    assert result is not None
    assert result.winner is not None
    text = next(variant.text for variant in clause.variants if variant.id == result.winner)
    return ClauseRecord(clause_id=clause.id, text=text, winner=result.winner, result=result, clause=clause)


def _self_referential(vote: Vote) -> dict[str, tuple[str, ...]]:
    found = {
        clause.id: tuple(
            dict.fromkeys(phrase for variant in clause.variants for phrase in variant.self_referential)
        )
        for clause in vote.clauses.values()
    }
    return {id_: phrases for id_, phrases in found.items() if phrases}


def _attestation_findings(vote: Vote) -> tuple[list[str], list[str]]:
    """Return the faults and the warnings of the rules R1 to R6 (vcp 6.3)."""
    faults, warnings = [], []
    for one in vote.stakeholders.values():
        if one.attestation is not None:
            faults += [
                f"{one.id}: {rule}" for rule in attestation_faults(one.attestation, one.standing_count)
            ]
            if one.attestation.standing_exercised and one.participation_count == 0:
                faults.append(f"{one.id}: R5: standing is said to be exercised without taking part")
        fidelity = one.fidelity or 0.0
        if one.role == "ai_representative":
            if fidelity > 0 and not one.principal_id:
                faults.append(f"{one.id}: R4: a representative needs a principal")
            if fidelity == 0:
                warnings.append(f"{one.id}: R6b: a representative with fidelity 0 only advises")
        elif fidelity > 0:
            faults.append(f"{one.id}: R6a: only a representative has fidelity")
    return faults, warnings
