"""What reputation refuses. Each name stands in the contract's line and in one of ours."""

from comity.core.card.errors import ReputationError
from comity.core.errors import ConflictError


class ReputationValueError(ReputationError, ValueError):
    """A number or a name outside its range; the contract calls that a ValueError."""

    code = "reputation_value"


class ReviewRefusedError(ReputationError):
    """A review that never counts: of oneself, by or of a stranger, by somebody who may not review."""

    code = "review_refused"


class ReviewLimitError(ConflictError, ReputationError):
    """A review that comes too soon after earlier ones of the same pair."""

    code = "review_limit"
