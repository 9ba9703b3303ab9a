"""Where a page is cut before it is parsed, so that no page costs more than a large honest one.

A parser follows the nesting for every tag and opens formatting elements again in every block, so a short
text can ask for a tree of any size. One linear look at the tags, with the parser's own rules about which end
tags count, estimates both; the text is cut where the nesting or the work passes its limit.
"""

import re
from collections import Counter

CHARACTERS = 3_000_000
NESTING = 600
WORK = 600_000

_TAG = re.compile(r"<(?:(!--)|(/?)([a-z][^\s/>]*))")
_RAW = frozenset({"script", "style", "textarea", "title", "xmp", "noembed", "noframes", "iframe"})
_FORMATTING = frozenset(
    {"a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"}
)
_VOID = frozenset(
    "area base br col embed frame hr img input link meta param source track wbr html head body".split()
)
# A following tag ends these, so they do not nest by count.
_ENDED_BY_NEXT = frozenset("p li dt dd tr td th tbody thead tfoot option colgroup".split())
# An end tag of another name is not heard across these.
_SPECIAL = frozenset(
    "address article aside blockquote button center details dialog dir div dl fieldset figcaption figure "
    "footer form h1 h2 h3 h4 h5 h6 header hgroup main marquee menu nav object ol pre search section select "
    "summary table template ul applet".split()
)
_SELF_CLOSING_LOOK = 4000


def cut(html: str) -> tuple[str, str]:
    """The text that is parsed, and a sentence about what was left out (empty when nothing was)."""
    if len(html) > CHARACTERS:
        return _by_tags(html[:CHARACTERS], f"Only the first {CHARACTERS} characters were read.")
    return _by_tags(html, "")


def _by_tags(html: str, note: str) -> tuple[str, str]:
    lowered = html.lower() if html.isascii() else html.translate(_LOWER)
    opened: list[str] = []
    count: Counter[str] = Counter()
    formatting = 0
    work = 0
    position = 0
    while (found := _TAG.search(lowered, position)) is not None:
        position = found.end()
        if found[1]:
            position = _after(lowered, "-->", position)
            continue
        tag = found[3]
        work += 1 + formatting
        if found[2]:
            if tag in _FORMATTING:
                formatting = max(0, formatting - 1)
            if count[tag]:
                work += _close(opened, count, tag)
        elif tag in _RAW:
            position = _after(lowered, "</" + tag, position)
        elif tag in _FORMATTING:
            formatting += 1
            opened.append(tag)
            count[tag] += 1
        elif tag not in _VOID and tag not in _ENDED_BY_NEXT:
            if (count["svg"] or count["math"]) and _closes_itself(lowered, position):
                continue
            opened.append(tag)
            count[tag] += 1
        if len(opened) > NESTING:
            return html[: found.start()], f"Cut where elements are nested more than {NESTING} deep."
        if work > WORK:
            return html[: found.start()], "Cut where the page asks for too many nodes."
    return html, note


def _close(opened: list[str], count: Counter[str], tag: str) -> int:
    """Take the element off the stack with all above it, unless its end tag is not heard there."""
    above = 0
    while opened[-1 - above] != tag:
        if opened[-1 - above] in _SPECIAL and tag not in _SPECIAL:
            return above
        above += 1
    for gone in opened[-1 - above :]:
        count[gone] -= 1
    del opened[-1 - above :]
    return above


def _closes_itself(text: str, start: int) -> bool:
    """Only foreign elements heed the slash."""
    end = text.find(">", start, start + _SELF_CLOSING_LOOK)
    return end > start and text[end - 1] == "/"


def _after(text: str, end: str, start: int) -> int:
    found = text.find(end, start)
    return len(text) if found < 0 else found + len(end)


# `str.lower` changes the length of some letters; places in the text have to stay.
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
