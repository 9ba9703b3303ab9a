"""What an agent starts with, and what keeps a newcomer from never being tried.

- Attestation, stake, vouchers and the path of birth move the prior itself: time never takes them
  away, and they are not evidence (`n_eff` stays 0).
- A sibling lends a quarter of what is known of it, as evidence: it fades like any other.
- A parent lends nothing: its reputation never flows into the child's.
"""

import math

from msgspec.structs import replace

from comity.core.reputation.errors import ReputationValueError
from comity.core.reputation.posterior import DIMENSIONS, Posterior, Reputation, with_dimension

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
