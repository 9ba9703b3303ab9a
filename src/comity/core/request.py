"""The request that is being dealt with: its id, which is ours, and the trace that its sender named.

Whoever takes a message off a connection begins it; whatever is done about the message, in the same task or in one that
was started for it, finds it here. The same id stands in the answer, the log, the events and, as a hash, in the audit.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from itertools import count
from typing import Final

from msgspec import Struct


class RequestMark(Struct, frozen=True, gc=False):
    id: str = ""
    traceparent: str = ""


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


@contextmanager
def within_request(new_id: Callable[[], str]) -> Iterator[None]:
    """For work that may also begin by itself: where no request is being dealt with, this block is one."""
    if _current.get().id:
        yield
        return
    token = _current.set(RequestMark(new_id()))
    try:
        yield
    finally:
        _current.reset(token)


def current_request() -> RequestMark:
    return _current.get()


def request_check(id_: str) -> str:
    """As an audit entry names it."""
    return f"request:{sha256(id_.encode()).hexdigest()[:16]}"
