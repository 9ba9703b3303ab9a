"""Five Beta posteriors, one for each dimension, and how time and evidence move them.

- A posterior remembers the prior it started from. Time pulls it back there: after one half-life half of the evidence is
  left, in `alpha`, in `beta` and in `n_eff`, the amount of it.
- Time passes only when evidence comes; a posterior is read as it was last written.
- Evidence from before the last update is not decayed, and does not set the posterior's time back.
- All of it is arithmetic in doubles, in one fixed order: two nodes that see the same reviews hold the same numbers.

What an agent starts with (`initial_prior`), and what keeps a newcomer from never being tried:

- Attestation, stake, vouchers and the path of birth move the prior itself: time never takes them away, and they are not
  evidence (`n_eff` stays 0).
- A sibling lends a quarter of what is known of it, as evidence: it fades like any other.
- A parent lends nothing: its reputation never flows into the child's.
"""

import math
from collections.abc import Collection, Mapping
from typing import Any, Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from comity.envelopes.protocol.errors import ReputationError
from comity.wire.errors import ConflictError


class ReputationValueError(ReputationError, ValueError):
    """A number or a name outside its range; the contract calls that a ValueError."""

    code = "reputation_value"


class ReviewRefusedError(ReputationError):
    """A review that never counts: of oneself, by or of a stranger, by somebody who may not review."""

    code = "review_refused"


class ReviewLimitError(ConflictError, ReputationError):
    """A review that comes too soon after earlier ones of the same pair."""

    code = "review_limit"


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
    """Return a posterior that has seen nothing."""
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
    """Return the reputation after one signal (0 bad, 1 good) of the given weight."""
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
    """Return the part of earlier evidence that is left after some time."""
    if seconds <= 0:
        return 1.0
    return math.exp(-math.log(2) * (seconds / _DAY) / half_life_days)


ATTESTED_LEVELS = ("L1", "L2", "L3")

_SKILLS = ("factual", "logical", "relevance")
_ATTESTED = 0.5
_STAKE_UNIT = 100.0
_STAKE_CAP = 2.0
_VOUCHER = 0.3
_SIBLING_SHARE = 4.0
_BIRTH_PATHS = {"PATH_ZERO": (0.5, 0.5), "PATH_B": (0.3, 0.2), "PATH_C": (0.2, 0.1), "D4": (0.1, 0.1)}
"""What a path adds to each of the three skills, and to honesty."""

_NICHE = 0.10
_NICHE_SUPPLY = 10
_BOOST = 0.5
_BOOST_UNTIL = 30


def initial_prior(
    *,
    attestation_level: str = "L0",
    stake_amount: float = 0.0,
    n_l1_plus_vouchers: int = 0,
    birth_path: str | None = None,
    sibling: Reputation | None = None,
    now: float = 0.0,
) -> Reputation:
    """Return the reputation of an agent at birth. Unknown levels and paths add nothing."""
    stake = stake_worth(stake_amount)
    if n_l1_plus_vouchers < 0:
        raise ReputationValueError("the number of vouchers must be 0 or more")
    skill_boost, honesty_boost = _BIRTH_PATHS.get(birth_path or "", (0.0, 0.0))
    attested = _ATTESTED if attestation_level in ATTESTED_LEVELS else 0.0
    born = Reputation()
    for dimension in _SKILLS:
        raised = _raised(born.of(dimension), attested, min(_STAKE_CAP, stake) / 2, skill_boost)
        born = with_dimension(born, dimension, raised)
    born = replace(born, honesty=_raised(born.honesty, _VOUCHER * n_l1_plus_vouchers, honesty_boost))
    if sibling is not None:
        for dimension in DIMENSIONS:
            lent = _lent(born.of(dimension), sibling.of(dimension), now)
            born = with_dimension(born, dimension, lent)
    return born


def stake_worth(amount: float) -> float:
    """Return what a stake counts for: the logarithm of it in hundreds."""
    if not 0 <= amount < math.inf:
        raise ReputationValueError("a stake must be a number of 0 or more")
    return math.log(1 + amount / _STAKE_UNIT)


