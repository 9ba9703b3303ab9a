"""`python -m evals.matters`: fits what speaks for which matter of a message, measures it, and writes it down.

- `training/messages/<code>.jsonl` holds messages with their matter, written by authors who had seen nothing of the rules. The
  author `m1` of each language tells it by facts and scenes, and rarely by its name; `m2` writes as most people do.
- The safe texts that the crisis detector learns from teach what only sounds like danger (`told`: stories, lessons, idioms, what is
  long over) and what needs nothing.
- Each matter is told from all others by a line of its own (`training.fitting`). A message in one of five parts is judged by what the
  other four parts teach. `training/matter_figures.json` says how often that is right.
- The weights are the same for all languages, so a language learns from the messages of the others.
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

from comity.skills.crisis import crisis_detector
from comity.skills.supportive_reply import FIELDS, MATTERS, SKILL, message_reader
from comity.skills.supportive_reply.matter import Matters, MattersFile, breadth_of, likeliest
from evals.tables.messages import FIGURES
from evals.training.fitting import Row, fit
from evals.training.texts import lessons

FOLDER = Path(__file__).with_name("training") / "messages"
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
_PACKAGE = files("comity.skills")
_PARTS = 5
_COST = 0.3
_LEAST = 3  # messages in which a feature has to be
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
    message: Message
    features: frozenset[str]


@cache
def messages() -> tuple[Message, ...]:
    written = (
        Message(path.stem, **json.loads(line))
        for path in sorted(FOLDER.glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
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
    return sha256(json.dumps([_COST, _LEAST, _UNIT, taught]).encode()).hexdigest()[:16]


@cache
def seen() -> tuple[Seen, ...]:
    data = {name: _PACKAGE.joinpath(name).read_bytes() for name in SKILL.data}
    reader, detector = message_reader(data), crisis_detector(data)
    matters = Matters(b"", {code: data[name] for code, name in FIELDS.items()})
    return tuple(
        Seen(
            one,
            frozenset(
                matters.features(one.text, reader.said(one.text), one.language, detector.detect(one.text))
            ),
        )
        for one in messages()
    )


def fitted(taught: Sequence[Seen]) -> MattersFile:
    often = Counter(feature for one in taught for feature in one.features)
    kept = sorted(feature for feature, count in often.items() if count >= _LEAST)
    places = {feature: place for place, feature in enumerate(kept)}
    rows = [_row(one.features, places) for one in taught]
    labels = sorted({one.message.label for one in taught})
    sizes = Counter(one.message.label for one in taught)
    columns, starts = [], []
    for label in labels:
        right = [one.message.label == label for one in taught]
        # a rare matter counts as much as all others together
        rare, usual = (len(taught) / (2 * count) for count in (sizes[label], len(taught) - sizes[label]))
        weights, start = fit(rows, right, len(kept), [_COST * (rare if one else usual) for one in right])
        columns.append(weights)
        starts.append(start)
    return MattersFile(
        fingerprint=fingerprint(),
        matters=tuple(labels),
        start=tuple(round(_UNIT * start) for start in starts),
        weights={
            feature: tuple(round(_UNIT * column[place]) for column in columns)
            for feature, place in places.items()
        },
    )


def _row(features: frozenset[str], places: Mapping[str, int]) -> Row:
    found = sorted(places[feature] for feature in features if feature in places)
    return found, [1 / breadth_of(len(found))] * len(found)


def judged(taught: Sequence[Seen]) -> list[tuple[Message, str]]:
    """Each message with the matter that the other parts give it."""
    answers = []
    for part in range(_PARTS):
        file = fitted([one for one in taught if one.message.part != part])
        for one in taught:
            if one.message.part == part:
                best = likeliest(file, one.features)[0]
                answers.append((one.message, best.name))
    return answers


def figures(answers: Sequence[tuple[Message, str]]) -> dict[str, dict[str, list[int]]]:
    """By author, and by author and language or matter: how many are right, of how many."""
    counts: dict[str, dict[str, list[int]]] = {}
    for message, told in answers:
        for name in ("all", message.language, message.label) if message.author else ():
            count = counts.setdefault(message.author, {}).setdefault(name, [0, 0])
            count[0] += message.label == told
            count[1] += 1
    return counts


def main() -> None:
    FIGURES.write_text(json.dumps(figures(judged(seen())), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    content = msgspec.to_builtins(fitted(seen()))
    rows = [
        f" {json.dumps(name)}: {json.dumps(weights, separators=(',', ':'))}"
        for name, weights in content.pop("weights").items()
    ]
    head = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in content.items())
    text = f'{{\n{head},\n"weights": {{\n' + ",\n".join(rows) + "\n}\n}\n"
    Path(str(_PACKAGE.joinpath(MATTERS))).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
