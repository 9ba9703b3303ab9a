"""What a room is to the walk, and what passes between them."""

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct

from comity.store.operations import Operation


class Arrival(Struct, frozen=True, kw_only=True):
    """A decoded message at a door. `peer` is an address, for limits; `owner` says that the guard of the
    door has seen this node's own token.
    """

    door: str
    peer: str
    body: Any
    owner: bool = False


class Principal(Struct, frozen=True):
    """Who a message is from, once that is proven. `kind` says how: local, vacant, vcp, anonymous."""

    kind: str
    id: str


class Call(Struct, frozen=True, kw_only=True):
    arrival: Arrival
    principal: Principal
    at: float


class Admission(Struct, frozen=True, kw_only=True):
    """State that changes before the work is done. Empty for a room that keeps none."""

    operations: tuple[Operation, ...] = ()
    checks: tuple[str, ...] = ()


class Sealed(Struct, frozen=True, kw_only=True):
    """The answer, with the state that changes together with it and what the audit entry adds."""

    reply: Any
    operations: tuple[Operation, ...] = ()
    audit: Mapping[str, Any] = {}


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

    async def admit(self, call: Call) -> Admission: ...

    async def handle(self, call: Call) -> Any: ...

    async def seal(self, call: Call, result: Any) -> Sealed: ...

    async def give_back(self, call: Call) -> tuple[Operation, ...]:
        """Undo the admission of a call whose work failed."""
        ...
