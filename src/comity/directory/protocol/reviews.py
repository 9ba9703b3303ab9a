r"""A review as its reviewer signs it, so that a directory can show who judged whom (reputation, envelope 4).

Signed are `comity-review-v1\n` and the RFC 8785 form of `{reviewer, signals, target, ts_ms}`. A review counts for a day after
its stamp, and only if it is later than the last one of the same reviewer about the same target: so none counts twice.
"""

from typing import Annotated, Any, Final, Self

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from comity.directory.protocol.reputation import Review
from comity.identity.protocol.keys import SigningKey, is_key, signature_holds, signature_of
from comity.wire.canonical import jcs
from comity.wire.errors import InvalidError, UnauthenticatedError
from comity.wire.machine import SKEW_SECONDS, clock_words

LASTS_SECONDS: Final = 86_400.0

_PROOF: Final = b"comity-review-v1\n"


class SignedReview(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`signals` are as in a Review. `signature` is base64url."""

    reviewer: str
    target: str
    signals: Annotated[dict[str, float], Meta(max_length=5)]
    ts_ms: Annotated[int, Meta(ge=0, lt=2**53)]
    signature: Annotated[str, Meta(max_length=256)] = ""

    def review(self) -> Review:
        """Return what it says. Raises ReputationError for what no review can say."""
        return Review(
            reviewer=self.reviewer,
            target=self.target,
            signals=self.signals,
            source="caller_review",
            at=self.ts_ms / 1000,
        )

    def signed(self, key: SigningKey) -> Self:
        return replace(self, signature=signature_of(self._signed_bytes(), key))

    def check_signature(self) -> None:
        """Raise UnauthenticatedError if the reviewer did not sign it."""
        if not signature_holds(self.reviewer, self._signed_bytes(), self.signature):
            raise UnauthenticatedError(
                f"the review is not signed by {self.reviewer[:12]}; sign it with the key of the reviewer"
            )

    def check_time(self, now: float) -> None:
        """Raise InvalidError if its stamp is not of the last day."""
        at = self.ts_ms / 1000
        if not now - LASTS_SECONDS <= at <= now + SKEW_SECONDS:
            raise InvalidError(
                f"the review is of {clock_words(at)}, and the clock here says {clock_words(now)}; a review is taken within a "
                "day after it was signed: set the wrong clock, or sign it again"
            )

    def _signed_bytes(self) -> bytes:
        members = {
            "reviewer": self.reviewer,
            "signals": self.signals,
            "target": self.target,
            "ts_ms": self.ts_ms,
        }
        return _PROOF + jcs(members)


def read_review(body: Any) -> SignedReview:
    """Read a review that was sent. Raise what a door answers with 400."""
    try:
        signed = msgspec.convert(body, SignedReview)
    except msgspec.ValidationError as reason:
        raise InvalidError(f"the review is refused: {reason}") from None
    for name, id_ in (("reviewer", signed.reviewer), ("target", signed.target)):
        if not is_key(id_):
            raise InvalidError(
                f"the review is refused: {name} must be an id of 64 lower-case hexadecimal digits"
            )
    signed.review()
    return signed
