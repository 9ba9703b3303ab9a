"""Repeated blocks can be passed by."""

from collections.abc import Iterator
from itertools import islice

from comity_skills.accessibility_audit.dom.tree import Element
from comity_skills.accessibility_audit.rules.rule import (
    Finding,
    Rule,
    Subject,
    cannot_tell,
    failed,
    passed,
)

_REPEATED = frozenset({"nav", "header", "aside", "footer"})
_FIELDS = frozenset({"input", "select", "textarea", "button", "img", "video", "iframe"})


def _bypass(subject: Subject) -> Iterator[Finding]:
    root = subject.document.root
    way = _way(subject)
    if way is not None:
        yield passed(way)
    elif not _begins_with_repeated(subject):
        yield passed(root)
    elif subject.scripted and any(subject.roles.with_role("button", "link")):
        yield cannot_tell(root, "A script may let people pass by the repeated blocks.")
    else:
        yield failed(root, "No heading, main landmark or link inside the page leads past the first blocks.")


def _way(subject: Subject) -> Element | None:
    for element in subject.roles.with_role("heading", "main"):
        if subject.shown.told(element) and not _in_repeated(element):
            return element
    for element in subject.document.tagged("a", "area"):
        name = (element.get("href") or "").strip()
        if name.startswith("#") and name[1:] in subject.document.by_id and subject.shown.focusable(element):
            target = subject.document.by_id[name[1:]]
            if not _in_repeated(target) or _nothing_follows(target):
                return element
    return None


def _in_repeated(element: Element) -> bool:
    return any(above.tag in _REPEATED for above in element.lineage())


def _nothing_follows(element: Element) -> bool:
    """Whether it is an empty mark at the end of its block."""
    return not element.text().strip() and not any(element.elements())


def _begins_with_repeated(subject: Subject) -> bool:
    """Whether the first thing shown is a link or a block of the kind that many pages share, and more follows."""
    body = next(iter(subject.document.tagged("body")), None)
    if body is None:
        return False
    for element in islice(subject.document.inside(body), 2_000):
        if not subject.shown.seen(element):
            continue
        if element.tag in _REPEATED or subject.roles.is_a(element, "link"):
            return _more_follows(subject, element)
        if any(isinstance(child, str) and child.strip() for child in element.children):
            return False
    return False


def _more_follows(subject: Subject, first: Element) -> bool:
    """Whether there is something to go to: shown words, or a field, outside of blocks and links like the first."""
    for element in islice(subject.document.elements, first.index, first.index + 2_000):
        if not subject.shown.seen(element) or element.tag in {"html", "head"}:
            continue
        if any(above.tag in _REPEATED or subject.roles.is_a(above, "link") for above in element.lineage()):
            continue
        if element.tag in _FIELDS or any(isinstance(one, str) and one.strip() for one in element.children):
            return True
    body = first.closest("body")
    return body is not None and any(isinstance(one, str) and one.strip() for one in body.children)


RULES = (
    Rule(
        id="cf77f2",
        name="Repeated blocks can be passed by",
        criteria=("2.4.1",),
        how="A page that begins with links or shared blocks before its content has a heading, a main landmark or a link past them.",
        fix="Mark the main content with a main element and begin it with a heading.",
        check=_bypass,
    ),
)
