"""What reputation refuses. Each name stands in the contract's line and in one of ours."""

from comity.core.envelope.errors import CoreError
from comity.core.errors import ConflictError, InvalidError


class ReputationError(CoreError):
    code = "reputation"


class ReputationValueError(ReputationError, InvalidError, ValueError):
    """A number or a name outside its range; the contract calls that a ValueError."""

    code = "reputation_value"


class ReviewRefusedError(ReputationError, InvalidError):
    """A review that never counts: of oneself, by or of a stranger, by somebody who may not review."""

    code = "review_refused"


class ReviewLimitError(ReputationError, ConflictError):
    """A review that comes too soon after earlier ones of the same pair."""

    code = "review_limit"
