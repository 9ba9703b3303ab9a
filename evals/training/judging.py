"""What the weights do on texts of authors whom they have not seen, and how much a text has to weigh to be a crisis.

Each author's texts are judged by weights that were fitted to all the others. The limit is set there: of the calm
texts that are nearest to daily use no more than a few in a hundred may be taken for a crisis by their phrasing, and of
all of them not many more. Sentences that were only written to teach do not count. Texts of several passages have a
limit of their own.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from evals.training.model import Seen, learn
from evals.training.patterns import Meanings
from evals.training.texts import FOUND_TAG, Lesson

DAILY = frozenset({"everyday", "idiom", "technical", "sad", "calm", "distressed"})
TEACHING = frozenset({"plain", "prose", FOUND_TAG})
MODERATE = 0.02  # of the daily texts
FOUND = 0.005  # of other people's everyday and technical texts
AMONG = 0.025  # of those of several passages
HIGH = 0.004
_HARDER = 4 / 3  # as often among all calm texts: most of the others are hard on purpose


class Judged(Struct, frozen=True):
    """`long` is a text of several passages."""

    lesson: Lesson
    detected: bool
    score: float
    long: bool = False


class Figure(Struct, frozen=True):
    """Of `texts` the rules alone take `rules` for a crisis, the rules and the phrasing together `both`."""

    name: str
    crisis: bool
    texts: int
    rules: int
    both: int


def held_back(
    lessons: Sequence[Lesson], seen: Sequence[Seen], taught: Sequence[Seen], meanings: Meanings
) -> list[Judged]:
    """`seen` are judged, `taught` are what the others teach."""
    judged: list[Judged] = []
    whole = list(zip(lessons, seen, strict=True))
    pairs = list(zip(lessons, taught, strict=True))
    for fold in sorted({one.fold for one in lessons if one.fold}):
        others = [(one, look) for one, look in pairs if one.fold != fold]
        weights = learn([look for _, look in others], [one.crisis for one, _ in others], meanings)
        judged += [
            Judged(one, look.detected, weights.score(look), long=len(look.passages) > 1)
            for one, look in whole
            if one.fold == fold
        ]
    return judged


def limit(judged: Iterable[Judged], share: float) -> float:
    """The least that leaves no more than that share of the daily texts above it, and little more of all calm ones."""
    judged = list(judged)
    calm = [one for one in judged if not one.lesson.crisis and one.lesson.tag not in TEACHING]
    found = [one for one in judged if one.lesson.tag == FOUND_TAG]
    daily = [one for one in calm if one.lesson.tag in DAILY]
    least = max(_least(daily, share), _least(calm, share * _HARDER))
    return max(least, _least(found, FOUND)) if found else least


def _least(calm: Sequence[Judged], share: float) -> float:
    scores = sorted((one.score for one in calm if not one.detected), reverse=True)
    return scores[int(share * len(calm))] + 0.01


def figures(judged: Iterable[Judged], least: float, among: float) -> list[Figure]:
    """All together, by language, by tag. Teaching texts have their tag only."""
    counts: dict[tuple[int, str, bool], list[int]] = defaultdict(lambda: [0, 0, 0])
    for one in judged:
        lesson = one.lesson
        names = enumerate(("all", lesson.language, lesson.tag))
        for place, name in names if lesson.tag not in TEACHING else ((2, lesson.tag),):
            count = counts[place, name, lesson.crisis]
            count[0] += 1
            count[1] += one.detected
            count[2] += one.detected or one.score >= (among if one.long else least)
    return [
        Figure(name, crisis, *count)
        for (_, name, crisis), count in sorted(counts.items(), key=lambda item: (item[0][2], *item[0]))
    ]