def niche_bonus(supply: int) -> float:
    """Return the bonus of a capability that few others offer; nothing from ten on."""
    if supply < 0:
        raise ReputationValueError("the supply of a capability must be 0 or more")
    return max(0.0, _NICHE * (1 - supply / _NICHE_SUPPLY))


def exploration_boost(n_eff: float, n_global: float) -> float:
    """Return what a newcomer gets on top until the evidence of thirty reviews is there."""
    if not n_eff >= 0:
        raise ReputationValueError("the amount of evidence must be 0 or more")
    if n_eff >= _BOOST_UNTIL:
        return 0.0
    width = _BOOST * math.sqrt(math.log(max(n_global, 2)) / max(n_eff, 1))
    return width * (1 + (_BOOST_UNTIL - n_eff) / _BOOST_UNTIL)


def _raised(held: Posterior, *boosts: float) -> Posterior:
    alpha, alpha0 = held.alpha, held.alpha0
    for boost in boosts:
        alpha += boost
        alpha0 += boost
    return replace(held, alpha=alpha, alpha0=alpha0)


def _lent(held: Posterior, sibling: Posterior, now: float) -> Posterior:
    good, bad = sibling.alpha / _SIBLING_SHARE, sibling.beta / _SIBLING_SHARE
    return replace(held, alpha=held.alpha + good, beta=held.beta + bad, n_eff=held.n_eff + good + bad, at=now)


# What one review weighs, and which reviews count at all.

Source = Literal[
    "ground_truth", "caller_review", "peer_review", "self_eval", "adoption_event", "redteam_probe"
]

LIMIT = 3
LIMIT_SECONDS = 86_400.0

_SOURCE_WEIGHT: dict[str, float] = {
    "ground_truth": 1.0,
    "caller_review": 0.6,
    "peer_review": 0.4,
    "self_eval": 0.05,
    "adoption_event": 0.3,
    "redteam_probe": 0.8,
}
_SAME_FAMILY = 0.5
_SAME_FAMILY_OFTEN = 0.25
_OFTEN = 5
_REPETITION = 0.4
_MIN_INDEPENDENCE = 0.1
_STRANGER = 0.3
_PROVEN = 0.7


class Review(Struct, frozen=True, kw_only=True):
    """`signals` holds a number from 0 (bad) to 1 (good) for each dimension judged. `same_strength` is
    the strongest sign, from 0 to 1, that reviewer and target are one.
    """

    reviewer: str
    target: str
    signals: Mapping[str, float]
    source: Source
    same_strength: float = 0.0
    at: float

    def __post_init__(self) -> None:
        if self.source not in get_args(Source):
            raise ReputationValueError(
                f"there is no source {self.source!r}; the sources are {', '.join(get_args(Source))}"
            )
        if not self.signals:
            raise ReputationValueError("a review judges at least one dimension")
        for dimension, signal in self.signals.items():
            known_dimension(dimension)
            if not 0 <= signal <= 1:
                raise ReputationValueError(f"the signal for {dimension} must be a number from 0 to 1")
        if not 0 <= self.same_strength <= 1:
            raise ReputationValueError("same_strength must be a number from 0 to 1")
        if self.reviewer == self.target:
            raise ReviewRefusedError("an agent cannot review itself; use another identity")


class PairHistory(Struct, frozen=True):
    """The reviews of one reviewer of one target: how many ever, and when the last few were."""

    count: int = 0
    recent: tuple[float, ...] = ()


def admit_review(history: PairHistory, at: float) -> PairHistory:
    """Return the history with one more review in it. Raises ReviewLimitError if the pair has reached its limit."""
    recent = tuple(moment for moment in history.recent if moment > at - LIMIT_SECONDS)
    if len(recent) >= LIMIT:
        raise ReviewLimitError(
            f"this reviewer has judged this target {LIMIT} times within 24 hours; try again later"
        )
    return PairHistory(history.count + 1, (*recent, at))


