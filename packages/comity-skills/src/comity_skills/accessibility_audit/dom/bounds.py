"""Where a page is cut before it is parsed, so that no page costs more than a large honest one.

A parser follows the nesting for every tag and opens formatting elements again in every block, so a short
text can ask for a tree of any size; it compares every attribute of a tag with all the others. One linear look at the tags, with the parser's own rules about which end
tags count, estimates both; the text is cut where the nesting or the work passes its limit.
"""

import re
from collections import Counter

from comity_skills.words.tokens import word_set

CHARACTERS = 3_000_000
NESTING = 600
WORK = 600_000
ATTRIBUTES = 1_000

_TAG = re.compile(r"<(?:(!--)|(/?)([a-z][^\s/>]*))")
_RAW = frozenset({"script", "style", "textarea", "title", "xmp", "noembed", "noframes", "iframe"})
_FORMATTING = frozenset(
    {"a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"}
)
_VOID = word_set("area base br col embed frame hr img input link meta param source track wbr html head body")
# A following tag ends these, so they do not nest by count.
_ENDED_BY_NEXT = word_set("p li dt dd tr td th tbody thead tfoot option colgroup")
# An end tag of another name is not heard across these.
_SPECIAL = word_set(
    "address article aside blockquote button center details dialog dir div dl fieldset figcaption figure "
    "footer form h1 h2 h3 h4 h5 h6 header hgroup main marquee menu nav object ol pre search section select "
    "summary table template ul applet"
)
_ATTRIBUTE = re.compile(r"""[\s/]*[^\s/>=]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>]*))?""")
_SLASH = re.compile(r"[\s/]+")


def cut(html: str) -> tuple[str, str]:
    """The text that is parsed, and a sentence about what was left out (empty when nothing was)."""
    if len(html) > CHARACTERS:
        return _by_tags(html[:CHARACTERS], f"Only the first {CHARACTERS} characters were read.")
    return _by_tags(html, "")


def _by_tags(html: str, note: str) -> tuple[str, str]:
    lowered = html.lower() if html.isascii() else html.translate(_LOWER)
    estimate = _Estimate()
    position = 0
    while (found := _TAG.search(lowered, position)) is not None:
        position = found.end()
        tag = found[3]
        if found[1]:
            position = _after(lowered, "-->", position)
            continue
        position, attributes = _tag_end(lowered, position)
        if attributes > ATTRIBUTES:
            return html[: found.start()], f"Cut where a tag has more than {ATTRIBUTES} attributes."
        if found[2]:
            estimate.close(tag)
        elif tag in _RAW:
            position = _after(lowered, "</" + tag, position)
        elif not (estimate.foreign and lowered[position - 1] == "/"):
            estimate.open(tag)
        if len(estimate.opened) > NESTING:
            return html[: found.start()], f"Cut where elements are nested more than {NESTING} deep."
        if estimate.work > WORK:
            return html[: found.start()], "Cut where the page asks for too many nodes."
    return html, note


class _Estimate:
    """The stack of open elements as the parser would have it, and the work it has had."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.work = 0
        self._count: Counter[str] = Counter()
        self._formatting = 0

    @property
    def foreign(self) -> bool:
        return bool(self._count["svg"] or self._count["math"])

    def open(self, tag: str) -> None:
        self.work += 1 + self._formatting
        if tag in _VOID or tag in _ENDED_BY_NEXT:
            return
        self._formatting += tag in _FORMATTING
        self.opened.append(tag)
        self._count[tag] += 1

    def close(self, tag: str) -> None:
        """Take the element off the stack with all above it, unless its end tag is not heard there."""
        self.work += 1
        if tag in _FORMATTING:
            self._formatting = max(0, self._formatting - 1)
        if not self._count[tag]:
            return
        above = 0
        while self.opened[-1 - above] != tag:
            if self.opened[-1 - above] in _SPECIAL and tag not in _SPECIAL:
                self.work += above
                return
            above += 1
        for gone in self.opened[-1 - above :]:
            self._count[gone] -= 1
        del self.opened[-1 - above :]


def _tag_end(text: str, start: int) -> tuple[int, int]:
    """Where the attributes of a tag end (its closing sign not included), and how many there are."""
    count = 0
    while count <= ATTRIBUTES and (found := _ATTRIBUTE.match(text, start)) is not None:
        start = found.end()
        count += 1
    slash = _SLASH.match(text, start)
    return (slash.end() if slash is not None else start), count


def _after(text: str, end: str, start: int) -> int:
    found = text.find(end, start)
    return len(text) if found < 0 else found + len(end)


# `str.lower` changes the length of some letters; places in the text have to stay.
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
