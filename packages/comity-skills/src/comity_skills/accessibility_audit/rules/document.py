"""What the head of a page promises: a title, no sudden change, and room to zoom and turn."""

import re
from collections.abc import Iterator

from comity_skills.accessibility_audit.dom.tree import Element
from comity_skills.accessibility_audit.names.name import tidy
from comity_skills.accessibility_audit.rules.rule import (
    Finding,
    Rule,
    Subject,
    cannot_tell,
    failed,
    judge,
    passed,
    phrases,
)

_REFRESH = re.compile(r"[\s]*(\d*)(?:\.[\d.]*)?([\s;,]|$)")
_LONG_ENOUGH = 72_000
_SIZES = frozenset({"device-width", "device-height"})
_ZOOMS = _SIZES | {"yes"}  # browsers read any other word as no
_VAGUE_TITLES = phrases(
    "untitled|untitled document|untitled page|document|page|home|homepage|home page|index|title|"
    "page title|new page|website|web page|webpage|welcome|default|test|your title here|title here|"
    "placeholder|index.html|loading|loading..."
)
_ANGLE = re.compile(r"rotate(?:z|3d)?\(([^()]*)\)|^\s*([+-]?[\d.]+(?:deg|turn|rad|grad))\s*$", re.IGNORECASE)
_MATRIX = re.compile(r"matrix(?:3d)?\(([^()]*)\)", re.IGNORECASE)
_TURNS = {"deg": 1.0, "turn": 360.0, "rad": 57.29577951308232, "grad": 0.9}
_TRANSFORM = 300
_AMOUNT = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(deg|turn|rad|grad)")


def _title(subject: Subject) -> Element | None:
    return next((one for one in subject.document.tagged("title") if not one.foreign), None)


def _has_title(subject: Subject) -> Iterator[Finding]:
    title = _title(subject)
    if title is None:
        yield failed(subject.document.root, "The page has no title.")
    else:
        yield judge(title, "" if title.text().strip() else "The title of the page is empty.")


def _title_describes(subject: Subject) -> Iterator[Finding]:
    title = _title(subject)
    words = tidy(title.text()) if title is not None else ""
    if title is None or not words:
        return
    if words.lower().strip(" .-|") in _VAGUE_TITLES:
        yield failed(title, f"{words[:60]!r} says nothing about this page.")
        return
    shared = _content_words(words) & _content_words(subject.names.seen_text(subject.document.root))
    if shared:
        yield passed(title)
    else:
        yield cannot_tell(title, "No word of the title occurs on the page; see whether it describes it.")


def _content_words(text: str) -> set[str]:
    """Words of some length, without their endings."""
    return {word[:5] for word in re.findall(r"[^\W\d_]{4,}", text.lower())}


def _refresh_time(element: Element) -> int | None:
    """The seconds of a refresh that a browser would heed."""
    if (element.get("http-equiv") or "").strip().lower() != "refresh":
        return None
    content = element.get("content") or ""
    found = _REFRESH.match(content)
    if found is None or not (found[1] or content.lstrip().startswith(".")):
        return None
    return int(found[1][:9] or "0")


def _first_refresh(subject: Subject) -> tuple[Element, int] | None:
    for element in subject.document.tagged("meta"):
        time = _refresh_time(element)
        if time is not None:
            return element, time
    return None


def _refresh(subject: Subject) -> Iterator[Finding]:
    found = _first_refresh(subject)
    if found is not None:
        element, time = found
        soon = 0 < time <= _LONG_ENOUGH
        yield judge(element, f"The page changes by itself after {time} seconds." if soon else "")


def _refresh_at_all(subject: Subject) -> Iterator[Finding]:
    found = _first_refresh(subject)
    if found is not None:
        element, time = found
        yield judge(element, f"The page changes by itself after {time} seconds." if time else "")


