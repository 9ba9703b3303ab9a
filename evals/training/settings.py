"""What the weights come from, in one short word: the texts, the class files and the numbers that training is set to.

The data file carries it, and a test compares: nobody changes the one without the other.
"""

import json
from hashlib import sha256

from evals.training.fitting import COST, ROUNDS
from evals.training.judging import HIGH, MODERATE
from evals.training.model import LIGHTEST, UNIT
from evals.training.texts import FOLDER, lessons


def fingerprint() -> str:
    settings = [COST, ROUNDS, HIGH, MODERATE, LIGHTEST, UNIT]
    taught = sorted([one.text, one.crisis, one.author] for one in lessons())
    classes = [path.read_text(encoding="utf-8") for path in sorted((FOLDER / "classes").glob("*.txt"))]
    return sha256(json.dumps([settings, taught, classes]).encode()).hexdigest()[:16]
