"""The state of the extensions, and to whom it belongs (ruling 48).

- Personal and Intent belong to a session, Relational and Torch to an owner. A caller without a verified identity is no
  owner: both are held with the session and end with it.
- Each extension names its members, as `StateSlot`s. All of it is personal data and stored encrypted.
- States are frozen. An operation returns new ones; an unchanged part stays the same object and is not written.
"""

from typing import TYPE_CHECKING, Any

from msgspec import Struct, defstruct

from comity.vcp.protocol.built_in import built_in
from comity.vcp.protocol.resource_addresses import StateScope


def _members(scope: StateScope) -> Any:
    slots = [slot for extension in built_in().values() for slot in extension.state if slot.scope == scope]
    return [(slot.name, type(slot.empty), slot.empty) for slot in slots]


if TYPE_CHECKING:

    class SessionExtensions(Struct):
        def __getattr__(self, name: str) -> Any: ...

    class OwnerExtensions(Struct):
        def __getattr__(self, name: str) -> Any: ...
else:
    SessionExtensions = defstruct("SessionExtensions", _members("session"), frozen=True, kw_only=True)
    OwnerExtensions = defstruct("OwnerExtensions", _members("owner"), frozen=True, kw_only=True)


class ExtensionState(Struct, frozen=True, kw_only=True):
    """What an operation may look at."""

    session: SessionExtensions = SessionExtensions()
    owner: OwnerExtensions = OwnerExtensions()
