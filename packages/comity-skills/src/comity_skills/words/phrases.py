"""Phrases that are looked for as whole words, all of them in one pass over the text.

A phrase is written as it is read, with four marks: `a|b` is either word, `word?` may be missing, `word*`
is any word that begins so, `#` is a number in digits or words. `auto play|plays` therefore finds
`autoplay`-like spellings only where they are listed; nothing is found inside a longer word.

- Of the phrases that begin at a word the longest wins, and its words belong to it alone: `red tape` hides
  `red`, `gulf of mexico` hides `gulf`. A meaning of None is a phrase that only hides.
- The search walks a tree from every word, at most as deep as the longest phrase: linear in the text.
"""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Final, Generic, TypeVar

from msgspec import Struct

from comity_skills.words.tokens import Token

T = TypeVar("T")

NUMBER_WORDS: Final = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "eleven": 11, "twelve": 12, "fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60,
    "ninety": 90, "hundred": 100,
}  # fmt: skip


class Found(Struct, Generic[T], frozen=True):
    """`first` and `last` are the places of its words in the list of tokens, both included."""

    meaning: T
    first: int
    last: int
    start: int
    end: int


class _Node(Generic[T]):
    __slots__ = ("beginnings", "end", "meaning", "number", "words")

    def __init__(self) -> None:
        self.words: dict[str, _Node[T]] = {}
        self.beginnings: list[tuple[str, _Node[T]]] = []
        self.number: _Node[T] | None = None
        self.end = False
        self.meaning: T | None = None

    def child(self, part: str) -> "_Node[T]":
        if part == "#":
            self.number = self.number or _Node()
            return self.number
        if not part.endswith("*"):
            return self.words.setdefault(part, _Node())
        for beginning, node in self.beginnings:
            if beginning == part[:-1]:
                return node
        self.beginnings.append((part[:-1], _Node()))
        return self.beginnings[-1][1]

    def steps(self, word: str) -> list["_Node[T]"]:
        nodes = [self.words[word]] if word in self.words else []
        nodes += [node for beginning, node in self.beginnings if word.startswith(beginning)]
        if self.number is not None and is_number(word):
            nodes.append(self.number)
        return nodes


class Phrases(Generic[T]):
    def __init__(self, entries: Iterable[tuple[str, T | None]]) -> None:
        self._root: _Node[T] = _Node()
        for phrase, meaning in entries:
            for parts in spellings(phrase):
                node = self._root
                for part in parts:
                    node = node.child(part)
                if not node.end:
                    node.end, node.meaning = True, meaning

    def find(self, words: Sequence[Token]) -> list[Found[T]]:
        found: list[Found[T]] = []
        at = 0
        while at < len(words):
            end, node = self._longest(words, at)
            if node is not None and node.meaning is not None:
                found.append(Found(node.meaning, at, end, words[at].start, words[end].end))
            at = end + 1
        return found

    def _longest(self, words: Sequence[Token], at: int) -> tuple[int, _Node[T] | None]:
        best: tuple[int, _Node[T] | None] = (at, None)
        here = self._root.steps(words[at].word)
        place = at
        while here:
            for node in here:
                if node.end and (place > best[0] or best[1] is None):
                    best = (place, node)
            place += 1
            if place == len(words) or not words[place].joined:
                break
            here = [step for node in here for step in node.steps(words[place].word)]
        return best


def is_number(word: str) -> bool:
    return word.isdigit() or word in NUMBER_WORDS


def spellings(phrase: str) -> Iterable[tuple[str, ...]]:
    """Every sequence of words that the marks in a phrase stand for."""
    choices = []
    for part in phrase.split():
        options = part.removesuffix("?").split("|")
        choices.append([*options, ""] if part.endswith("?") else options)
    for chosen in product(*choices):
        parts = tuple(part for part in chosen if part)
        if parts:
            yield parts
