"""What the messages of outsiders are taken for, by what they are about.

`evals/messages_outside.json` holds 270 messages in eleven languages by three authors who had seen nothing of the skill, with the
kind of each. The limits of `supportive_reply.message` were chosen while their sums were looked at.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from msgspec import Struct

from comity.skills.supportive_reply import SKILL
from evals.table import Table

FOLDER = Path(__file__).resolve().parents[1]
SET = FOLDER / "messages_outside.json"
FIGURES = FOLDER / "training" / "matter_figures.json"
KINDS = ("nothing", "good", "trouble", "violence", "other", "crisis")
TAKEN = ("crisis", "danger to the writer", "danger to another", "topic", "nothing", "unclear", "asked")


class Outside(Struct, frozen=True):
    language: str
    kind: str
    text: str


@cache
def outside_messages() -> tuple[Outside, ...]:
    return tuple(Outside(**one) for one in json.loads(SET.read_bytes())["texts"])


@cache
def taken_for() -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    for one, taken in zip(outside_messages(), _taken(), strict=True):
        counts[one.kind][taken] += 1
    return counts


def _taken() -> Iterator[str]:
    place = files("comity.skills")
    handle = SKILL.prepare({name: place.joinpath(name).read_bytes() for name in SKILL.data})
    spoken = [
        json.loads(place.joinpath(name).read_bytes())["replies"]
        for name in SKILL.data
        if "/languages/" in name
    ]
    known = {
        words[name]: taken
        for words in spoken
        for name, taken in (("nothing", "nothing"), ("either", "unclear"))
    }
    for one in outside_messages():
        answer = handle({"message": one.text, "risk_level": "low"}, "enhanced")
        assert not hasattr(answer, "urls")
        output = answer.output
        subjects = {danger["subject"] for danger in output["crisis"]["dangers"]}
        if "other" in subjects:
            yield "danger to another"
        elif "self" in subjects:
            yield "danger to the writer"
        elif output["crisis"]["detected"]:
            yield "crisis"
        elif any(line.startswith("Topic: ") for line in answer.assumptions):
            yield "topic"
        else:
            yield known.get(output["reply"], "asked")


def tables() -> Sequence[Table]:
    return [_outside(), *_held_back()]


def _outside() -> Table:
    return Table(
        name="messages_outside",
        title="What messages of outsiders are taken for",
        columns=["about", "n", *TAKEN],
        rows=[
            [kind, sum(found.values()), *(found[taken] for taken in TAKEN)]
            for kind, found in taken_for().items()
        ],
        notes=["the limits were chosen while these sums were looked at"],
    )


def _held_back() -> Iterator[Table]:
    titles = {"m1": "told by facts and scenes", "m2": "as most people write"}
    for author, counts in json.loads(FIGURES.read_bytes()).items():
        yield Table(
            name=f"matters_{author}",
            title=f"The matter of messages that were held back, {titles[author]}",
            columns=["", "n", "right", "rate"],
            rows=[
                [name, n, right, right / n]
                for name, (right, n) in sorted(counts.items(), key=lambda one: (one[0] != "all", one[0]))
            ],
        )
