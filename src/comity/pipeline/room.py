"""What a room is to the walk, and what passes between them."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Protocol

from msgspec import Struct

from comity.store.operations import Operation, StoreConflict


class Arrival(Struct, frozen=True, kw_only=True):
    """A decoded message at a door. `peer` is an address, for limits, and `size` how many bytes came from there;
    `owner` says that the node's own user sent it: the guard of the door has seen the token, or the door is for
    that user alone.
    """

    door: str
    peer: str
    body: Any
    size: int = 0
    owner: bool = False


class Principal(Struct, frozen=True):
    """Who a message is from, once that is proven. `kind` says how: local, vacant, vcp, anonymous;
    `evidence` is what proved it, for the room's own further steps.
    """

    kind: str
    id: str
    evidence: Any = None


class Call(Struct, frozen=True, kw_only=True):
    arrival: Arrival
    principal: Principal
    at: float


class Sealed(Struct, frozen=True, kw_only=True):
    """The answer, with the state that changes together with it and what the audit entry adds."""

    reply: Any
    operations: tuple[Operation, ...] = ()
    audit: Mapping[str, Any] = {}


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

    def identify(self, arrival: Arrival) -> Principal:
        """Who is it? No stored state is read for this."""
        ...

    def turn(self, call: Call) -> AbstractAsyncContextManager[None]:
        """Held from admission to the last commit: where calls must wait for each other."""
        ...

    async def admit(self, call: Call) -> Admission: ...

    def knows(self, call: Call) -> bool:
        """Whether the caller has been served before. Refusals of those who were not are counted, not written down."""
        ...

    async def handle(self, call: Call) -> Any: ...

    async def seal(self, call: Call, result: Any) -> Sealed: ...

    async def give_back(self, call: Call) -> tuple[Operation, ...]:
        """Undo the admission of a call whose work failed."""
        ...

    async def overtaken(self, call: Call, conflict: StoreConflict) -> Sealed:
        """Another process moved the state between admission and seal: the answer to give instead."""
        ...


class PlainRoom:
    """The steps of a room that keeps no state before its work and makes nobody wait."""

    def turn(self, call: Call) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def admit(self, call: Call) -> Admission:
        return Admission()

    def knows(self, call: Call) -> bool:
        return False

    async def seal(self, call: Call, result: Any) -> Sealed:
        return Sealed(reply=result)

    async def give_back(self, call: Call) -> tuple[Operation, ...]:
        return ()

    async def overtaken(self, call: Call, conflict: StoreConflict) -> Sealed:
        raise conflict
