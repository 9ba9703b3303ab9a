"""Fits weights to texts: a linear support vector machine with squared loss, by dual coordinate descent.

It sees the texts again and again in a shuffled order that is the same every time; each one that is not yet on the
right side by far enough moves the weights. Rare things stay light: the cost of a row on the wrong side says how little they
may weigh.
"""

from collections.abc import Sequence
from operator import mul
from random import Random

ROUNDS = 20

Row = tuple[list[int], list[float]]  # what is in a text, and how much of it


def fit(
    rows: Sequence[Row], right: Sequence[bool], width: int, costs: Sequence[float]
) -> tuple[list[float], float]:
    """The weights of `width` features, and what is added to every sum. `costs` are those of the rows."""
    weights = [0.0] * width
    bias = 0.0
    pull = [0.0] * len(rows)
    slacks = [0.5 / cost for cost in costs]
    norms = [
        1 + slack + sum(map(mul, values, values)) for slack, (_, values) in zip(slacks, rows, strict=True)
    ]
    order = list(range(len(rows)))
    random = Random(1)  # noqa: S311 -- the same order every time is what is wanted
    for _ in range(ROUNDS):
        random.shuffle(order)
        for at in order:
            columns, values = rows[at]
            side = 1.0 if right[at] else -1.0
            total = bias + sum(map(mul, map(weights.__getitem__, columns), values))
            before = pull[at]
            after = max(before - (side * total - 1 + before * slacks[at]) / norms[at], 0.0)
            if after != before:
                pull[at] = after
                step = (after - before) * side
                bias += step
                for column, value in zip(columns, values, strict=True):
                    weights[column] += step * value
    return weights, bias
