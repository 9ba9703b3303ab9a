"""Finds many patterns in a folded text in one pass.

- A pattern is of whole words (` want to die `), of words of which the last is open (` tablet`), or of characters that are
  written without blanks, found anywhere; a few others (`www`) are found anywhere, too.
- Patterns of words lie in a table by their words joined by blanks (`words.tables`). What a word or two begin is remembered.
- Who reads many texts becomes familiar with their words: the patterns of these words alone become an automaton, and a text that
  has no others is read without a step of Python for each word.
- The others are an automaton, made when a text has characters of their script.
- Each script has a section of its own, so a text reads no more than those of its scripts.
"""

import itertools
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import itemgetter
from struct import Struct as Layout
from typing import Any, Generic, NamedTuple, TypeVar

from comity_skills.crisis.folding import Folded, has_unspaced
from comity_skills.words.tables import Content, Memo, Table, table_of

T = TypeVar("T")

_UNSPACED = ("hangul", "kana", "han")  # a pattern belongs to the first whose characters it has
_SCRIPT = {
    "arabic": re.compile("[\u0600-\u06ff\u0750-\u077f]"),
    "devanagari": re.compile("[\u0900-\u097f]"),
    "hangul": re.compile("[\uac00-\ud7a3]"),
    "kana": re.compile("[\u3040-\u30ff]"),
    "han": re.compile("[\u3400-\u9fff]"),
}
_ENDS = itemgetter(0, 1)
_BLANK_AND_STOPS = " ,.!?;:\n"
_NOWHERE = "\0"  # no folded text holds it
_OPEN = "*"  # nor this; it stands for the rest of a word
_ROW = Layout("<iB")  # the number of the pattern, -1 is none; and what goes on from here
_MORE, _OPENS = 1, 2  # longer patterns begin so; open ones are the next word
_MOST_KEPT = 40_000  # words and beginnings of phrases
_MOST_FAMILIAR = 1500  # words
_FIRST_LEARNING = 2000  # words that were looked up; the next time after four times as many
_CODE_BITS = 9  # of the length of a pattern, and whether a blank stands before it
_CODE = (1 << _CODE_BITS) - 1

Sections = Callable[[str], Content | None]
"""The section of a script, if there is one, or what holds for all (`about`)."""


class _Node(NamedTuple):
    """The patterns that some words complete: where each ends after the first character of those, minus its length, what it
    tells. `more` are the nodes of the next word, where longer patterns begin so.
    """

    hits: tuple[tuple[int, int, Any], ...]
    more: "_Steps | None"


class _Steps(dict[str, _Node | None]):
    """The nodes to which the next word leads, looked up when a text says it."""

    def __init__(self, key: str, opens: bool, node: Callable[[str, bool], _Node | None]) -> None:
        super().__init__()
        self._key = key
        self._opens = opens
        self._node = node

    def __missing__(self, word: str) -> _Node | None:
        node = self[word] = self._node(f"{self._key} {word}" if self._key else word, self._opens)
        return node


class _Familiar(NamedTuple):
    """Words, and what finds the patterns of these words alone in a text that has no others."""

    words: frozenset[str]
    find: Callable[[str], Iterable[tuple[int, Any]]]


def sections_of(patterns: Mapping[str, int]) -> dict[str, bytes]:
    """The patterns with a number each, laid out by script."""
    rows: dict[str, dict[str, list[int]]] = defaultdict(dict)
    unspaced: dict[str, dict[str, int]] = defaultdict(dict)
    anywhere: dict[str, int] = {}
    open_lengths: list[int] = []
    for pattern, number in patterns.items():
        if not pattern.strip():
            continue
        if has_unspaced(pattern):
            script = next(name for name in _UNSPACED if _SCRIPT[name].search(pattern))
            unspaced[script][pattern] = number
        elif not pattern.startswith(" "):
            anywhere[pattern] = number
        else:
            words = pattern[1:].removesuffix(" ").split(" ")
            is_open = not pattern.endswith(" ")
            if is_open:
                open_lengths.append(len(words[-1]))
            for size in range(1, len(words)):
                opens = _OPENS if is_open and size == len(words) - 1 else 0
                _row(rows, " ".join(words[:size]))[1] |= _MORE | opens
            _row(rows, " ".join(words) + _OPEN * is_open)[0] = number
    about = {
        "open": [min(open_lengths), max(open_lengths)] if open_lengths else [],
        "anywhere": anywhere,
    }
    sections = {
        script: table_of({key.encode(): _ROW.pack(*row) for key, row in by_key.items()})
        for script, by_key in rows.items()
    }
    sections["about"] = json.dumps(about).encode()
    return sections | {script: _packed(by_pattern) for script, by_pattern in unspaced.items()}


