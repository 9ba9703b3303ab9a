"""The small grammar of each language, as data.

A language file names *concepts* (a word or phrase each; `{a|b}` stands for either) and *rules* over them.

- A rule is a row of concepts, `WANT DIE`: each follows the last within `gap` characters of the same
  sentence, or within the number that stands between (`MEANS 60 DO`). `A|B` is either concept, `A ~ B` both in
  either order. A phrase is a rule of its own.
- `rules` and `phrases` are given by category and severity.
- Concepts that every language may fill are read by the context (see `context`).
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from comity_skills.crisis.context import CONTEXT, IDIOM, IF, LOWERING, LOWERING_PAIRS, NEG
from comity_skills.crisis.disguise import Vocabulary, vocabulary_of
from comity_skills.crisis.entries import Clue, Entries, Meaning, as_set, index_in, places_in
from comity_skills.crisis.folding import fold_phrase
from comity_skills.crisis.report import GRAVE, RANK, Severity
from comity_skills.words.tables import Content, Memo

_PLAIN = re.compile("[a-z]+(?: [a-z]+)*")  # spelled as it is looked up
_JOINT = re.compile(" [&+] ")
_CHOICE = re.compile(r"\{([^{}]*)\}")
_BETWEEN_WORDS = re.compile(r" (?![^{}]*\})")
_ADJACENT = 1  # a blank between two words
MOST_WORDINGS = 300  # of a phrase that is looked for as a whole
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})


class LanguageFile(Struct, frozen=True, forbid_unknown_fields=True):
    language: str
    written: str
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
    """A row or a bag. `slots` are numbers of concepts. A row has one of each in this order; matching begins at the
    last, and `gaps` says how far before it each slot may look for the one before. A bag has one of each in any
    order, together no further apart than `reach`, the first `bound` in one sentence; a row has no bound. The slots of a
    `phrase` are its parts, found as one.

    A rule of the shared grammar is `own`: it speaks of the writer even where it names others. A sign has its
    `points` and its `kind`; what is guarded has a `group`. `concepts` are those of all slots, `ends` those that
    can complete it. One match of a `grave` rule is a crisis if nothing lowers it.
    """

    category: str
    severity: Severity
    slots: tuple[frozenset[int], ...]
    gaps: tuple[int, ...]
    concepts: frozenset[int]
    ends: frozenset[int]
    grave: bool
    own: bool = False
    points: int = 0
    kind: str = ""
    group: str = ""
    reach: int = 0
    bound: int = 0
    phrase: bool = False

    @property
    def soft(self) -> bool:
        """Whether it is made of everyday words, which say it only where more speaks for it. A command to do it is not."""
        return self.category != "intent" and (
            self.own or self.severity == "moderate" or (self.category, self.severity) == ("goodbye", "high")
        )


class Language(Struct, frozen=True):
    """`rules` are the rows in their order, then the bags. `guards` are concepts by the group that they guard. What
    hides or may lower a match is given as sets of meanings.
    """

    code: str
    gap: int
    spaced: bool
    rules: tuple[Rule, ...]
    guards: Mapping[str, frozenset[int]]
    idioms: int
    ifs: int
    negations: int
    lowering: int
    lowering_pairs: tuple[tuple[int, int], ...]


class _Grammar(Struct, frozen=True, array_like=True):
    """A language as it is stored: sets are the places of their bits."""

    code: str
    gap: int
    spaced: bool
    rules: tuple[Rule, ...]
    guards: dict[str, frozenset[int]]
    sets: tuple[tuple[int, ...], ...]


class Lexicon:
    """What was laid out by `lexicon_of`. A language is read when somebody asks for it."""

    def __init__(self, section: Callable[[str], Content | None], codes: Sequence[str]) -> None:
        self.index = index_in(section)
        self.vocabulary = Vocabulary.of(lambda part: section(f"vocabulary.{part}"))
        self.languages = _Languages(section, codes)


class _Languages(Sequence[Language]):
    def __init__(self, section: Callable[[str], Content | None], codes: Sequence[str]) -> None:
        self._codes = codes
        self._read = Memo[int, Language](lambda number: _language_in(section(f"grammar.{codes[number]}")))

    def __len__(self) -> int:
        return len(self._codes)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice) or not 0 <= number < len(self._codes):
            raise IndexError(number)
        return self._read[number]


def _laid_out(language: Language) -> bytes:
    pairs = itertools.chain.from_iterable(language.lowering_pairs)
    sets = (language.idioms, language.ifs, language.negations, language.lowering, *pairs)
    grammar = _Grammar(
        language.code,
        language.gap,
        language.spaced,
        language.rules,
        dict(language.guards),
        tuple(map(places_in, sets)),
    )
    return msgspec.msgpack.encode(grammar)


def _language_in(section: Content | None) -> Language:
    file = msgspec.msgpack.decode(bytes(section or b""), type=_Grammar)
    idioms, ifs, negations, lowering, *pairs = map(as_set, file.sets)
    return Language(
        file.code,
        file.gap,
        file.spaced,
        file.rules,
        file.guards,
        idioms,
        ifs,
        negations,
        lowering,
        tuple(zip(pairs[::2], pairs[1::2], strict=True)),
    )


def expand(phrase: str) -> Iterator[str]:
    """Every wording that a phrase with `{a|b}` stands for."""
    if "{" not in phrase:
        yield phrase
        return
    parts = _CHOICE.split(phrase)
    choices = [part.split("|") if odd % 2 else [part] for odd, part in enumerate(parts)]
    for words in itertools.product(*choices):
        yield "".join(words)


def _wordings(phrase: str) -> int:
    return prod(choice.count("|") + 1 for choice in _CHOICE.findall(phrase))


def parts_of(phrase: str) -> list[str]:
    """A phrase with many wordings, cut between words into parts that have few each: their sum is kept, not their
    product. A piece that may be left out stays with the one before it.
    """
    parts: list[str] = []
    for piece in _BETWEEN_WORDS.split(phrase):
        longer = f"{parts[-1]} {piece}" if parts else piece
        if parts and (_wordings(longer) <= MOST_WORDINGS or "" in expand(piece)):
            parts[-1] = longer
        else:
            parts.append(piece)
    return parts


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
        variants = {wording}
        if "'" in wording:
            variants |= {wording.replace("'", ""), wording.replace("'", " ")}
        if file.language == "de":
            variants |= {variant.translate(_UMLAUTS) for variant in variants}
        for variant in sorted(variants):  # the same order each time
            folded = variant if _PLAIN.fullmatch(variant) else fold_phrase(variant)
            yield folded
            for clitic in file.clitics:
                yield clitic + folded


def _shortened(phrase: str, shorthand: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    for wording in expand(phrase):
        yield wording
        words = wording.split() if shorthand else []
        if shorthand.keys().isdisjoint(words):
            continue
        for at, word in enumerate(words):
            for short in shorthand.get(word, ()):
                yield " ".join([*words[:at], short, *words[at + 1 :]])


class _Builder:
    def __init__(self, shared: SignRules) -> None:
        self.shared = shared
        self.entries = Entries()
        self.clues: dict[Meaning, list[Clue]] = {}

    def language(self, index: int, file: LanguageFile, classes: Mapping[str, tuple[str, ...]]) -> Language:
        count = itertools.count(len(CONTEXT))
        shorthand = self.shared.shorthand.get(file.language, {})

        def concept(phrases: Iterable[str], number: int | None = None) -> int:
            number = next(count) if number is None else number
            for phrase in phrases:
                self.entries.add(_spellings(phrase, file, shorthand), (index, number), spaced=file.spaced)
            return number

        context = {name: (*file.concepts.get(name, ()), *classes.get(name, ())) for name in CONTEXT}
        numbers = {
            name: concept(phrases, number)
            for number, (name, phrases) in enumerate(context.items())
            if phrases
        }
        numbers |= {
            name: concept(phrases)
            for name, phrases in file.concepts.items()
            if phrases and name not in context
        }
        rules = []
        for category, severity, phrases in _weighted(file.phrases):
            short = concept(phrase for phrase in phrases if _wordings(phrase) <= MOST_WORDINGS)
            rules.append(_rule(category, severity, (frozenset((short,)),), (0,)))
            for phrase in phrases:
                if _wordings(phrase) > MOST_WORDINGS:
                    slots = tuple(frozenset((concept([part]),)) for part in parts_of(phrase))
                    rules.append(_rule(category, severity, slots, (_ADJACENT,) * len(slots), phrase=True))
        for category, severity, rows in _weighted(file.rules):
            for row in rows:
                rules += [_rule(category, severity, *shape) for shape in _shapes(row, numbers, file.gap)]
        shared = {
            name: numbers[name] if name in context else concept(phrases) for name, phrases in classes.items()
        }
        bags = [
            _bag(category, severity, row, shared, file.gap)
            for category, severity, rows in _weighted(self.shared.rules)
            for row in rows
        ]
        bags += _signs(self.shared.signs, shared, file.gap)
        # a bag of one slot is as good as a row
        rules += [replace(bag, bound=0) for bag in bags if len(bag.slots) == 1]
        ordered = (*rules, *(bag for bag in bags if len(bag.slots) > 1))
        self.tell(index, ordered)
        guards = {
            group: frozenset(shared[name] for name in names) for group, names in self.shared.guards.items()
        }
        return Language(
            file.language,
            file.gap,
            file.spaced,
            ordered,
            guards,
            idioms=self.bits(index, [IDIOM]),
            ifs=self.bits(index, [IF]),
            negations=self.bits(index, [NEG]),
            lowering=self.bits(index, LOWERING.union(*guards.values())),
            lowering_pairs=tuple(
                (self.bits(index, [one]), self.bits(index, [other])) for one, other in LOWERING_PAIRS
            ),
        )

    def bits(self, index: int, concepts: Iterable[int]) -> int:
        return self.entries.bits((index, concept) for concept in concepts)

    def tell(self, index: int, rules: Iterable[Rule]) -> None:
        """Of each rule one slot, the rarest, is telling."""

        def commonness(slot: frozenset[int]) -> float:
            return sum(self.entries.commonness((index, concept)) for concept in slot)

        for place, rule in enumerate(rules):
            telling, *others = sorted(rule.slots, key=commonness)
            need, *more = [self.bits(index, slot) for slot in others or [telling]]
            clue = (index, place, need, tuple(more))
            for concept in telling:
                self.clues.setdefault((index, concept), []).append(clue)


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


def _rule(
    category: str, severity: Severity, slots: tuple[frozenset[int], ...], gaps: tuple[int, ...], **more: Any
) -> Rule:
    if category == "goodbye" and severity == "high":
        more["group"] = more.get("group") or "farewell"
    concepts: frozenset[int] = frozenset().union(*slots)
    ends = concepts if more.get("bound") else slots[-1]
    return Rule(category, severity, slots, gaps, concepts, ends, RANK[severity] >= GRAVE, **more)


def _bag(
    category: str, severity: Severity, row: str, numbers: Mapping[str, int], gap: int, **sign: Any
) -> Rule:
    row, _, group = row.partition(" !")
    classes, _, gaps = row.partition(" @")
    bound = classes.split(" + ")[0].count(" & ") + 1
    reach = round(float(gaps or 0) * gap)
    slots = tuple(frozenset(numbers[name] for name in part.split("|")) for part in _JOINT.split(classes))
    more = {"own": True, "reach": reach, "bound": bound, "group": group} | sign
    return _rule(category, severity, slots, (), **more)


def _signs(signs: Mapping[str, Mapping[str, int]], numbers: Mapping[str, int], gap: int) -> Iterator[Rule]:
    for group, rows in signs.items():
        for row, points in rows.items():
            yield _bag("goodbye", "low", row, numbers, gap, points=points, kind=row, group=group)


def lexicon_of(files: Iterable[bytes], signs: Iterable[bytes], rules: bytes) -> dict[str, bytes]:
    """Lay a lexicon out. `files` and `signs` are in the order of the languages, `rules` is the grammar that they share."""
    builder = _Builder(msgspec.json.decode(rules, type=SignRules))
    languages = [
        builder.language(
            index,
            msgspec.json.decode(file, type=LanguageFile),
            msgspec.json.decode(classes, type=dict[str, tuple[str, ...]]),
        )
        for index, (file, classes) in enumerate(zip(files, signs, strict=True))
    ]
    words = vocabulary_of(word for word in builder.entries.words() if word.isascii())
    return {
        **{f"vocabulary.{part}": content for part, content in words.items()},
        **{f"grammar.{language.code}": _laid_out(language) for language in languages},
        **builder.entries.index(builder.clues),
    }


def read_lexicon(files: Sequence[bytes], signs: Iterable[bytes], rules: bytes) -> Lexicon:
    """A lexicon that lies in memory."""
    codes = [msgspec.json.decode(file, type=LanguageFile).language for file in files]
    return Lexicon(lexicon_of(files, signs, rules).get, codes)
