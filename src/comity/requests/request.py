"""The current request: its id, which Comity makes, and the trace id of its sender.

The code that reads a message from a connection begins the request. All code that handles the message finds it here, in the
same task or in a task that was started for it. The same id is in the answer, the log, the events and, as a hash, in the
audit entries.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from itertools import count
from typing import Final

from msgspec import Struct


class RequestMark(Struct, gc=False):
    """`excused`: a refusal of this request is no fault of its address (see `excuse_request`)."""

    id: str = ""
    traceparent: str = ""
    excused: bool = False


NO_REQUEST: Final = RequestMark()
_current: ContextVar[RequestMark] = ContextVar("request", default=NO_REQUEST)


class RequestIds:
    """Ids of one process: what makes the process unlike others comes in, and a number is added."""

    def __init__(self, unique: str) -> None:
        self._unique = unique
        self._numbers = count(1)

    def new(self) -> str:
        return f"{self._unique}{next(self._numbers):x}"


def begin_request(id_: str, traceparent: str = "") -> None:
    _current.set(RequestMark(id_, traceparent))


def excuse_request() -> None:
    """Note that the sender of the current request has proven who it is, or that what it asked for is not there."""
    mark = _current.get()
    if mark is not NO_REQUEST:
        mark.excused = True


@contextmanager
def within_request(new_id: Callable[[], str]) -> Iterator[None]:
    """For work that may also start without a request: then this block is a request of its own."""
    if _current.get().id:
        yield
        return
    token = _current.set(RequestMark(new_id()))
    try:
        yield
    finally:
        _current.reset(token)


current_request: Final[Callable[[], RequestMark]] = _current.get


def request_check(id_: str) -> str:
    """As an audit entry names it."""
    return f"request:{sha256(id_.encode()).hexdigest()[:16]}"
