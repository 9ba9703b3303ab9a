"""What can go wrong on the way out, told apart by what became of the request.

| raised                | the request                                       |
|-----------------------|---------------------------------------------------|
| TargetRefusedError    | was never tried: our own guard refused the target |
| UnreachableError      | never left: nobody was there to take it           |
| NoAnswerError         | may have arrived; no answer to it did             |
| UnusableAnswerError   | arrived; the answer breaks a limit of ours        |
| CallRefusedError      | arrived; the answer is a refusal                  |
| ReplyLostError        | was accepted; its reply cannot be had any more    |
"""

from comity.core.envelope.errors import ProtocolError
from comity.core.errors import ForbiddenError, PeerError, RetryLaterError

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


class ReplyLostError(ProtocolError, PeerError):
    code = "reply_lost"