def review_weight(
    source: Source, *, nth: int, same_family: bool, same_strength: float, reviewer_mean: float | None
) -> float:
    """Return the weight in one dimension. `nth` counts the reviews of the pair, this one included; `reviewer_mean` is
    the reviewer's own mean there, None for one nothing is known of.
    """
    family = (_SAME_FAMILY_OFTEN if nth > _OFTEN else _SAME_FAMILY) if same_family else 1.0
    novelty = 1 / (1 + _REPETITION * (nth - 1))
    independence = max(_MIN_INDEPENDENCE, 1 - same_strength)
    credibility = _STRANGER if reviewer_mean is None else _STRANGER + _PROVEN * reviewer_mean
    return _SOURCE_WEIGHT[source] * family * novelty * independence * credibility


def apply_review(
    target: Reputation, review: Review, *, nth: int, same_family: bool, reviewer: Reputation | None
) -> Reputation:
    """Return the target's reputation after the review."""
    for dimension, signal in review.signals.items():
        weight = review_weight(
            review.source,
            nth=nth,
            same_family=same_family,
            same_strength=review.same_strength,
            reviewer_mean=None if reviewer is None else reviewer.of(dimension).mean,
        )
        target = update(target, dimension, signal, weight, now=review.at)
    return target


# One number out of five posteriors: for choosing whom to call, and for showing.

INSUFFICIENT_DATA = "INSUFFICIENT_DATA"
UNKNOWN_SCORE = 0.0
"""The score of an agent without any record. It is never ranked above an agent with a record."""

_DEVIATIONS = 1.0
_EXPLORE = 0.5
_COUNTED_WEIGHT = 0.05
_MIN_EVIDENCE = 1e-6
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
    """Return the upper confidence bound. `n_global` counts the reviews of everybody; without weights all dimensions
    count alike. A weight for something that is no dimension is left out.
    """
    shares = _shares(weights)
    mean = sum(share * reputation.of(name).mean for name, share in shares.items())
    variance = sum(share**2 * reputation.of(name).variance for name, share in shares.items())
    evidence = _EVIDENCE[rules.exploration](reputation, shares)
    explore = _EXPLORE * math.sqrt(math.log(max(n_global, 2)) / evidence)
    return mean + _DEVIATIONS * math.sqrt(variance) + explore


def mean_score(reputation: Reputation, dimensions: Collection[str]) -> float:
    """Return the plain average of the means of the dimensions asked for."""
    return sum(reputation.of(name).mean for name in dimensions) / len(dimensions) if dimensions else 0.0


def score(
    reputation: Reputation, dimensions: Collection[str], n_global: float, rules: ReputationRules = REPAIRED
) -> float:
    """Return what an oracle answers: how good a choice this agent is in the dimensions asked for."""
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
    """Return the bound, and what stands behind the agent besides reviews. An unknown level adds nothing."""
    if not 0 <= portability_bonus < math.inf:
        raise ReputationValueError("the portability bonus must be a number of 0 or more")
    stake = _STAKE_SHARE * stake_worth(stake_amount)
    floor = _ATTESTATION_FLOOR.get(attestation_level, 0.0)
    return ucb(reputation, n_global, weights, rules) + stake + floor + portability_bonus


def portability(served: Collection[str], rates: Mapping[str, float]) -> float:
    """Return the bonus for work that succeeds on several substrates; one without a rate counts as failing."""
    substrates = frozenset(served)
    if not substrates:
        return 0.0
    success = sum(rates.get(name, 0.0) for name in substrates) / len(substrates)
    breadth = min(1.0, math.log(1 + len(substrates)) / math.log(_PORTABILITY_FULL))
    return _PORTABILITY * breadth * success


def shown(reputation: Reputation, number: float) -> float | str:
    """Return the number for people to look at, or the label while a dimension has too little evidence."""
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
        max(reputation.of(name).n_eff, _MIN_EVIDENCE)
        for name, share in shares.items()
        if share > _COUNTED_WEIGHT
    ]
    mean = len(counted) / sum(1 / amount for amount in counted) if counted else 1.0
    return max(mean, _HARMONIC_FLOOR)


def _arithmetic(reputation: Reputation, shares: Mapping[str, float]) -> float:
    mean = sum(share * reputation.of(name).n_eff for name, share in shares.items())
    return max(mean, _ARITHMETIC_FLOOR)


_EVIDENCE = {"harmonic": _harmonic, "arithmetic": _arithmetic}
