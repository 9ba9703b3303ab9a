"""Pictures that are kept from assistive technology only decorate, and the words for the others fit."""

import re
from collections.abc import Iterator

from comity_skills.accessibility_audit.dom.tree import Element
from comity_skills.accessibility_audit.rules.rule import (
    Finding,
    Rule,
    Subject,
    cannot_tell,
    failed,
    passed,
)
from comity_skills.words.tokens import word_set

_FILE = re.compile(
    r"[^\n]+\.(?:png|jpe?g|gif|svg|webp|avif|bmp|ico|tiff?|heic)|(?:img|dsc[nf]?|image|pict?|photo|screenshot|scan)[-_ ]?\d[\d_ .-]*",
    re.IGNORECASE,
)
_FILE_LENGTH = 200
_VAGUE = frozenset(
    {"image", "img", "picture", "photo", "graphic", "icon", "bild", "imagen", "foto", "untitled", "spacer"}
)
_WORD = re.compile(r"[a-z]+|[A-Z](?:[a-z]+|[A-Z]*(?![a-z]))")
_TELLING = word_set(
    "logo logos chart charts barchart piechart graph graphs diagram diagrams infographic infographics screenshot "
    "screenshots flowchart"
)
_LOGOS = frozenset(("logo", "logos"))
_NEAR = 8


def _decorates(subject: Subject) -> Iterator[Finding]:
    for element in subject.document.tagged("img"):
        if not subject.shown.seen(element) or not element.get("src"):
            continue
        kept = subject.shown.aria_hidden(element) or subject.roles.presentational(element)
        if not kept or _inside_named(subject, element):
            continue
        source = (element.get("src") or "").rsplit("/", 1)[-1]
        words = {word.lower() for word in _WORD.findall(source)}
        if words & _TELLING and not (words & {"logo", "logos"} and _beside_words(element)):
            yield failed(
                element, f"{source[:60]!r} seems to tell something, but is kept from assistive technology."
            )
        else:
            yield cannot_tell(element, "See that this image only decorates.")


def _inside_named(subject: Subject, element: Element) -> bool:
    """Within a link, button or figure that says the same in words."""
    holder = element.closest("a", "button", "figure", "label")
    return holder is not None and bool(subject.names.content(holder) or subject.names.of(holder))


def _beside_words(element: Element) -> bool:
    """Whether the image has text beside it, that may say the same."""
    beside = element.parent.children[:_NEAR] if element.parent is not None else []
    return any((one if isinstance(one, str) else one.text()[:200]).strip() for one in beside)


def _fits(subject: Subject) -> Iterator[Finding]:
    for element in subject.roles.with_role("img", "image"):
        name = subject.names.of(element)
        if not name or not subject.shown.told(element) or not subject.shown.seen(element):
            continue
        if len(name) <= _FILE_LENGTH and _FILE.fullmatch(name):
            yield failed(element, f"{name[:60]!r} is the name of a file, not a description.")
        elif _names_another(element, name):
            yield failed(element, f"{name[:60]!r} names something else than the file of the image does.")
        elif name.lower() in _VAGUE:
            yield failed(element, f"{name[:60]!r} does not say what the image shows.")
        elif (element.get("alt") or "") == name and len(name) > 1:
            yield cannot_tell(element, "See that the words fit the image.")
        else:
            yield passed(element)


def _names_another(element: Element, name: str) -> bool:
    """Whether the words say that it is the logo of one, and the file that of another (`w3c-logo.png`)."""
    source = (element.get("src") or "").split("?")[0].rsplit("/", 1)[-1].rpartition(".")[0]
    said, filed = (re.findall(r"[^\W_]+", one.lower())[:_NEAR] for one in (name, source))
    if not ({*said} & _LOGOS and {*filed} & _LOGOS):
        return False
    said, filed = ([word for word in one if word not in _LOGOS] for one in (said, filed))
    initials = "".join(word[0] for word in said)
    short = (
        any(word[0] == initials[0] and word[-1] == initials[-1] for word in filed) if len(said) > 1 else False
    )
    return (
        bool(said and filed)
        and not short
        and not any(one in other or other in one for one in said for other in filed)
    )


RULES = (
    Rule(
        id="e88epe",
        name="Image kept from assistive technology decorates",
        criteria=("1.1.1",),
        how="Files named as charts, diagrams, or logos without words beside them fail; the others need a look.",
        fix="Describe what the image tells in its alt attribute.",
        check=_decorates,
    ),
    Rule(
        id="qt1vmo",
        name="Name of an image describes it",
        criteria=("1.1.1",),
        how="File names, words such as image, and the logo of another than the file says fail; whether other words fit needs a look.",
        fix="Say what the image shows or does.",
        check=_fits,
    ),
)
