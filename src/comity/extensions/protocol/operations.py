"""How an operation is run and described: VCP messages, MCP tools and the command line share one table (ruling 47).

`perform` is pure. It returns the state after the call and a result, or raises ExtensionError; then nothing has changed.
Inactive extensions are refused first, and all strings of the arguments are scanned before the operation sees them.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from comity.extensions.protocol.calls import CallFacts, OperationCall, OperationOutcome
from comity.extensions.protocol.personal import PersonalRules
from comity.extensions.protocol.state import ExtensionState
from comity.extensions.protocol.texts import refuse_injection
from comity.extensions.protocol.torch import TorchRules
from comity.vcp.protocol.built_in import operations
from comity.vcp.protocol.extension_calls import ExtensionError, ExtensionOperation, invalid, shaped
from comity.vcp.protocol.injection import Severity

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
