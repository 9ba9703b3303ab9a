"""What can go wrong on the way out, told apart by what became of the request.

| raised                | the request                                       |
|-----------------------|---------------------------------------------------|
| TargetRefusedError    | was never tried: our own guard refused the target |
| UnreachableError      | never left: nobody was there to take it           |
| NoAnswerError         | may have arrived; no answer to it did             |
| UnusableAnswerError   | arrived; the answer breaks a limit of ours        |
| CallRefusedError      | arrived; the answer is a refusal                  |
| BusyTargetError       | was not taken (502: maybe), and may be later      |
| TargetLimitError      | was not taken: too many of ours came (429)        |
| ReplyLostError        | was accepted; its reply cannot be had any more    |
"""

from comity.core.envelope.errors import ProtocolError
from comity.core.errors import ForbiddenError, OverloadedError, PeerError, RateLimitedError, RetryLaterError

_DETAIL_LIMIT = 500


class TargetRefusedError(ForbiddenError):
    code = "target_refused"


class UnreachableError(RetryLaterError):
    code = "unreachable"


class NoAnswerError(RetryLaterError):
    code = "no_answer"


class UnusableAnswerError(PeerError):
    code = "unusable_answer"


class CallRefusedError(ProtocolError, PeerError):
    """`status` and `detail` are the target's own; `detail` is text of a stranger."""

    code = "call_refused"

    def __init__(self, status: int, detail: str) -> None:
        detail = "".join(c if c.isprintable() else " " for c in detail[:_DETAIL_LIMIT]).strip()
        said = f": {detail}" if detail else ""
        super().__init__(f"the target refused the call with status {status}{said}")
        self.status = status
        self.detail = detail


class BusyTargetError(CallRefusedError, OverloadedError):
    """Whom we called, or a gateway before it, cannot take the call now (502, 503)."""

    code = "target_busy"

    def __init__(self, status: int, detail: str, retry_after: float) -> None:
        super().__init__(status, detail)
        self.retry_after = retry_after


class TargetLimitError(CallRefusedError, RateLimitedError):
    """Whom we called has had enough of us for now (429)."""

    code = "target_limit"

    def __init__(self, status: int, detail: str, retry_after: float) -> None:
        super().__init__(status, detail)
        self.retry_after = retry_after


class ReplyLostError(ProtocolError, PeerError):
    code = "reply_lost"
