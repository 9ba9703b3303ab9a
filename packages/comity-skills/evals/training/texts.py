"""The texts that the second opinion is fitted to, and who judges which.

- `texts/<language>.jsonl` were written for this, by several authors who knew nothing of the detector. The author
  of each is kept: what an author wrote is judged by weights that were fitted to the texts of the others.
- `long_texts/<language>.jsonl` were written in the same way: crises that are mostly told without any plain word, and safe
  texts that mostly use the words and situations of danger. Only the weights of long texts learn from them.
- Three of the authors only teach what is calm: sentences of the documentation, of the tests of other skills, and
  plain ones with the words of the matter.
- The tune half of the project's own set, the half of the outside set that was read, and what the rules were mended
  by are learned from, too, and the long texts: the tune half of `evals/crisis_long`, `evals/crisis_long_more` and
  `evals/crisis_long_forum`. The other halves are not.
- Everyday and technical texts of other people (`evals.sources`, their tune half) only teach what is calm. They are not
  kept here: whoever trains fetches them first, and the fingerprint knows only the names of their packages.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from random import Random

from msgspec import Struct

from evals import sources
from evals.tables.crisis import Text, half_of, mended_set, outside_set, own_set
from evals.tables.crisis_long import forum_set, long_set, more_set
from evals.training.packed import files_of

FOLDER = Path(__file__).resolve().parent
FIGURES = FOLDER / "figures.json"
FOUND = ((sources.sentences, 4000), (sources.fortunes, 500), (sources.strings, 80), (sources.manuals, 60))
FOUND_TAG = "found"
_LONG_PARTS = 3  # of the long texts, and of those that were found
_PARTS = 5  # of the texts in a language that has one author only


class Lesson(Struct, frozen=True):
    """`fold` names the texts that are judged together, by what the others taught. Without one a text only teaches."""

    text: str
    language: str
    tag: str
    crisis: bool
    author: str
    fold: str = ""


def lessons() -> list[Lesson]:
    written = _written("texts")
    read = [one for one in (*own_set(), *outside_set()) if half_of(one.text) == "tune"]
    return [
        *_with_folds(written),
        *(_lesson(one) for one in (*read, *mended_set())),
        *(_long(one) for one in long_set() if half_of(one.text) == "tune"),
        *(_long(one) for one in (*more_set(), *forum_set())),
    ]


def long_lessons() -> list[Lesson]:
    return _with_folds(_written("long_texts"))


def _written(name: str) -> list[Lesson]:
    return [
        Lesson(language=language, **json.loads(line))
        for language, lines in files_of(name).items()
        for line in lines.splitlines()
    ]


def found_lessons() -> list[Lesson]:
    """Those of other people. FileNotFoundError when they were not fetched."""
    taught = []
    for source, most in FOUND:
        found = sources.sample([one for one in source() if half_of(one[1]) == "tune"], most)
        if not found:
            raise FileNotFoundError(sources.HOW)
        taught += [_found(language, text) for language, text in found]
    return taught


def _lesson(one: Text) -> Lesson:
    return Lesson(one.text, one.language, one.tag, one.crisis, author="tune")


def _found(language: str, text: str) -> Lesson:
    return Lesson(text, language, FOUND_TAG, crisis=False, author="found", fold=_part("found", text))


def _part(name: str, text: str) -> str:
    return f"{name} {sha256(text.encode()).digest()[1] % _LONG_PARTS}"


def _long(one: Text) -> Lesson:
    return Lesson(one.text, one.language, one.tag, one.crisis, author="long", fold=_part("long", one.text))


def _with_folds(written: Sequence[Lesson]) -> list[Lesson]:
    authors = defaultdict(set)
    for one in written:
        if one.crisis:
            authors[one.language].add(one.author)
    random = Random(1)  # noqa: S311 -- the same parts every time are what is wanted
    return [
        Lesson(
            one.text,
            one.language,
            one.tag,
            one.crisis,
            one.author,
            fold=one.author
            if len(authors[one.language] | {one.author}) > 1
            else f"part {random.randrange(_PARTS)}",
        )
        for one in written
    ]
