"""What an answer says about how it came to be: findings, edits, and how sure the rules can be.

Uncertainty follows from what was seen. The rules are English: on a text in another language they know
nothing (high), on a few words little (medium). Of an English text they are sure unless what they found hangs
on something they cannot see: a quotation, a figure of speech, an edit that was withdrawn (medium).
"""

from collections.abc import Container, Iterable, Sequence
from typing import Any

from comity_skills.crisis import CrisisReport
from comity_skills.editing.edits import Edit, Rewrite
from comity_skills.editing.rules import Finding
from comity_skills.reading.language import Language, language_of
from comity_skills.skill import Uncertainty
from comity_skills.words.tokens import tokens

_TOLD = 4000  # characters from which the language is told


def uncertainty_of(text: str, *, doubtful: bool) -> Uncertainty:
    language = _language(text)
    if language == "other":
        return "high"
    return "medium" if doubtful or language == "unknown" else "low"


def is_foreign(text: str) -> bool:
    """Whether the text is plainly not in English, so that no rule has read it."""
    return _language(text) == "other"


def _language(text: str) -> Language:
    start = text[:_TOLD]
    return language_of(start, tokens(start))


def is_doubtful(findings: Iterable[Finding], rewrite: Rewrite) -> bool:
    done = {(edit.start, edit.end) for edit in rewrite.edits}
    left = (finding for finding in findings if (finding.start, finding.end) not in done)
    return bool(rewrite.withdrawn) or any(finding.quoted or finding.severity == "low" for finding in left)


def edit_rows(edits: Sequence[Edit], *, applied: bool) -> list[dict[str, Any]]:
    return [
        {
            "start": edit.start,
            "end": edit.end,
            "original": edit.original,
            "replacement": edit.replacement,
            "reason": edit.reason,
            "category": edit.category,
            "severity": edit.severity,
            "applied": applied,
        }
        for edit in edits
    ]


def flag_rows(findings: Sequence[Finding], rewrite: Rewrite) -> list[dict[str, Any]]:
    """All findings; `reworded` says that an edit takes care of this one."""
    done = {(edit.start, edit.end) for edit in rewrite.edits}
    why = {(edit.start, edit.end): edit.reason for edit in rewrite.withdrawn}
    return [
        {
            "start": finding.start,
            "end": finding.end,
            "text": finding.text,
            "category": finding.category,
            "severity": finding.severity,
            "reason": why.get((finding.start, finding.end), finding.reason),
            "quoted": finding.quoted,
            "reworded": (finding.start, finding.end) in done,
            **_alternative(finding, done),
        }
        for finding in findings
    ]


def _alternative(finding: Finding, done: Container[tuple[int, int]]) -> dict[str, str]:
    """What could stand there, where nothing was put: the words of a quotation and of the past stay as they are."""
    offered = finding.replacement or finding.alternative
    wanted = offered and not finding.quoted and (finding.start, finding.end) not in done
    return {"alternative": offered} if wanted else {}


def crisis_row(report: CrisisReport) -> dict[str, Any]:
    """The report in the shape that every action of ours gives it."""
    return {
        "detected": report.detected,
        "severity": report.severity,
        "mention": report.mention,
        "subject": report.subject,
        "dangers": [
            {
                "kind": danger.kind,
                "subject": danger.subject,
                "span": list(danger.span),
                "language": danger.language,
                "weapon": danger.weapon,
                "certain": danger.certain,
            }
            for danger in report.dangers
        ],
        "signals": [
            {
                "category": signal.category,
                "severity": signal.severity,
                "span": list(signal.span),
                "language": signal.language,
                "subject": signal.subject,
                "negated": signal.negated,
                "tense": signal.tense,
                "framed": signal.framed,
            }
            for signal in report.signals
        ],
    }
