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

OTHER_SESSION: Final = "another session of yours; leave it out for this one"
_MEMBERS: Final = {"session_id": OTHER_SESSION, "voter_id": "your own id; it may be left out"}
_WORDS: Final = {
    "delib_id": "the id of the vote",
    "action": "what you do with the clause",
    "clause_id": "the clause, such as c1",
    "text": "the new text of an amendment",
    "level": "how strong an objection is",
    "concern": "what is wrong",
    "stakeholder": "whom to add: id, role, and the node that signs",
    "consensus.advance to": "deliberation: go back; left out: the next phase",
    "torch.generate to": "who may take it; left out: your next session",
    "url": "the address of the node that hosts it",
    "title": "what it is about",
    "clauses": "the texts, or one question",
    "stakeholders": "the parties: id, role, and the node that signs",
    "quorum": "the share that has to act, such as 1/2",
    "ratification": "the share of all that has to accept, such as 2/3",
    "keeper": "leave it out: the node fills it in",
    "rules": "leave it out: the node fills it in",
    "form": "text: clauses to agree on; question: one question",
    "phase_seconds": "how long a phase lasts at most",
    "supersedes": "the id of the vote that this one replaces",
    "vote": "your vote on the whole",
    "reason": "why, for the others",
    "signal": "what worries you",
    "category": "the right one; null removes the correction",
    "dimension": "which one",
    "pinned": "true: it does not fade",
    "id": "the name of the preset",
    "torch": "the torch as it was handed over",
    "norm": "id, text, origin and date of the norm",
    "model": "what is reported, each with its uncertainty",
    "signals": "the dimensions that change; null removes one",
    "ranking": "variants, best first; a list inside is a tie",
    "tied_groups": "variants that you rank as equal",
}
"""What an argument is, by its name, or by operation and name."""


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
    """Return the JSON schema of a tool's arguments: one closed object without references, which some hosts cannot read."""
    [top], parts = msgspec.json.schema_components([operation.arguments], ref_template="#/$defs/{name}")
    schema = _resolved(top, parts)
    members = {
        member: {"type": "string", "description": _MEMBERS[member]} for member in operation.tool_members
    }
    given = {**schema["properties"], **operation.described}
    for name, one in given.items():
        words = _WORDS.get(f"{operation.name} {name}") or _WORDS.get(name)
        given[name] = {"description": words, **one} if words else one
    return {"type": "object", **schema, "properties": {**members, **given}, "additionalProperties": False}


def _resolved(schema: Any, parts: Mapping[str, Any]) -> Any:
    """Return the schema with each definition in the place of its reference, without titles and notes of our types."""
    if isinstance(schema, list):
        return [_resolved(one, parts) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        named = parts[schema["$ref"].removeprefix("#/$defs/")]
        return _resolved(
            {key: one for key, one in named.items() if key not in ("title", "description")}, parts
        )
    return {key: _resolved(one, parts) for key, one in schema.items()}


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
