"""The scores that release 1.0.8 gives a page: patterns on the raw text, one formula for each of 52 criteria.

- They are kept for programs that compare numbers with that release. They say little about a page: a comment
  counts like an element, and no ratio of colours is computed. The audit itself is in `audit.py`.
- Case does not matter, in ASCII only; word characters are those of ASCII; blanks between tags are those of
  JavaScript. Halves are rounded up. A tag ends at the first `>`, quoted or not; without one it is none.
- A share is what passed of all that was counted, 100 when nothing was. Penalties stop at 0 or at the least
  score named. A criterion without a formula is for people.
- Where a formula only grades, a low score counts no failure (1.4.10, 2.4.5, 3.3.1 and others).
- Every formula takes linear time: no pattern can begin again inside the stretch it has read.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

_MODERATE: Final = 60
_BLANKS: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
_LINE_END: Final = re.compile("[\n\r\u2028\u2029]")
_POOR_TITLES: Final = frozenset({"untitled", "document", "page", "home"})


class Recorded(Struct, frozen=True):
    """What a formula makes of a page. `sought` says what it looks for."""

    score: int
    passed: int
    failed: int
    sought: str = ""


_Formula = Callable[[str], Recorded]
_Judge = Callable[[int], Recorded]
# How often something is in the text; a test says 0 or 1.
_Count = Callable[[str], int]


def recorded_scores(html: str) -> dict[str, Recorded]:
    """By the id of the criterion; what people have to judge is not among them."""
    text = html.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")
    scores = {}
    for criterion, (sought, formula) in _FORMULAS.items():
        made = formula(text)
        scores[criterion] = Recorded(made.score, made.passed, made.failed, sought)
    return scores


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.ASCII)


def _share(passed: int, failed: int) -> Recorded:
    whole = passed + failed
    return Recorded((200 * passed + whole) // (2 * whole) if whole else 100, passed, failed)


def _graded(score: int) -> Recorded:
    return Recorded(score, int(score >= _MODERATE), 0)


def _judged(score: int) -> Recorded:
    good = score >= _MODERATE
    return Recorded(score, int(good), int(not good))


def _tags(names: str) -> Callable[[str], Iterator[tuple[int, int]]]:
    """Where the opening tags of these elements begin and end."""
    opening = _pattern(rf"<(?:{names})\b")

    def find(text: str) -> Iterator[tuple[int, int]]:
        found = opening.search(text)
        while found:
            end = text.find(">", found.end()) + 1
            if not end:
                return
            yield found.start(), end
            found = opening.search(text, end)

    return find


def _elements(names: str) -> _Count:
    tags = _tags(names)
    return lambda text: sum(1 for _ in tags(text))


def _followed(names: str, content: str) -> _Count:
    """The number of opening tags that this content follows."""
    tags = _tags(names)
    after = _pattern(content)
    return lambda text: sum(after.match(text, end) is not None for _, end in tags(text))


def _with(names: str, attribute: str) -> _Count:
    """The number of opening tags that hold the attribute."""
    tags = _tags(names)
    inside = _pattern(attribute)
    return lambda text: sum(inside.search(text, start, end) is not None for start, end in tags(text))


def _times(pattern: str) -> _Count:
    compiled = _pattern(pattern)
    return lambda text: sum(1 for _ in compiled.finditer(text))


def _matches(pattern: str) -> _Count:
    compiled = _pattern(pattern)
    return lambda text: int(compiled.search(text) is not None)


def _holds(*words: str) -> _Count:
    return lambda text: int(any(word in text for word in words))


def _on_one_line(first: str, then: str) -> _Count:
    def count(text: str) -> int:
        start = text.find(first)
        while start >= 0:
            line_end = _LINE_END.search(text, start)
            end = line_end.start() if line_end else len(text)
            if text.find(then, start + len(first), end) >= 0:
                return 1
            start = text.find(first, end)
        return 0

    return count


def _at_least(pattern: str, least: float) -> _Count:
    """Whether a number that the pattern captures is this large."""
    compiled = _pattern(pattern)
    return lambda text: int(any(float(found[1]) >= least for found in compiled.finditer(text)))


def _less(count: _Count, each: int, least: int = 0) -> _Formula:
    def formula(text: str) -> Recorded:
        wrong = count(text)
        return Recorded(max(least, 100 - each * wrong), int(not wrong), wrong)

    return formula


def _either(found: _Count, so: int, otherwise: int, judge: _Judge = _judged) -> _Formula:
    return lambda text: judge(so if found(text) else otherwise)


def _cases(*cases: tuple[_Count, int], otherwise: int, judge: _Judge = _judged) -> _Formula:
    """The score of the first case that applies."""
    return lambda text: judge(next((score for applies, score in cases if applies(text)), otherwise))


def _up_to_two(count: _Count, none: int, one: int, more: int) -> _Formula:
    return lambda text: _graded((none, one, more)[min(2, count(text))])


def _covered(have: _Count, need: _Count) -> _Formula:
    def formula(text: str) -> Recorded:
        asked = need(text)
        answered = min(have(text), asked)
        return _share(answered, asked - answered)

    return formula


def _structure(text: str) -> Recorded:
    distinct = sum(landmark(text) for landmark in _LANDMARKS)
    return _share(distinct + _HEADINGS(text), max(0, 3 - distinct))


def _colours(text: str) -> Recorded:
    colours = _COLOURS(text)
    variables = text.count("var(--")
    background = _BACKGROUND(text)
    passed = 3 + variables if colours and background else 5 if variables else 2
    return _share(passed, 0 if background else colours)


def _font_units(text: str) -> Recorded:
    fixed = _FIXED_FONTS(text)
    return _judged(100 if not fixed else 70 if _RELATIVE_FONTS(text) > fixed else 30)


def _text_layout(text: str) -> Recorded:
    ragged = "text-align" in text and "justify" not in text
    return _graded(
        (40 if _AIRY(text) else 20) + (40 if ragged else 10) + (20 if _RELATIVE_FONTS(text) else 10)
    )


def _reflow(text: str) -> Recorded:
    hidden = "overflow" in text
    if _FULL_WIDTH(text):
        return _graded(70 if hidden else 100)
    return _graded(30 if hidden else 50)


def _hover_and_focus(text: str) -> Recorded:
    return _graded((50 if ":hover" in text else 25) + (50 if ":focus" in text else 25))


def _skip_link(text: str) -> Recorded:
    return _judged(100 if "skip" in text and "main" in text else 20)


def _title(text: str) -> Recorded:
    for _, end in _TITLES(text):
        found = _TITLE_TEXT.match(text, end)
        if found:
            title = found[1].strip(_BLANKS)
            return _judged(100 if title and title not in _POOR_TITLES else 0)
    return _judged(0)


def _ways(text: str) -> Recorded:
    if not _NAVIGATION(text):
        return _graded(30)
    return _graded(80 if "search" in text else 60)


def _buttons(text: str) -> Recorded:
    # 1.0.8 seeks the name where a button practically never has it: none passes.
    return _share(0, _BUTTONS(text))


def _alternatives(text: str) -> Recorded:
    told = _TOLD_IMAGES(text)
    return _share(told, _IMAGES(text) - told)


_IMAGES: Final = _elements("img")
_TOLD_IMAGES: Final = _with("img", r"\balt\s*=\s*[\"']")
_IMAGES_OF_TEXT: Final = _with("img", "text|title|heading|banner")
_LANDMARKS: Final = tuple(
    _matches(rf"<{name}\b") for name in ("header", "main", "footer", "nav", "section", "article", "aside")
)
_NAVIGATION: Final = _matches(r"<nav\b")
_HEADINGS: Final = _elements("h[1-6]")
_EMPTY_HEADINGS: Final = _followed("h[1-6]", rf"[{_BLANKS}]*</h[1-6]>")
_TITLES: Final = _tags("title")
_TITLE_TEXT: Final = _pattern(r"([^<]*)</title")
_LABELS: Final = _times(r"<label\b|\baria-label\s*=")
_BUTTONS: Final = _elements("button")
_LANGUAGE: Final = _with("html", r"\blang\s*=\s*[\"'][a-z]{2}")
_VAGUE_LINKS: Final = _followed(
    "a", rf"[{_BLANKS}]*(?:click here|read more|learn more|more|here|link)[{_BLANKS}]*</a>"
)
_PLACES: Final = _times(
    r"\b(?:click|press)\s+the\s+(?:red|green|blue|yellow|orange|purple|pink|black|white|gr[ae]y|brown"
    r"|left|right|top|bottom|upper|lower)\b|\bon\s+the\s+(?:left|right)\b"
)
_COLOURS: Final = _times(r"color\s*:")
_BACKGROUND: Final = _matches(r"background(?:-color)?\s*:")
_FIXED_FONTS: Final = _times(r"font-size\s*:\s*[\d.]+px")
_RELATIVE_FONTS: Final = _times(r"font-size\s*:\s*[\d.]+(?:rem|em|%)")
_AIRY: Final = _at_least(r"line-height\s*:\s*(\d+(?:\.\d+)?)", 1.5)
_FULL_WIDTH: Final = _matches(r"width\s*:\s*100%")
_SPACING: Final = r"(?:letter-spacing|word-spacing|line-height)\s*:"
_SIZE: Final = r"(?:width|height)\s*:\s*(\d+(?:\.\d+)?)px"
_FOCUS: Final = _holds(":focus")
_ANIMATION: Final = _holds("animation")
_TIMERS: Final = (_holds("settimeout", "setinterval"), _on_one_line("session", "expir"))
_ERRORS: Final = _matches(r"aria-invalid|\bclass\s*=\s*[\"'][^\"']*error")
_CHECKING: Final = _holds("confirm", "review", "verify")

_FORMULAS: Final[dict[str, tuple[str, _Formula]]] = {
    "1.1.1": ("img elements with a quoted alt", _alternatives),
    "1.3.1": ("three kinds of landmark elements, and headings", _structure),
    "1.3.2": (
        "an order that CSS turns around",
        _either(_matches(r"row-reverse|column-reverse|order\s*:"), 50, 100),
    ),
    "1.3.3": ("instructions by colour or side", _less(_PLACES, 20)),
    "1.3.4": (
        "words of orientation, and a viewport",
        _cases((_holds("orientation", "landscape", "portrait"), 40), (_holds("viewport"), 100), otherwise=60),
    ),
    "1.3.5": ("an autocomplete for each input", _covered(_times(r"\bautocomplete\s*="), _elements("input"))),
    "1.3.6": (
        "two role attributes",
        _up_to_two(_times(r"\brole\s*="), 25, 50, 100),
    ),
    "1.4.1": ("colours in CSS", _less(_COLOURS, 5, 30)),
    "1.4.3": ("colours with a background", _colours),
    "1.4.4": ("font sizes in px", _font_units),
    "1.4.5": ("images that speak of text", _less(_IMAGES_OF_TEXT, 25)),
    "1.4.6": ("colours with a background", _colours),
    "1.4.8": ("line height, alignment and relative fonts", _text_layout),
    "1.4.9": ("images that speak of text", _either(_IMAGES_OF_TEXT, 0, 100)),
    "1.4.10": ("full width without overflow", _reflow),
    "1.4.11": ("borders", _either(_holds("border"), 70, 50)),
    "1.4.12": (
        "spacing that is not in px",
        _cases(
            (_matches(_SPACING + r"\s*[\d.]+px"), 60), (_matches(_SPACING), 100), otherwise=40, judge=_graded
        ),
    ),
    "1.4.13": ("styles for hover and focus", _hover_and_focus),
    "2.1.1": ("div and span elements with onclick", _less(_with("div|span", r"\bonclick\s*="), 20, 20)),
    "2.1.4": ("accesskey attributes", _less(_times(r"\baccesskey\s*="), 35, 30)),
    "2.2.1": ("timers and sessions that expire", _cases(*((one, 40) for one in _TIMERS), otherwise=100)),
    "2.2.2": (
        "blinking and moving content",
        _cases((_matches(r"<(?:blink|marquee)\b"), 0), (_ANIMATION, 50), otherwise=100),
    ),
    "2.2.3": ("timers and sessions that expire", _cases(*((one, 0) for one in _TIMERS), otherwise=100)),
    "2.3.1": ("animation", _either(_ANIMATION, 60, 100)),
    "2.3.2": ("animation", _either(_ANIMATION, 60, 100)),
    "2.3.3": (
        "care for reduced motion",
        _cases((_holds("reduced-motion"), 100), (_ANIMATION, 40), otherwise=70),
    ),
    "2.4.1": (
        "the words skip and main",
        _skip_link,
    ),
    "2.4.2": ("a title that says something", _title),
    "2.4.3": ("positive tabindex values", _less(_times(r"\btabindex\s*=\s*[\"'][1-9]"), 25)),
    "2.4.4": ("links that say nothing of their target", _less(_VAGUE_LINKS, 20)),
    "2.4.5": ("navigation and search", _ways),
    "2.4.6": ("empty headings", _less(_EMPTY_HEADINGS, 25)),
    "2.4.7": ("a style for focus", _either(_FOCUS, 100, 20)),
    "2.4.8": ("breadcrumbs", _either(_holds("breadcrumb"), 100, 25, _graded)),
    "2.4.9": ("links that say nothing of their target", _less(_VAGUE_LINKS, 25)),
    "2.4.10": (
        "two headings of the second level",
        _up_to_two(_elements("h2"), 10, 50, 100),
    ),
    "2.4.13": ("a style for focus", _either(_FOCUS, 80, 10)),
    "2.5.3": (
        "labels",
        _cases((_matches(r"<label\b"), 100), (_holds("labelledby"), 70), otherwise=30, judge=_graded),
    ),
    "2.5.5": ("a size of 44px", _either(_at_least(_SIZE, 44), 100, 30)),
    "2.5.8": ("a size of 24px", _either(_at_least(_SIZE, 24), 100, 40)),
    "3.1.1": ("the language of the page", _either(_LANGUAGE, 100, 0)),
    "3.1.2": ("the language of the page", _either(_LANGUAGE, 80, 12, _graded)),
    "3.2.1": (
        "fields that lead away on focus",
        _either(_matches(r"\bonfocus\s*=\s*[\"'][^\"']*location"), 10, 100),
    ),
    "3.2.2": ("fields that submit on change", _either(_on_one_line("onchange", "submit"), 20, 100)),
    "3.2.6": (
        "the words help, support or contact",
        _either(_holds("help", "support", "contact"), 80, 30, _graded),
    ),
    "3.3.1": ("marks of errors", _either(_ERRORS, 80, 50, _graded)),
    "3.3.2": ("a label for each field", _covered(_LABELS, _elements("input|select|textarea"))),
    "3.3.3": ("marks of errors", _either(_ERRORS, 70, 30, _graded)),
    "3.3.4": ("the words confirm, review or verify", _either(_CHECKING, 80, 40, _graded)),
    "3.3.6": ("the words confirm, review or verify", _either(_CHECKING, 60, 20, _graded)),
    "4.1.2": ("named buttons", _buttons),
    "4.1.3": (
        "live regions",
        _either(_matches(r"aria-live|\brole\s*=\s*[\"'](?:status|alert)[\"']"), 100, 40),
    ),
}
