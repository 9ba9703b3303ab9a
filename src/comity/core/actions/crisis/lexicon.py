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
- Beside each language's own grammar stands one that all languages share (`signs/rules.json`): its classes are
  filled per language (`signs/en.json` and so on; a class named as in `CONTEXT` adds to that concept). A row
  such as `THING + NEAR + WATCH|PLEA @6` asks for one of each class in any order within six gaps of the
  language; those joined by `&` at its beginning stand in one sentence. A *sign* alone says little and has points; enough points
  of different signs near each other say it together, unless a *guard* (leaving a job, making a will) is near. `!legacy` sets the guard of that group
  before a row, too.
- `~word` stands for the word and its misspellings by one letter. A Latin-written `shorthand` word stands for
  the word it shortens.
- Spelling is folded on both sides, so accents, case and typographic quotes need no entry of their own.
"""

import itertools
import re
import string
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import ahocorasick  # type: ignore[import-not-found]  # a C module without stubs
import msgspec
from msgspec import Struct

from comity.core.actions.crisis.folding import Vocabulary, fold_phrase
from comity.core.actions.crisis.report import Severity

CONTEXT = (
    "I", "MINE", "THEY", "NEG", "NEG_FAR", "NEG_AFTER", "BUT", "PAST", "NOW", "RECOVERY", "FRAME", "SAY", "IDIOM",
    "HYPERBOLE", "JEST", "MEANS", "TIME", "PASTVERB", "WELL", "BACK", "IF", "LAUGH", "NOJOKE", "OBJECT", "WHYQ",
    "WAYOUT",
)  # fmt: skip

_PLAIN = re.compile("[a-z]+(?: [a-z]+)*")  # spelled as it is looked up
_JOINT = re.compile(" [&+] ")
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


class SignRules(Struct, frozen=True, forbid_unknown_fields=True):
    """`signs` are points by group and row; `guards` are the classes that take the points of a group away."""

    rules: Mapping[str, Mapping[Severity, tuple[str, ...]]]
    signs: Mapping[str, Mapping[str, int]]
    guards: Mapping[str, tuple[str, ...]]
    shorthand: Mapping[str, Mapping[str, tuple[str, ...]]] = {}


class Rule(Struct, frozen=True):
    """`slots` are numbers of concepts, one of each in this order; matching begins at the last. `gaps` says how far
    before it each slot may look for the one before. A rule of the shared grammar is `own`: it speaks of the
    writer even where it names others. A sign has its `points`, its `kind` and its `group`.
    """

    category: str
    severity: Severity
    slots: tuple[frozenset[int], ...]
    gaps: tuple[int, ...]
    own: bool = False
    points: int = 0
    kind: str = ""
    group: str = ""


class Bag(Struct, frozen=True):
    """One of each slot in any order, together no further apart than `reach`, the first `bound` in one sentence."""

    rule: Rule
    reach: int
    bound: int


class Language(Struct, frozen=True):
    """`rules` are found by the concept of their last slot, `bags` by any; `context` by the name in `CONTEXT`.
    `guards` are concepts by the group that they guard.
    """

    code: str
    gap: int
    spaced: bool
    rules: Mapping[int, tuple[Rule, ...]]
    context: Mapping[str, int]
    bags: Mapping[int, tuple[Bag, ...]]
    guards: Mapping[str, frozenset[int]]


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


def misspellings(word: str) -> Iterator[str]:
    """The word with a letter left out, doubled, changed or swapped with the next."""
    for at in range(1, len(word)):
        left, letter, right = word[:at], word[at], word[at + 1 :]
        yield left + right
        yield left + letter + letter + right
        if right:
            yield left + right[0] + letter + right[1:]
        for other in string.ascii_lowercase:
            yield left + other + right


def _spellings(phrase: str, file: LanguageFile, shorthand: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    if phrase.startswith("~"):
        word = fold_phrase(phrase[1:])
        yield word
        yield from misspellings(word)
        return
    for wording in _shortened(phrase, shorthand):
        variants = {wording, wording.replace("'", ""), wording.replace("'", " ")}
        if file.language == "de":
            variants |= {variant.translate(_UMLAUTS) for variant in variants}
        for variant in variants:
            folded = variant if _PLAIN.fullmatch(variant) else fold_phrase(variant)
            yield folded
            for clitic in file.clitics:
                yield clitic + folded


def _shortened(phrase: str, shorthand: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    for wording in expand(phrase):
        yield wording
        words = wording.split()
        for at, word in enumerate(words):
            for short in shorthand.get(word, ()):
                yield " ".join([*words[:at], short, *words[at + 1 :]])


class _Builder:
    def __init__(self, shared: SignRules) -> None:
        self.shared = shared
        self.entries: dict[tuple[str, bool], set[tuple[int, int]]] = {}
        self.ends: set[int] = set()
        self.numbers = itertools.count()

    def concept(self, index: int, file: LanguageFile, phrases: Iterable[str]) -> int:
        number = next(self.numbers)
        for phrase in phrases:
            for folded in _spellings(phrase, file, self.shared.shorthand.get(file.language, {})):
                key = (f" {folded} ", True) if file.spaced else (folded.replace(" ", ""), False)
                self.entries.setdefault(key, set()).add((index, number))
        return number

    def language(self, index: int, file: LanguageFile, classes: Mapping[str, tuple[str, ...]]) -> Language:
        concepts = {name: (*file.concepts.get(name, ()), *classes.get(name, ())) for name in CONTEXT}
        own = {name: phrases for name, phrases in file.concepts.items() if name not in concepts}
        numbers = {
            name: self.concept(index, file, phrases)
            for name, phrases in {**concepts, **own}.items()
            if phrases
        }
        rules: list[Rule] = []
        for category, severity, phrases in _weighted(file.phrases):
            number = self.concept(index, file, phrases)
            rules.append(Rule(category, severity, (frozenset((number,)),), (0,)))
        for category, severity, rows in _weighted(file.rules):
            for row in rows:
                rules += [Rule(category, severity, *shape) for shape in _shapes(row, numbers, file.gap)]
        shared = {
            name: numbers[name] if name in concepts else self.concept(index, file, phrases)
            for name, phrases in classes.items()
        }
        bags = [
            _bag(category, severity, row, shared, file.gap)
            for category, severity, rows in _weighted(self.shared.rules)
            for row in rows
        ]
        bags += _signs(self.shared.signs, shared, file.gap)
        rules += [bag.rule for bag in bags if len(bag.rule.slots) == 1]
        by_end: dict[int, list[Rule]] = {}
        for rule in rules:
            for number in rule.slots[-1]:
                by_end.setdefault(number, []).append(rule)
                self.ends.add(number)
        by_any: dict[int, list[Bag]] = {}
        for bag in bags:
            if len(bag.rule.slots) > 1:
                self.ends |= bag.rule.slots[0]
                for number in frozenset().union(*bag.rule.slots):
                    by_any.setdefault(number, []).append(bag)
        return Language(
            file.language,
            file.gap,
            file.spaced,
            {number: tuple(found) for number, found in by_end.items()},
            {name: numbers[name] for name in CONTEXT if name in numbers},
            {number: tuple(found) for number, found in by_any.items()},
            {group: frozenset(shared[name] for name in names) for group, names in self.shared.guards.items()},
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


def _bag(
    category: str, severity: Severity, row: str, numbers: Mapping[str, int], gap: int, **sign: Any
) -> Bag:
    row, _, group = row.partition(" !")
    classes, _, reach = row.partition(" @")
    bound = classes.split(" + ")[0].count(" & ") + 1
    slots = tuple(frozenset(numbers[name] for name in part.split("|")) for part in _JOINT.split(classes))
    rule = Rule(category, severity, slots, (0,) * len(slots), own=True, **({"group": group} | sign))
    return Bag(rule, round(float(reach or 0) * gap), bound)


def _signs(signs: Mapping[str, Mapping[str, int]], numbers: Mapping[str, int], gap: int) -> Iterator[Bag]:
    for group, rows in signs.items():
        for row, points in rows.items():
            yield _bag("goodbye", "low", row, numbers, gap, points=points, kind=row, group=group)


def read_lexicon(files: Iterable[bytes], signs: Iterable[bytes], rules: bytes) -> Lexicon:
    """`files` and `signs` are in the order of the languages, `rules` is the grammar that they share."""
    builder = _Builder(msgspec.json.decode(rules, type=SignRules))
    languages = tuple(
        builder.language(
            index,
            msgspec.json.decode(file, type=LanguageFile),
            msgspec.json.decode(classes, type=dict[str, tuple[str, ...]]),
        )
        for index, (file, classes) in enumerate(zip(files, signs, strict=True))
    )
    words = {word for text, spaced in builder.entries if spaced for word in text.split()}
    return Lexicon(builder.automaton(), languages, Vocabulary(word for word in words if word.isascii()))
