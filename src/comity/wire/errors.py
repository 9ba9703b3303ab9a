"""The one error hierarchy.

A message is a sentence for the person who caused it: what was wrong, by name and limit, and what
to do. `code` is stable and may be compared by programs. How an error looks on a wire (HTTP status,
JSON-RPC code, exit code) is decided by the doors in one table, never here.
"""

from typing import ClassVar


class ComityError(Exception):
    code: ClassVar[str] = "internal"
    recorded = False
    """Whether it stands in the record of the node already."""

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else self.code

    @property
    def step(self) -> str:
        """What the record names as the step that failed."""
        return self.code


class MalformedError(ComityError):
    """The bytes are not what the format demands."""

    code = "malformed"


class InvalidError(ComityError):
    """Well formed, and yet a value breaks a rule."""

    code = "invalid"


class ActionError(InvalidError):
    """The action cannot work with this input."""

    code = "action_refused"


class TooLargeError(ComityError):
    code = "too_large"

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"{what} exceeds the limit of {limit:,} bytes; send less or split it")
        self.limit = limit


class UnauthenticatedError(ComityError):
    """Nobody vouches for the sender."""

    code = "unauthenticated"


class ForbiddenError(ComityError):
    """The sender is known and may not do this."""

    code = "forbidden"


class NotFoundError(ComityError):
    code = "not_found"


class ConflictError(ComityError):
    """The state has moved on since the sender looked."""

    code = "conflict"


class RetryLaterError(ComityError):
    """Nothing is wrong with the request; it comes at the wrong moment."""

    code = "retry_later"

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class RateLimitedError(RetryLaterError):
    code = "rate_limited"


class OverloadedError(RetryLaterError):
    code = "overloaded"


class StorageFullError(ComityError):
    """What the sender may make us store is used up; our own disk has room."""

    code = "storage_full"


class DeadlineError(ComityError):
    code = "deadline"


class PeerError(ComityError):
    """Whom we called answered with something that cannot be used."""

    code = "peer"


class TargetRefusedError(ForbiddenError):
    """An outgoing request was never tried: our own guard refused the target."""

    code = "target_refused"


class UnreachableError(RetryLaterError):
    """An outgoing request never left: nobody was there to take it."""

    code = "unreachable"


class NoAnswerError(RetryLaterError):
    """An outgoing request may have arrived; no answer to it did."""

    code = "no_answer"


class UnusableAnswerError(PeerError):
    """An outgoing request arrived; the answer breaks a limit of ours."""

    code = "unusable_answer"


class ConfigError(ComityError):
    """A setting, a flag or an environment variable that cannot be used."""

    code = "config"


class KeyRefusedError(ComityError):
    """A secret that is missing, unreadable, readable by others or does not open."""

    code = "key_refused"


class StoreError(ComityError):
    code = "store"


class StoreCorruptError(StoreError):
    """The stored bytes contradict themselves; no answer is given from them."""

    code = "store_corrupt"


class StoreVersionError(StoreError):
    """Made by a newer release than this one."""

    code = "store_version"


class StoreFullError(StoreError):
    code = "store_full"


class StoreUnavailableError(StoreError):
    """Closed, locked by somebody else, or not writable."""

    code = "store_unavailable"


def printable(foreign: str) -> str:
    """Leave out what a terminal would obey."""
    return "".join(c if c.isprintable() else " " for c in foreign).strip()
