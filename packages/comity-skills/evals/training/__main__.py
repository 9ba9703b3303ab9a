"""`python -m evals.training`: fits the weights, measures them on authors that were held back, and writes both.

The same texts give the same file. The weights go beside the lexicons; what they do on texts of authors whom they
have not seen goes into `figures.json`, which the evals print.
"""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from comity_skills.crisis.data import LEXICONS, OPINION, RULES, SIGNS
from comity_skills.crisis.detector import CrisisDetector
from comity_skills.crisis.folding import fold
from comity_skills.crisis.lexicon import read_lexicon
from comity_skills.crisis.opinion import OpinionFile
from evals.training.judging import AROUND, CALM, HIGH, MODERATE, Judged, figures, held_back
from evals.training.model import LONG, MENTION, SHORT, WEAK, Way, Weights, learn, look, told_apart
from evals.training.patterns import Finder, languages, meanings
from evals.training.settings import fingerprint
from evals.training.texts import FIGURES, Lesson, found_lessons, lessons, long_lessons

_PACKAGE = files("comity_skills")
_GROUPS = 3


class Trained(Struct, frozen=True):
    """What one way of fitting gives: the weights, by language where that is asked for, and what they do on held-back texts."""

    weights: Weights
    phrases: Mapping[str, Mapping[str, int]]
    judged: Sequence[Judged]


def train() -> None:
    data = {name: _PACKAGE.joinpath(name).read_bytes() for name in (*LEXICONS, *SIGNS, *RULES)}
    taught = [*lessons(), *found_lessons()]
    short = _trained(taught, data, SHORT, several=False)
    long = _trained([_in_groups(one) for one in (*taught, *long_lessons())], data, LONG, several=True)
    measured = figures([*short.judged, *long.judged])
    FIGURES.write_bytes(msgspec.json.format(msgspec.json.encode(measured)) + b"\n")
    file = OpinionFile(
        fingerprint=fingerprint(),
        moderate=MODERATE,
        around=AROUND,
        calm=CALM,
        high=HIGH,
        mention=short.weights.rules[MENTION],
        weak=short.weights.rules[WEAK],
        phrases=short.phrases,
        long_phrases=long.phrases,
    )
    Path(str(_PACKAGE)).joinpath(OPINION).write_bytes(msgspec.json.encode(file) + b"\n")
    for one in measured:
        print(
            f"{one.name:28} {'crisis' if one.crisis else 'calm':7} {one.texts:5} {one.rules:5} {one.both:5}"
        )


def _trained(taught: Sequence[Lesson], data: Mapping[str, bytes], way: Way, *, several: bool) -> Trained:
    lexicon = read_lexicon(
        [data[name] for name in LEXICONS], [data[name] for name in SIGNS], *(data[name] for name in RULES)
    )
    folded = [fold(one.text, lexicon.vocabulary) for one in taught]
    known = meanings([one.text for one in folded], data)
    find, rules = Finder(known), CrisisDetector(lexicon)
    right = [one.crisis for one in taught]
    seen = [
        look(text, find, detected=rules.detect(one.text).detected, **rules.signs(one.text))
        for one, text in zip(taught, folded, strict=True)
    ]
    teaching = told_apart(seen, right, known, way)
    judged = held_back(taught, seen, teaching, known, way, several=several)
    weights = learn(teaching, right, known, way)
    home = languages(
        [(one.language, text.text) for one, text in zip(taught, folded, strict=True)], weights.patterns, data
    )
    phrases = {
        language: {
            pattern: weight for pattern, weight in weights.patterns.items() if home[pattern] == language
        }
        for language in sorted(set(home.values()))
    }
    return Trained(weights, phrases, judged)


def _in_groups(one: Lesson) -> Lesson:
    """With a fold of several authors: `a4` is judged together with `a1`."""
    letter, number = one.fold[:1], one.fold[1:]
    return replace(one, fold=f"{letter} {int(number) % _GROUPS}") if number.isdigit() else one


if __name__ == "__main__":
    train()
