"""The one error hierarchy.

A message is a sentence for the person who caused it: what was wrong, by name and limit, and what
to do. `code` is stable and may be compared by programs. Each class states what a client gets of it; one that
states nothing has the answer of its nearest base class.
"""

from typing import ClassVar, NamedTuple


class ErrorAnswer(NamedTuple):
    """What a client gets: the code is one of `wire/jsonrpc.py`. Without `own_words` an unknown one gets no sentence."""

    http_status: int
    rpc_code: int
    own_words: bool = True


class ComityError(Exception):
    code: ClassVar[str] = "internal"
    _answer: ClassVar[ErrorAnswer] = ErrorAnswer(500, -32603, own_words=False)
    recorded = False
    """Whether it stands in the record of the node already."""

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else self.code

    @property
    def step(self) -> str:
        """Return what the record names as the step that failed."""
        return self.code


class MalformedError(ComityError):
    """The bytes are not what the format demands."""

    code = "malformed"
    _answer = ErrorAnswer(400, -32700)


class InvalidError(ComityError):
    """Well formed, and yet a value breaks a rule."""

    code = "invalid"
    _answer = ErrorAnswer(400, -32602)


class ActionError(InvalidError):
    """The action cannot work with this input."""

    code = "action_refused"


class TooLargeError(ComityError):
    code = "too_large"
    _answer = ErrorAnswer(413, -32600)

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"{what} exceeds the limit of {limit:,} bytes; send less or split it")
        self.limit = limit


class UnauthenticatedError(ComityError):
    """Nobody vouches for the sender."""

    code = "unauthenticated"
    _answer = ErrorAnswer(401, -32600)


class ForbiddenError(ComityError):
    """The sender is known and may not do this."""

    code = "forbidden"
    _answer = ErrorAnswer(403, -32600)


class NotFoundError(ComityError):
    code = "not_found"
    _answer = ErrorAnswer(404, -32602)


class ConflictError(ComityError):
    """The state has moved on since the sender looked."""

    code = "conflict"
    _answer = ErrorAnswer(409, -32600)


class RetryLaterError(ComityError):
    """Nothing is wrong with the request; it comes at the wrong moment."""

    code = "retry_later"
    _answer = ErrorAnswer(503, -32603)

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class RateLimitedError(RetryLaterError):
    code = "rate_limited"
    _answer = ErrorAnswer(429, -32600)


class OverloadedError(RetryLaterError):
    code = "overloaded"


class StorageFullError(ComityError):
    """What the sender may make us store is used up; our own disk has room."""

    code = "storage_full"
    _answer = ErrorAnswer(507, -32600)


class DeadlineError(ComityError):
    code = "deadline"
    _answer = ErrorAnswer(504, -32603)


class PeerError(ComityError):
    """Whom we called answered with something that cannot be used."""

    code = "peer"
    _answer = ErrorAnswer(502, -32603)


class TargetRefusedError(ForbiddenError):
    """An outgoing request was never tried: our own guard refused the target."""

    code = "target_refused"


class PinRefusedError(TargetRefusedError):
    """An outgoing request was never sent: the target showed another key than the one that it is known by."""

    code = "pin_refused"


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
    _answer = ErrorAnswer(500, -32603, own_words=False)

    def __init__(self, fault: str, *, place: str = "") -> None:
        """`place` is what the fault is said of: a flag, a variable or a setting. The message begins with it."""
        super().__init__(f"{place} {fault}" if place else fault)
        self.place = place
        self._fault = fault

    def called(self, place: str) -> "ConfigError":
        """Give the same refusal with another name for its place."""
        return ConfigError(self._fault, place=place)


class KeyRefusedError(ComityError):
    """A secret that is missing, unreadable, readable by others or does not open."""

    code = "key_refused"
    _answer = ErrorAnswer(500, -32603, own_words=False)


class StoreError(ComityError):
    code = "store"
    _answer = ErrorAnswer(503, -32603, own_words=False)


class StoreCorruptError(StoreError):
    """The stored bytes contradict themselves; no answer is given from them."""

    code = "store_corrupt"


class StoreVersionError(StoreError):
    """Made by a newer release than this one."""

    code = "store_version"


class StoreFullError(StoreError):
    code = "store_full"
    _answer = ErrorAnswer(507, -32603, own_words=False)


class StoreUnavailableError(StoreError):
    """Closed, locked by somebody else, or not writable."""

    code = "store_unavailable"


def http_status(error: ComityError) -> int:
    """Return the status of an HTTP answer that carries this error."""
    return error._answer.http_status  # noqa: SLF001 - programs that catch an error do not need it


def rpc_code(error: ComityError) -> int:
    """Return the code of a JSON-RPC answer that carries this error."""
    return error._answer.rpc_code  # noqa: SLF001 - same


def public_message(error: ComityError) -> str:
    """Return what an unknown caller may read. What failed inside the node stays inside."""
    if error._answer.own_words:  # noqa: SLF001 - same
        return error.message
    return "this node cannot serve the request right now; its log says why"


def printable(foreign: str) -> str:
    """Leave out what a terminal would obey."""
    return "".join(c if c.isprintable() else " " for c in foreign).strip()
