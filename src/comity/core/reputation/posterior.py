"""Five Beta posteriors, one for each dimension, and how time and evidence move them.

- A posterior remembers the prior it started from. Time pulls it back there: after one half-life
  half of the evidence is left, in `alpha`, in `beta` and in `n_eff`, the amount of it.
- Time passes only when evidence comes; a posterior is read as it was last written.
- Evidence from before the last update is not decayed, and does not set the posterior's time back.
- All of it is arithmetic in doubles, in one fixed order: two nodes that see the same reviews hold
  the same numbers.
"""

import math
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from comity.core.reputation.errors import ReputationValueError

DIMENSIONS = ("factual", "logical", "relevance", "honesty", "adoption")
HALF_LIFE_DAYS = {"factual": 90.0, "logical": 180.0, "relevance": 60.0, "honesty": 30.0, "adoption": 90.0}

_DAY = 86_400.0


class Posterior(Struct, frozen=True):
    """`alpha0` and `beta0` are the prior, `at` the second of the last update."""

    alpha: float
    beta: float
    alpha0: float
    beta0: float
    n_eff: float = 0.0
    at: float = 0.0

    @property
    def mean(self) -> float:
        return self.alpha / (self.alpha + self.beta)

    @property
    def variance(self) -> float:
        total = self.alpha + self.beta
        return self.alpha * self.beta / (total * total * (total + 1))


def prior(alpha: float, beta: float) -> Posterior:
    """A posterior that has seen nothing."""
    return Posterior(alpha=alpha, beta=beta, alpha0=alpha, beta0=beta)


class Reputation(Struct, frozen=True):
    """One agent's five posteriors; by default those of an agent nothing is known of."""

    factual: Posterior = prior(1.0, 1.0)
    logical: Posterior = prior(1.0, 1.0)
    relevance: Posterior = prior(1.0, 1.0)
    honesty: Posterior = prior(2.0, 1.0)
    adoption: Posterior = prior(1.0, 3.0)

    def of(self, dimension: str) -> Posterior:
        found: Posterior = getattr(self, known_dimension(dimension))
        return found


def update(reputation: Reputation, dimension: str, signal: float, weight: float, *, now: float) -> Reputation:
    """The reputation after one signal (0 bad, 1 good) of the given weight."""
    held = reputation.of(dimension)
    if not 0 <= signal <= 1:
        raise ReputationValueError(f"the signal for {dimension} must be a number from 0 to 1")
    if not 0 <= weight < math.inf:
        raise ReputationValueError(f"the weight for {dimension} must be a number of 0 or more")
    kept = _kept(now - held.at, HALF_LIFE_DAYS[dimension])
    good, bad = weight * signal, weight * (1 - signal)
    moved = replace(
        held,
        alpha=held.alpha0 + kept * (held.alpha - held.alpha0) + good,
        beta=held.beta0 + kept * (held.beta - held.beta0) + bad,
        n_eff=kept * held.n_eff + (good + bad),
        at=max(held.at, now),
    )
    return with_dimension(reputation, dimension, moved)


def with_dimension(reputation: Reputation, dimension: str, posterior: Posterior) -> Reputation:
    changed: dict[str, Any] = {known_dimension(dimension): posterior}
    return replace(reputation, **changed)


def known_dimension(name: str) -> str:
    if name not in DIMENSIONS:
        raise ReputationValueError(
            f"there is no dimension {name!r}; the dimensions are {', '.join(DIMENSIONS)}"
        )
    return name


def _kept(seconds: float, half_life_days: float) -> float:
    """The part of earlier evidence that is left after some time."""
    if seconds <= 0:
        return 1.0
    return math.exp(-math.log(2) * (seconds / _DAY) / half_life_days)
