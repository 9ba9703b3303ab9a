"""What is counted in a text: patterns, and what each of them stands for.

- A pattern is a piece of folded text: a word or two (` so tired `), the beginning of a word (` tablet`), or two to
  four characters of a script without blanks.
- What the texts say often enough stands for itself. What the class files or the lexicon list also stands for its
  class, and a class is the same in every language: what is learned of one word is learned of its translations.
- The class files have a line per language under each `= CLASS`; `_` joins the words of a phrase, `*` leaves the end
  of a word open.
- Who speaks, denials and turns of a sentence stand for nothing: everybody uses them.
- In the end the weight of a pattern is the sum of what it stands for, so nobody needs classes to apply it.
"""

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import ahocorasick  # type: ignore[import-not-found]  # a C module without stubs
import msgspec

from comity_skills.crisis.data import LANGUAGES, LEXICONS, SIGNS
from comity_skills.crisis.folding import fold_phrase, has_unspaced
from comity_skills.crisis.lexicon import LanguageFile, expand
from evals.training.texts import FOLDER

_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]+")
_KANA = re.compile("[\u3041-\u3096]{1,2}")  # endings and particles
_BEGINNINGS = (4, 5)
_CHARACTERS = (2, 3, 4)
_LONGEST_PHRASE = 2  # words of the lexicon: what is longer is rare in texts
_LONGEST_UNSPACED = 6
_OFTEN = 2
_EMPTY = frozenset(
    {
        "=SELF",
        "=OTHERS",
        "=NEGATE",
        "=BUT",
        "=WANT",
        "I",
        "MINE",
        "THEY",
        "NEG",
        "NEG_FAR",
        "NEG_AFTER",
        "BUT",
        "NOW",
    }
    | {"TIME", "SAY", "IF", "WANT"}
)
_STOPS = frozenset(".,;:!\n")  # tell how somebody writes, not what about; a question mark tells
_LETTERS = frozenset("bfghkpqrvwxz")  # are no words in any of the languages, nor what an apostrophe cut off

Meanings = Mapping[str, frozenset[str]]  # of each pattern
Listed = tuple[str, str, str]  # a pattern, its class, its language


def meanings(texts: Sequence[str], data: Mapping[str, bytes]) -> Meanings:
    """`texts` are folded, `data` holds the files of the detector."""
    found = defaultdict(set)
    for pattern, name, _ in (*_classes(), *_concepts(data)):
        if name not in _EMPTY:
            found[pattern].add(name)
    often = Counter(pattern for text in texts for pattern in set(_own(text)))
    for pattern, count in often.items():
        if count >= _OFTEN and not _KANA.fullmatch(pattern):
            found[pattern].add(pattern)
    return {pattern: frozenset(names) for pattern, names in sorted(found.items())}


def languages(
    texts: Sequence[tuple[str, str]], patterns: Iterable[str], data: Mapping[str, bytes]
) -> dict[str, str]:
    """Which language each pattern belongs to: where it is said most, else where it is listed. `texts` are folded, each
    after its language; one of no known language is taken for that of most of its words.
    """
    home = {pattern: language for pattern, _, language in (*_concepts(data), *_classes())}
    said: dict[str, Counter[str]] = defaultdict(Counter)
    for language, text in sorted(texts, key=lambda one: one[0] not in LANGUAGES):
        found = set(_own(text))
        spoken = language
        if language not in LANGUAGES:
            votes = sum((said[pattern] for pattern in sorted(found) if pattern in said), Counter[str]())
            spoken = votes.most_common(1)[0][0]
        for pattern in found:
            said[pattern][spoken] += 1
    return {
        pattern: said[pattern].most_common(1)[0][0] if pattern in said else home[pattern]
        for pattern in patterns
    }


class Finder:
    def __init__(self, patterns: Iterable[str]) -> None:
        self._automaton = ahocorasick.Automaton()
        for pattern in patterns:
            self._automaton.add_word(pattern, pattern)
        self._automaton.make_automaton()

    def __call__(self, text: str) -> Iterator[str]:
        return (pattern for _, pattern in self._automaton.iter(text))


def _own(text: str) -> Iterator[str]:
    words = [(word, has_unspaced(word) or word in _STOPS or word in _LETTERS) for word in text.split()]
    for word, skipped in words:
        if not skipped:
            yield f" {word} "
            yield from (f" {word[:size]}" for size in _BEGINNINGS if len(word) > size)
    for (left, first), (right, second) in itertools.pairwise(words):
        if not (first or second):
            yield f" {left} {right} "
    for run in _UNSPACED.findall(text):
        for size in _CHARACTERS:
            yield from (run[at : at + size] for at in range(len(run) - size + 1))


def _classes() -> Iterator[Listed]:
    for name, language, phrase in _class_lines():
        yield _pattern(phrase), f"={name}", language


def _class_lines() -> Iterator[tuple[str, str, str]]:
    for path in sorted((FOLDER / "classes").glob("*.txt")):
        name = ""
        for line in path.read_text(encoding="utf-8").splitlines():
            first, *phrases = line.split()
            if first == "=":
                name = phrases[0]
            else:
                yield from ((name, first, phrase) for phrase in phrases)


def _pattern(phrase: str) -> str:
    words = fold_phrase(phrase.rstrip("*").replace("_", " "))
    if has_unspaced(words):
        return words.replace(" ", "")
    return f" {words}" if phrase.endswith("*") else f" {words} "


def _concepts(data: Mapping[str, bytes]) -> Iterator[Listed]:
    for language, lexicon, signs in zip(LANGUAGES, LEXICONS, SIGNS, strict=True):
        file = msgspec.json.decode(data[lexicon], type=LanguageFile)
        listed = [
            *file.concepts.items(),
            *msgspec.json.decode(data[signs], type=dict[str, list[str]]).items(),
        ]
        listed += [
            (f"{category}!", phrases)
            for category, by_severity in file.phrases.items()
            for phrases in by_severity.values()
        ]
        for name, phrases in listed:
            for phrase in phrases:
                for wording in expand(phrase.lstrip("~")):
                    words = fold_phrase(wording)
                    if not file.spaced and len(words) <= _LONGEST_UNSPACED:
                        yield words.replace(" ", ""), name, language
                    elif file.spaced and words.count(" ") < _LONGEST_PHRASE:
                        yield f" {words} ", name, language
