"""`python -m evals.tone`: fits how a sentence may be read by the person it is written to, measures it, and writes it down.

- `tone.jsonl` (`training.packed`) holds messages and copy in English, sentence by sentence with what each does to its reader, written by
  authors who had seen nothing of the rules. Authors `a` were asked for new ways to say a hurtful thing, `b`, `c` and `e` for the
  usual ones; half of the sentences of each do no harm, and many of those sound as if they did. Authors `d` wrote ordinary prose,
  `n` are the harmless sentences of the tests, each counted thrice, and the messages about the writer's own troubles (`evals.matters`) do no harm.
- Hurt is told from harm-free by one line, its kind from the other kinds by a line each (`training.fitting`).
- Sentences are judged by what other authors teach. The limit is where `FALSE` of the harm-free ones are flagged;
  `training/tone_figures.json` says what is found there.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from comity_skills.editing import TONE, TONE_WORDS
from comity_skills.editing.tone import Tone, ToneFile, breadth_of, hurt, in_company, kind_of
from evals.matters import messages
from evals.tables.tone import FIGURES
from evals.training.fitting import Row, fit
from evals.training.packed import files_of

FALSE = 0.04
FINE = "fine"
_ASKED = "abce"  # the authors by whom it is measured
_HURTS = frozenset(("angry", "threat"))
_OF_TROUBLES = frozenset(("", "m1", "m2"))  # the authors of messages; others write of danger
_PACKAGE = files("comity_skills")
_PARTS = 5  # of the authors
_COST = 1.0
_LEAST = 3  # sentences in which a feature has to be
_UNIT = 100  # the weights are whole numbers
_LIGHT, _LIGHT_OF_KINDS = 20, 60  # what weighs less is left out: it changes one answer of a hundred


class Text(Struct, frozen=True, forbid_unknown_fields=True):
    author: str
    where: str
    sentences: tuple[tuple[str, str], ...]

    @property
    def part(self) -> int:
        return sha256(self.author.encode()).digest()[0] % _PARTS


class Seen(Struct, frozen=True):
    """A text with the features of its sentences, and their labels."""

    text: Text
    features: tuple[frozenset[str], ...]
    labels: tuple[str, ...]


@cache
def texts() -> tuple[Text, ...]:
    told = (
        Text(one.author or "safe", "", ((one.text, FINE),))
        for one in messages()
        if one.language == "en" and one.author in _OF_TROUBLES and one.label not in _HURTS
    )
    lines = files_of("tone")["tone"].splitlines()
    written = [msgspec.json.decode(line, type=Text) for line in lines]
    tested = [one for one in written if one.author[0] == "n"]
    return (*written, *2 * tested, *told)


def fingerprint() -> str:
    """What the weights come from."""
    taught = sorted(msgspec.to_builtins(one.sentences) for one in texts())
    words = _PACKAGE.joinpath(TONE_WORDS).read_text(encoding="utf-8")
    return sha256(
        json.dumps([FALSE, _COST, _LEAST, _UNIT, _LIGHT, _LIGHT_OF_KINDS, words, taught]).encode()
    ).hexdigest()[:16]


@cache
def seen() -> tuple[Seen, ...]:
    tone = Tone(lambda _: None, _PACKAGE.joinpath(TONE_WORDS).read_bytes())
    return tuple(
        Seen(
            one,
            tuple(tone.features(sentence) for sentence, _ in one.sentences),
            tuple(label for _, label in one.sentences),
        )
        for one in texts()
    )


def fitted(taught: Sequence[Seen], limit: float = 0) -> ToneFile:
    sentences = [pair for one in taught for pair in zip(one.features, one.labels, strict=True)]
    hurtful = [pair for pair in sentences if pair[1] != FINE]
    names = tuple(sorted({label for _, label in hurtful}))
    (start,), weights = _lines(sentences, [[label != FINE for _, label in sentences]], _LIGHT)
    starts, kinds = _lines(
        hurtful, [[label == name for _, label in hurtful] for name in names], _LIGHT_OF_KINDS
    )
    return ToneFile(
        fingerprint=fingerprint(),
        limit=limit,
        start=start,
        hurt={feature: weight for feature, (weight,) in weights.items()},
        names=names,
        starts=tuple(starts),
        kinds=kinds,
    )


def _lines(
    sentences: Sequence[tuple[frozenset[str], str]], answers: Sequence[Sequence[bool]], light: int
) -> tuple[list[int], dict[str, tuple[int, ...]]]:
    """Where each line starts, and for every feature that is not light its weight in each of them."""
    often = Counter(feature for features, _ in sentences for feature in features)
    kept = sorted(feature for feature, count in often.items() if count >= _LEAST)
    places = {feature: place for place, feature in enumerate(kept)}
    rows = [_row(features, places) for features, _ in sentences]
    starts, columns = [], []
    for right in answers:
        rare, usual = (len(rows) / (2 * count) for count in (sum(right), len(rows) - sum(right)))
        weights, start = fit(rows, right, len(kept), [_COST * (rare if one else usual) for one in right])
        starts.append(round(_UNIT * start))
        columns.append([round(_UNIT * weight) for weight in weights])
    table = zip(kept, zip(*columns, strict=True), strict=True)
    return starts, {feature: weights for feature, weights in table if max(map(abs, weights)) >= light}


def _row(features: frozenset[str], places: Mapping[str, int]) -> Row:
    found = sorted(places[feature] for feature in features if feature in places)
    return found, [1 / breadth_of(len(found))] * len(found)


class Judged(Struct, frozen=True):
    author: str
    label: str
    weight: float
    kind: str


def judged(taught: Sequence[Seen]) -> list[Judged]:
    """Each sentence with what the authors of the other parts say of it."""
    answers: list[Judged] = []
    for part in range(_PARTS):
        file = fitted([one for one in taught if one.text.part != part])
        for one in taught:
            if one.text.part == part:
                weights = in_company([hurt(file, features) for features in one.features])
                kinds = [kind_of(file, features) for features in one.features]
                answers += map(Judged, [one.text.author] * len(kinds), one.labels, weights, kinds)
    return answers


def limit_of(answers: Sequence[Judged]) -> float:
    fine = sorted((one.weight for one in answers if one.label == FINE), reverse=True)
    return round(fine[int(FALSE * len(fine))], 1)


def figures(answers: Sequence[Judged], limit: float) -> dict[str, dict[str, list[int]]]:
    """By the kind of authors and by label: how many are flagged, how many of those as what they are, and of how many."""
    counts: dict[str, dict[str, list[int]]] = {}
    for one in answers:
        flagged = one.weight >= limit
        for group in ("all", one.author[0]):
            for name in (one.label, *(() if one.label == FINE else ("hurtful",))):
                count = counts.setdefault(group, {}).setdefault(name, [0, 0, 0])
                count[0] += flagged
                count[1] += flagged and one.kind == one.label
                count[2] += 1
    return counts


def main() -> None:
    answers = [one for one in judged(seen()) if one.author[0] in _ASKED]
    limit = limit_of(answers)
    told = json.dumps(figures(answers, limit), indent=1, sort_keys=True)
    FIGURES.write_text(told.replace("\n   ", "").replace("\n  ]", "]") + "\n", encoding="utf-8")
    content = msgspec.to_builtins(replace(fitted(seen()), limit=limit))
    hurts, kinds = (_rows(content.pop(name)) for name in ("hurt", "kinds"))
    head = "".join(f"{json.dumps(name)}: {json.dumps(value)},\n" for name, value in content.items())
    text = f'{{\n{head}"hurt": {{\n{hurts}\n}},\n"kinds": {{\n{kinds}\n}}\n}}\n'
    Path(str(_PACKAGE.joinpath(TONE))).write_text(text, encoding="utf-8")


def _rows(table: Mapping[str, object]) -> str:
    return ",\n".join(
        f" {json.dumps(name, ensure_ascii=False)}: {json.dumps(value, separators=(',', ':'))}"
        for name, value in table.items()
    )


if __name__ == "__main__":
    main()
