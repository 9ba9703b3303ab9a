"""What a handler is to the pipeline, and what passes between them."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from hashlib import sha256
from itertools import count
from typing import Any, Final, NamedTuple, Protocol
from weakref import WeakValueDictionary

from msgspec import Struct

from comity.requests.caller import Caller
from comity.store.interface import Operation, StoreConflict

# The current request: its id, which Comity makes, and the trace id of its sender.


class RequestMark(Struct, gc=False):
    """`excused`: a refusal of this request is no fault of its address (see `excuse_request`)."""

    id: str = ""
    traceparent: str = ""
    excused: bool = False


NO_REQUEST: Final = RequestMark()
_current: ContextVar[RequestMark] = ContextVar("request", default=NO_REQUEST)


class RequestIds:
    """Ids of one process: a prefix that is unique to the process, and a number."""

    def __init__(self, unique: str) -> None:
        self._unique = unique
        self._numbers = count(1)

    def new(self) -> str:
        return f"{self._unique}{next(self._numbers):x}"


def begin_request(id_: str, traceparent: str = "") -> None:
    _current.set(RequestMark(id_, traceparent))


def excuse_request() -> None:
    """Note that the sender of the current request is proven, or that what it asked for does not exist."""
    mark = _current.get()
    if mark is not NO_REQUEST:
        mark.excused = True


@contextmanager
def within_request(new_id: Callable[[], str]) -> Iterator[None]:
    """Make the block a request of its own, unless one is current."""
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
    """Return the check of an audit entry that names the request."""
    return f"request:{sha256(id_.encode()).hexdigest()[:16]}"


class Request(Struct, frozen=True, kw_only=True):
    """A decoded message and the caller that the guard of its door found. `size` is its length in bytes, `listener` the name
    of the listener that it came through, if that is not the port (`http/serving.py`).
    """

    door: str
    caller: Caller
    body: Any
    size: int = 0
    listener: str = ""


class Identified(NamedTuple):
    """The proven caller; `evidence` is what proved it, for later steps of the handler."""

    caller: Caller
    evidence: Any = None


class Call(Struct, frozen=True, kw_only=True):
    request: Request
    caller: Caller
    evidence: Any
    at: float


class HandlerResult(Struct, frozen=True, kw_only=True):
    """The reply, the state changes that are stored with it, and what the audit entry adds: fields, and `checks`. `about`
    names the subject for events; if it is empty, the hashes of the entry do.
    """

    reply: Any
    operations: tuple[Operation, ...] = ()
    audit: Mapping[str, Any] = {}
    checks: tuple[str, ...] = ()
    about: str = ""


class Admission(Struct, frozen=True, kw_only=True):
    """State that changes before the work, and the checks that were passed. `answered` is an earlier answer; then no work
    is done.
    """

    operations: tuple[Operation, ...] = ()
    checks: tuple[str, ...] = ()
    answered: HandlerResult | None = None


class Handler(Protocol):
    """One kind of message and what is done about it. Each step may refuse by raising a ComityError."""

    @property
    def name(self) -> str: ...

    @property
    def deadline(self) -> float:
        """Return the seconds that the work may take."""
        ...

    def identify(self, request: Request) -> Identified:
        """Identify the caller without reading stored state."""
        ...

    def hold(self, call: Call) -> AbstractAsyncContextManager[None]:
        """Return a lock from admission to the last commit, if calls must wait for each other."""
        ...

    async def admit(self, call: Call) -> Admission: ...

    def knows(self, call: Call) -> bool:
        """Return whether the caller was served before. Refusals of others are counted, not recorded one by one."""
        ...

    async def handle(self, call: Call) -> Any: ...

    async def seal(self, call: Call, result: Any) -> HandlerResult: ...

    async def undo(self, call: Call) -> tuple[Operation, ...]:
        """Undo the admission of a call whose work failed."""
        ...

    async def answer_conflict(self, call: Call, conflict: StoreConflict) -> HandlerResult:
        """Return the answer after another process moved the state between admission and seal. The operations that
        come with it are committed in place of the former ones.
        """
        ...


class KeyedLocks:
    """One queue for each name."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, name: str) -> asyncio.Lock:
        """Return the lock of that name, which exists while it is held or waited for."""
        return self._locks.setdefault(name, asyncio.Lock())


class HandlerDefaults:
    """The steps of a handler without state before its work and without locks."""

    def hold(self, call: Call) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def admit(self, call: Call) -> Admission:
        return Admission()

    def knows(self, call: Call) -> bool:
        return False

    async def seal(self, call: Call, result: Any) -> HandlerResult:
        return HandlerResult(reply=result)

    async def undo(self, call: Call) -> tuple[Operation, ...]:
        return ()

    async def answer_conflict(self, call: Call, conflict: StoreConflict) -> HandlerResult:
        raise conflict
