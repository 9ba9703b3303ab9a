"""One page, examined: it is parsed, its styles, roles and names are worked out, and every rule has its say."""

import re
from collections.abc import Sequence
from itertools import islice
from typing import Final

from msgspec import Struct

from comity_skills.accessibility_audit.dom.tree import Document, parse
from comity_skills.accessibility_audit.names.aria import Aria
from comity_skills.accessibility_audit.names.language import Languages
from comity_skills.accessibility_audit.names.name import Names
from comity_skills.accessibility_audit.names.roles import Roles
from comity_skills.accessibility_audit.rules import RULES
from comity_skills.accessibility_audit.rules.rule import Finding, Rule, Subject, cannot_tell
from comity_skills.accessibility_audit.style.cascade import Styles
from comity_skills.accessibility_audit.style.sheet import read_sheet
from comity_skills.accessibility_audit.style.shown import Shown

_PAGE: Final = re.compile(r"<(?:!doctype|html|head|title|body)\b", re.IGNORECASE)
_PART: Final = (
    "The text looks like a part of a page. It was judged as a whole one, by its title and language too."
)


_HIDING: Final = re.compile(
    r"(?:^|[-_\s])(?:hidden|hide|invisible|d-none|sr-only|screen-?reader|visually|offscreen|off-?canvas|collapsed?|modal"
    r"|popup|popover|tooltip|dropdown|drawer|overlay|lightbox|noscript|no-?js|template|placeholder|skeleton|print|toast|flyout)(?:$|[-_\s])",
    re.IGNORECASE,
)
_MAYBE_HIDDEN: Final = "A linked style sheet, which is not at hand, may hide this"
_ABOVE: Final = 12  # elements that may be hidden together with what they hold


class Checked(Struct, frozen=True):
    """A rule that found something to look at."""

    rule: Rule
    findings: Sequence[Finding]

    def count(self, verdict: str) -> int:
        return sum(finding.verdict == verdict for finding in self.findings)


class Examined(Struct, frozen=True):
    """`notes` says what was left out."""

    checks: Sequence[Checked]
    notes: Sequence[str]


def examine(html: str, aria: Aria, languages: Languages) -> Examined:
    document = parse(html)
    styles = Styles(document, read_sheet(document))
    shown = Shown(document, styles)
    roles = Roles(document, shown, aria)
    names = Names(document, styles, shown, roles)
    scripted = bool(document.tagged("script"))
    subject = Subject(document, styles, shown, roles, names, aria, languages, scripted)
    checks = []
    elsewhere = _is_styled_elsewhere(document)
    for rule in RULES:
        findings = tuple(rule.check(subject))
        if elsewhere:
            findings = tuple(_doubted(finding) for finding in findings)
        if findings:
            checks.append(Checked(rule, findings))
    part = () if _PAGE.search(html) else (_PART,)
    return Examined(checks, (*part, *document.notes, *styles.notes))


def _is_styled_elsewhere(document: Document) -> bool:
    """Whether a style sheet is linked that was not read."""
    return any("stylesheet" in link.tokens("rel") and link.get("href") for link in document.tagged("link"))


def _doubted(finding: Finding) -> Finding:
    """A failure of what such a sheet may hide, going by the names of its classes, is not certain."""
    if finding.verdict != "failed":
        return finding
    holders = [finding.element, *islice(finding.element.ancestors(), _ABOVE)]
    for element in holders:
        named = f"{element.get('class') or ''} {element.get('id') or ''}"
        if _HIDING.search(named):
            return cannot_tell(finding.element, f"{_MAYBE_HIDDEN}: {finding.note}")
    return finding
