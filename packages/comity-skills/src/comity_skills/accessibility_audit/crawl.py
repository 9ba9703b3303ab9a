"""Crawl mode: pages examined, scored and ranked.

- A criterion is scored only where a rule passed or failed something on the page; all others are for people.
  The score is the share of what passed. A page has the mean of its scores, a site the mean of its pages.
- Text without markup and pages that could not be had are not scored. *strict* shows them as 0 with
  `heuristic` and counts them; *enhanced* shows null and leaves them out of the mean. *compat* has the numbers
  of 1.0.8, from `recorded.py`.
- *enhanced* adds the evidence of each page. In full: every rule with its counts, failed nodes with their paths, and
  what a person has to look at; of each rule the first `SHOWN`. As a summary: the criteria that fail, the worst
  findings, and what was seen that only a person can judge, so that twenty pages are still read.
- The headline says which criteria fail, and how many were not checked. It praises nothing: rules see a part only.
- The pages of one call share a budget of text; what is beyond it is named and not scored.
"""

from collections import Counter
from collections.abc import Container, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from comity_skills.accessibility_audit.audit import Checked, Examined, examine
from comity_skills.accessibility_audit.criteria import LEVELS, Criterion, Level, up_to
from comity_skills.accessibility_audit.dom.tree import looks_like_html, path
from comity_skills.accessibility_audit.names.aria import Aria
from comity_skills.accessibility_audit.names.language import Languages
from comity_skills.accessibility_audit.rules import RULES
from comity_skills.accessibility_audit.rules.rule import Finding, Rule
from comity_skills.skill import Mode, SkillOutcome, Uncertainty, WebPage

CHARACTERS: Final = 20_000_000
SHOWN: Final = 20
WORST: Final = 5
NAMED: Final = 6

Detail = Literal["summary", "full"]

_MORE: Final = "In short; ask with detail: full for every rule, criterion and finding."
_SEEN: Final = {rule.id: rule.seen for rule in RULES if rule.seen}
_NOT_HTML: Final = "The text holds no markup; nothing was checked."
_TOO_MUCH: Final = f"The pages of one call hold more than {CHARACTERS} characters; this one was not checked."


class Facts(Struct, frozen=True):
    """What the checks know beforehand."""

    criteria: tuple[Criterion, ...]
    aria: Aria
    languages: Languages


class _Ranked(Struct, frozen=True):
    """`undecided` are the criteria that a rule looked at and could not decide."""

    entry: dict[str, Any]
    score: int | None
    passes: int = 0
    undecided: frozenset[str] = frozenset()


def rank(
    pages: Sequence[WebPage], level: Level, mode: Mode, facts: Facts, detail: Detail = "full"
) -> SkillOutcome:
    asked = up_to(facts.criteria, level)
    ranked: list[_Ranked] = []
    room = CHARACTERS
    for page in pages:
        room -= len(page.html)
        reason = page.failure or ("" if looks_like_html(page.html) else _NOT_HTML)
        if not reason and room < 0:
            reason = _TOO_MUCH
        examined = None if reason else examine(page.html, facts.aria, facts.languages)
        ranked.append(_rank_page(page.url, examined, reason, asked, mode))
    # Of pages with the same score the one comes first of which more was checked.
    ranked.sort(key=lambda one: (-1 if one.score is None else one.score, one.passes), reverse=True)
    scores = [one.score for one in ranked if one.score is not None]
    unread = len(ranked) - len(scores)
    site: int | None = mean(scores) if scores else None
    if mode != "enhanced":
        site = mean([*scores, *[0] * unread])
    uncertainty: Uncertainty = "high" if unread else "medium"
    return SkillOutcome(
        uncertainty=uncertainty,
        assumptions=_assumptions(level, len(ranked), unread),
        output={
            "mode": "crawl",
            "level": level,
            "site_aggregate": site,
            "ranking": [one.entry if detail == "full" else _summed_up(one.entry) for one in ranked],
            "summary": _headline(ranked, asked, level, site, mode)
            + (_to_look_at(ranked, asked) if detail == "summary" else "")
            + _said_more(ranked, unread, mode, detail),
        },
    )


def _said_more(ranked: Sequence[_Ranked], unread: int, mode: Mode, detail: Detail) -> str:
    """Why no page was checked, or how to see all that was found."""
    if unread == len(ranked) and mode == "enhanced":
        return f" {ranked[0].entry['notes'][0]}"
    return f" {_MORE}" if detail == "summary" else ""


