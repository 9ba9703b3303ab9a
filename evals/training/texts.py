"""The texts that the second opinion is fitted to, and who judges which.

- `texts/<language>.jsonl` were written for this, by several authors who knew nothing of the detector. The author
  of each is kept: what an author wrote is judged by weights that were fitted to the texts of the others.
- Three of the authors only teach what is calm: sentences of the documentation, of the tests of other skills, and
  plain ones with the words of the matter.
- The tune half of the project's own set, the half of the outside set that was read, and what the rules were mended
  by are learned from, too. The other halves are not.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from random import Random

from msgspec import Struct

from evals.tables.crisis import Text, half_of, mended_set, outside_set, own_set

FOLDER = Path(__file__).resolve().parent
FIGURES = FOLDER / "figures.json"
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
    written = [
        Lesson(language=path.stem, **json.loads(line))
        for path in sorted((FOLDER / "texts").glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    read = [one for one in (*own_set(), *outside_set()) if half_of(one.text) == "tune"]
    return [*_with_folds(written), *(_lesson(one) for one in (*read, *mended_set()))]


def _lesson(one: Text) -> Lesson:
    return Lesson(one.text, one.language, one.tag, one.crisis, author="tune")


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
