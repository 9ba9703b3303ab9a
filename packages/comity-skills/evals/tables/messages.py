"""What the messages of outsiders are taken for, by what they are about.

- `evals/messages_outside.json` holds 270 messages in eleven languages by three authors who had seen nothing of the skill, with the
  kind of each. The limits of `supportive_reply.message` were chosen while their sums were looked at.
- `evals/messages_danger.json` holds 880 by one author, most of danger, or with its words and scenes. Nothing was learned from them and none of them was
  read; their sums were looked at while the limits were chosen. Before danger was learned, 64 of its 154 emergencies were answered.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from msgspec import Struct

from comity_skills.supportive_reply import SKILL
from comity_skills.supportive_reply.data import SPOKEN
from comity_skills_data import shipped
from evals.table import Table

FOLDER = Path(__file__).resolve().parents[1]
FIGURES = FOLDER / "training" / "matter_figures.json"
TAKEN = (
    "crisis",
    "danger to the writer",
    "danger to another",
    "danger?",
    "topic",
    "nothing",
    "unclear",
    "asked",
)
_REPLIES = {"nothing": "nothing", "either": "unclear", "alarm": "danger?"}


class Outside(Struct, frozen=True):
    language: str
    kind: str
    text: str


@cache
def outside_messages() -> tuple[Outside, ...]:
    return _read("messages_outside.json", "kind")


@cache
def danger_messages() -> tuple[Outside, ...]:
    return _read("messages_danger.json", "label")


def _read(name: str, kind: str) -> tuple[Outside, ...]:
    texts = json.loads((FOLDER / name).read_bytes())["texts"]
    return tuple(Outside(one["language"], one[kind], one["text"]) for one in texts)


@cache
def taken_for(messages: tuple[Outside, ...]) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {one.kind: Counter() for one in messages}
    for one, taken in zip(messages, _taken(messages), strict=True):
        counts[one.kind][taken] += 1
    return counts


def _taken(messages: Sequence[Outside]) -> Iterator[str]:
    place = files("comity_skills")
    handle = SKILL.prepare(shipped())
    spoken = [json.loads(place.joinpath(name).read_bytes())["replies"] for name in SPOKEN.values()]
    known = {words[name]: taken for words in spoken for name, taken in _REPLIES.items()}
    for one in messages:
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
    outside = _of_outsiders(
        "messages_outside", "What messages of outsiders are taken for", outside_messages()
    )
    danger = _of_outsiders(
        "messages_danger",
        "What messages of danger, and those that look like it, are taken for",
        danger_messages(),
    )
    return [outside, danger, *_held_back()]


def _of_outsiders(name: str, title: str, messages: tuple[Outside, ...]) -> Table:
    return Table(
        name=name,
        title=title,
        columns=["about", "n", *TAKEN],
        rows=[
            [kind, sum(found.values()), *(found[taken] for taken in TAKEN)]
            for kind, found in taken_for(messages).items()
        ],
        notes=["the limits were chosen while these sums were looked at"],
    )


def _held_back() -> Iterator[Table]:
    titles = {
        "m1": "told by facts and scenes",
        "m2": "as most people write",
        "m3": "of danger and what looks like it",
        "m4": "the same, by other authors",
    }
    figures = json.loads(FIGURES.read_bytes())
    for author, title in titles.items():
        yield Table(
            name=f"matters_{author}",
            title=f"The matter of messages held back by text, not by author, {title}",
            columns=["", "n", "right", "rate"],
            rows=[
                [name, n, right, right / n]
                for name, (right, n) in sorted(
                    figures[author].items(), key=lambda one: (one[0] != "all", one[0])
                )
            ],
        )
    yield Table(
        name="danger",
        title="Messages held back by text, not by author, and whether they are taken for a danger",
        columns=["", "n", "danger", "asked"],
        rows=[
            [name, n, likely / n, asked / n] for name, (likely, asked, n) in sorted(figures["danger"].items())
        ],
    )
