"""What a context request changes in the extensions, and what an answer says of them (ruling 49).

- Each extension applies its own data. Trust, standing, continuity and torches are never taken from a payload: they are
  listed as ignored, with the operation that is meant for it. Nothing is accepted and dropped.
- One wrong value refuses the whole request.
"""

from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from comity.extensions.protocol.calls import OperationCall
from comity.extensions.protocol.state import ExtensionState
from comity.vcp.protocol.built_in import built_in
from comity.vcp.protocol.context import ContextRequest, Ignored

_MAX_NAME_LENGTH: Final = 128


class AppliedPayload(Struct, frozen=True, kw_only=True):
    """`request` names as accepted only what was applied."""

    state: ExtensionState
    request: ContextRequest


def apply_payload(call: OperationCall, request: ContextRequest) -> AppliedPayload:
    """Return the state after a context request. Raises ExtensionError."""
    ignored: list[Ignored] = []

    def ignore(field: str, reason: str) -> None:
        ignored.append(Ignored(field[:_MAX_NAME_LENGTH], reason))

    for extension in built_in().values():
        if extension.apply is not None:
            call = replace(call, state=extension.apply(call, request, ignore))
        elif extension.id in request.extensions:
            ignore(f"extensions.{extension.id}", extension.remedy)
    fields = {each.field for each in ignored}
    accepted = tuple(field for field in request.accepted if field not in fields)
    return AppliedPayload(
        state=call.state, request=replace(request, accepted=accepted, ignored=(*request.ignored, *ignored))
    )


def answers(call: OperationCall) -> dict[str, Any]:
    """Return what the active extensions say in a context response; the audience decides how much."""
    return {
        extension.id: extension.view(call)
        for extension in built_in().values()
        if extension.view is not None and extension.id in call.facts.active
    }
