"""`python -m evals.training`: fits the weights, measures them on authors that were held back, and writes both.

The same texts give the same file. The weights go beside the lexicons; what they do on texts of authors whom they
have not seen goes into `figures.json`, which the evals print.
"""

from importlib.resources import files
from pathlib import Path

import msgspec

from comity.skills.crisis.data import LEXICONS, OPINION, RULES, SIGNS
from comity.skills.crisis.detector import CrisisDetector
from comity.skills.crisis.folding import fold
from comity.skills.crisis.lexicon import read_lexicon
from comity.skills.crisis.opinion import OpinionFile
from evals.training.judging import AROUND, CALM, HIGH, MODERATE, figures, held_back
from evals.training.model import MENTION, WEAK, learn, look, told_apart
from evals.training.patterns import Finder, languages, meanings
from evals.training.settings import fingerprint
from evals.training.texts import FIGURES, found_lessons, lessons

_PACKAGE = files("comity.skills")


def train() -> None:
    data = {name: _PACKAGE.joinpath(name).read_bytes() for name in (*LEXICONS, *SIGNS, *RULES)}
    lexicon = read_lexicon(
        [data[name] for name in LEXICONS], [data[name] for name in SIGNS], *(data[name] for name in RULES)
    )
    taught = [*lessons(), *found_lessons()]
    folded = [fold(one.text, lexicon.vocabulary) for one in taught]
    known = meanings([one.text for one in folded], data)
    find, rules = Finder(known), CrisisDetector(lexicon)
    right = [one.crisis for one in taught]
    seen = [
        look(text, find, detected=rules.detect(one.text).detected, **rules.signs(one.text))
        for one, text in zip(taught, folded, strict=True)
    ]
    teaching = told_apart(seen, right, known)
    judged = held_back(taught, seen, teaching, known)
    weights = learn(teaching, right, known)
    measured = figures(judged, weights.bias)
    FIGURES.write_bytes(msgspec.json.format(msgspec.json.encode(measured)) + b"\n")
    home = languages(
        [(one.language, text.text) for one, text in zip(taught, folded, strict=True)], weights.patterns, data
    )
    file = OpinionFile(
        fingerprint=fingerprint(),
        moderate=MODERATE,
        around=AROUND,
        calm=CALM,
        high=HIGH,
        mention=weights.rules[MENTION],
        weak=weights.rules[WEAK],
        phrases={
            language: {
                pattern: weight for pattern, weight in weights.patterns.items() if home[pattern] == language
            }
            for language in sorted(set(home.values()))
        },
    )
    Path(str(_PACKAGE)).joinpath(OPINION).write_bytes(msgspec.json.encode(file) + b"\n")
    for one in measured:
        print(
            f"{one.name:28} {'crisis' if one.crisis else 'calm':7} {one.texts:5} {one.rules:5} {one.both:5}"
        )


if __name__ == "__main__":
    train()
