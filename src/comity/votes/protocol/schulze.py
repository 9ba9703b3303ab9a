"""The Schulze method, with ties (vcp 6.3).

- A ballot is a list of groups, best first; the candidates of a group are equal. Who is not ranked is tied last.
- `pairwise_matrix[i][j]` counts ballots that rank i above j. Only a majority is a step of a path; the strength of
  a path is its weakest step, and i beats j when its strongest path is stronger than the one back.
- The order is by wins; candidates with the same number keep their order and share the rank.

Many small numbers are packed in one large integer, each in a *lane* of bits: the ranks that all ballots give a candidate, or
the paths from a candidate to all others. The top bit of a lane is not part of a number: set before a subtraction, it is
still set where the left side was not less. So a few operations compare two candidates on all ballots, or extend all paths of
a candidate.
"""

import itertools
import struct
import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from comity.vcp.protocol.extension_calls import ExtensionError, invalid, refused

Groups = tuple[tuple[str, ...], ...]

_LANES: Final = ((16, "H"), (32, "I"), (64, "Q"))
_RANK_LANES: Final = (("B", 8), ("H", 16), ("I", 32))


class Ranking(Struct, frozen=True):
    candidate: str
    rank: int
    wins: int
    losses: int


class ElectionResult(Struct, frozen=True, kw_only=True):
    """`winner` is None without ballots. `ties` are the pairs whose strongest paths are equal."""

    winner: str | None
    ranking: tuple[Ranking, ...]
    pairwise_matrix: tuple[tuple[int, ...], ...]
    strongest_paths: tuple[tuple[int, ...], ...]
    candidates: tuple[str, ...]
    ballot_count: int
    has_condorcet_winner: bool
    ties: tuple[tuple[str, str], ...]


def read_groups(ranking: Sequence[str | Sequence[str]], tied_groups: Sequence[Sequence[str]] = ()) -> Groups:
    """Return both shapes of a ballot as groups: a list of groups, or a list of candidates and the groups that tie.

    A tied group has the place of the first of its candidates; one that is not ranked at all comes last.
    """
    groups = [(one,) if isinstance(one, str) else tuple(one) for one in ranking]
    _refuse_repeats(groups, "ranking")
    for tied in tied_groups:
        places = [index for index, group in enumerate(groups) if not set(group).isdisjoint(tied)]
        if any(len(groups[index]) != 1 for index in places):
            raise invalid(
                "tied_groups overlap each other or the groups of ranking; tie a candidate once", "ranking"
            )
        if places and not len(places) == len(tied) == places[-1] - places[0] + 1:
            raise invalid("the candidates of a tied group must stand side by side in ranking", "ranking")
        first = places[0] if places else len(groups)
        groups[first : first + len(places)] = [tuple(tied)]
    _refuse_repeats(groups, "ranking")
    return tuple(group for group in groups if group)


def _refuse_repeats(groups: Iterable[Iterable[str]], field: str) -> None:
    named = list(itertools.chain.from_iterable(groups))
    if len(named) != len(set(named)):
        raise _named_twice(field)


def _named_twice(field: str) -> ExtensionError:
    return refused(field, "names a candidate twice; rank each once")


def count(
    candidates: Sequence[str], ballots: Iterable[Groups], copies: Iterable[int] | None = None
) -> ElectionResult:
    """Return the result of an election. `copies` says how often each ballot counts. Default: once.

    Unknown candidates are ignored. A ballot that repeats one is refused.
    """
    names = tuple(candidates)
    _refuse_repeats([names], "candidates")
    by_weight: dict[int, list[Groups]] = {}
    if copies is None:
        by_weight[1] = list(ballots)
    else:
        for ballot, times in zip(ballots, copies, strict=True):
            by_weight.setdefault(times, []).append(ballot)
    matrix = [[0] * len(names) for _ in names]
    for times, alike in by_weight.items():
        _add_preferences(matrix, names, alike, times)
    total = sum(times * len(alike) for times, alike in by_weight.items())
    return _result(names, total, tuple(map(tuple, matrix)), _strongest_paths(matrix, total))


