"""The language of the page and of its parts is declared, exists, and is the one that is used."""

from collections.abc import Iterator

from comity_skills.accessibility_audit.dom.tree import Element
from comity_skills.accessibility_audit.names.language import primary, related
from comity_skills.accessibility_audit.rules.rule import (
    Finding,
    Rule,
    Subject,
    cannot_tell,
    failed,
    judge,
    passed,
)

_ROOM = 4_000
_SKIPPED = frozenset({"script", "style", "template", "noscript", "code", "pre", "kbd", "samp", "math"})


def _declared(subject: Subject) -> Iterator[Finding]:
    root = subject.document.root
    if (root.get("lang") or "").strip():
        yield passed(root)
    elif root.has("xml:lang"):
        yield failed(root, "Only xml:lang is set, which browsers do not read.")
    else:
        yield failed(root, "The page does not say in which language it is.")


def _exists(subject: Subject) -> Iterator[Finding]:
    root = subject.document.root
    tag = (root.get("lang") or "").strip()
    if tag:
        known = subject.languages.known(tag)
        yield judge(root, "" if known else f"{tag[:40]!r} begins with no registered language.")


def _part_exists(subject: Subject) -> Iterator[Finding]:
    for element in subject.document.with_attribute("lang"):
        tag = element.get("lang") or ""
        if element.tag == "html" or not tag or not _speaks(subject, element):
            continue
        known = bool(tag.strip()) and subject.languages.known(tag)
        yield judge(element, "" if known else f"{tag[:40]!r} begins with no registered language.")


def _same_twice(subject: Subject) -> Iterator[Finding]:
    root = subject.document.root
    one, other = root.get("lang") or "", root.get("xml:lang") or ""
    if one.strip() and other.strip() and subject.languages.known(one):
        same = primary(one) == primary(other)
        yield judge(root, "" if same else "lang and xml:lang name different languages.")


def _page_fits(subject: Subject) -> Iterator[Finding]:
    root = subject.document.root
    tag = root.get("lang") or ""
    if tag.strip() and subject.languages.known(tag):
        finding = _fits(subject, root, tag, _text(subject, root))
        if finding is not None:
            yield finding


def _part_fits(subject: Subject) -> Iterator[Finding]:
    for element in subject.document.with_attribute("lang"):
        tag = element.get("lang") or ""
        if element.tag == "html" or not subject.languages.known(tag):
            continue
        finding = _fits(subject, element, tag, _text(subject, element))
        if finding is not None:
            yield finding


def _fits(subject: Subject, element: Element, tag: str, text: str) -> Finding | None:
    if not text.strip():
        return None
    spoken = subject.languages.speaks(text)
    if not spoken:
        return cannot_tell(element, "The text is too short or too mixed to tell its language.")
    declared = primary(tag)
    if any(related(declared, language) for language in spoken):
        return passed(element)
    return failed(element, f"The text is declared as {declared}, but reads like {min(spoken)}.")


def _speaks(subject: Subject, element: Element) -> bool:
    """Whether some text inside is in the declared language, seen or told."""
    return bool(_text(subject, element).strip())


def _text(subject: Subject, top: Element) -> str:
    """The text that takes its language from this element: what is seen or told, titles and alternatives."""
    found: list[str] = []
    room = _ROOM
    pending: list[Element | str] = [top]
    while pending and room > 0:
        one = pending.pop()
        if isinstance(one, str):
            if one.strip():
                found.append(one)
                room -= len(one)
            continue
        if one is not top and (one.has("lang") or one.tag in _SKIPPED):
            continue
        if one.tag == "title" and one.parent is not None and one.parent.tag == "head":
            found.append(one.text() + ". ")
            continue
        spoken = one.tag in {"html", "head", "body"} or subject.shown.displayed(one)
        if not spoken or (one.tag not in {"html", "head"} and not _heard(subject, one)):
            continue
        for name in ("alt", "aria-label", "title"):
            words = one.get(name)
            if words and one is not subject.document.root:
                found.append(" " + words + ". ")
        pending.extend(reversed(one.children))
    return "".join(found)


def _heard(subject: Subject, element: Element) -> bool:
    return subject.shown.rendered(element) or not subject.shown.aria_hidden(element)


RULES = (
    Rule(
        id="b5c3f8",
        name="Page declares its language",
        criteria=("3.1.1",),
        how="The html element has a lang attribute that is not empty.",
        fix="Write the language of the page into the lang attribute of the html element.",
        check=_declared,
    ),
    Rule(
        id="bf051a",
        name="Language of the page exists",
        criteria=("3.1.1",),
        how="The first part of the lang attribute of the html element is a registered language.",
        fix="Use a language tag such as en, de or pt-BR.",
        check=_exists,
    ),
    Rule(
        id="5b7ae0",
        name="lang and xml:lang agree",
        criteria=("3.1.1",),
        how="Where the html element has both attributes, they name the same language.",
        fix="Make both attributes say the same, or remove xml:lang.",
        check=_same_twice,
    ),
    Rule(
        id="ucwvc8",
        name="Language of the page is the one used",
        criteria=("3.1.1",),
        how="The text of the page is recognised by script and small words and compared with the lang attribute.",
        fix="Declare the language that the page is written in.",
        check=_page_fits,
    ),
    Rule(
        id="de46e4",
        name="Language of a part exists",
        criteria=("3.1.2",),
        how="The first part of every lang attribute below the html element is a registered language.",
        fix="Use a language tag such as en, de or pt-BR.",
        check=_part_exists,
    ),
    Rule(
        id="off6ek",
        name="Language of a part is the one used",
        criteria=("3.1.2",),
        how="The text of a part with a lang attribute is recognised and compared with it.",
        fix="Declare the language that the part is written in.",
        check=_part_fits,
    ),
)
