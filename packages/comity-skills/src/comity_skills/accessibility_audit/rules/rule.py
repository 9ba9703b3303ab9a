"""What a check is, and what it may ask about a page.

- A rule has the id of the W3C ACT rule it carries out, its success criteria, and a sentence on how it decides.
- It yields a finding for every node it applies to: passed, failed, or cannot_tell where the markup alone does
  not decide. Nodes it does not apply to are not mentioned.
- A rule that can only ask a person to look has `decides=False`: it never passes or fails anything.
- `seen` says in a few words what is there where a rule could not tell. Rules that only ask to compare or to listen have
  none: what they ask for is not named in a summary.
"""

from collections.abc import Callable, Iterable
from typing import Literal

from msgspec import Struct

from comity_skills.accessibility_audit.dom.tree import Document, Element
from comity_skills.accessibility_audit.names.aria import Aria
from comity_skills.accessibility_audit.names.language import Languages
from comity_skills.accessibility_audit.names.name import Names
from comity_skills.accessibility_audit.names.roles import Roles
from comity_skills.accessibility_audit.style.cascade import Styles
from comity_skills.accessibility_audit.style.shown import Shown

Verdict = Literal["passed", "failed", "cannot_tell"]


class Subject(Struct, frozen=True):
    """A page and everything that was worked out about it."""

    document: Document
    styles: Styles
    shown: Shown
    roles: Roles
    names: Names
    aria: Aria
    languages: Languages
    scripted: bool


class Finding(Struct, frozen=True):
    verdict: Verdict
    element: Element
    note: str = ""


class Rule(Struct, frozen=True, kw_only=True):
    """`fix` is the advice that goes with a failure."""

    id: str
    name: str
    criteria: tuple[str, ...]
    how: str
    fix: str
    check: Callable[[Subject], Iterable[Finding]]
    decides: bool = True
    seen: str = ""


def passed(element: Element) -> Finding:
    return Finding("passed", element)


def failed(element: Element, note: str) -> Finding:
    return Finding("failed", element, note)


def cannot_tell(element: Element, note: str) -> Finding:
    return Finding("cannot_tell", element, note)


def judge(element: Element, note: str) -> Finding:
    """Failed with a note, passed without."""
    return failed(element, note) if note else passed(element)


def phrases(text: str) -> frozenset[str]:
    """The phrases of a list that is separated by bars."""
    return frozenset(text.split("|"))
