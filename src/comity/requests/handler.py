"""What a room is to the walk, and what passes between them."""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, NamedTuple, Protocol
from weakref import WeakValueDictionary

from msgspec import Struct

from comity.requests.caller import Caller
from comity.store.operations import Operation, StoreConflict


class Arrival(Struct, frozen=True, kw_only=True):
    """A decoded message at a door, and who the guard of the door says it is from. `size` is how many bytes came."""

    door: str
    caller: Caller
    body: Any
    size: int = 0


class Identified(NamedTuple):
    """Who a message is from, once that is proven; `evidence` is what proved it, for the room's own further steps."""

    caller: Caller
    evidence: Any = None


class Call(Struct, frozen=True, kw_only=True):
    arrival: Arrival
    caller: Caller
    evidence: Any
    at: float


class Sealed(Struct, frozen=True, kw_only=True):
    """The answer, with the state that changes together with it and what the audit entry adds. `about` names, for those
    who watch, what it was about; where it is empty, the hashes of the entry do.
    """

    reply: Any
    operations: tuple[Operation, ...] = ()
    audit: Mapping[str, Any] = {}
    about: str = ""


class Admission(Struct, frozen=True, kw_only=True):
    """State that changes before the work is done, and which further checks were passed.
    `answered` is an answer that was given before: then no work is done.
    """

    operations: tuple[Operation, ...] = ()
    checks: tuple[str, ...] = ()
    answered: Sealed | None = None


class Room(Protocol):
    """One kind of message and what is done about it. Each step may refuse by raising a ComityError."""

    @property
    def name(self) -> str: ...

    @property
    def deadline(self) -> float:
        """Seconds that the work may take."""
        ...

    def identify(self, arrival: Arrival) -> Identified:
        """Who is it? No stored state is read for this."""
        ...

    def hold(self, call: Call) -> AbstractAsyncContextManager[None]:
        """Held from admission to the last commit: where calls must wait for each other."""
        ...

    async def admit(self, call: Call) -> Admission: ...

    def knows(self, call: Call) -> bool:
        """Whether the caller has been served before. Refusals of those who were not are counted, not written down."""
        ...

    async def handle(self, call: Call) -> Any: ...

    async def seal(self, call: Call, result: Any) -> Sealed: ...

    async def undo(self, call: Call) -> tuple[Operation, ...]:
        """Undo the admission of a call whose work failed."""
        ...

    async def answer_conflict(self, call: Call, conflict: StoreConflict) -> Sealed:
        """Another process moved the state between admission and seal: the answer to give instead. The operations that
        come with it are committed in place of the former ones.
        """
        ...


class Turns:
    """One queue for each name."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, name: str) -> asyncio.Lock:
        """The lock of that name; it is there as long as somebody holds it or waits for it."""
        return self._locks.setdefault(name, asyncio.Lock())


class PlainRoom:
    """The steps of a room that keeps no state before its work and makes nobody wait."""

    def hold(self, call: Call) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def admit(self, call: Call) -> Admission:
        return Admission()

    def knows(self, call: Call) -> bool:
        return False

    async def seal(self, call: Call, result: Any) -> Sealed:
        return Sealed(reply=result)

    async def undo(self, call: Call) -> tuple[Operation, ...]:
        return ()

    async def answer_conflict(self, call: Call, conflict: StoreConflict) -> Sealed:
        raise conflict
