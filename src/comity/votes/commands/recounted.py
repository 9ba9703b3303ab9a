"""What `comity vote verify` says of record files."""

from pathlib import Path
from typing import Any

from comity.terminal.output import one_line
from comity.votes.protocol import log, provenance
from comity.wire import strict_json
from comity.wire.errors import InvalidError


def read_record(name: str) -> bytes:
    path = Path(name).expanduser()
    if path.stat().st_size > provenance.MAX_RECORD_BYTES:
        raise InvalidError(f"{name} has more than {provenance.MAX_RECORD_BYTES:,} bytes; it is no record")
    return path.read_bytes()


def recounted_text(recount: provenance.Recount) -> str:
    if recount.bad_entry is not None:
        return f"bad: entry {recount.bad_entry} of {recount.entries:,}: {one_line(recount.reason or '')}"
    if not recount.ok or recount.head is None:
        return f"bad: {one_line(recount.reason or '')}"
    state = recount.head.vote
    return (
        f"good: {recount.entries:,} entries, phase {state.phase}, hosted by {state.host[:12]}; "
        "every signature, link, act and result was recounted"
    )


def recounted_json(name: str, recount: provenance.Recount) -> dict[str, Any]:
    state = None if recount.head is None else recount.head.vote
    return {
        "file": name,
        "ok": recount.ok,
        "entries": recount.entries,
        "bad_entry": recount.bad_entry,
        "reason": recount.reason,
        "delib_id": state and state.id,
        "title": state and state.title,
        "phase": state and state.phase,
        "keeper": state and state.host,
        "rules": state and state.rules,
        "form": state and state.form,
        "outcome": state and state.outcome,
        "findings": list(recount.findings),
    }


def find_conflict_in(good: list[tuple[bytes, provenance.Recount]]) -> log.ConflictingRecord | None:
    """Find two entries with one number in records of one vote."""
    seen: dict[tuple[str, int], log.VoteEntry] = {}
    for data, recount in good:
        if recount.head is None:
            continue
        host = recount.head.vote.host
        for value in strict_json.loads(data)["entries"]:
            entry = log.read_entry(value)
            first = seen.setdefault((entry.delib_id, entry.number), entry)
            conflict = log.conflict_between(host, log.tip_of(first), log.tip_of(entry))
            if conflict is not None:
                return conflict
    return None