def _viewport(subject: Subject) -> Iterator[Finding]:
    for element in subject.document.tagged("meta"):
        if (element.get("name") or "").strip().lower() != "viewport":
            continue
        settings = _settings(element.get("content") or "")
        if "user-scalable" not in settings and "maximum-scale" not in settings:
            continue
        scalable = settings.get("user-scalable", "yes")
        number = _number(scalable)
        if (number is None and scalable not in _ZOOMS) or (number is not None and -1 < number < 1):
            yield failed(element, "user-scalable keeps people from zooming.")
            continue
        largest = settings.get("maximum-scale", "device-width")
        number = _number(largest)
        small = largest not in _SIZES if number is None else 0 <= number < 2
        yield judge(element, "maximum-scale keeps people from zooming to 200 %." if small else "")


def _settings(content: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in re.split(r"[,;]", content.lower()):
        name, _, value = part.partition("=")
        if value.strip():
            found[name.strip()] = value.strip()
    return found


def _number(text: str) -> float | None:
    found = re.match(r"[+-]?(?:\d+\.?\d*|\.\d+)", text)
    return float(found[0]) if found is not None else None


def _orientation(subject: Subject) -> Iterator[Finding]:
    turned: dict[str, list[tuple[Element, float]]] = {"portrait": [], "landscape": []}
    for reached, declarations, orientation in subject.styles.oriented:
        for name in ("transform", "rotate"):
            if name not in declarations:
                continue
            angle = _angle(declarations[name][0])
            for element in reached[:200]:
                if orientation in turned and subject.shown.seen(element):
                    turned[orientation].append((element, angle))
    for orientation, others in (("portrait", "landscape"), ("landscape", "portrait")):
        opposite = {element.index: angle for element, angle in turned[others]}
        for element, angle in turned[orientation]:
            plain = _angle(subject.styles.get(element, "transform") or "")
            difference = abs(angle - opposite.get(element.index, plain)) % 180
            locked = 85 <= difference <= 95
            yield judge(
                element, f"The content is turned sideways in {orientation} orientation." if locked else ""
            )


def _angle(transform: str) -> float:
    transform = transform[:_TRANSFORM]
    for matrix in _MATRIX.findall(transform):
        parts = [_number(part.strip()) or 0.0 for part in matrix.split(",")]
        if len(parts) >= 2 and abs(parts[0]) < 0.01 and abs(abs(parts[1]) - 1) < 0.01:
            return 90.0 if parts[1] > 0 else -90.0
    total = 0.0
    for inner, bare in _ANGLE.findall(transform):
        for amount, unit in _AMOUNT.findall((inner or bare).lower()):
            total += float(amount) * _TURNS[unit]
    return total


RULES = (
    Rule(
        id="2779a5",
        name="Page has a title",
        criteria=("2.4.2",),
        how="The first title element exists and is not empty.",
        fix="Give the page a title element that says what it is about.",
        check=_has_title,
    ),
    Rule(
        id="c4a8a4",
        name="Title describes the page",
        criteria=("2.4.2",),
        how="Placeholders fail; a title that shares words with the page passes; the rest needs a look.",
        fix="Write a title that tells this page from others.",
        check=_title_describes,
    ),
    Rule(
        id="bc659a",
        name="Page does not change after a delay",
        criteria=("2.2.1", "2.2.4", "3.2.5"),
        how="The first meta refresh that browsers heed is immediate or takes more than 20 hours.",
        fix="Remove the refresh, or redirect on the server.",
        check=_refresh,
    ),
    Rule(
        id="bisz58",
        name="Page does not change after any delay",
        criteria=("2.2.4", "3.2.5"),
        how="The first meta refresh that browsers heed is immediate.",
        fix="Remove the refresh, or redirect on the server.",
        check=_refresh_at_all,
    ),
    Rule(
        id="b4f0c3",
        name="Page can be zoomed",
        criteria=("1.4.4", "1.4.10"),
        how="The viewport declaration does not forbid scaling and allows at least 200 %.",
        fix="Remove user-scalable and maximum-scale from the viewport declaration.",
        check=_viewport,
    ),
    Rule(
        id="b33eff",
        name="Content turns with the device",
        criteria=("1.3.4",),
        how="Rules for an orientation do not turn content by a right angle.",
        fix="Do not rotate the page to force an orientation.",
        check=_orientation,
    ),
)
