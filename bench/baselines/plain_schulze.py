"""The Schulze method as a textbook writes it: a loop over all pairs of each ballot, then Floyd-Warshall.

No calls in the inner loops, so that what is measured is the method and not the cost of calling.
"""

from collections.abc import Sequence

Matrix = tuple[tuple[int, ...], ...]
Ballots = Sequence[Sequence[Sequence[str]]]


def plain_schulze(candidates: Sequence[str], ballots: Ballots) -> tuple[Matrix, Matrix]:
    """How many prefer one candidate to another, and the strongest path between them."""
    preferred = _preferred(candidates, ballots)
    return tuple(map(tuple, preferred)), tuple(map(tuple, _strongest_paths(preferred)))


def _preferred(candidates: Sequence[str], ballots: Ballots) -> list[list[int]]:
    size = len(candidates)
    place = {candidate: index for index, candidate in enumerate(candidates)}
    preferred = [[0] * size for _ in range(size)]
    for ballot in ballots:
        ranks = [size] * size
        for rank, group in enumerate(ballot):
            for candidate in group:
                ranks[place[candidate]] = rank
        for row, rank in zip(preferred, ranks, strict=True):
            for other, other_rank in enumerate(ranks):
                if rank < other_rank:
                    row[other] += 1
    return preferred


def _strongest_paths(preferred: list[list[int]]) -> list[list[int]]:
    size = range(len(preferred))
    paths = [[preferred[i][j] if preferred[i][j] > preferred[j][i] else 0 for j in size] for i in size]
    for k, onward in enumerate(paths):
        for i, row in enumerate(paths):
            first_leg = row[k]
            for j, second_leg in enumerate(onward):
                through = second_leg if second_leg < first_leg else first_leg  # noqa: FURB136 - a call is slower
                if through > row[j] and i != j:
                    row[j] = through
    return paths
