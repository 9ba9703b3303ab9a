"""What was measured: samples by contender, their medians, and ours against each baseline.

A ratio says how fast ours is in terms of the baseline, so bigger is better: ours/baseline for
rates, baseline/ours for times. It is taken round by round, because the two turns of one round saw
the same load; its median may therefore differ a little from the ratio of the medians.
"""

from collections.abc import Sequence
from statistics import median

from msgspec import Struct


class Samples(Struct, frozen=True):
    """One figure per round."""

    name: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def low(self) -> float:
        return min(self.values)

    @property
    def high(self) -> float:
        return max(self.values)


class Figures(Struct, frozen=True):
    """All samples of a row, ours first. `less_is_better` is true of times."""

    contenders: tuple[Samples, ...]
    less_is_better: bool

    @property
    def ours(self) -> Samples:
        return self.contenders[0]

    @property
    def baselines(self) -> Sequence[Samples]:
        return self.contenders[1:]

    def of(self, name: str) -> Samples:
        for samples in self.contenders:
            if samples.name == name:
                return samples
        raise LookupError(f"no contender is named {name!r}; a bar must name one of its row")

    def ratio(self, name: str) -> Samples:
        pairs = zip(self.ours.values, self.of(name).values, strict=True)
        if self.less_is_better:
            return Samples(name, tuple(theirs / ours for ours, theirs in pairs))
        return Samples(name, tuple(ours / theirs for ours, theirs in pairs))


def number(value: float) -> str:
    """Three digits that matter, no exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
