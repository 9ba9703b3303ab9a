"""A passage: a text as it is looked at before anything in it is changed.

- Places are counted in code points of the text as it was sent. `fold` replaces single characters by single
  characters only, so a place found in the folded text is the same place in the text.
- A sentence ends at `.`, `!`, `?` or a line break: what opens a line may be opened by other words. The full
  stop of an abbreviation ends none.
- What stands in quotation marks, in code, in a line that a `>` marks as cited, in an address or a link is somebody
  else's wording: it is looked at, and never changed.
- Every expression here is bounded: a text of any length is read in linear time.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from comity_skills.words.tokens import word_set

Span = tuple[int, int]

LINK = re.compile(
    r"(?:https?://|www\.)[^\s<>\"]{1,2048}|(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,6}"
)

_FOLD = str.maketrans(
    {
        "\u2018": "'",
        "\u2019": "'",
        "\u02bc": "'",
        "\u201b": "'",
        "\uff07": "'",
        "\u00a0": " ",
        "\u202f": " ",
        "\u2007": " ",
        "\u2010": "-",
        "\u2011": "-",
    }
)
_ABBREVIATIONS = word_set(
    "mr mrs ms dr prof sr jr st vs inc ltd corp approx dept fig tel ext jan feb apr aug sep sept oct nov dec "
    "e.g i.e a.m p.m u.s u.k"
)
_END = re.compile(r"[.!?\u2026\u3002\uff01\uff1f]{1,8}[\"'\u201d\u2019)\]]{0,3}(?=\s|$)|[\r\n]+")
_LAST_WORD = re.compile(r"[\w.]{1,12}$")
_QUOTED = re.compile(
    r"\u201c[^\u201c\u201d\r\n]{1,600}\u201d"
    r"|\u00ab[^\u00ab\u00bb\r\n]{1,600}\u00bb"
    r"|\u201e[^\u201e\u201c\u201d\r\n]{1,600}[\u201c\u201d]"
    r"|(?<!\w)\"[^\"\r\n]{1,600}\"(?!\w)"
    r"|(?<!\w)\u2018[^\u2018\r\n]{1,600}?\u2019(?!\w)"
    r"|(?<!\w)'[^'\r\n]{1,600}(?:'\w[^'\r\n]{0,600}){0,8}'(?!\w)"
    r"|```[\s\S]{1,20000}?```"
    r"|`[^`\r\n]{1,600}`"
    r"|<(?:blockquote|code|kbd|pre|q|samp|script|style)\b[^<>]{0,200}>[^<]{1,20000}</"
    r"|(?:(?<=[\r\n])|\A)[ \t]{0,3}>[^\r\n]{1,2000}"
)
_WE = re.compile(r"\b(?:we|our|ours|(?-i:us)|we're|we've|we'll)\b", re.IGNORECASE)  # US is a country
_I = re.compile(r"\b(?:I|I'm|I've|I'll|[Mm]y|me)\b")


def fold(text: str) -> str:
    """The same text with one kind of apostrophe, space and hyphen; places stay where they are."""
    return text.translate(_FOLD)


def sentences(text: str) -> Iterator[Span]:
    """The sentences in order, without the white space around them."""
    start = 0
    for end in _END.finditer(text):
        if end.group() == ".":
            word = _LAST_WORD.search(text, max(start, end.start() - 12), end.start())
            if word and (word.group().casefold() in _ABBREVIATIONS or _initial(word.group())):
                continue
        yield from _stripped(text, start, end.end())
        start = end.end()
    yield from _stripped(text, start, len(text))


class Passage(Struct, frozen=True):
    """A text with its folded form, its sentences and the places that are not the author's own words.
    `speaker` is how the authors speak of themselves: `we`, else `I`, else nothing.
    """

    text: str
    folded: str
    sentences: tuple[Span, ...]
    quoted: tuple[Span, ...]
    links: tuple[Span, ...]
    speaker: Literal["we", "I", ""]
    _starts: tuple[int, ...]

    def sentence_at(self, place: int) -> Span:
        """The sentence around a place; between sentences, the one before it."""
        index = bisect_right(self._starts, place) - 1
        return self.sentences[max(index, 0)] if self.sentences else (0, len(self.text))

    def is_quoted(self, start: int, end: int) -> bool:
        return _inside(self.quoted, start, end)

    def is_link(self, start: int, end: int) -> bool:
        return _inside(self.links, start, end)


def read(text: str) -> Passage:
    folded = fold(text)
    found = tuple(sentences(text))
    return Passage(
        text,
        folded,
        found,
        tuple(match.span() for match in _QUOTED.finditer(text)),
        tuple(match.span() for match in LINK.finditer(text)),
        "we" if _WE.search(folded) else "I" if _I.search(folded) else "",
        tuple(start for start, _ in found),
    )


def _initial(word: str) -> bool:
    return len(word) == 1 and word.isupper() and word != "I"


def _stripped(text: str, start: int, end: int) -> Iterator[Span]:
    piece = text[start:end]
    inner = piece.strip()
    if inner:
        first = start + piece.index(inner[0])
        yield first, first + len(inner)


def _inside(spans: tuple[Span, ...], start: int, end: int) -> bool:
    """Whether the place touches one of the spans, which are in order and do not overlap."""
    index = bisect_right(spans, (end, end)) - 1
    return index >= 0 and spans[index][0] < end and start < spans[index][1]
