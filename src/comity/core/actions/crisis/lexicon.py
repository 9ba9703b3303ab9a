"""The small grammar of each language, as data.

A language file names *concepts* (a word or phrase each; `{a|b}` stands for either) and *rules* over them.

- A rule is a row of concepts, `WANT DIE`: each follows the last within `gap` characters of the same
  sentence, or within the number that stands between (`MEANS 60 DO`). `A|B` is either concept, `A ~ B` both in
  either order. A phrase is a rule of its own.
- `rules` and `phrases` are given by category and severity.
- Concepts that every language may fill are read by the context: `I`, `THEY` and inside a match `MINE`
  (who it is about), `NEG`
  before or inside a match, `NEG_FAR` (reaches over a new subject: "I don't think I ...") and `NEG_AFTER` behind
  it, `BUT` (ends a negation), `PAST`, `NOW`, `RECOVERY`, `FRAME` (fiction, news, study, prevention), `SAY` (speech of others), `IDIOM` (hides what it covers, as the
  idiom it is), `HYPERBOLE` (right behind a match: what one dies of in jest),
  `JEST` (in the sentence of a mere wish or lament: embarrassment, laughter), `MEANS` and `TIME` (make a danger immediate).
- Spelling is folded on both sides, so accents, case and typographic quotes need no entry of their own.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import ahocorasick  # type: ignore[import-not-found]  # a C module without stubs
import msgspec
from msgspec import Struct

from comity.core.actions.crisis.folding import Vocabulary, fold_phrase
from comity.core.actions.crisis.report import Severity

LANGUAGES = ("en", "es", "fr", "de", "pt", "it", "zh", "ja", "ko", "ar", "hi")
CONTEXT = (
    "I", "MINE", "THEY", "NEG", "NEG_FAR", "NEG_AFTER", "BUT", "PAST", "NOW", "RECOVERY", "FRAME", "SAY", "IDIOM",
    "HYPERBOLE", "JEST", "MEANS", "TIME",
)  # fmt: skip

_CHOICE = re.compile(r"\{([^{}]*)\}")
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})


class LanguageFile(Struct, frozen=True, forbid_unknown_fields=True):
    language: str
    reviewed: str
    sources: tuple[str, ...]
    gap: int
    concepts: Mapping[str, tuple[str, ...]]
    rules: Mapping[str, Mapping[Severity, tuple[str, ...]]]
    phrases: Mapping[str, Mapping[Severity, tuple[str, ...]]]
    spaced: bool = True
    clitics: tuple[str, ...] = ()


class Rule(Struct, frozen=True):
    """`slots` are numbers of concepts, one of each in this order; matching begins at the last. `gaps` says how far
    before it each slot may look for the one before.
    """

    category: str
    severity: Severity
    slots: tuple[frozenset[int], ...]
    gaps: tuple[int, ...]


class Language(Struct, frozen=True):
    """`rules` are found by the concept of their last slot; `context` by the name in `CONTEXT`."""

    code: str
    gap: int
    spaced: bool
    rules: Mapping[int, tuple[Rule, ...]]
    context: Mapping[str, int]


class Lexicon(Struct, frozen=True):
    """`automaton` finds entries `(length, blanks, ((language, concept), ...), ends)`: how long the entry is, how
    many blanks stand around it, what it means, and whether a rule ends on it.
    """

    automaton: Any
    languages: tuple[Language, ...]
    vocabulary: Vocabulary


def expand(phrase: str) -> Iterator[str]:
    """Every wording that a phrase with `{a|b}` stands for."""
    parts = _CHOICE.split(phrase)
    choices = [part.split("|") if odd % 2 else [part] for odd, part in enumerate(parts)]
    for words in itertools.product(*choices):
        yield "".join(words)


def _spellings(phrase: str, file: LanguageFile) -> Iterator[str]:
    for wording in expand(phrase):
        variants = {wording, wording.replace("'", ""), wording.replace("'", " ")}
        if file.language == "de":
            variants |= {variant.translate(_UMLAUTS) for variant in variants}
        for variant in variants:
            folded = fold_phrase(variant)
            yield folded
            for clitic in file.clitics:
                yield clitic + folded


class _Builder:
    def __init__(self) -> None:
        self.entries: dict[tuple[str, bool], set[tuple[int, int]]] = {}
        self.ends: set[int] = set()
        self.numbers = itertools.count()

    def concept(self, index: int, file: LanguageFile, phrases: Iterable[str]) -> int:
        number = next(self.numbers)
        for phrase in phrases:
            for folded in _spellings(phrase, file):
                key = (f" {folded} ", True) if file.spaced else (folded.replace(" ", ""), False)
                self.entries.setdefault(key, set()).add((index, number))
        return number

    def language(self, index: int, file: LanguageFile) -> Language:
        numbers = {name: self.concept(index, file, phrases) for name, phrases in file.concepts.items()}
        rules: list[Rule] = []
        for category, severity, phrases in _weighted(file.phrases):
            number = self.concept(index, file, phrases)
            rules.append(Rule(category, severity, (frozenset((number,)),), (0,)))
        for category, severity, rows in _weighted(file.rules):
            for row in rows:
                rules += [Rule(category, severity, *shape) for shape in _shapes(row, numbers, file.gap)]
        by_end: dict[int, list[Rule]] = {}
        for rule in rules:
            for number in rule.slots[-1]:
                by_end.setdefault(number, []).append(rule)
                self.ends.add(number)
        return Language(
            file.language,
            file.gap,
            file.spaced,
            {number: tuple(found) for number, found in by_end.items()},
            {name: numbers[name] for name in CONTEXT if name in numbers},
        )

    def automaton(self) -> Any:
        automaton = ahocorasick.Automaton()
        for (text, spaced), meanings in self.entries.items():
            ends = any(number in self.ends for _, number in meanings)
            automaton.add_word(text, (len(text), int(spaced), tuple(sorted(meanings)), ends))
        automaton.make_automaton()
        return automaton


def _weighted(
    table: Mapping[str, Mapping[Severity, tuple[str, ...]]],
) -> Iterator[tuple[str, Severity, tuple[str, ...]]]:
    for category, by_severity in table.items():
        for severity, rows in by_severity.items():
            yield category, severity, rows


def _shapes(
    row: str, numbers: Mapping[str, int], gap: int
) -> Iterator[tuple[tuple[frozenset[int], ...], tuple[int, ...]]]:
    left, either, right = row.partition(" ~ ")
    for order in [f"{left} {right}", f"{right} {left}"] if either else [row]:
        slots: list[frozenset[int]] = []
        gaps: list[int] = []
        reach = gap
        for part in order.split():
            if part.isdigit():
                reach = int(part)
                continue
            slots.append(frozenset(numbers[name] for name in part.split("|")))
            gaps.append(reach)
            reach = gap
        yield tuple(slots), tuple(gaps)


def read_lexicon(files: Iterable[bytes]) -> Lexicon:
    builder = _Builder()
    languages = tuple(
        builder.language(index, msgspec.json.decode(file, type=LanguageFile))
        for index, file in enumerate(files)
    )
    words = {word for text, spaced in builder.entries if spaced for word in text.split()}
    return Lexicon(builder.automaton(), languages, Vocabulary(word for word in words if word.isascii()))
