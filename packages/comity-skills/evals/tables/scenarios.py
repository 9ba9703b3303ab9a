"""The structured scenarios of the shared set: how many of the reference's own expectations are met.

- Each scenario is a real call through the registry, once with the shapes of 1.0.8 (compat) and once with ours
  (enhanced). It is met when every one of its expectations holds; what each expectation means stands below, one line each.
- A list of words (`hierarchy, indirect feedback`) is met when each of them occurs somewhere in the notes.
- Stale expectations are run and named, and the rate is also given without them: the reference itself does not
  meet them. There is no threshold.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from comity.actions.library import Library
from comity.actions.protocol.action import Fetch, FetchedPage, Mode, Outcome
from comity.actions.protocol.calls import Work
from comity.testing.vectors import vectors_folder
from comity.wire.errors import ComityError
from evals.table import Cell, Table

MODES: Final[tuple[Mode, ...]] = ("compat", "enhanced")
STALE: Final[Mapping[str, str]] = {
    "aid-11": "names a field that the schema does not have (ui_description)",
    "aid-12": "names a field that the schema does not have (ui_description)",
    "aid-13": "names a field that the schema does not have (ui_description)",
    "sc-11": "counts two lines of guidance where 1.0.8 gives three",
    "sc-12": "counts two lines of guidance where 1.0.8 gives three",
    "sc-value-2": "counts two lines of guidance where 1.0.8 gives three",
}
_TITLE: Final = "Structured scenarios met"
_PRINCIPLES: Final = ("perceivable", "operable", "understandable", "robust")

Predicate = Callable[["Reply", Any], bool]


class Reply(Struct, frozen=True):
    """What came back: an output, or the sentence of the error."""

    output: Mapping[str, Any]
    error: str = ""


class Result(Struct, frozen=True):
    id: str
    action: str
    reference: bool
    met: Mapping[Mode, bool]


def _count(field: str) -> Predicate:
    return lambda reply, wanted: len(reply.output.get(field, ())) == wanted


def _at_least(field: str) -> Predicate:
    return lambda reply, wanted: len(reply.output.get(field, ())) >= wanted


def _contains(reply: Reply, field: str, wanted: str) -> bool:
    value = reply.output.get(field, "")
    lines = [value] if isinstance(value, str) else value
    return any(wanted.strip().casefold() in str(line).casefold() for line in lines)


def _sorted_by_principle(reply: Reply, wanted: bool) -> bool:
    order = [
        (_PRINCIPLES.index(item["principle"].lower()), item["id"])
        for item in reply.output.get("checklist", ())
    ]
    return bool(order) and (order == sorted(order)) is wanted


def _first_is_page_3(reply: Reply, wanted: bool) -> bool:
    ranking = reply.output.get("ranking", ())
    return bool(ranking) and ranking[0]["url"].endswith("page3") is wanted


def _first_is_heuristic(reply: Reply, wanted: bool) -> bool:
    ranking = reply.output.get("ranking", ())
    return bool(ranking) and ranking[0].get("heuristic") is wanted


PREDICATES: Final[Mapping[str, Predicate]] = {
    "ok": lambda reply, wanted: (not reply.error) is wanted,
    "error_contains": lambda reply, wanted: wanted in reply.error,
    "has_ranking": lambda reply, wanted: bool(reply.output.get("ranking")) is wanted,
    "ranking_length": _count("ranking"),
    "site_aggregate_range": lambda reply, wanted: (
        wanted[0] <= reply.output.get("site_aggregate", -1) <= wanted[1]
    ),
    "page3_highest": _first_is_page_3,
    "heuristic": _first_is_heuristic,
    "checklist_sorted": _sorted_by_principle,
    "recommendations_count_gte": _at_least("recommendations"),
    "findings_count_gte": _at_least("findings"),
    "plan_steps_count": _count("plan"),
    "risk_notes_count_gte": _at_least("risk_notes"),
    "escalation_guidance_count": _count("escalation_guidance"),
    "adapted_message_contains": lambda reply, wanted: _contains(reply, "adapted_message", wanted),
    "notes_contains": lambda reply, wanted: all(
        _contains(reply, "notes", part) for part in wanted.split(",")
    ),
}


def judge(scenarios: Sequence[Mapping[str, Any]]) -> list[Result]:
    """Each scenario in both modes. KeyError names an expectation that is not stated above."""
    libraries = {mode: Library(mode) for mode in MODES}
    return [
        Result(
            scenario["id"],
            scenario["action"],
            all(scenario["reference_result"].values()),
            {mode: _met(libraries[mode], scenario) for mode in MODES},
        )
        for scenario in scenarios
    ]


def _met(library: Library, scenario: Mapping[str, Any]) -> bool:
    reply = _call(library, scenario["action"], scenario["input"])
    return all(PREDICATES[name](reply, wanted) for name, wanted in scenario["expected"].items())


def _call(library: Library, name: str, given: Mapping[str, Any]) -> Reply:
    """In this process, slow work too; a page is never fetched."""
    try:
        entry, step = library.calls.begin(name, given)
        result: Outcome | Fetch
        if isinstance(step, Work):
            result = step.fetch or library.handler(entry.action)(step.input, library.mode)
        else:
            result = step
        while isinstance(result, Fetch):
            result = result.resume([FetchedPage(url=url, failure="not fetched") for url in result.urls])
    except ComityError as refused:
        return Reply({}, refused.message)
    return Reply(result.output)


def tables() -> Sequence[Table]:
    folder = vectors_folder()
    path = folder / "actions" / "scenarios.json" if folder else None
    if path is None or not path.exists():
        return [Table(name="scenarios", title=_TITLE, notes=["skipped: the vectors are not here"])]
    return [table(judge(json.loads(path.read_bytes())["structured"]))]


def table(results: Sequence[Result]) -> Table:
    by_action = {
        action: [result for result in results if result.action == action]
        for action in sorted({result.action for result in results})
    }
    fresh = [result for result in results if result.id not in STALE]
    notes = [
        f"missed in {mode}: {', '.join(result.id for result in fresh if not result.met[mode]) or 'none'}"
        for mode in MODES
    ]
    return Table(
        name="scenarios",
        title=_TITLE,
        columns=("action", "n", "reference", *MODES, "rate in enhanced"),
        rows=[
            *(_row(action, of_action) for action, of_action in by_action.items()),
            _row("all", results),
            _row("without the stale ones", fresh),
        ],
        notes=[*notes, *(f"stale: {each.id} {STALE[each.id]}" for each in results if each.id in STALE)],
    )


def _row(name: str, results: Sequence[Result]) -> tuple[Cell, ...]:
    met = [sum(result.met[mode] for result in results) for mode in MODES]
    rate = met[-1] / len(results) if results else None
    return (name, len(results), sum(result.reference for result in results), *met, rate)
