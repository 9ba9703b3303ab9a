"""Finds many patterns in a folded text in one pass.

A pattern with characters that are written without blanks is looked for apart, in texts that have some: they are many,
and what begins no pattern is compared with all that begin one.
"""

from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Generic, TypeVar

import ahocorasick  # type: ignore[import-not-found]  # a C module without stubs

from comity_skills.crisis.folding import Folded, has_unspaced

_PLACE = itemgetter(0)
_BLANK_AND_STOPS = " ,.!?;:\n"
_NOWHERE = "\0"  # no folded text holds it

T = TypeVar("T")
Find = Callable[[str], Iterable[tuple[int, T]]]
"""What is found in a text, each with the place of its last character, in order."""


class Lookup(Generic[T]):
    def __init__(self, patterns: Mapping[str, T]) -> None:
        unspaced = {text: told for text, told in patterns.items() if has_unspaced(text)}
        spaced = {text: told for text, told in patterns.items() if text not in unspaced}
        self._spaced, self._unspaced = finder(spaced), finder(unspaced, unspaced=True)

    def find(self, folded: Folded) -> Iterable[tuple[int, T]]:
        """What the patterns tell, each with the place of its last character, in order."""
        found = self._spaced(folded.text)
        return sorted((*found, *self._unspaced(folded.text)), key=_PLACE) if folded.unspaced else found

    def finds(self, folded: Folded) -> bool:
        """Whether there is one of them."""
        finds = (self._spaced, self._unspaced) if folded.unspaced else (self._spaced,)
        return any(True for find in finds for _ in find(folded.text))


def finder(patterns: Mapping[str, T], *, unspaced: bool = False) -> Find[T]:
    if not patterns:
        return lambda _: ()
    automaton = ahocorasick.Automaton()
    if unspaced:
        for character in _BLANK_AND_STOPS:  # compared first, for every text is full of them
            automaton.add_word(character + _NOWHERE, None)
    for text, told in patterns.items():
        automaton.add_word(text, told)
    automaton.make_automaton()
    find: Find[T] = automaton.iter
    return find