def _to_look_at(ranked: Sequence[_Ranked], asked: Sequence[Criterion]) -> str:
    """What was seen and could not be judged, in a few words, with the criteria it is about."""
    ids = {one.id for one in asked}
    seen: dict[str, dict[str, None]] = {}
    for one in ranked:
        for question in one.entry["cannot_tell"]:
            if question["rule"] in _SEEN:
                about = seen.setdefault(_SEEN[question["rule"]], {})
                about.update(dict.fromkeys(name for name in question["criteria"] if name in ids))
    told = [f"{words} ({', '.join(sorted(about))})" for words, about in seen.items()]
    return f" For a person to look at: {'; '.join(told)}." if told else ""


def _rank_page(
    url: str, examined: Examined | None, reason: str, asked: Sequence[Criterion], mode: Mode
) -> _Ranked:
    enhanced = mode == "enhanced"
    if examined is None:
        entry: dict[str, Any] = {
            "url": url,
            "aggregate_score": None if enhanced else 0,
            "automated": 0,
            "manual": len(asked),
            "total": len(asked),
            "criteria": [],
            "heuristic": True,
        }
        return _Ranked(entry | (_evidence((), (reason,)) if enhanced else {}), None)
    ids = frozenset(one.id for one in asked)
    checks = [one for one in examined.checks if not one.rule.criteria or ids.intersection(one.rule.criteria)]
    judged: dict[str, list[Checked]] = {}
    for check in checks:
        for criterion in check.rule.criteria:
            judged.setdefault(criterion, []).append(check)
    results = [_result(one, judged.get(one.id, [])) for one in asked]
    scores = [result["score"] for result in results if "score" in result]
    score = mean(scores) if scores else None
    if score == 100 and any(one < 100 for one in scores):
        score = 99
    entry = {
        "url": url,
        "aggregate_score": score if enhanced else score or 0,
        "automated": len(scores),
        "manual": len(results) - len(scores),
        "total": len(results),
        "criteria": results,
        "heuristic": False,
    }
    passes = sum(check.count("passed") for check in checks)
    undecided = ids.intersection(judged).difference(one["id"] for one in results if "score" in one)
    told = entry | (_evidence(checks, examined.notes) if enhanced else {})
    return _Ranked(told, score, passes, undecided)


def _result(criterion: Criterion, checks: Sequence[Checked]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "id": criterion.id,
        "title": criterion.title,
        "level": criterion.level,
        "principle": criterion.principle,
        "automatable": criterion.automatable,
    }
    good = sum(check.count("passed") for check in checks)
    bad = sum(check.count("failed") for check in checks)
    if not good + bad:
        unsure = any(check.findings for check in checks)
        reason = (
            "The markup alone does not decide; see what could not be told."
            if unsure
            else "Nothing was checked."
        )
        return told | {"manualReason": f"{reason} {criterion.requirement}"}
    failing = [check for check in checks if check.count("failed")]
    return told | {
        "score": _share(good, good + bad),
        "passCount": good,
        "failCount": bad,
        "findings": [_counted(check) for check in failing],
        "recommendations": list(dict.fromkeys(check.rule.fix for check in failing)),
    }


def _counted(check: Checked) -> str:
    first = next(finding for finding in check.findings if finding.verdict == "failed")
    times = check.count("failed")
    more = f" ({times} times)" if times > 1 else ""
    return f"{check.rule.name} [{check.rule.id}]: {first.note} At {path(first.element)}{more}"


def _evidence(checks: Sequence[Checked], notes: Sequence[str]) -> dict[str, Any]:
    findings = []
    questions = []
    for check in checks:
        for finding in check.findings:
            if finding.verdict == "failed":
                findings.append((check.rule, finding))
            elif finding.verdict == "cannot_tell":
                questions.append((check.rule, finding))
    return {
        "checks": [
            {
                "rule": check.rule.id,
                "name": check.rule.name,
                "criteria": list(check.rule.criteria),
                "how": check.rule.how,
                "passed": check.count("passed"),
                "failed": check.count("failed"),
                "cannot_tell": check.count("cannot_tell"),
            }
            for check in checks
        ],
        "findings": [
            {
                "rule": rule.id,
                "criteria": list(rule.criteria),
                "path": path(finding.element),
                "problem": finding.note,
                "fix": rule.fix,
            }
            for rule, finding in _some(findings)
        ],
        "cannot_tell": [
            {
                "rule": rule.id,
                "criteria": list(rule.criteria),
                "path": path(finding.element),
                "why": finding.note,
            }
            for rule, finding in _some(questions)
        ],
        "findings_total": len(findings),
        "cannot_tell_total": len(questions),
        "notes": list(notes),
    }


