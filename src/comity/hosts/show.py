"""What a person or a program sees of plans and outcomes. The join secret is in none of it."""

import difflib
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from comity.hosts.act import InstallOutcome
from comity.hosts.launch import Launch, entry_of, masked
from comity.hosts.plan import LANGUAGES, Plan, Target
from comity.terminal.colour import paint
from comity.terminal.output import Cell, note, one_line, print_foreign, print_line, print_table

_WOULD: dict[str, Cell] = {
    "add": ("add", "green"),
    "change": ("change", "yellow"),
    "replace": ("replace a foreign entry", "bold yellow"),
    "keep": ("nothing, it is there", "dim"),
    "remove": ("remove", "yellow"),
    "restore": ("put the former entry back", "yellow"),
    "refuse": ("refused", "bold red"),
}
_DONE = {
    "add": "added",
    "change": "changed",
    "replace": "replaced",
    "remove": "removed",
    "restore": "put back",
}


def print_plans(plans: Sequence[Plan]) -> None:
    """A table of what would change, with the commands that would be run."""
    titles = ("client", "scope", "would", "file")
    rows = [
        (plan.target.about.title, plan.target.scope, _WOULD[plan.action], one_line(str(plan.target.file)))
        for plan in plans
    ]
    print_table(titles, rows, unbroken="file")
    remarks = [f"{plan.target.about.title}: {one_line(said)}" for plan in plans if (said := _remark(plan))]
    if remarks:
        print_line()
    for remark in remarks:
        print_line(remark)


def _remark(plan: Plan) -> str:
    """A fault is not among them: it is an error, and told once as that."""
    if not plan.call:
        return plan.remark
    return f"by its own command, {shlex.join(plan.call)}"


def print_diff(plan: Plan) -> None:
    """The lines that change and no others: those around them may hold secrets of other servers."""
    if plan.found is None or plan.action in {"keep", "refuse"}:
        return
    before = plan.found.text.splitlines()
    after = plan.found.encoded("") if plan.after is None else plan.after
    lines = difflib.unified_diff(
        before,
        after.decode("utf-8-sig").splitlines(),
        str(plan.target.file),
        str(plan.target.file) if plan.after is not None else "(no file)",
        n=0,
        lineterm="",
    )
    print_line()
    for line in lines:
        shown = one_line_kept(masked(line))
        print_line(paint(shown, {"+": "green", "-": "red", "@": "cyan"}[line[0]]))


def one_line_kept(line: str) -> str:
    """A line of a stranger with its blanks: they are what a diff is about."""
    blank = len(line) - len(line[1:].lstrip(" \t")) - 1
    return line[: 1 + blank] + one_line(line[1 + blank :])


def print_snippet(target: Target, path: tuple[str, ...], launch: Launch) -> None:
    """What to paste; where it goes is said beside it."""
    sys.stdout.flush()
    note(f"for {target.about.title}, {one_line(str(target.file))}")
    print_foreign(snippet(target, path, launch))


def snippet(target: Target, path: tuple[str, ...], launch: Launch) -> str:
    entry = entry_of(target.about.entry, target.name, launch)
    return masked(LANGUAGES[target.about.format].put("", path, entry))


def print_outcomes(outcomes: Sequence[InstallOutcome], advice: str) -> None:
    print_line()
    for outcome in outcomes:
        for text in outcome.notes:
            note(one_line(text))
        if not has_changed(outcome):
            continue
        plan = outcome.plan
        done = paint(_DONE[plan.action].ljust(9), "bold")
        how = f"by {one_line(shlex.join(outcome.call))}" if outcome.call else one_line(str(plan.target.file))
        print_line(f"{done}  {plan.target.about.title}: {how}")
        if outcome.copy is not None:
            print_line(f"{'':9}  as it was before: {one_line(str(outcome.copy))}")
    if all(outcome.plan.action == "keep" for outcome in outcomes):
        print_line("Nothing to do.")
    elif advice and any(map(has_changed, outcomes)):
        print_line(advice)


def has_changed(outcome: InstallOutcome) -> bool:
    return not outcome.fault and outcome.plan.action != "keep"


def as_data(plan: Plan, outcome: InstallOutcome | None = None) -> dict[str, Any]:
    fault = outcome.fault if outcome else plan.fault
    call = outcome.call if outcome else plan.call
    return {
        "client": plan.target.client,
        "scope": plan.target.scope,
        "name": plan.target.name,
        "file": str(plan.target.file),
        "action": "refuse" if fault else plan.action,
        "command": list(call) or None,
        "copy": str(outcome.copy) if outcome and outcome.copy else None,
        "notes": list(outcome.notes) if outcome else [],
        "error": fault or None,
    }
