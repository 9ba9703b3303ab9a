"""Finds many patterns in a folded text in one pass.

- A pattern is of whole words (` want to die `), of words of which the last is open (` tablet`), or of characters that are
  written without blanks, found anywhere; a few others (`www`) are found anywhere, too.
- Patterns of words lie in a table by their words joined by blanks (`words.tables`). Whether a word or two begin one is
  remembered, so most of a text is looked up without a step of Python for each of its words.
- The others are an automaton, made when a text has characters of their script.
- Each script has a section of its own, so a text reads no more than those of its scripts.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from struct import Struct as Layout
from typing import Any, Generic, NamedTuple, TypeVar

from comity_skills.crisis.folding import Folded, has_unspaced
from comity_skills.words.tables import Content, Table, table_of

T = TypeVar("T")

SCRIPTS = ("latin", "arabic", "devanagari", "hangul", "kana", "han")
_UNSPACED = ("hangul", "kana", "han")  # a pattern belongs to the first whose characters it has
_SCRIPT = {
    "arabic": re.compile("[\u0600-\u06ff\u0750-\u077f]"),
    "devanagari": re.compile("[\u0900-\u097f]"),
    "hangul": re.compile("[\uac00-\ud7a3]"),
    "kana": re.compile("[\u3040-\u30ff]"),
    "han": re.compile("[\u3400-\u9fff]"),
}
_PLACE = itemgetter(0)
_ENDS = itemgetter(0, 1)
_BLANK_AND_STOPS = " ,.!?;:\n"
_NOWHERE = "\0"  # no folded text holds it
_OPEN = "*"  # nor this; it stands for the rest of a word
_ROW = Layout("<iB")  # the number of the pattern, -1 is none; and what goes on from here
_MORE, _OPENS = 1, 2  # longer patterns begin so; open ones are the next word
_MOST_KEPT = 40_000  # words and beginnings of phrases
_LENGTH_BITS = 8

Sections = Callable[[str], Content | None]
"""The section of a script, if there is one, or what holds for all (`about`)."""


class _Node(NamedTuple):
    """The patterns that some words complete: where each ends after the first character of those, minus its length, what it
    tells. `more` are the nodes of the next word, where longer patterns begin so.
    """

    hits: tuple[tuple[int, int, Any], ...]
    more: "_Steps | None"


class _Steps(dict[str, _Node | None]):
    """The nodes to which the next word leads, looked up when a text says it. All of a lookup are forgotten together when they
    are too many: no input fills the memory.
    """

    def __init__(
        self, key: str, opens: bool, node: Callable[[str, bool], _Node | None], root: "_Root"
    ) -> None:
        super().__init__()
        self._key = key
        self._opens = opens
        self._node = node
        self._root = root

    def __missing__(self, word: str) -> _Node | None:
        self._root.count()
        node = self[word] = self._node(f"{self._key} {word}" if self._key else word, self._opens)
        return node


class _Root:
    def __init__(self, node: Callable[[str, bool], _Node | None]) -> None:
        self.steps = _Steps("", True, node, self)
        self._kept = 0

    def count(self) -> None:
        self._kept += 1
        if self._kept > _MOST_KEPT:
            self._kept = 0
            self.steps.clear()


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
    def __init__(self, sections: Sections, told: Callable[[int, str], T]) -> None:
        """`told` says what the pattern of a number tells; its text is given with its blanks."""
        self._sections = sections
        self._told = told
        self._tables: dict[str, Table | None] = {}
        self._finders: dict[str, Callable[[str], Iterable[tuple[int, int]]]] = {}
        about = json.loads(bytes(sections("about") or b"{}"))
        self._open = range(about["open"][0], about["open"][1] + 1) if about.get("open") else range(0)
        self._anywhere = _automaton(about["anywhere"]) if about.get("anywhere") else None
        self._root = _Root(self._node)

    @classmethod
    def of(cls, patterns: Mapping[str, T]) -> "Lookup[T]":
        told = list(patterns.values())
        sections = sections_of({pattern: number for number, pattern in enumerate(patterns)})
        return cls(sections.get, lambda number, _: told[number])

    def find(self, folded: Folded) -> list[tuple[int, T]]:
        """What the patterns tell, each with the place of its last character, in order; of those that end together the longer
        one comes first.
        """
        found = self._found(folded)
        found.sort(key=_ENDS)
        hits = [(last, told) for last, _, told in found]
        return sorted((*hits, *self._unspaced(folded.text)), key=_PLACE) if folded.unspaced else hits

    def in_any_order(self, folded: Folded) -> list[tuple[int, T]]:
        """The same, for whoever puts it in order later or not at all."""
        found = [(last, told) for last, _, told in self._found(folded)]
        return found + self._unspaced(folded.text) if folded.unspaced else found

    def _found(self, folded: Folded) -> list[tuple[int, int, T]]:
        found: list[tuple[int, int, T]] = []
        parts, starts, first_steps = folded.parts, folded.starts, self._root.steps
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
        if self._anywhere is not None:
            for last, coded in self._anywhere(folded.text):
                self._add_unspaced(folded.text, last, coded, found)
        return found

    def finds(self, folded: Folded) -> bool:
        """Whether there is one of them."""
        return bool(self.find(folded))

    def _node(self, key: str, opens: bool) -> _Node | None:
        """`opens` says that the last word of it may be an open one."""
        row = self._row(key)
        number, more = (-1, 0) if row is None else row
        hits = []
        if number >= 0:
            hits.append((len(key), -len(key) - 2, self._told(number, f" {key} ")))
        word = key.rfind(" ") + 1
        for size in self._open if opens else ():
            if size > len(key) - word:
                break
            start = key[: word + size]
            row = self._row(start + _OPEN)
            if row is not None:
                hits.append((len(start) - 1, -len(start) - 1, self._told(row[0], f" {start}")))
        if not hits and not more:
            return None
        steps = _Steps(key, bool(more & _OPENS), self._node, self._root) if more & _MORE else None
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

    def _unspaced(self, text: str) -> list[tuple[int, T]]:
        found: list[tuple[int, int, T]] = []
        for script in _UNSPACED:
            if _SCRIPT[script].search(text):
                for last, coded in self._finder(script)(text):
                    self._add_unspaced(text, last, coded, found)
        found.sort(key=_ENDS)
        return [(last, told) for last, _, told in found]

    def _add_unspaced(self, text: str, last: int, coded: int, found: list[tuple[int, int, T]]) -> None:
        size = coded & (1 << _LENGTH_BITS) - 1
        told = self._told(coded >> _LENGTH_BITS, text[last + 1 - size : last + 1])
        found.append((last, -size, told))

    def _finder(self, script: str) -> Callable[[str], Iterable[tuple[int, int]]]:
        if script not in self._finders:
            section = self._sections(script)
            self._finders[script] = _automaton({} if section is None else _unpacked(section))
        return self._finders[script]


def _unpacked(section: Content) -> dict[str, int]:
    content = bytes(section)
    (count,) = Layout("<I").unpack_from(content)
    numbers = Layout(f"<{count}I").unpack_from(content, 4)
    patterns = content[4 * (count + 1) :].decode().split(_NOWHERE)
    return dict(zip(patterns, numbers, strict=True))


def _automaton(patterns: Mapping[str, int]) -> Callable[[str], Iterable[tuple[int, int]]]:
    """Each pattern is found with its number and its length."""
    if not patterns:
        return lambda _: ()
    import ahocorasick  # type: ignore[import-not-found]  # a C module without stubs, and not needed to build the wheel

    automaton = ahocorasick.Automaton(ahocorasick.STORE_INTS)
    for character in _BLANK_AND_STOPS:  # compared first, for every text is full of them
        automaton.add_word(character + _NOWHERE, 0)
    for pattern, number in patterns.items():
        automaton.add_word(pattern, number << _LENGTH_BITS | len(pattern))
    automaton.make_automaton()
    find: Callable[[str], Iterable[tuple[int, int]]] = automaton.iter
    return find