def _row(rows: dict[str, dict[str, list[int]]], key: str) -> list[int]:
    return rows[_script_of(key)].setdefault(key, [-1, 0])


def _script_of(key: str) -> str:
    """Of words, in a script that is written with blanks."""
    if key.isascii():
        return "latin"
    return next((name for name in ("arabic", "devanagari") if _SCRIPT[name].search(key)), "latin")


def _packed(patterns: Mapping[str, int]) -> bytes:
    return (
        Layout(f"<I{len(patterns)}I").pack(len(patterns), *patterns.values())
        + _NOWHERE.join(patterns).encode()
    )


class Lookup(Generic[T]):
    def __init__(self, sections: Sections, told: Callable[[int, int, bool], T]) -> None:
        """`told` says what the pattern of a number tells, by its length and whether a blank stands before it."""
        self._sections = sections
        self._told = Memo[int, T](
            lambda coded: told(coded >> _CODE_BITS, (coded & _CODE) >> 1, bool(coded & 1))
        )
        self._tables: dict[str, Table | None] = {}
        self._finders: dict[str, Callable[[str], Iterable[tuple[int, int]]]] = {}
        about = json.loads(bytes(sections("about") or b"{}"))
        self._open = range(about["open"][0], about["open"][1] + 1) if about.get("open") else range(0)
        self._anywhere: Mapping[str, int] = about.get("anywhere", {})
        self._find_anywhere = _coded(self._anywhere) if self._anywhere else None
        self._steps = _Steps("", True, self._node)
        self._kept = 0
        self._familiar = _Familiar(frozenset(), _automaton({}))
        self._walked = 0
        self._next_learning = _FIRST_LEARNING

    @classmethod
    def of(cls, patterns: Mapping[str, T]) -> "Lookup[T]":
        told = list(patterns.values())
        sections = sections_of({pattern: number for number, pattern in enumerate(patterns)})
        return cls(sections.get, lambda number, *_: told[number])

    def find(self, folded: Folded) -> list[tuple[int, T]]:
        """What the patterns tell, each with the place of its last character, in order; of those that end together the longer
        one comes first.
        """
        familiar = self._familiar
        if folded.said <= familiar.words:
            return list(familiar.find(folded.text))
        found = self._looked_up(folded)
        found.sort(key=_ENDS)
        return [(last, told) for last, _, told in found]

    def in_any_order(self, folded: Folded) -> list[tuple[int, T]]:
        """The same, for whoever puts it in order later or not at all."""
        familiar = self._familiar
        if folded.said <= familiar.words:
            return list(familiar.find(folded.text))
        return [(last, told) for last, _, told in self._looked_up(folded)]

    def _looked_up(self, folded: Folded) -> list[tuple[int, int, T]]:
        found = self._walk(folded)
        if self._find_anywhere is not None:
            self._add(self._find_anywhere, folded.text, found)
        if folded.unspaced:
            for script in _UNSPACED:
                if _SCRIPT[script].search(folded.text):
                    self._add(self._finder(script), folded.text, found)
        self._walked += len(folded.parts)
        if self._walked >= self._next_learning:
            self._learn()
        return found

    def _walk(self, folded: Folded) -> list[tuple[int, int, T]]:
        found: list[tuple[int, int, T]] = []
        parts, starts, first_steps = folded.parts, folded.starts, self._steps
        size_of_text = len(parts)
        for at, node in enumerate(map(first_steps.__getitem__, parts)):
            if node is None:
                continue
            hits, steps = node
            start = starts[at]
            for end, size, told in hits:
                found.append((start + end, size, told))
            while steps is not None:
                at += 1  # noqa: PLW2901 - goes on to the next words
                node = steps[parts[at]] if at < size_of_text else None  # noqa: PLW2901
                if node is None:
                    break
                hits, steps = node
                for end, size, told in hits:
                    found.append((start + end, size, told))
        return found

    def _add(
        self,
        find: Callable[[str], Iterable[tuple[int, int]]],
        text: str,
        found: list[tuple[int, int, T]],
    ) -> None:
        for last, coded in find(text):
            found.append((last, -((coded & _CODE) >> 1), self._told[coded]))

    def _learn(self) -> None:
        """Become familiar with the words that were met. Who reads so much is a server, and stays."""
        met = dict.fromkeys(
            (*self._familiar.words, *(word for word in list(self._steps) if not has_unspaced(word)))
        )
        words = frozenset(itertools.islice(met, _MOST_FAMILIAR))
        self._walked = 0
        self._next_learning = (
            4 * self._next_learning if len(words) > len(self._familiar.words) else sys.maxsize
        )
        patterns = {**self._anywhere, **dict(self._patterns_of(words))}
        told = {pattern: self._told[_code(number, pattern)] for pattern, number in patterns.items()}
        self._familiar = _Familiar(words, _automaton(told))

    def _patterns_of(self, words: frozenset[str]) -> Iterator[tuple[str, int]]:
        """The patterns of these words alone. What follows on them and is open is one, too."""
        tables = list(filter(None, map(self._table, set(map(_script_of, words)))))
        known = frozenset(map(str.encode, words))
        for word in words:
            for key in (word, *(word[:size] + _OPEN for size in self._open if size <= len(word))):
                row = self._row(key)
                if row is not None and row[0] >= 0:
                    yield _pattern(key), row[0]
            for table in tables:
                for longer, content in table.beginning_with(f"{word} ".encode()):
                    *whole, last = longer.split(b" ")
                    if known.issuperset(whole) and (last in known or last.endswith(b"*")):
                        number, _ = _ROW.unpack(content)
                        if number >= 0:
                            yield _pattern(longer.decode()), number

    def _node(self, key: str, opens: bool) -> _Node | None:
        """`opens` says that the last word of it may be an open one. When too many are kept all are forgotten: no input fills
        the memory.
        """
        self._kept += 1
        if self._kept > _MOST_KEPT:
            self._kept = 0
            self._steps.clear()
        row = self._row(key)
        number, more = (-1, 0) if row is None else row
        hits = []
        if number >= 0:
            hits.append((len(key), -len(key) - 2, self._told[_code(number, f" {key} ")]))
        word = key.rfind(" ") + 1
        for size in self._open if opens else ():
            if size > len(key) - word:
                break
            start = key[: word + size]
            row = self._row(start + _OPEN)
            if row is not None:
                hits.append((len(start) - 1, -len(start) - 1, self._told[_code(row[0], f" {start}")]))
        if not hits and not more:
            return None
        steps = _Steps(key, bool(more & _OPENS), self._node) if more & _MORE else None
        return _Node(tuple(hits), steps)

    def _row(self, key: str) -> tuple[int, int] | None:
        table = self._table(_script_of(key.removesuffix(_OPEN)))
        row = None if table is None else table.get(key.encode())
        return None if row is None else _ROW.unpack(row)

    def _table(self, script: str) -> Table | None:
        if script not in self._tables:
            section = self._sections(script)
            self._tables[script] = None if section is None else Table(section)
        return self._tables[script]

    def _finder(self, script: str) -> Callable[[str], Iterable[tuple[int, int]]]:
        if script not in self._finders:
            section = self._sections(script)
            self._finders[script] = _coded({} if section is None else _unpacked(section))
        return self._finders[script]


