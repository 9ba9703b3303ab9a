"""Phrases that are looked for as whole words, all of them in one pass over the text.

A phrase is written as it is read, with four marks: `a|b` is either word, `word?` may be missing, `word*`
is any word that begins so, `#` is a number in digits or words. `auto play|plays` therefore finds
`autoplay`-like spellings only where they are listed; nothing is found inside a longer word.

- Of the phrases that begin at a word the longest wins, and its words belong to it alone: `red tape` hides
  `red`, `gulf of mexico` hides `gulf`. A meaning of None is a phrase that only hides.
- The search walks a tree from every word, at most as deep as the longest phrase: linear in the text.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Final, Generic, NamedTuple, TypeVar

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


_Part = tuple[tuple[str, ...], bool]  # what may stand there, and whether it may be missing
_Place = tuple[int, int]  # a phrase, and which of its parts comes next


class _Node(Generic[T]):
    """Where some words have led in some phrases. What comes after it is worked out when a text has come so far."""

    __slots__ = ("_known", "_phrases", "_places")

    def __init__(self, phrases: "Sequence[tuple[Sequence[_Part], T | None]]", places: list[_Place]) -> None:
        self._phrases = phrases
        self._places = places
        self._known: _Known[T] | None = None

    @property
    def known(self) -> "_Known[T]":
        if self._known is None:
            self._known = self._look()
        return self._known

    def _look(self) -> "_Known[T]":
        places: dict[str, list[_Place]] = {}
        ended: list[int] = []
        for phrase, part in self._places:
            parts = self._phrases[phrase][0]
            for at in range(part, len(parts)):
                choices, optional = parts[at]
                for choice in choices:
                    places.setdefault(choice, []).append((phrase, at + 1))
                if not optional:
                    break
            else:
                ended.append(phrase)
        nodes = {choice: _Node(self._phrases, found) for choice, found in places.items()}
        number = nodes.pop("#", None)
        opens = [(choice[:-1], nodes.pop(choice)) for choice in places if choice.endswith("*")]
        meaning = self._phrases[min(ended)][1] if ended else None
        return _Known(nodes, opens, number, bool(ended), meaning)

    def steps(self, word: str) -> list["_Node[T]"]:
        words, beginnings, number, *_ = self.known
        nodes = [words[word]] if word in words else []
        nodes += [node for beginning, node in beginnings if word.startswith(beginning)]
        if number is not None and is_number(word):
            nodes.append(number)
        return nodes


class _Known(NamedTuple, Generic[T]):
    """What may come next: a word, the beginning of one, a number. `end` says that a phrase ends here, with that meaning."""

    words: Mapping[str, _Node[T]]
    beginnings: Sequence[tuple[str, _Node[T]]]
    number: _Node[T] | None
    end: bool
    meaning: T | None


class Phrases(Generic[T]):
    def __init__(self, entries: Iterable[tuple[str, T | None]]) -> None:
        phrases = [(tuple(map(_part, phrase.split())), meaning) for phrase, meaning in entries]
        self._root: _Node[T] = _Node(phrases, [(number, 0) for number in range(len(phrases))])

    def find(self, words: Sequence[Token]) -> list[Found[T]]:
        found: list[Found[T]] = []
        at = 0
        while at < len(words):
            end, meaning = self._longest(words, at)
            if meaning is not None:
                found.append(Found(meaning, at, end, words[at].start, words[end].end))
            at = end + 1
        return found

    def _longest(self, words: Sequence[Token], at: int) -> tuple[int, T | None]:
        """Where the longest phrase that begins there ends, and its meaning."""
        last, meaning, any_ended = at, None, False
        here = self._root.steps(words[at].word)
        place = at
        while here:
            for node in here:
                if node.known.end and (place > last or not any_ended):
                    last, meaning, any_ended = place, node.known.meaning, True
            place += 1
            if place == len(words) or not words[place].joined:
                break
            here = [step for node in here for step in node.steps(words[place].word)]
        return last, meaning


def _part(written: str) -> _Part:
    choices = written.removesuffix("?").split("|")
    return tuple(filter(None, choices)), written.endswith("?") or "" in choices


def is_number(word: str) -> bool:
    return word.isdigit() or word in NUMBER_WORDS


def spellings(phrase: str) -> Iterator[str]:
    """Everything that the marks in a phrase stand for."""
    parts = [_part(part) for part in phrase.split()]
    for chosen in product(*([*choices, ""] if optional else choices for choices, optional in parts)):
        yield " ".join(filter(None, chosen))
