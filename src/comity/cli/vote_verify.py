"""`comity vote verify`: records of deliberations, recounted with the files alone."""

from pathlib import Path
from typing import Any

import msgspec
import typer

from comity.cli.failures import FAILED, say
from comity.cli.screen import one_line, print_json, print_line
from comity.cli.vote_screen import fraud_text
from comity.core.errors import InvalidError
from comity.core.extensions.consensus.log import (
    DeliberationEntry,
    KeeperFraud,
    fraud_between,
    read_entry,
    tip_of,
)
from comity.core.extensions.consensus.record import MOST_RECORD_BYTES, Recount, verify_record
from comity.core.wire import strict_json


def verify_files(files: list[str], *, as_json: bool) -> None:
    """Print what was found; exit 1 when a record is bad, or two good ones cannot both be true."""
    found = [(name, data, verify_record(data)) for name, data in ((name, _read(name)) for name in files)]
    fraud = _fraud_in([(data, recount) for _, data, recount in found if recount.bad_entry is None])
    ok = fraud is None and all(recount.ok for _, _, recount in found)
    if as_json:
        told = [_as_json(name, recount) for name, _, recount in found]
        print_json({"ok": ok, "files": told, "fraud": None if fraud is None else msgspec.to_builtins(fraud)})
    else:
        for name, _, recount in found:
            print_line(f"{name}: {_sentence(recount)}")
        if fraud is not None:
            say("fraud", fraud_text(fraud), as_json=False)
    if not ok:
        raise typer.Exit(FAILED)


def _read(name: str) -> bytes:
    path = Path(name).expanduser()
    if path.stat().st_size > MOST_RECORD_BYTES:
        raise InvalidError(f"{name} has more than {MOST_RECORD_BYTES:,} bytes; it is no record")
    return path.read_bytes()


def _sentence(recount: Recount) -> str:
    if recount.bad_entry is not None:
        return f"bad: entry {recount.bad_entry} of {recount.entries:,}: {one_line(recount.reason or '')}"
    if not recount.ok or recount.head is None:
        return f"bad: {one_line(recount.reason or '')}"
    state = recount.head.deliberation
    return (
        f"good: {recount.entries:,} entries, phase {state.phase}, kept by {state.keeper[:12]}; "
        "every signature, link, act and result was recounted"
    )


def _as_json(name: str, recount: Recount) -> dict[str, Any]:
    state = None if recount.head is None else recount.head.deliberation
    return {
        "file": name,
        "ok": recount.ok,
        "entries": recount.entries,
        "bad_entry": recount.bad_entry,
        "reason": recount.reason,
        "delib_id": state and state.id,
        "title": state and state.title,
        "phase": state and state.phase,
        "keeper": state and state.keeper,
    }


def _fraud_in(good: list[tuple[bytes, Recount]]) -> KeeperFraud | None:
    """Two entries with one number in records of one deliberation."""
    seen: dict[tuple[str, int], DeliberationEntry] = {}
    for data, recount in good:
        if recount.head is None:
            continue
        keeper = recount.head.deliberation.keeper
        for value in strict_json.loads(data)["entries"]:
            entry = read_entry(value)
            first = seen.setdefault((entry.delib_id, entry.number), entry)
            fraud = fraud_between(keeper, tip_of(first), tip_of(entry))
            if fraud is not None:
                return fraud
    return None
