"""The accessibility audit against the W3C ACT cases and the verdicts of axe.

- A case is flagged when the audit reports a failure of the case's rule; where the audit does not decide that
  rule, when it reports a failure of one of the case's success criteria. What it cannot tell is not flagged.
- `failed` cases are to be flagged, `passed` and `inapplicable` ones are not. Cases without a success criterion are
  left out. Balanced accuracy is the mean of the two rates, so that guessing gives 0.5.
- axe is asked page by page: which criteria it fails and we fail too, and what we fail beyond it. Where it says
  `incomplete` it has not decided, and neither counts against us.
"""

import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from comity.testing.vectors import vectors_folder
from comity_skills.accessibility_audit import SKILL
from comity_skills.accessibility_audit.rules import RULES
from comity_skills.skill import SkillOutcome
from comity_skills_data import shipped
from evals.table import Cell, Table

DECIDED = frozenset(rule.id for rule in RULES if rule.decides)

_COLUMNS = ("", "n failed", "flagged", "n other", "flagged too", "balanced accuracy")
_SKIPPED = "skipped: the vectors are not here (set COMITY_VECTORS)"
# What axe leaves open on every page when it has no layout, and does not count among the criteria.
_ALWAYS_OPEN = frozenset({"landmark-one-main", "page-has-heading-one"})


class Judged(Struct, frozen=True):
    rule: str
    expected: bool
    flagged: bool


class Score(Struct, frozen=True):
    failed: int
    found: int
    other: int
    alarms: int

    @property
    def balanced(self) -> float | None:
        if not self.failed or not self.other:
            return None
        return (self.found / self.failed + 1 - self.alarms / self.other) / 2


class Compared(Struct, frozen=True):
    """One page: the criteria that axe fails, those we fail at level AA, and whether axe left something open."""

    name: str
    axe: frozenset[str]
    ours: frozenset[str]
    open: bool


@functools.cache
def audit() -> Callable[[str], Mapping[str, Any]]:
    """What the audit says of one page, at level AAA."""
    handler = SKILL.prepare(shipped())

    def ask(html: str, level: str = "AAA") -> Mapping[str, Any]:
        given = {"level": level, "detail": "full", "pages": [{"url": "case", "html": html}]}
        outcome = handler(given, "enhanced")
        assert isinstance(outcome, SkillOutcome)
        entry: Mapping[str, Any] = outcome.output["ranking"][0]
        return entry

    return ask


def judge(cases: Iterable[Mapping[str, Any]]) -> list[Judged]:
    """The cases that have a success criterion."""
    return [
        Judged(case["rule"], case["expected"] == "failed", flagged(case["rule"], case["wcag"], case["code"]))
        for case in cases
        if case["wcag"]
    ]


def flagged(rule: str, criteria: Sequence[str], html: str) -> bool:
    failing = [check for check in audit()(html)["checks"] if check["failed"]]
    if rule in DECIDED:
        return any(check["rule"] == rule for check in failing)
    return any(set(check["criteria"]) & set(criteria) for check in failing)


def score(judged: Iterable[Judged]) -> Score:
    told = list(judged)
    failed = [one for one in told if one.expected]
    other = [one for one in told if not one.expected]
    return Score(
        len(failed), sum(one.flagged for one in failed), len(other), sum(one.flagged for one in other)
    )


def compare(pages: Iterable[Mapping[str, Any]]) -> list[Compared]:
    return [
        Compared(
            page["id"],
            frozenset(page["wcag_fail"]),
            frozenset(
                criterion["id"]
                for criterion in audit()(page["html"])["criteria"]
                if criterion.get("failCount") and criterion["level"] != "AAA"
            ),
            bool(set(page["incomplete"]) - _ALWAYS_OPEN),
        )
        for page in pages
    ]


def tables() -> Sequence[Table]:
    return [_act(), _axe()]


def _content(stem: str) -> Any:
    folder = vectors_folder()
    path = folder / "actions" / f"{stem}.json" if folder else None
    return json.loads(path.read_bytes()) if path is not None and path.exists() else None


def _act() -> Table:
    content = _content("act_rules")
    title = "Accessibility audit, W3C ACT cases"
    if content is None:
        return Table(name="act", title=title, notes=[_SKIPPED])
    judged = judge(content["cases"])
    decided = [one for one in judged if one.rule in DECIDED]
    by_rule = sorted({one.rule for one in judged})
    return Table(
        name="act",
        title=title,
        columns=_COLUMNS,
        rows=[
            *(_row(rule, [one for one in judged if one.rule == rule]) for rule in by_rule),
            _row("rules we decide", decided),
            _row("all mapped cases", judged),
        ],
        notes=[
            f"{len(DECIDED)} rules are decided, {len(RULES) - len(DECIDED)} more only ask a person to look",
            f"of the rules of these cases we decide {len({one.rule for one in decided})} of {len(by_rule)}",
        ],
    )


def _row(name: str, judged: Sequence[Judged]) -> list[Cell]:
    got = score(judged)
    return [name, got.failed, got.found, got.other, got.alarms, got.balanced]


def _axe() -> Table:
    content = _content("a11y_axe")
    title = "Accessibility audit beside axe-core (pages with one trait each)"
    if content is None:
        return Table(name="axe", title=title, notes=[_SKIPPED])
    pages = compare(content)
    decided = [page for page in pages if not page.open]
    axe = sum(len(page.axe) for page in pages)
    shared = sum(len(page.axe & page.ours) for page in pages)
    beyond = [page for page in decided if page.ours - page.axe]
    return Table(
        name="axe",
        title=title,
        columns=(
            "pages",
            "decided by axe",
            "criteria axe fails",
            "of these ours too",
            "pages where we fail more",
        ),
        rows=[[len(pages), len(decided), axe, shared, len(beyond)]],
        notes=[f"more than axe: {page.name} {', '.join(sorted(page.ours - page.axe))}" for page in beyond],
    )
