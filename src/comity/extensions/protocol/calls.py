"""What an operation gets besides its arguments (ruling 47).

An operation is a function of a call and its arguments, and returns the state after it and a result. The caller, the time
and the operator's rules are facts of the call. A model sees less than the owner does (ruling 49): of Personal the
ModelSafeContext, of Intent a category and its confidence.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from comity.identity.protocol.keys import SigningKey
from comity.vcp.protocol.extension_calls import Audience
from comity.vcp.protocol.signals import Categorical

if TYPE_CHECKING:
    from comity.extensions.protocol.operations import ExtensionRules
    from comity.extensions.protocol.state import ExtensionState

OperationOutcome = tuple[Any, Any]
"""The state after an operation, and its result."""


class CallFacts(Struct, frozen=True, kw_only=True):
    """The caller. `fresh_id` is random and names what the call makes; `key` is this node's. `owner` is None for an
    anonymous caller.
    """

    session_id: str
    active: frozenset[str]
    key: SigningKey
    fresh_id: str
    owner: str | None = None
    audience: Audience = "owner"
    categorical: Categorical | None = None

    @property
    def owner_id(self) -> str:
        return f"session:{self.session_id}" if self.owner is None else self.owner


class OperationCall(Struct, frozen=True, kw_only=True):
    state: "ExtensionState"
    facts: CallFacts
    rules: "ExtensionRules"
    now: float


def showing(view: Callable[[OperationCall], Any]) -> Callable[[OperationCall, Any], OperationOutcome]:
    """Return an operation that changes nothing and shows this view."""
    return lambda call, _arguments: (call.state, view(call))
