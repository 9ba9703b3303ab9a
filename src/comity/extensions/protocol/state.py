"""The state of the extensions: what is kept, and for whom (ruling 48).

- Personal and Intent belong to a session, Relational and Torch to an owner. Who has no verified identity is no
  owner: then both are held with the session and end with it.
- A deliberation belongs to its parties and stays until its author removes it.
- It is what people said of themselves: whoever stores it encrypts it.
- States are frozen. An operation gives new ones; what it does not touch is the same object as before, so that
  whoever stores them can tell what has to be written.
"""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from comity.extensions.protocol.intent import IntentState
from comity.extensions.protocol.personal import PersonalState
from comity.extensions.protocol.relational import RelationalState, count_session
from comity.extensions.protocol.torch import TorchState
from comity.votes.protocol.vote import Deliberation

StateScope = Literal["session", "owner", "deliberation"]


class SessionExtensions(Struct, frozen=True, kw_only=True):
    """`counted` is whether this session has counted towards trust already."""

    personal: PersonalState = PersonalState()
    intent: IntentState = IntentState()
    counted: bool = False


class OwnerExtensions(Struct, frozen=True, kw_only=True):
    relational: RelationalState = RelationalState()
    torch: TorchState = TorchState()


class ExtensionState(Struct, frozen=True, kw_only=True):
    """All that an operation may look at. Only what its scopes name has to be loaded."""

    session: SessionExtensions = SessionExtensions()
    owner: OwnerExtensions = OwnerExtensions()
    deliberation: Deliberation | None = None
    deliberations: tuple[Deliberation, ...] = ()


def count_exchange(state: ExtensionState, now: float) -> ExtensionState:
    """After an accepted exchange: the session counts towards trust once, if an hour has passed (ruling 49)."""
    relational = state.owner.relational
    after = relational if state.session.counted else count_session(relational, now)
    if after is relational:
        return state
    return replace(
        state,
        session=replace(state.session, counted=True),
        owner=replace(state.owner, relational=after),
    )
