"""Five Beta posteriors, one for each dimension, and how time and evidence move them.

- A posterior remembers the prior it started from. Time pulls it back there: after one half-life half of the evidence is
  left, in `alpha`, in `beta` and in `n_eff`, the amount of it.
- Time passes when evidence comes, and for what is compared (`faded`).
- Evidence from before the last update is not decayed, and does not set the posterior's time back.
- All of it is arithmetic in doubles, in one fixed order: two nodes that see the same reviews hold the same numbers.
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

_DEVIATIONS = 1.0
_EXPLORE = 0.5
_COUNTED_WEIGHT = 0.05
_MIN_EVIDENCE = 1e-6
_HARMONIC_FLOOR = 1e-3
_ARITHMETIC_FLOOR = 1.0


def ucb(
    reputation: Reputation,
    n_global: float,
    weights: Mapping[str, float] | None = None,
    evidence: Literal["arithmetic", "harmonic"] = "arithmetic",
) -> float:
    """Return the upper confidence bound. `n_global` counts all events; without weights all dimensions count alike. A weight
    for something that is no dimension is left out. The contract's own mean of the evidence is the harmonic one.
    """
    shares = _shares(weights)
    mean = sum(share * reputation.of(name).mean for name, share in shares.items())
    variance = sum(share**2 * reputation.of(name).variance for name, share in shares.items())
    amount = _EVIDENCE[evidence](reputation, shares)
    explore = _EXPLORE * math.sqrt(math.log(max(n_global, 2)) / amount)
    return mean + _DEVIATIONS * math.sqrt(variance) + explore


def mean_score(reputation: Reputation, dimensions: Collection[str]) -> float:
    """Return the plain average of the means of the dimensions asked for."""
    return sum(reputation.of(name).mean for name in dimensions) / len(dimensions) if dimensions else 0.0


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


# What this node has seen itself of an agent: the outcomes of its owner's calls, and the owner's reviews.

Outcome = Literal["answered", "late", "refused", "failed"]

_OUTCOME_SIGNAL: dict[str, float] = {"answered": 1.0, "late": 0.3, "refused": 0.2, "failed": 0.0}
_FIRST_REST = 60.0
_LONGEST_REST = 86_400.0
_RESTS = 11  # a doubled minute is longer than a day then


class Experience(Struct, frozen=True, kw_only=True):
    """`events` counts outcomes and reviews, `misses` the calls without a reply since the last one with a reply, and `at` is
    when the last call ended. `reviews` are the owner's own.
    """

    reputation: Reputation = Reputation()
    events: int = 0
    misses: int = 0
    at: float = 0.0
    reviews: PairHistory = PairHistory()

    @property
    def rests_until(self) -> float:
        """Return until when others are tried before it: a minute after the first miss, a day after many."""
        if not self.misses:
            return 0.0
        return self.at + min(_FIRST_REST * 2.0 ** (min(self.misses, _RESTS + 1) - 1), _LONGEST_REST)


def after_outcome(experience: Experience, outcome: Outcome, now: float) -> Experience:
    """Return the experience after one more call. It is an `adoption_event`, which no limit of reviews concerns."""
    signal, weight = _OUTCOME_SIGNAL[outcome], _SOURCE_WEIGHT["adoption_event"]
    return replace(
        experience,
        reputation=update(experience.reputation, "adoption", signal, weight, now=now),
        events=experience.events + 1,
        misses=0 if outcome == "answered" else experience.misses + 1,
        at=now,
    )


def after_own_review(experience: Experience, review: Review) -> Experience:
    """Return the experience after a review by the owner, who believes it. Raises ReviewLimitError."""
    history = admit_review(experience.reviews, review.at)
    reputation = experience.reputation
    for dimension, signal in review.signals.items():
        weight = review_weight(
            review.source, nth=history.count, same_family=False, same_strength=0.0, reviewer_mean=1.0
        )
        reputation = update(reputation, dimension, signal, weight, now=review.at)
    return replace(experience, reputation=reputation, events=experience.events + 1, reviews=history)


def preference(experience: Experience, n_global: float, now: float) -> tuple[float, float]:
    """Return what agents are sorted by, the best first: those that rest come last, the first to wake before others; the
    rest by the upper confidence bound of what time has left of the experience.
    """
    until = experience.rests_until
    bound = ucb(faded(experience.reputation, now), n_global)
    return (until if until > now else 0.0, -bound)


def faded(reputation: Reputation, now: float) -> Reputation:
    """Return what time has left of a reputation."""
    for dimension in DIMENSIONS:
        reputation = update(reputation, dimension, 0.0, 0.0, now=now)
    return reputation
