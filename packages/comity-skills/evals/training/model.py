"""From lessons to weights: counts what is in the texts, fits, and rounds to what the data file holds.

It fits several times. Each time shows which patterns weigh enough to be kept. Many light ones together carry a part of the
sum, so those that are kept are fitted again without them; and what was light beside others may not be light alone, so the
lightest go first.

Texts of one passage and texts of several have weights of their own. People say in a short message what they want to say;
in a long one it stands among other things, and mostly between the lines.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from comity_skills.crisis.folding import Folded
from comity_skills.crisis.opinion import CONTEXT, Place, breadth_of, passages, surroundings
from evals.training.fitting import Row, fit
from evals.training.patterns import Finder, Meanings

MENTION, WEAK = "mention", "weak"
UNIT = 100  # of a rounded weight
_SPREAD = 15.0  # brings what is counted to about one


class Way(Struct, frozen=True):
    """How weights are fitted. A row costs `cost`, one of several passages of a text `share` of that. `teach` is how many
    passages of a long crisis are learned from. A pattern that a fit finds lighter than `lightest` is left out of the next one.
    """

    cost: float
    share: float
    teach: int
    lightest: tuple[int, ...]


SHORT = Way(cost=0.03, share=1.0, teach=3, lightest=(75,))
LONG = Way(cost=0.045, share=0.5, teach=5, lightest=(40, 80))


class Passage(Struct, frozen=True):
    """How often each pattern is in a passage, and what its weights are divided by; the same with what stands around it,
    if anything does.
    """

    counts: Mapping[str, int]
    breadth: float
    around: "Passage | None" = None


class Seen(Struct, frozen=True):
    """A text as it is weighed: its passages, and what the rules made of it where it has only one. They judged by everyday
    words alone where it is `soft`.
    """

    passages: Sequence[Passage]
    rules: Sequence[str]
    detected: bool
    soft: bool = False


class Weights(Struct, frozen=True):
    patterns: Mapping[str, int]
    rules: Mapping[str, int]
    bias: float

    def score(self, seen: Seen) -> float:
        """Of its heaviest passage. Above zero is the side of the crises."""
        more = sum(self.rules[name] for name in seen.rules)
        return max(self._weigh(one, more) for one in seen.passages) + self.bias

    def wider(self, seen: Seen) -> float:
        """Of the passage that is heaviest with what stands around it."""
        return max(
            self._weigh(one) + (CONTEXT * self._weigh(one.around) if one.around else 0)
            for one in seen.passages
        )

    def heaviest(self, seen: Seen, most: int) -> Seen:
        """The same with the heaviest of its passages alone."""
        heaviest = sorted(seen.passages, key=self._weigh, reverse=True)[:most]
        return Seen(heaviest, seen.rules, seen.detected)

    def _weigh(self, one: Passage, more: int = 0) -> float:
        get = self.patterns.get
        return (more + sum(get(pattern, 0) * count for pattern, count in one.counts.items())) / one.breadth


def look(folded: Folded, find: Finder, *, detected: bool, mention: bool, weak: bool, soft: bool) -> Seen:
    """What the rules alone say of it is learned from, too. Where they are certain nobody asks for another opinion."""
    text, unspaced = folded.text, folded.unspaced
    places = passages(text, unspaced=unspaced)
    rules: list[str] = []
    if len(places) == 1 and not detected and mention:
        rules = [MENTION, WEAK] if weak else [MENTION]

    def counted(place: Place) -> Passage:
        first, last = place
        return Passage(Counter(find(text[first:last])), breadth_of(last - first))

    seen = [counted(place) for place in places]
    if len(places) > 1:
        wider = [counted(surroundings(place, text, unspaced=unspaced)) for place in places]
        seen = [replace(one, around=more) for one, more in zip(seen, wider, strict=True)]
    return Seen(seen, rules, detected, soft)


def told_apart(seen: Sequence[Seen], right: Sequence[bool], meanings: Meanings, way: Way) -> list[Seen]:
    """The texts with the passages to learn from. A calm text is calm throughout; where a crisis has several passages,
    those count that weights fitted to the other texts find the heaviest.
    """
    plain = [at for at, one in enumerate(seen) if not right[at] or len(one.passages) == 1]
    weights = learn([seen[at] for at in plain], [right[at] for at in plain], meanings, way)
    return [weights.heaviest(one, way.teach) if right[at] else one for at, one in enumerate(seen)]


def learn(seen: Sequence[Seen], right: Sequence[bool], meanings: Meanings, way: Way) -> Weights:
    weights = _fitted(seen, right, meanings, way)
    for lightest in way.lightest:
        kept = {
            name: found for name, found in meanings.items() if abs(weights.patterns.get(name, 0)) >= lightest
        }
        weights = _fitted(seen, right, kept, way)
    return weights


def _fitted(seen: Sequence[Seen], right: Sequence[bool], meanings: Meanings, way: Way) -> Weights:
    names = sorted({name for found in meanings.values() for name in found})
    columns = {name: at for at, name in enumerate((MENTION, WEAK, *names))}
    numbers = {pattern: [columns[name] for name in sorted(found)] for pattern, found in meanings.items()}
    taught = [
        (
            _row(passage, one.rules, numbers, columns),
            side,
            way.cost * (way.share if len(one.passages) > 1 else 1),
        )
        for one, side in zip(seen, right, strict=True)
        for passage in one.passages
    ]
    rows, sides, costs = zip(*taught, strict=True)
    weights, bias = fit(rows, sides, len(columns), costs)
    return Weights(
        {
            pattern: round(sum(weights[at] for at in found) * _SPREAD * UNIT)
            for pattern, found in numbers.items()
        },
        {name: round(weights[columns[name]] * _SPREAD * UNIT) for name in (MENTION, WEAK)},
        bias * UNIT,
    )


def _row(
    one: Passage, rules: Sequence[str], numbers: Mapping[str, Sequence[int]], columns: Mapping[str, int]
) -> Row:
    row: Counter[int] = Counter(columns[name] for name in rules)
    for pattern, count in one.counts.items():
        for column in numbers.get(pattern, ()):
            row[column] += count
    unit = _SPREAD / one.breadth
    return list(row), [count * unit for count in row.values()]
