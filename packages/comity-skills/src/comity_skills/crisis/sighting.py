"""What the lexicon finds in one text, and which languages are worth reading in it.

- First the telling entries are looked for; only a text that has some is looked through for all the others.
- A language is worth reading when a rule of it can match: every slot is there, somewhere.
- Chinese and Japanese share their characters. Where both are found, kana tells them apart.
"""

import re
from bisect import bisect_right
from collections.abc import Container, Mapping, Sequence
from operator import itemgetter

from comity_skills.crisis.context import IDIOM
from comity_skills.crisis.data import LANGUAGES
from comity_skills.crisis.entries import TALLY_BITS, Entry
from comity_skills.crisis.folding import Folded
from comity_skills.crisis.lexicon import Language, Lexicon, Rule

_KANA = re.compile("[\u3041-\u3096]")
_CHINESE, _JAPANESE = LANGUAGES.index("zh"), LANGUAGES.index("ja")
_PLACES = range(0, TALLY_BITS * len(LANGUAGES), TALLY_BITS)
_MOST = (1 << TALLY_BITS) - 1
_END = itemgetter(1)

Hit = tuple[int, int, int]  # start, end, concept
Placed = Sequence[tuple[int, Entry]]


class Sighting:
    """One language in the text: the `rules` that may match, the hits of its concepts, and the set of all `meanings`
    that are in the text.
    """

    __slots__ = ("_entries", "_hits", "_number", "_spoken", "_text", "language", "meanings", "rules")

    def __init__(
        self,
        language: Language,
        rules: Sequence[Rule],
        meanings: int,
        entries: Placed,
        number: int,
        text: str,
    ) -> None:
        self.language = language
        self.rules = rules
        self.meanings = meanings
        self._entries = entries
        self._number = number
        self._text = text
        self._spoken: bool | None = None
        self._hits: list[Hit] | None = None

    def hits(self, concepts: Container[int]) -> list[Hit]:
        """In the order of their ends; of those that end together the longer ones come first."""
        if self._hits is None:
            self._hits = self._find_hits()
        return [hit for hit in self._hits if hit[2] in concepts]

    def _find_hits(self) -> list[Hit]:
        number = self._number
        found = [
            (last, entry[0], last + entry[1], last + entry[2], concept)
            for last, entry in self._entries
            for concept in entry[3].get(number, ())
        ]
        found.sort()
        hits = [hit[2:] for hit in found]
        return _unhidden(hits) if self.meanings & self.language.idioms else hits

    @property
    def entries(self) -> int:
        """How many entries were found: no concept has more hits."""
        return len(self._entries)

    def spoken(self) -> bool:
        """Whether the text is in this language, as far as its words tell: no other has more than twice as many."""
        if self._spoken is None:
            tally = sum([entry[6] for _, entry in self._entries])
            counts = [tally >> place & _MOST for place in _PLACES]
            if counts[_CHINESE] and counts[_JAPANESE]:
                counts[_mistaken(self._text)] = 0
            self._spoken = 2 * counts[self._number] >= max(counts)
        return self._spoken


def sightings_in(folded: Folded, lexicon: Lexicon) -> Sequence[Sighting]:
    """Of the languages that are worth reading, in the order in which the text shows them."""
    text, index = folded.text, lexicon.index
    entries = telling = index.telling.in_any_order(folded)
    if folded.unspaced:
        entries = [*telling, *index.unspaced.find(folded)]
        telling = [one for one in entries if one[1][4]]
    if not telling:
        return ()
    entries = [*entries, *index.everyday.in_any_order(folded)]
    meanings = 0
    for _, entry in entries:
        meanings |= entry[5]
    live = _live(telling, meanings)
    if not live:
        return ()
    if _CHINESE in live or _JAPANESE in live:
        shown = set().union(*[entry[3] for _, entry in entries])
        if _CHINESE in shown and _JAPANESE in shown:
            live.pop(_mistaken(text), None)
    sightings: list[Sighting] = []
    for number in live if len(live) == 1 else _in_order(sorted(entries), live):
        language = lexicon.languages[number]
        rules = [language.rules[place] for place in sorted(live[number])]
        sightings.append(Sighting(language, rules, meanings, entries, number, text))
    return sightings


def _unhidden(hits: Sequence[Hit]) -> list[Hit]:
    """The hits that no idiom covers. An idiom hides what is shorter than itself and lies within it."""
    hidden: set[int] = set()
    for place, (start, end, concept) in enumerate(hits):
        if concept != IDIOM:
            continue
        at = bisect_right(hits, end, place, key=_END) - 1
        while at >= 0 and hits[at][1] > start:
            if hits[at][0] >= start and hits[at][1] - hits[at][0] < end - start:
                hidden.add(at)
            at -= 1
    return [hit for place, hit in enumerate(hits) if place not in hidden]


def _live(telling: Placed, meanings: int) -> dict[int, set[int]]:
    """By the number of the language the places of the rules that may match: each of their slots is there."""
    live: dict[int, set[int]] = {}
    for _, entry in telling:
        for number, place, need, more in entry[4]:
            if not meanings & need:
                continue
            for other in more:
                if not meanings & other:
                    break
            else:
                if number in live:
                    live[number].add(place)
                else:
                    live[number] = {place}
    return live


def _in_order(entries: Placed, live: Mapping[int, set[int]]) -> list[int]:
    first: dict[int, None] = {}
    for _, entry in entries:
        for number in entry[3]:
            if number in live:
                first.setdefault(number)
    return list(first)


def _mistaken(text: str) -> int:
    """Of the two languages the one that it only looks like."""
    return _CHINESE if _KANA.search(text) else _JAPANESE
