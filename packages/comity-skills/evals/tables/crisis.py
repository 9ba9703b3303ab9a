"""The crisis detector on the project's own set and on the shared one: recall and false alarms apart.

- The own set (`evals/crisis`, one file per language) was written before the detector was tuned. The first byte
  of a text's SHA-256 puts it into the *tune* half (even) or the *test* half (odd), once and for all. Rules are
  changed by looking at the tune half; of the test half only the sums below are looked at.
- Every table has the rules alone beside the rules with the second opinion on the phrasing. What that opinion does on
  texts of authors whom it has not seen was measured when it was trained (`evals.training`).
- The authors of the set are the authors of the rules: the figures show that the rules hold together and how
  they do on what they were not tuned on, not how they would do on the population.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Literal

from msgspec import Struct

from comity.testing.vectors import vectors_folder
from comity_skills.crisis import CrisisDetector, crisis_detector
from comity_skills_data import shipped
from evals.table import Cell, Table

SET = Path(__file__).resolve().parents[1] / "crisis"
MENDED = SET.with_name("crisis_mended.json")
OUTSIDE = SET.with_name("crisis_outside.json")
FRESH = SET.with_name("crisis_fresh.json")
HELD_BACK = SET.with_name("training") / "figures.json"
Half = Literal["tune", "test"]
HALVES: tuple[Half, ...] = ("tune", "test")


class Text(Struct, frozen=True):
    text: str
    language: str
    tag: str
    crisis: bool


class Score(Struct, frozen=True):
    """Of `crises` texts `found` were detected, of `calm` ones `alarms` were, too."""

    crises: int
    found: int
    calm: int
    alarms: int

    @property
    def recall(self) -> float | None:
        return self.found / self.crises if self.crises else None

    @property
    def false_alarms(self) -> float | None:
        return self.alarms / self.calm if self.calm else None


@cache
def detector() -> CrisisDetector:
    return crisis_detector(shipped(), phrasing=True)


@cache
def rules_alone() -> CrisisDetector:
    return crisis_detector(shipped())


def half_of(text: str) -> Half:
    return HALVES[sha256(text.encode()).digest()[0] & 1]


def own_set() -> list[Text]:
    texts: list[Text] = []
    for path in sorted(SET.glob("*.json")):
        content = json.loads(path.read_bytes())
        for label, crisis in (("crisis", True), ("calm", False)):
            texts += [Text(text, content["language"], tag, crisis) for tag, text in content[label]]
    return texts


def mended_set() -> list[Text]:
    """What was mended by looking at each text: a guard against falling back, no measure."""
    content = json.loads(MENDED.read_bytes())
    return [
        Text(text, "any", "mended", crisis)
        for label, crisis in (("crisis", True), ("calm", False))
        for text in content[label]
    ]


def outside_set() -> list[Text]:
    """By another author than the rules, written without sight of them."""
    return _texts_in(OUTSIDE)


def fresh_set() -> list[Text]:
    """By one more author, who saw neither the rules nor what the second opinion learns from. It only measures."""
    return _texts_in(FRESH)


def _texts_in(path: Path) -> list[Text]:
    texts = json.loads(path.read_bytes())["texts"]
    return [Text(one["text"], one["language"], one["tag"], one["crisis"]) for one in texts]


def shared_set() -> list[Text] | None:
    folder = vectors_folder()
    path = folder / "actions" / "crisis_labelled.json" if folder else None
    if path is None or not path.exists():
        return None
    return [
        Text(one["text"], one["lang"], one["tag"], one["crisis"]) for one in json.loads(path.read_bytes())
    ]


def score(texts: Iterable[Text], by: CrisisDetector | None = None) -> Score:
    """By the detector as it is, or by another one."""
    by = by or detector()
    crises = found = calm = alarms = 0
    for one in texts:
        detected = by.detect(one.text).detected
        if one.crisis:
            crises += 1
            found += detected
        else:
            calm += 1
            alarms += detected
    return Score(crises, found, calm, alarms)


def tables() -> Sequence[Table]:
    return [
        *(_own(half) for half in HALVES),
        _outside(),
        _fresh(),
        *_held_back(),
        _by_tag(),
        _mended(),
        _shared(),
    ]


def _own(half: Half) -> Table:
    texts = [one for one in own_set() if half_of(one.text) == half]
    return _by_language(f"crisis_{half}", f"Crisis detection, own set, {half} half", texts)


def _by_language(name: str, title: str, texts: Sequence[Text], *notes: str) -> Table:
    languages = sorted({one.language for one in texts})
    rows = [_row(language, [one for one in texts if one.language == language]) for language in languages]
    return Table(name=name, title=title, columns=_COLUMNS, rows=[*rows, _row("all", texts)], notes=notes)


def _by_tag() -> Table:
    texts = [one for one in own_set() if half_of(one.text) == "tune"]
    rows = [_row(tag, [one for one in texts if one.tag == tag]) for tag in sorted({one.tag for one in texts})]
    return Table(
        name="crisis_tags", title="Crisis detection, own set, tune half, by tag", columns=_COLUMNS, rows=rows
    )


def _mended() -> Table:
    return Table(
        name="crisis_mended",
        title="Crisis detection, texts that the rules were mended by (no measure)",
        columns=_COLUMNS,
        rows=[_row("all", mended_set())],
    )


def _outside() -> Table:
    unread = [one for one in outside_set() if half_of(one.text) == "test"]
    title = "Crisis detection, set of another author, the half that nobody read"
    return _by_language("crisis_outside", title, unread, "its sums were looked at while rules were mended")


def _fresh() -> Table:
    title = "Crisis detection, set of an author who saw nothing and whom nobody read"
    note = "nearest to how it does on texts that nobody here has written"
    return _by_language("crisis_fresh", title, fresh_set(), note)


def _shared() -> Table:
    texts = shared_set()
    if texts is None:
        return Table(
            name="crisis_shared",
            title="Crisis detection, shared labelled set",
            notes=["skipped: the vectors are not here (set COMITY_VECTORS)"],
        )
    return _by_language("crisis_shared", "Crisis detection, shared labelled set", texts)


def _held_back() -> Iterator[Table]:
    """As they were when the second opinion was trained: that takes longer than a table should."""
    figures = json.loads(HELD_BACK.read_bytes())
    for crisis, what in ((True, "crises found"), (False, "false alarms")):
        yield Table(
            name=f"crisis_held_back_{'crisis' if crisis else 'calm'}",
            title=f"Crisis detection, authors held back in training (texts, where a language has one author): {what}",
            columns=("", "n", "rules alone", "rules and phrasing", "rate, rules alone", "rate, both"),
            rows=[
                [
                    one["name"],
                    one["texts"],
                    one["rules"],
                    one["both"],
                    one["rules"] / one["texts"],
                    one["both"] / one["texts"],
                ]
                for one in figures
                if one["crisis"] is crisis
            ],
        )


_COLUMNS = (
    "",
    "n crisis",
    "found",
    "recall, rules alone",
    "recall, rules and phrasing",
    "n calm",
    "alarms",
    "false alarms, rules alone",
    "false alarms, rules and phrasing",
)


def _row(name: str, texts: Sequence[Text]) -> list[Cell]:
    rules, both = score(texts, rules_alone()), score(texts)
    return [
        name,
        both.crises,
        both.found,
        rules.recall,
        both.recall,
        both.calm,
        both.alarms,
        rules.false_alarms,
        both.false_alarms,
    ]
