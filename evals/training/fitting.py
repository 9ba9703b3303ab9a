"""Fits weights to texts: a linear support vector machine with squared loss, by dual coordinate descent.

It sees the texts again and again in a shuffled order that is the same every time; each one that is not yet on the
right side by far enough moves the weights. Rare things stay light: `COST` says how little they may weigh.
"""

from collections.abc import Sequence
from operator import mul
from random import Random

COST = 0.03
ROUNDS = 20
_SLACK = 0.5 / COST

Row = tuple[list[int], list[float]]  # what is in a text, and how much of it


def fit(rows: Sequence[Row], right: Sequence[bool], width: int) -> tuple[list[float], float]:
    """The weights of `width` features, and what is added to every sum."""
    weights = [0.0] * width
    bias = 0.0
    pull = [0.0] * len(rows)
    norms = [1 + _SLACK + sum(map(mul, values, values)) for _, values in rows]
    order = list(range(len(rows)))
    random = Random(1)  # noqa: S311 -- the same order every time is what is wanted
    for _ in range(ROUNDS):
        random.shuffle(order)
        for at in order:
            columns, values = rows[at]
            side = 1.0 if right[at] else -1.0
            total = bias + sum(map(mul, map(weights.__getitem__, columns), values))
            before = pull[at]
            after = max(before - (side * total - 1 + before * _SLACK) / norms[at], 0.0)
            if after != before:
                pull[at] = after
                step = (after - before) * side
                bias += step
                for column, value in zip(columns, values, strict=True):
                    weights[column] += step * value
    return weights, bias
