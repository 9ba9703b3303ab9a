"""What a caller hears who may not do something, or not yet.

Whoever asks learns nothing besides: not whether there are contacts, nor whether the call was stored for the owner.
"""

from typing import Final

from comity.wire.errors import ForbiddenError, RetryLaterError

RETRY_SECONDS: Final = 30.0


class WaitsForConsentError(ForbiddenError, RetryLaterError):
    """The owner has to agree first. Nothing was carried out; the same call can be made again."""

    code = "waits_for_consent"

    def __init__(self) -> None:
        super().__init__("waiting for the owner's consent", RETRY_SECONDS)


class RefusedByOwnerError(ForbiddenError):
    """The owner takes no calls of this caller."""

    code = "refused_by_owner"

    def __init__(self) -> None:
        super().__init__("the owner does not accept calls from you")
