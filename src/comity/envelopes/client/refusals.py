"""Errors of outgoing calls. Each says what happened to the call; what can happen to any request stands in `wire/errors.py`.

| raised                | the call                                          |
|-----------------------|---------------------------------------------------|
| CallRefusedError      | arrived; the answer is a refusal                  |
| BusyTargetError       | was not taken (502: maybe), and may be later      |
| TargetLimitError      | was not taken: too many of ours came (429)        |
| ReplyLostError        | was accepted; its reply cannot be had any more    |
"""

from comity.envelopes.protocol.card import CapabilityCard
from comity.envelopes.protocol.errors import ProtocolError, TargetUnavailableError
from comity.wire.errors import (
    ComityError,
    OverloadedError,
    PeerError,
    RateLimitedError,
    printable,
)

DETAIL_LIMIT = 500


class CallRefusedError(ProtocolError, PeerError):
    """`status` and `detail` are the target's own; `detail` is text of a stranger."""

    code = "call_refused"

    def __init__(self, status: int, detail: str, retry_after: float = 0.0) -> None:
        detail = printable(detail[:DETAIL_LIMIT])
        said = f": {detail}" if detail else ""
        super().__init__(f"the target refused the call with status {status}{said}")
        self.status = status
        self.detail = detail
        self.retry_after = retry_after


class BusyTargetError(CallRefusedError, OverloadedError):
    """Whom we called, or a gateway before it, cannot take the call now (502, 503)."""

    code = "target_busy"


class TargetLimitError(CallRefusedError, RateLimitedError):
    """Whom we called has had enough of us for now (429)."""

    code = "target_limit"


class ReplyLostError(ProtocolError, PeerError):
    code = "reply_lost"


def explained(refusal: ComityError, card: CapabilityCard) -> str:
    """What the refusal means to the user who made the call."""
    who, where = card.vacant_id, printable(card.endpoint or "")
    if isinstance(refusal, TargetUnavailableError):
        return f"{who} takes no calls: {refusal.message}"
    if not isinstance(refusal, CallRefusedError):
        return refusal.message
    said = refusal.detail or "it gave no reason"
    match refusal.status:
        case 401:
            return f"{who} does not accept the signature of this call ({said}); nothing was carried out"
        case 404 | 405:
            return f"no agent takes calls at {where} (status {refusal.status}); its card may be out of date"
        case 409:
            return (
                f"{who} expects another number or hash in the chain with this node ({said}); "
                f"`comity chain show {who.hex()}` shows the chain as stored here. If the agent lost its chain, "
                f"`comity chain forget {who.hex()}` begins again"
            )
        case 421:
            return f"another agent answers at {where} ({said}); the card with this address is out of date or false"
        case 429:
            return f"{who} answers that too many calls came (status 429: {said}); nothing was carried out, try again later"
        case 503:
            return f"{who} answers that it is busy (status 503: {said}); nothing was carried out, try again later"
        case status if status >= 500:
            return f"{who} failed on this call with status {status}: {said}"
        case status:
            return f"{who} refused the call with status {status}: {said}"
