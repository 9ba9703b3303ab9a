"""`python -m evals.matters`: fits what speaks for which matter of a message, measures it, and writes it down.

- `messages/<code>.jsonl` (`training.packed`) holds messages with their matter, written by authors who had seen nothing of the rules. The
  author `m1` of each language tells it by facts and scenes, and rarely by its name; `m2` writes as most people do.
- The safe texts that the crisis detector learns from teach what only sounds like danger (`told`: stories, lessons, idioms, what is
  long over) and what needs nothing.
- Authors `m3` and `m4` write of danger, to the writer and to others, and of what only looks like it. `p1` write ordinary prose (`plain`),
  which is no message and has no matter: it teaches only what is no danger.
- Each matter is told from all others by a line of its own (`training.fitting`). A message in one of five parts is judged by what the
  other four parts teach. `training/matter_figures.json` says how often that is right.
- The weights are the same for all languages, so a language learns from the messages of the others.
- One more line tells all dangers from everything else (`alarm.json`).
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from comity_skills.crisis import crisis_detector
from comity_skills.supportive_reply import matters_reader, message_reader
from comity_skills.supportive_reply.data import ALARM, FIELDS, MATTERS
from comity_skills.supportive_reply.matter import (
    AlarmFile,
    MattersFile,
    breadth_of,
    danger_in,
    dangers_in,
    likeliest,
)
from comity_skills.supportive_reply.message import ASKED, DANGERS, LIKELY
from comity_skills_data import shipped
from evals.tables.messages import FIGURES
from evals.training.fitting import Row, fit
from evals.training.packed import files_of
from evals.training.texts import lessons

_SAFE = {
    **dict.fromkeys(("technical", "medical", "everyday"), "nothing"),
    **dict.fromkeys(
        (
            "idiom",
            "fiction",
            "education",
            "recovery",
            "negation",
            "accident",
            "farewell_harmless",
            "question",
        ),
        "told",
    ),
}
"""The matter of safe texts, by their tags."""
PLAIN = "plain"
_PACKAGE = files("comity_skills")
_PARTS = 5
_COST = 0.3
_ALARM_COST = 1.0
_LIGHT = 15  # what a feature of danger weighs at least, to be kept
_LEAST = 3  # messages in which a feature has to be
_LEAST_OF_DANGERS = 8
_UNIT = 100  # the weights are whole numbers


class Message(Struct, frozen=True):
    language: str
    label: str
    text: str
    author: str = ""

    @property
    def part(self) -> int:
        return sha256(self.text.encode()).digest()[1] % _PARTS


class Seen(Struct, frozen=True):
    """`signs` are the features that only a danger is told by."""

    message: Message
    features: frozenset[str]
    signs: frozenset[str]

    @property
    def is_danger(self) -> bool:
        return self.message.label in DANGERS


@cache
def messages() -> tuple[Message, ...]:
    written = (
        Message(language, **json.loads(line))
        for language, lines in files_of("messages").items()
        for line in lines.splitlines()
    )
    safe = (
        Message(one.language, _SAFE[one.tag], one.text)
        for one in lessons()
        if one.tag in _SAFE and not one.crisis and one.language in FIELDS
    )
    return tuple({one.text: one for one in (*safe, *written)}.values())


def fingerprint() -> str:
    """What the weights come from."""
    taught = sorted([one.language, one.label, one.text] for one in messages())
    settings = [_COST, _ALARM_COST, _LIGHT, _LEAST, _LEAST_OF_DANGERS, _UNIT]
    return sha256(json.dumps([*settings, taught]).encode()).hexdigest()[:16]


@cache
def seen() -> tuple[Seen, ...]:
    data = shipped()
    reader, detector = message_reader(data), crisis_detector(data, phrasing=True)
    matters = matters_reader(data)
    found = (
        (one, matters.features(one.text, reader.said(one.text), one.language, detector.detect(one.text)))
        for one in messages()
    )
    return tuple(Seen(one, *map(frozenset, features)) for one, features in found)


def alarmed(taught: Sequence[Seen]) -> AlarmFile:
    """What tells a danger from everything else, and one danger from the others."""
    kept = _kept((one.features | one.signs for one in taught), _LEAST)
    rows, right = _rows(taught, kept), [one.is_danger for one in taught]
    weights, start = fit(rows, right, len(kept), _costs(right, _ALARM_COST))
    whole = {feature: round(_UNIT * weight) for feature, weight in zip(kept, weights, strict=True)}
    dangers = [one for one in taught if one.is_danger]
    telling = _kept((one.features | one.signs for one in dangers), _LEAST_OF_DANGERS)
    names = tuple(sorted(DANGERS))
    columns, starts = _lines(_rows(dangers, telling), dangers, names, len(telling), _ALARM_COST)
    return AlarmFile(
        fingerprint=fingerprint(),
        start=round(_UNIT * start),
        names=names,
        starts=starts,
        weights={feature: weight for feature, weight in whole.items() if abs(weight) >= _LIGHT},
        kinds=_table(telling, columns),
    )


def _rows(taught: Sequence[Seen], kept: Sequence[str]) -> list[Row]:
    places = {feature: place for place, feature in enumerate(kept)}
    return [_row(one.features | one.signs, places) for one in taught]


def _lines(
    rows: Sequence[Row], taught: Sequence[Seen], labels: Sequence[str], width: int, cost: float
) -> tuple[list[list[float]], tuple[int, ...]]:
    """For each label the weights that tell it from the others, and what is added."""
    columns, starts = [], []
    for label in labels:
        right = [one.message.label == label for one in taught]
        weights, start = fit(rows, right, width, _costs(right, cost))
        columns.append(weights)
        starts.append(round(_UNIT * start))
    return columns, tuple(starts)


def _table(kept: Sequence[str], columns: Sequence[Sequence[float]]) -> dict[str, tuple[int, ...]]:
    return {
        feature: tuple(round(_UNIT * weight) for weight in weights)
        for feature, *weights in zip(kept, *columns, strict=True)
    }


def _kept(features: Iterable[frozenset[str]], least: int) -> list[str]:
    often = Counter(feature for one in features for feature in one)
    return sorted(feature for feature, count in often.items() if count >= least)


def _costs(right: Sequence[bool], cost: float) -> list[float]:
    """What is rare counts as much as everything else together."""
    rare, usual = (len(right) / (2 * right.count(side)) for side in (True, False))
    return [cost * (rare if one else usual) for one in right]


def fitted(taught: Sequence[Seen]) -> MattersFile:
    taught = [one for one in taught if one.message.label != PLAIN]
    kept = _kept((one.features for one in taught), _LEAST)
    places = {feature: place for place, feature in enumerate(kept)}
    labels = sorted({one.message.label for one in taught})
    rows = [_row(one.features, places) for one in taught]
    columns, starts = _lines(rows, taught, labels, len(kept), _COST)
    return MattersFile(
        fingerprint=fingerprint(), matters=tuple(labels), start=starts, weights=_table(kept, columns)
    )


def _row(features: frozenset[str], places: Mapping[str, int]) -> Row:
    found = sorted(places[feature] for feature in features if feature in places)
    return found, [1 / breadth_of(len(found))] * len(found)


class Judged(NamedTuple):
    """A message with the matter and the danger that the other parts give it, and how much speaks for a danger."""

    message: Message
    matter: str
    likeliest: str
    danger: float


def judged(taught: Sequence[Seen]) -> list[Judged]:
    answers = []
    for part in range(_PARTS):
        others = [one for one in taught if one.message.part != part]
        file, alarm = fitted(others), alarmed(others)
        for one in taught:
            if one.message.part == part:
                whole = one.features | one.signs
                best, danger = likeliest(file, one.features)[0], dangers_in(alarm, whole)[0]
                answers.append(Judged(one.message, best.name, danger.name, danger_in(alarm, whole)))
    return answers


def figures(answers: Sequence[Judged]) -> dict[str, dict[str, list[int]]]:
    """By author, and by author and language or matter: how many are right, of how many. By matter alone (`danger`): how many are
    taken for a danger, how many more are asked for one, of how many.
    """
    counts: dict[str, dict[str, list[int]]] = {"danger": {}}
    for message, told, _, danger in answers:
        if not message.author:
            continue
        for name in ("all", message.language, message.label) if message.label != PLAIN else ():
            count = counts.setdefault(message.author, {}).setdefault(name, [0, 0])
            count[0] += message.label == told
            count[1] += 1
        for name in (message.label, f"{message.label} {message.language}"):
            count = counts["danger"].setdefault(name, [0, 0, 0])
            count[0] += danger >= LIKELY
            count[1] += ASKED <= danger < LIKELY
            count[2] += 1
    return counts


def main() -> None:
    FIGURES.write_text(json.dumps(figures(judged(seen())), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    _write(MATTERS, fitted(seen()))
    _write(ALARM, alarmed(seen()))


def _write(name: str, file: Struct) -> None:
    """One feature a line."""
    members = []
    for key, value in msgspec.to_builtins(file).items():
        if isinstance(value, dict):
            rows = (
                f" {json.dumps(feature, ensure_ascii=False)}: {json.dumps(weights, separators=(',', ':'))}"
                for feature, weights in value.items()
            )
            members.append(f"{json.dumps(key)}: {{\n" + ",\n".join(rows) + "\n}")
        else:
            members.append(f"{json.dumps(key)}: {json.dumps(value)}")
    text = "{\n" + ",\n".join(members) + "\n}\n"
    Path(str(_PACKAGE.joinpath(name))).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