def _code(number: int, pattern: str) -> int:
    return number << _CODE_BITS | len(pattern) << 1 | (pattern[0] == " ")


def _pattern(key: str) -> str:
    """The words of a table as they stand in a text."""
    return f" {key.removesuffix(_OPEN)}" if key.endswith(_OPEN) else f" {key} "


def _unpacked(section: Content) -> dict[str, int]:
    content = bytes(section)
    (count,) = Layout("<I").unpack_from(content)
    numbers = Layout(f"<{count}I").unpack_from(content, 4)
    patterns = content[4 * (count + 1) :].decode().split(_NOWHERE)
    return dict(zip(patterns, numbers, strict=True))


def _coded(patterns: Mapping[str, int]) -> Callable[[str], Iterable[tuple[int, int]]]:
    """Find each pattern with its code."""
    return _automaton({pattern: _code(number, pattern) for pattern, number in patterns.items()})


def _automaton(patterns: Mapping[str, T]) -> Callable[[str], Iterable[tuple[int, T]]]:
    if not patterns:
        return lambda _: ()
    import ahocorasick  # type: ignore[import-not-found]  # a C module without stubs, and not needed to build the wheel

    automaton = ahocorasick.Automaton()
    if any(pattern[0] != " " for pattern in patterns):
        for character in _BLANK_AND_STOPS:  # compared first, for every text is full of them
            automaton.add_word(character + _NOWHERE, None)
    for pattern, told in patterns.items():
        automaton.add_word(pattern, told)
    automaton.make_automaton()
    find: Callable[[str], Iterable[tuple[int, T]]] = automaton.iter
    return find
