"""One page, examined: it is parsed, its styles, roles and names are worked out, and every rule has its say."""

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from comity.skills.accessibility_audit.dom.tree import parse
from comity.skills.accessibility_audit.names.aria import Aria
from comity.skills.accessibility_audit.names.language import Languages
from comity.skills.accessibility_audit.names.name import Names
from comity.skills.accessibility_audit.names.roles import Roles
from comity.skills.accessibility_audit.rules import RULES
from comity.skills.accessibility_audit.rules.rule import Finding, Rule, Subject
from comity.skills.accessibility_audit.style.cascade import Styles
from comity.skills.accessibility_audit.style.sheet import read_sheet
from comity.skills.accessibility_audit.style.shown import Shown

_PAGE: Final = re.compile(r"<(?:!doctype|html|head|title|body)\b", re.IGNORECASE)
_PART: Final = (
    "The text looks like a part of a page. It was judged as a whole one, by its title and language too."
)


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
    for rule in RULES:
        findings = tuple(rule.check(subject))
        if findings:
            checks.append(Checked(rule, findings))
    part = () if _PAGE.search(html) else (_PART,)
    return Examined(checks, (*part, *document.notes, *styles.notes))
