"""Five Beta posteriors, one for each dimension, and how time and evidence move them.

- A posterior remembers the prior it started from. Time pulls it back there: after one half-life
  half of the evidence is left, in `alpha`, in `beta` and in `n_eff`, the amount of it.
- Time passes only when evidence comes; a posterior is read as it was last written.
- Evidence from before the last update is not decayed, and does not set the posterior's time back.
- All of it is arithmetic in doubles, in one fixed order: two nodes that see the same reviews hold
  the same numbers.

What an agent starts with (`initial_prior`), and what keeps a newcomer from never being tried:

- Attestation, stake, vouchers and the path of birth move the prior itself: time never takes them
  away, and they are not evidence (`n_eff` stays 0).
- A sibling lends a quarter of what is known of it, as evidence: it fades like any other.
- A parent lends nothing: its reputation never flows into the child's.
"""

import math
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from comity.envelopes.protocol.card_errors import ReputationError
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
    """The reputation of an agent at birth. Unknown levels and paths add nothing."""
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
    """What a stake counts for: the logarithm of it in hundreds."""
    if not 0 <= amount < math.inf:
        raise ReputationValueError("a stake must be a number of 0 or more")
    return math.log(1 + amount / _STAKE_UNIT)


def niche_bonus(supply: int) -> float:
    """For a capability that few others offer; nothing from ten on."""
    if supply < 0:
        raise ReputationValueError("the supply of a capability must be 0 or more")
    return max(0.0, _NICHE * (1 - supply / _NICHE_SUPPLY))


def exploration_boost(n_eff: float, n_global: float) -> float:
    """What a newcomer gets on top until the evidence of thirty reviews is there."""
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
