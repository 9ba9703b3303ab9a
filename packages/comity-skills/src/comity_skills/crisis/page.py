"""One text, for all who read in it: where its sentences end, what it quotes, whether it laughs.

What only some texts are asked for is looked up when somebody asks.
"""

import re
import sys
from bisect import bisect_left, bisect_right

from comity_skills.crisis.folding import Folded

REACH = 160  # characters on each side of a match that may say something about it
_QUOTED = re.compile(
    '"[^"]{2,300}"|“[^”]{2,300}”|«[^»]{2,300}»|„[^“”]{2,300}[“”]|「[^」]{2,300}」|『[^』]{2,300}』|《[^》]{2,100}》'
    "|(?<!\\w)['\u2018](?=\\w)[^\n]{2,300}?['\u2019](?!\\w)"
)
_OPENING = re.compile("[\"“«„「『《]|['\u2018](?<!\\w.)(?=\\w)")  # how all of them begin
_LAUGHING = re.compile("[\U0001f602\U0001f923\U0001f605\U0001f606\U0001f639\U0001f604]")
_STOP = re.compile("[.!?;\n\u0964]")


class Page:
    __slots__ = ("_original", "_quoted", "_stops", "folded", "text")

    def __init__(self, original: str, folded: Folded) -> None:
        self.folded = folded
        self.text = folded.text
        self._original = original
        self._quoted: list[tuple[int, int]] | None = None
        self._stops: list[int] | None = None

    @property
    def is_long(self) -> bool:
        """Whether there are matches of which one cannot see the whole text."""
        return len(self.text) > 2 * REACH

    def stops_between(self, start: int, end: int) -> bool:
        """Whether a sentence ends there."""
        stops = self._stops
        if stops is None:
            stops = self._find_stops()
        if not stops:
            return False
        at = bisect_left(stops, start)
        return at < len(stops) and stops[at] < end

    def sentence(self, start: int, end: int) -> tuple[int, int]:
        """Where the sentence begins and ends, as far as one can see."""
        low, high = max(0, start - REACH), min(len(self.text), end + REACH)
        stops = self._stops
        if stops is None:
            stops = self._find_stops()
        if not stops:
            return low, high + 1
        at = bisect_right(stops, start - 2) - 1
        left = max(stops[at] - 1, low) if at >= 0 else low
        at = bisect_left(stops, end)
        right = stops[at] - 1 if at < len(stops) and stops[at] + 2 <= high else high
        return left, right + 1

    def quotes(self, start: int, end: int) -> bool:
        """Whether quotation marks stand around what is here in the folded text."""
        if self._quoted is None:
            self._quoted = []
            if _OPENING.search(self._original):
                self._quoted = [place.span() for place in _QUOTED.finditer(self._original)]
        if not self._quoted:
            return False
        begin, finish = self.folded.span(start, end)
        at = bisect_right(self._quoted, (begin, sys.maxsize)) - 1
        return at >= 0 and finish <= self._quoted[at][1]

    def laughs(self) -> bool:
        return not self._original.isascii() and _LAUGHING.search(self._original) is not None

    def _find_stops(self) -> list[int]:
        self._stops = [found.start() for found in _STOP.finditer(self.text)]
        return self._stops
