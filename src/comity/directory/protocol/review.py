"""What one review weighs, and which reviews count at all.

The weight of a review depends on its source. It is lower if reviewer and target are of the same model family, with every
repetition, and if other signals say that both belong to the same person. It is higher if the earlier reviews of the
reviewer were right in that dimension.
"""

from collections.abc import Mapping
from typing import Literal, get_args

from msgspec import Struct

from comity.directory.protocol.reputation import (
    Reputation,
    ReputationValueError,
    ReviewLimitError,
    ReviewRefusedError,
    known_dimension,
    update,
)

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
_LEAST_INDEPENDENCE = 0.1
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
    """The history with one more review in it. Raises ReviewLimitError when the pair had its share."""
    recent = tuple(moment for moment in history.recent if moment > at - LIMIT_SECONDS)
    if len(recent) >= LIMIT:
        raise ReviewLimitError(
            f"this reviewer has judged this target {LIMIT} times within 24 hours; try again later"
        )
    return PairHistory(history.count + 1, (*recent, at))


def review_weight(
    source: Source,
    *,
    nth: int,
    same_family: bool,
    same_strength: float,
    reviewer_mean: float | None,
) -> float:
    """The weight in one dimension. `nth` counts the reviews of the pair, this one included;
    `reviewer_mean` is the reviewer's own mean there, None for one nothing is known of.
    """
    family = (_SAME_FAMILY_OFTEN if nth > _OFTEN else _SAME_FAMILY) if same_family else 1.0
    novelty = 1 / (1 + _REPETITION * (nth - 1))
    independence = max(_LEAST_INDEPENDENCE, 1 - same_strength)
    credibility = _STRANGER if reviewer_mean is None else _STRANGER + _PROVEN * reviewer_mean
    return _SOURCE_WEIGHT[source] * family * novelty * independence * credibility


def apply_review(
    target: Reputation,
    review: Review,
    *,
    nth: int,
    same_family: bool,
    reviewer: Reputation | None,
) -> Reputation:
    """The target's reputation after the review."""
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
