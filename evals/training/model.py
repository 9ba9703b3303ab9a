"""From lessons to weights: counts what is in the texts, fits, and rounds to what the data file holds."""

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from comity.skills.crisis.opinion import breadth_of
from comity.skills.crisis.report import CrisisReport
from evals.training.fitting import Row, fit
from evals.training.patterns import Finder, Meanings

MENTION, WEAK = "mention", "weak"
UNIT = 100  # of a rounded weight
LIGHTEST = 20  # a lighter pattern is left out
_SPREAD = 15.0  # brings what is counted to about one


class Seen(Struct, frozen=True):
    """A text as it is weighed: how often each pattern is in it, what the rules made of it, and what its weights are
    divided by.
    """

    counts: Mapping[str, int]
    rules: Sequence[str]
    breadth: float
    detected: bool


class Weights(Struct, frozen=True):
    patterns: Mapping[str, int]
    rules: Mapping[str, int]
    bias: float

    def score(self, seen: Seen) -> float:
        """Above zero is the side of the crises."""
        get = self.patterns.get
        total = sum(get(pattern, 0) * count for pattern, count in seen.counts.items())
        total += sum(self.rules[name] for name in seen.rules)
        return total / seen.breadth + self.bias


def look(text: str, report: CrisisReport, find: Finder) -> Seen:
    """`text` is folded, `report` is what the rules alone say of it. Where they are certain nobody asks for another
    opinion, so only what they say of the others is learned from.
    """
    rules = [MENTION] if report.mention else []
    rules += [WEAK] if report.mention and not all(signal.lowered for signal in report.signals) else []
    return Seen(Counter(find(text)), rules, breadth_of(text), report.detected)


def learn(seen: Sequence[Seen], right: Sequence[bool], meanings: Meanings) -> Weights:
    names = sorted({name for found in meanings.values() for name in found})
    columns = {name: at for at, name in enumerate((MENTION, WEAK, *names))}
    numbers = {pattern: [columns[name] for name in sorted(found)] for pattern, found in meanings.items()}
    weights, bias = fit([_row(one, numbers, columns) for one in seen], right, len(columns))
    patterns = {
        pattern: round(sum(weights[at] for at in found) * _SPREAD * UNIT)
        for pattern, found in numbers.items()
    }
    return Weights(
        {pattern: weight for pattern, weight in patterns.items() if abs(weight) >= LIGHTEST},
        {name: round(weights[columns[name]] * _SPREAD * UNIT) for name in (MENTION, WEAK)},
        bias * UNIT,
    )


def _row(one: Seen, numbers: Mapping[str, Sequence[int]], columns: Mapping[str, int]) -> Row:
    row: Counter[int] = Counter(columns[name] for name in one.rules)
    for pattern, count in one.counts.items():
        for column in numbers[pattern]:
            row[column] += count
    unit = _SPREAD / one.breadth
    return list(row), [count * unit for count in row.values()]
