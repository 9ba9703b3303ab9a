"""One number out of five posteriors: for choosing whom to call, and for showing.

The reference has two flaws here, and each is a named rule:

- `score`: the protocol promises that the winner is the one with the highest upper confidence bound
  (`"ucb"`); the reference's oracle answers with the plain average of the means (`"mean"`), so that
  somebody with one lucky review outranks somebody with a hundred good ones, and nobody else is tried.
- `exploration`: the bound grows where evidence is thin. The reference takes the *harmonic* mean of
  the five amounts of evidence, and one dimension without any (adoption, nearly always) makes it
  nothing: the bonus stays at 13 and more beside means below 1, and decides alone. The *arithmetic*
  mean by weight says how much evidence there is; less than one review's worth counts as one, so
  that the bonus of a newcomer is of the size of the means and shrinks with every review.

The default is the repaired pair: a choice among strangers that follows the protocol's own promise.
`REFERENCE` gives the released behaviour, number for number. Both read the same stored posteriors,
so the rules can be changed at any time.
"""

import math
from collections.abc import Collection, Mapping
from typing import Literal

from msgspec import Struct

from comity.directory.protocol.reputation import DIMENSIONS, Reputation, ReputationValueError, stake_worth

INSUFFICIENT_DATA = "INSUFFICIENT_DATA"
UNKNOWN_SCORE = 0.0
"""The score of an agent without any record. It is never ranked above an agent with a record."""

_DEVIATIONS = 1.0
_EXPLORE = 0.5
_COUNTED_WEIGHT = 0.05
_LEAST_EVIDENCE = 1e-6
_HARMONIC_FLOOR = 1e-3
_ARITHMETIC_FLOOR = 1.0
_STAKE_SHARE = 0.1
_ATTESTATION_FLOOR = {"L0": 0.0, "L1": 0.05, "L2": 0.10, "L3": 0.15}
_PORTABILITY = 0.10
_PORTABILITY_FULL = 5
_SHOWN_FROM = 10.0


class ReputationRules(Struct, frozen=True, kw_only=True):
    """Which of the two answers is given where the reference and the protocol part."""

    score: Literal["ucb", "mean"] = "ucb"
    exploration: Literal["arithmetic", "harmonic"] = "arithmetic"


REPAIRED = ReputationRules()
REFERENCE = ReputationRules(score="mean", exploration="harmonic")


def ucb(
    reputation: Reputation,
    n_global: float,
    weights: Mapping[str, float] | None = None,
    rules: ReputationRules = REPAIRED,
) -> float:
    """The upper confidence bound. `n_global` counts the reviews of everybody; without weights all
    dimensions count alike. A weight for something that is no dimension is left out.
    """
    shares = _shares(weights)
    mean = sum(share * reputation.of(name).mean for name, share in shares.items())
    variance = sum(share**2 * reputation.of(name).variance for name, share in shares.items())
    evidence = _EVIDENCE[rules.exploration](reputation, shares)
    explore = _EXPLORE * math.sqrt(math.log(max(n_global, 2)) / evidence)
    return mean + _DEVIATIONS * math.sqrt(variance) + explore


def mean_score(reputation: Reputation, dimensions: Collection[str]) -> float:
    """The plain average of the means of the dimensions asked for."""
    return sum(reputation.of(name).mean for name in dimensions) / len(dimensions) if dimensions else 0.0


def score(
    reputation: Reputation,
    dimensions: Collection[str],
    n_global: float,
    rules: ReputationRules = REPAIRED,
) -> float:
    """What an oracle answers: how good a choice this agent is in the dimensions asked for."""
    if rules.score == "mean":
        return mean_score(reputation, dimensions)
    return ucb(reputation, n_global, dict.fromkeys(dimensions, 1.0), rules)


def call_score(
    reputation: Reputation,
    n_global: float,
    *,
    weights: Mapping[str, float] | None = None,
    stake_amount: float = 0.0,
    attestation_level: str = "L0",
    portability_bonus: float = 0.0,
    rules: ReputationRules = REPAIRED,
) -> float:
    """The bound, and what stands behind the agent besides reviews. An unknown level adds nothing."""
    if not 0 <= portability_bonus < math.inf:
        raise ReputationValueError("the portability bonus must be a number of 0 or more")
    stake = _STAKE_SHARE * stake_worth(stake_amount)
    floor = _ATTESTATION_FLOOR.get(attestation_level, 0.0)
    return ucb(reputation, n_global, weights, rules) + stake + floor + portability_bonus


def portability(served: Collection[str], rates: Mapping[str, float]) -> float:
    """The bonus for work that succeeds on several substrates; one without a rate counts as failing."""
    substrates = frozenset(served)
    if not substrates:
        return 0.0
    success = sum(rates.get(name, 0.0) for name in substrates) / len(substrates)
    breadth = min(1.0, math.log(1 + len(substrates)) / math.log(_PORTABILITY_FULL))
    return _PORTABILITY * breadth * success


def shown(reputation: Reputation, number: float) -> float | str:
    """The number for people to look at, or the label while a dimension has too little evidence."""
    enough = all(reputation.of(name).n_eff >= _SHOWN_FROM for name in DIMENSIONS)
    return number if enough else INSUFFICIENT_DATA


def _shares(weights: Mapping[str, float] | None) -> dict[str, float]:
    given = {name: (weights or {}).get(name, 0.0) for name in DIMENSIONS}
    for name, weight in given.items():
        if not 0 <= weight < math.inf:
            raise ReputationValueError(f"the weight of {name} must be a number of 0 or more")
    total = sum(given.values())
    if total == 0:
        return dict.fromkeys(DIMENSIONS, 1 / len(DIMENSIONS))
    return {name: weight / total for name, weight in given.items()}


def _harmonic(reputation: Reputation, shares: Mapping[str, float]) -> float:
    counted = [
        max(reputation.of(name).n_eff, _LEAST_EVIDENCE)
        for name, share in shares.items()
        if share > _COUNTED_WEIGHT
    ]
    mean = len(counted) / sum(1 / amount for amount in counted) if counted else 1.0
    return max(mean, _HARMONIC_FLOOR)


def _arithmetic(reputation: Reputation, shares: Mapping[str, float]) -> float:
    mean = sum(share * reputation.of(name).n_eff for name, share in shares.items())
    return max(mean, _ARITHMETIC_FLOOR)


_EVIDENCE = {"harmonic": _harmonic, "arithmetic": _arithmetic}
