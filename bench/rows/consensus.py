"""Counting an election by the Schulze method: 100 candidates, 1,000 ballots with ties."""

import contextlib
import random
from collections.abc import Iterator, Sequence

from bench.baselines.plain_schulze import plain_schulze
from bench.harness.bars import AtLeast
from bench.harness.measure import computing
from bench.harness.row import Contender, Row, Setting, Unit
from comity.votes.protocol.schulze import Groups, count

PLAIN = "plain pairwise loop and Floyd-Warshall"
CANDIDATES = tuple(f"v{number}" for number in range(100))
BALLOTS = 1_000


@contextlib.contextmanager
def open_schulze(setting: Setting) -> Iterator[Sequence[Contender]]:
    rng = random.Random(0)
    ballots = [_ballot(rng) for _ in range(BALLOTS)]
    counted = count(CANDIDATES, ballots)
    if (counted.pairwise_matrix, counted.strongest_paths) != plain_schulze(CANDIDATES, ballots):
        raise ValueError("the two counts do not give the same answer")
    yield [
        computing("comity schulze", lambda: count(CANDIDATES, ballots), setting.seconds),
        computing(PLAIN, lambda: plain_schulze(CANDIDATES, ballots), setting.seconds),
    ]


def _ballot(rng: random.Random) -> Groups:
    """All candidates in some order, about every third of them tied with the one before."""
    order = rng.sample(CANDIDATES, len(CANDIDATES))
    groups = [[order[0]]]
    for candidate in order[1:]:
        if rng.random() < 1 / 3:
            groups[-1].append(candidate)
        else:
            groups.append([candidate])
    return tuple(map(tuple, groups))


ROWS = (
    Row(
        name="schulze",
        title="elections counted, 100 candidates and 1,000 ballots with ties",
        unit=Unit.PROCESSOR_RATE,
        open=open_schulze,
        bars=(AtLeast(5, of=PLAIN),),
    ),
)
