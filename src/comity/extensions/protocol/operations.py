"""How an operation is run and described: VCP messages, MCP tools and the command line share one table (ruling 47).

`perform` is pure. It returns the state after the call and a result, or raises ExtensionError; then nothing has changed.
Inactive extensions are refused first, and all strings of the arguments are scanned before the operation sees them.

In a context request each extension applies its own data. Trust, standing, continuity and torches are never taken from it:
they are listed as ignored, with the operation that is meant for it. One wrong value refuses the whole request.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from comity.extensions.protocol.calls import CallFacts, OperationCall, OperationOutcome
from comity.extensions.protocol.personal import PersonalRules
from comity.extensions.protocol.state import ExtensionState
from comity.extensions.protocol.texts import refuse_injection
from comity.extensions.protocol.torch import TorchRules
from comity.vcp.protocol.built_in import built_in, operations
from comity.vcp.protocol.context import ContextRequest, Ignored
from comity.vcp.protocol.extension_calls import ExtensionError, ExtensionOperation, invalid, shaped
from comity.vcp.protocol.injection import Severity

_MAX_NAME_LENGTH: Final = 128
REMEDY: Final = "Extension {name} is not active. Re-initialize with the extension in your VCP-Hello"

_MEMBERS: Final = {
    "session_id": "another session of yours; leave it out for this one",
    "voter_id": "your own id; it may be left out",
}


class ExtensionRules(Struct, frozen=True, kw_only=True):
    """What the operator has set."""

    personal: PersonalRules = PersonalRules()
    torch: TorchRules = TorchRules()
    scan_threshold: Severity = "medium"


def perform(
    name: str, state: ExtensionState, args: Any, facts: CallFacts, rules: ExtensionRules, now: float
) -> OperationOutcome:
    """Run one operation: the state after it and its result. Raises ExtensionError."""
    operation, arguments = read_operation(name, args, facts.active, rules)
    assert operation.run is not None, "it is run by the part that keeps its state"
    return operation.run(OperationCall(state=state, facts=facts, rules=rules, now=now), arguments)


def read_operation(
    name: str, args: Any, active: Collection[str], rules: ExtensionRules
) -> tuple[ExtensionOperation, Any]:
    """Return an operation and its arguments as their Struct. Raises ExtensionError."""
    operation = operations().get(name)
    if operation is None:
        raise ExtensionError("NOT_FOUND", f"op must be one of {', '.join(operations())}", "op")
    refuse_inactive(operation, active)
    if type(args) is not dict:
        raise invalid("args must be an object", "args")
    refuse_injection(args, rules.scan_threshold)
    return operation, shaped(args, operation.arguments)


def refuse_inactive(operation: ExtensionOperation, active: Collection[str]) -> None:
    if operation.extension not in active:
        raise ExtensionError("EXTENSION_INACTIVE", REMEDY.format(name=operation.extension))


def tool_arguments(
    operation: ExtensionOperation, args: Mapping[str, Any], facts: CallFacts
) -> dict[str, Any]:
    """Return the operation's own arguments out of a tool's. Members that name the caller must be right."""
    caller = {"session_id": facts.session_id, "voter_id": facts.owner}
    for member in operation.tool_members:
        if args.get(member) is not None and args[member] != caller[member]:
            raise ExtensionError("FORBIDDEN", f"{member} must be the caller's own; leave it out", member)
    return {name: value for name, value in args.items() if name not in operation.tool_members}


def input_schema(operation: ExtensionOperation) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments: one closed object."""
    [top], parts = msgspec.json.schema_components([operation.arguments], ref_template="#/$defs/{name}")
    schema = parts.pop(top["$ref"].removeprefix("#/$defs/"))
    schema.pop("title", None)
    members = {
        member: {"type": "string", "description": _MEMBERS[member]} for member in operation.tool_members
    }
    properties = {**members, **schema["properties"], **operation.described}
    schema = {**schema, "properties": properties, "additionalProperties": False}
    return {**schema, "$defs": parts} if parts else schema


# What a context request changes in the extensions, and what an answer says of them (ruling 49).


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
