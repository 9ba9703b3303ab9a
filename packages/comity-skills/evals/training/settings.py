"""What the weights come from, in one short word: the texts, the class files and the numbers that training is set to.

The data file carries it, and a test compares: nobody changes the one without the other. The limits change no weight; the
file has them as they are.
"""

import json
from hashlib import sha256

from msgspec.structs import astuple

from comity_skills.crisis.opinion import AROUND, CONTEXT
from evals.training.fitting import ROUNDS
from evals.training.model import LONG, SHORT, UNIT
from evals.training.texts import FOLDER, FOUND, lessons, long_lessons


def fingerprint() -> str:
    settings = [ROUNDS, CONTEXT, AROUND, UNIT, *astuple(SHORT), *astuple(LONG)]
    taught = sorted([one.text, one.crisis, one.author] for one in (*lessons(), *long_lessons()))
    classes = [path.read_text(encoding="utf-8") for path in sorted((FOLDER / "classes").glob("*.txt"))]
    found = [[source.__name__, most] for source, most in FOUND]
    return sha256(json.dumps([settings, taught, classes, found]).encode()).hexdigest()[:16]
