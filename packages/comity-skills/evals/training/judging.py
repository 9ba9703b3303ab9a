"""What the weights do on texts of authors whom they have not seen, and how much a text has to weigh to be a crisis.

Each author's texts are judged by weights that were fitted to all the others (for long texts, to those of other groups of
authors: there are many). The limits were chosen on what was held back
so, and on nothing else: of other people's everyday and technical texts at most one in a hundred may be taken for a crisis,
and no more calm texts than with the weights before, of one passage or of several. Floors on the test halves are tests, so
whoever changes the texts sees whether the limits still hold.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from msgspec import Struct

from evals.training.model import Seen, Way, learn
from evals.training.patterns import Meanings
from evals.training.texts import FOUND_TAG, Lesson

TEACHING = frozenset({"plain", "prose", FOUND_TAG})
MODERATE = 152.0  # what a text of one passage has to weigh for its length
AROUND = 480.0  # what a passage among others has to weigh with what stands around it
CALM = 300.0  # the same, for the everyday words of the rules to count
HIGH = 190.0


class Judged(Struct, frozen=True):
    """Of `several` passages, the heaviest weighs `wider` with what stands around it. A `soft` text is a crisis unless it is
    calm.
    """

    lesson: Lesson
    detected: bool
    score: float
    wider: float = 0
    several: bool = False
    soft: bool = False


class Figure(Struct, frozen=True):
    """Of `texts` the rules alone take `rules` for a crisis, the rules and the phrasing together `both`."""

    name: str
    crisis: bool
    texts: int
    rules: int
    both: int


def held_back(
    lessons: Sequence[Lesson],
    seen: Sequence[Seen],
    taught: Sequence[Seen],
    meanings: Meanings,
    way: Way,
    *,
    several: bool,
) -> list[Judged]:
    """`seen` are judged, those of one passage or those of `several`; `taught` are what the others teach."""

    def judge(fold: str) -> list[Judged]:
        others = [(one, look) for one, look in zip(lessons, taught, strict=True) if one.fold != fold]
        weights = learn([look for _, look in others], [one.crisis for one, _ in others], meanings, way)
        return [
            Judged(
                one,
                look.detected,
                weights.score(look) - weights.bias,
                weights.wider(look),
                several=several,
                soft=look.soft,
            )
            for one, look in zip(lessons, seen, strict=True)
            if one.fold == fold and (len(look.passages) > 1) is several
        ]

    told = zip(lessons, seen, strict=True)
    folds = sorted({one.fold for one, look in told if one.fold and (len(look.passages) > 1) is several})
    _JUDGES.append(judge)
    copies = get_context("fork")  # of this process, with all the texts
    with ProcessPoolExecutor(mp_context=copies) as pool:
        return [one for judged in pool.map(_judge, folds) for one in judged]


_JUDGES: list[Callable[[str], list[Judged]]] = []


def _judge(fold: str) -> list[Judged]:
    return _JUDGES[-1](fold)


def _is_crisis(one: Judged) -> bool:
    if one.detected:
        return not (one.several and one.soft) or one.wider >= CALM
    if not one.several:
        return one.score >= MODERATE
    return one.wider >= AROUND


def figures(judged: Iterable[Judged]) -> list[Figure]:
    """All together, by language, by tag. Teaching texts have their tag only."""
    counts: dict[tuple[int, str, bool], list[int]] = defaultdict(lambda: [0, 0, 0])
    for one in judged:
        lesson = one.lesson
        names = enumerate(("all", lesson.language, lesson.tag))
        for place, name in names if lesson.tag not in TEACHING else ((2, lesson.tag),):
            count = counts[place, name, lesson.crisis]
            count[0] += 1
            count[1] += one.detected
            count[2] += _is_crisis(one)
    return [
        Figure(name, crisis, *count)
        for (_, name, crisis), count in sorted(counts.items(), key=lambda item: (item[0][2], *item[0]))
    ]
