"""Crawl mode as 1.0.8 answers it: the same numbers for the same pages, whatever they are worth.

- A page has the rounded mean of the scores of its level, a site the rounded mean of its pages. Text without
  markup, and a page that could not be had, has 0 and counts.
- Pages stand by their score, the best first; equal ones stay in the order they came in.
- The answer says that its scores are patterns on text, and that the words for them are those of the release. The
  real audit is that of the other modes.
"""

from collections.abc import Sequence
from typing import Any

from comity_skills.accessibility_audit.crawl import mean
from comity_skills.accessibility_audit.criteria import Criterion, Level, up_to
from comity_skills.accessibility_audit.dom.tree import looks_like_html
from comity_skills.accessibility_audit.recorded_scores import Recorded, recorded_scores
from comity_skills.skill import SkillOutcome, WebPage


def rank_as_recorded(pages: Sequence[WebPage], level: Level, criteria: Sequence[Criterion]) -> SkillOutcome:
    asked = up_to(criteria, level)
    ranking = sorted(
        (_entry(page, asked) for page in pages), key=lambda entry: entry["aggregate_score"], reverse=True
    )
    site = mean([entry["aggregate_score"] for entry in ranking])
    unread = sum(entry["heuristic"] for entry in ranking)
    return SkillOutcome(
        uncertainty="high" if unread else "medium",
        assumptions=(
            "Mode: crawl (patterns on the text of each page, with the formulas of release 1.0.8)",
            f"Level: WCAG 2.2 {level}, with the levels below it",
            f"Pages: {len(ranking)}"
            + (f", of which {unread} hold no markup and count as 0" if unread else ""),
            "Pages were not parsed, scripts not run and linked style sheets not read",
            "A score compares with scores of 1.0.8 only; the enhanced mode checks the page itself",
        ),
        output={
            "mode": "crawl",
            "level": level,
            "site_aggregate": site,
            "ranking": ranking,
            "summary": _headline(site, len(ranking), unread, level),
        },
    )


def _headline(site: int, pages: int, unread: int, level: Level) -> str:
    if unread == pages:
        return "No page could be checked."
    tier = "a good baseline" if site >= 80 else "moderate barriers" if site >= 60 else "significant barriers"
    return (
        f"{pages - unread} of {pages} pages scored by the patterns of release 1.0.8 for WCAG 2.2 {level}: "
        f"{site} of 100, which that release calls {tier}. The score compares with that release only."
    )


def _entry(page: WebPage, asked: Sequence[Criterion]) -> dict[str, Any]:
    markup = looks_like_html(page.html)
    scores = recorded_scores(page.html) if markup else {}
    results = [_result(one, scores.get(one.id)) for one in asked] if markup else []
    defined = [result["score"] for result in results if "score" in result]
    return {
        "url": page.url,
        "aggregate_score": mean(defined) if defined else 0,
        "automated": len(defined),
        "manual": len(asked) - len(defined),
        "total": len(asked),
        "criteria": results,
        "heuristic": not markup,
    }


def _result(criterion: Criterion, made: Recorded | None) -> dict[str, Any]:
    told: dict[str, Any] = {
        "id": criterion.id,
        "title": criterion.title,
        "level": criterion.level,
        "principle": criterion.principle,
        "automatable": criterion.automatable,
    }
    if made is None:
        return told | {"manualReason": f"No pattern tells this. {criterion.requirement}"}
    full = made.score == 100
    return told | {
        "score": made.score,
        "passCount": made.passed,
        "failCount": made.failed,
        "findings": [] if full else [f"Looked in the text for {made.sought}: {made.score} of 100."],
        "recommendations": [] if full else [criterion.implementation],
    }