def _add_preferences(
    matrix: list[list[int]], names: Sequence[str], ballots: Sequence[Groups], times: int
) -> None:
    """Count which candidate is ranked above which, for all ballots of one weight together."""
    size, last = len(names), max(map(len, ballots), default=0)
    ranks = array(next(code for code, bits in _RANK_LANES if last < 1 << (bits - 1)))
    for ballot in ballots:
        order = list(itertools.chain.from_iterable(ballot))
        places = itertools.chain.from_iterable(map(itertools.repeat, range(last), map(len, ballot)))
        rank_of = dict(zip(order, places, strict=True))
        if len(rank_of) != len(order):
            raise _named_twice("ranking")
        ranks.extend(map(rank_of.get, names, itertools.repeat(last)))
    width = 8 * ranks.itemsize
    tops = sum(1 << (width * index + width - 1) for index in range(len(ballots)))
    columns = [int.from_bytes(ranks[index::size].tobytes(), sys.byteorder) for index in range(size)]
    for row, column in zip(matrix, columns, strict=True):
        marked = column | tops
        for index, other in enumerate(columns):
            not_above = ((marked - other) & tops).bit_count()
            row[index] += times * (len(ballots) - not_above)


class _Lanes:
    """Rows of `size` numbers from 0 to `greatest`, each row in one integer."""

    def __init__(self, size: int, greatest: int) -> None:
        self.width, code = next((width, code) for width, code in _LANES if greatest < 1 << (width - 1))
        self.bytes = size * self.width // 8
        self.ones = sum(1 << (self.width * index) for index in range(size))
        self.tops = self.ones << (self.width - 1)
        self._format = f"<{size}{code}"

    def pack(self, numbers: Iterable[int]) -> int:
        return int.from_bytes(struct.pack(self._format, *numbers), "little")

    def unpack(self, row: int) -> tuple[int, ...]:
        return struct.unpack(self._format, row.to_bytes(self.bytes, "little"))

    def greater(self, left: int, right: int) -> int:
        """Return in each lane the greater of the two."""
        not_less = ((left | self.tops) - right) & self.tops
        keep = not_less - (not_less >> (self.width - 1))
        return right ^ ((left ^ right) & keep)

    def lesser(self, left: int, right: int) -> int:
        return left + right - self.greater(left, right)


def _strongest_paths(matrix: Sequence[Sequence[int]], total: int) -> tuple[tuple[int, ...], ...]:
    lanes = _Lanes(len(matrix), total)
    columns = list(zip(*matrix, strict=True))
    paths = [
        lanes.pack(there if there > back else 0 for there, back in zip(row, column, strict=True))
        for row, column in zip(matrix, columns, strict=True)
    ]
    lane = (1 << lanes.width) - 1
    for middle, onward in enumerate(paths):
        shift = lanes.width * middle
        reached = {0: 0}
        for start, path in enumerate(paths):
            first_leg = (path >> shift) & lane
            through = reached.get(first_leg)
            if through is None:
                through = reached[first_leg] = lanes.lesser(onward, first_leg * lanes.ones)
            # a path that leads back to its own start is cut off
            further = through & ~(lane << (lanes.width * start))
            if further:
                paths[start] = lanes.greater(path, further)
    return tuple(map(lanes.unpack, paths))


def _result(
    names: tuple[str, ...],
    total: int,
    matrix: tuple[tuple[int, ...], ...],
    paths: tuple[tuple[int, ...], ...],
) -> ElectionResult:
    if total == 0:
        order: list[int] = []
        wins = losses = [0] * len(names)
        ties: list[tuple[str, str]] = []
    else:
        back = list(zip(*paths, strict=True))
        wins = [sum(map(int.__gt__, row, column)) for row, column in zip(paths, back, strict=True)]
        losses = [sum(map(int.__lt__, row, column)) for row, column in zip(paths, back, strict=True)]
        order = sorted(range(len(names)), key=lambda index: -wins[index])
        ties = [
            (names[one], names[other])
            for one, (row, column) in enumerate(zip(paths, back, strict=True))
            for other in range(one + 1, len(names))
            if row[other] == column[other]
        ]
    ranking: list[Ranking] = []
    for position, index in enumerate(order, 1):
        shared = ranking and ranking[-1].wins == wins[index]
        rank = ranking[-1].rank if shared else position
        ranking.append(Ranking(names[index], rank, wins[index], losses[index]))
    return ElectionResult(
        winner=names[order[0]] if order else None,
        ranking=tuple(ranking),
        pairwise_matrix=matrix,
        strongest_paths=paths,
        candidates=names,
        ballot_count=total,
        has_condorcet_winner=total > 0 and _has_condorcet_winner(matrix),
        ties=tuple(ties),
    )


def _has_condorcet_winner(matrix: Sequence[Sequence[int]]) -> bool:
    columns = zip(*matrix, strict=True)
    return any(
        sum(map(int.__gt__, row, column)) == len(matrix) - 1
        for row, column in zip(matrix, columns, strict=True)
    )