def _summed_up(entry: dict[str, Any]) -> dict[str, Any]:
    """One page in short: what fails, most often first, and the first place of each."""
    failing = sorted(
        (one for one in entry["criteria"] if one.get("failCount")), key=lambda one: -one["failCount"]
    )
    worst: dict[str, dict[str, Any]] = {}
    for finding in entry["findings"]:
        worst.setdefault(finding["rule"], finding)
    counts = {check["rule"]: check["failed"] for check in entry["checks"]}
    first = sorted(worst.values(), key=lambda finding: -counts.get(finding["rule"], 0))[:WORST]
    looks: dict[str, dict[str, Any]] = {}
    for question in entry["cannot_tell"]:
        if question["rule"] in _SEEN:
            looks.setdefault(question["rule"], question)
    return {
        **{name: entry[name] for name in ("url", "aggregate_score", "automated", "manual", "total")},
        "criteria": [
            {name: one[name] for name in ("id", "title", "level", "score", "failCount")} for one in failing
        ],
        "heuristic": entry["heuristic"],
        "findings": first,
        "cannot_tell": list(looks.values()),
        "findings_total": entry["findings_total"],
        "cannot_tell_total": entry["cannot_tell_total"],
        "notes": entry["notes"],
    }


def _some(told: Sequence[tuple[Rule, Finding]]) -> list[tuple[Rule, Finding]]:
    """The first few of every rule, so that none crowds out the others."""
    count: Counter[str] = Counter()
    kept = []
    for rule, finding in told:
        count[rule.id] += 1
        if count[rule.id] <= SHOWN:
            kept.append((rule, finding))
    return kept


def _share(part: int, whole: int) -> int:
    """In per cent, halves up; nothing that failed is rounded away."""
    return min(99 if part < whole else 100, (200 * part + whole) // (2 * whole))


def mean(scores: Sequence[int]) -> int:
    return (2 * sum(scores) + len(scores)) // (2 * len(scores))


def _assumptions(level: Level, pages: int, unread: int) -> tuple[str, ...]:
    return (
        "Mode: crawl (pages checked by rules on their markup)",
        f"Level: WCAG 2.2 {level}, with the levels below it",
        f"Pages: {pages}" + (f", of which {unread} could not be checked" if unread else ""),
        "Scripts were not run and linked style sheets were not read; only what was checked is scored",
        "Rules find a part of the barriers; the criteria without a score are for people to judge",
    )


def _headline(
    ranked: Sequence[_Ranked], asked: Sequence[Criterion], level: Level, site: int | None, mode: Mode
) -> str:
    read = [one for one in ranked if one.score is not None]
    if not read:
        return "No page could be checked."
    results = [result for one in read for result in one.entry["criteria"]]
    checked = {result["id"] for result in results if "score" in result}
    failing = {result["id"] for result in results if result.get("failCount")}
    alone = len(ranked) == 1
    begin = "Checked" if alone else f"{len(read)} of {len(ranked)} pages checked"
    whole = len(read) == len(ranked) or mode == "enhanced"
    scored = "Score of what was checked" if whole else "Score, with 0 for the other pages"
    undecided = any(one.undecided - checked for one in read)
    left = ("were not checked" if alone else "were checked on no page") + (
        " or not decided" if undecided else ""
    )
    return (
        f"{begin} against WCAG 2.2 {level}: {_failures(failing, len(checked), asked, alone=alone)}; "
        f"{len(asked) - len(checked)} of {len(asked)} {left}. {scored}: {site} of 100."
        + ("" if failing else " That is no proof of accessibility.")
    )


def _failures(failing: Container[str], checked: int, asked: Sequence[Criterion], *, alone: bool) -> str:
    """How many criteria fail, and which, level A first."""
    named = [one.id for one in sorted(asked, key=lambda one: LEVELS.index(one.level)) if one.id in failing]
    if not named:
        return f"none of the {checked} checked criteria fails"
    more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    fail = "fails" if len(named) == 1 else "fail"
    where = "" if alone else " on at least one page"
    return f"{len(named)} of {checked} checked criteria {fail}{where} ({', '.join(named[:NAMED])}{more})"
