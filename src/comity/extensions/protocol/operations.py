"""The one table of operations (ruling 47): VCP messages, MCP tools and the command line all read it.

- A row says what an operation is called, what it takes, which codes it may refuse with, which state it writes, and
  the name of its MCP tool. `perform` runs a row.
- `perform` is pure. It gives the state after the call and a result, or raises ExtensionError; then nothing has
  changed. Inactive extensions are refused before anything else is looked at, and all strings of the arguments
  are scanned before the operation sees them.
- A row that is `logged` becomes an entry of the deliberation's log; whoever runs it has the entry signed. The row
  `consensus.join` expects the log to be fetched and recounted before.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from comity.extensions.protocol import calls
from comity.extensions.protocol.calls import CallFacts, ExtensionRules, OperationCall
from comity.extensions.protocol.intent import CATEGORIES as INTENTS
from comity.extensions.protocol.state import ExtensionState, StateScope
from comity.extensions.protocol.summaries import SUMMARIES
from comity.extensions.protocol.texts import refuse_injection
from comity.vcp.protocol.extension_calls import Code, ExtensionError, invalid, shaped
from comity.vcp.protocol.messages import CONSENSUS, INTENT, PERSONAL, RELATIONAL, TORCH
from comity.vcp.protocol.signals import CATEGORIES
from comity.votes.protocol.acts import (
    ActArguments,
    AddArguments,
    AdvanceArguments,
    BallotArguments,
    OpenArguments,
    VoteArguments,
    WelfareArguments,
)

REMEDY: Final = "Extension {name} is not active. Re-initialize with the extension in your VCP-Hello"

_ALWAYS: Final[tuple[Code, ...]] = ("EXTENSION_INACTIVE", "INVALID_ARGUMENT")


class ExtensionOperation(Struct, frozen=True, kw_only=True):
    """`tool_members` are members of the tool's arguments that only say who calls; they may be left out, and have to
    be right where they are there. `described` are schemas of arguments that say more than their type does.
    """

    name: str
    extension: str
    summary: str
    arguments: type[Any]
    run: Callable[[OperationCall, Any], calls.OperationOutcome]
    tool: str
    tool_members: tuple[str, ...] = ()
    writes: frozenset[StateScope] = frozenset()
    codes: tuple[Code, ...] = ()
    logged: bool = False
    described: Mapping[str, Any] = {}


_MEMBERS: Final = {
    "session_id": "another session of yours; leave it out for this one",
    "voter_id": "your own id; it may be left out",
}
_SIGNALS_SCHEMA: Final = {
    "type": "object",
    "properties": {
        dimension: {
            "type": ["object", "null"],
            "properties": {
                "category": {"type": "string", "description": f"one of {', '.join(categories)}"},
                "intensity": {"type": "integer", "minimum": 1, "maximum": 5},
            },
        }
        for dimension, categories in CATEGORIES.items()
    },
}


class _Defaults(NamedTuple):
    """What the operations of an extension have in common. `scope` is what they write, unless they only read."""

    extension: str
    scope: StateScope
    tool_members: tuple[str, ...] = ()


_DEFAULTS: Final = {
    "personal": _Defaults(PERSONAL, "session", ("session_id",)),
    "relational": _Defaults(RELATIONAL, "owner"),
    "consensus": _Defaults(CONSENSUS, "deliberation"),
    "torch": _Defaults(TORCH, "owner"),
    "intent": _Defaults(INTENT, "session", ("session_id",)),
}
_READING: Final = frozenset(("get", "attest", "join", "list", "result", "record", "lineage", "infer"))


_TOOLS: Final = {name: (tool, summary) for tool, (name, summary) in SUMMARIES.items()}


def _row(name: str, arguments: type[Any], run: Any, **more: Any) -> ExtensionOperation:
    """An operation `kind.verb`, with what is usual for its kind unless `more` says otherwise."""
    tool, summary = _TOOLS[name]
    kind, _, verb = name.partition(".")
    own = _DEFAULTS[kind]
    writes = frozenset(() if verb in _READING else (own.scope,))
    filled: dict[str, Any] = {
        "tool_members": own.tool_members,
        "writes": writes,
        "logged": bool(writes) and own.extension == CONSENSUS,
    } | more
    return ExtensionOperation(
        name=name,
        extension=own.extension,
        summary=summary,
        arguments=arguments,
        run=run,
        tool=tool,
        **filled,
    )


def _view(name: str, view: Callable[[OperationCall], Any], **more: Any) -> ExtensionOperation:
    """An operation without arguments that changes nothing."""
    return _row(name, calls.Empty, lambda call, _: (call.state, view(call)), **more)


def _act(name: str, arguments: type[Any], run: Any = calls.acted, **more: Any) -> ExtensionOperation:
    return _row(name, arguments, partial(run, name), codes=_ACTS, **more)


_PARTIES: Final[tuple[Code, ...]] = ("NOT_FOUND", "FORBIDDEN")
_TEXTS: Final[tuple[Code, ...]] = ("LIMIT_EXCEEDED",)
_ACTS: Final[tuple[Code, ...]] = (*_PARTIES, "CONFLICT", "PRECONDITION_FAILED", *_TEXTS)

_ROWS: Final = (
    _row("personal.set", calls.SetArguments, calls.personal_set, described={"signals": _SIGNALS_SCHEMA}),
    _view("personal.get", calls.personal_view),
    _row("personal.preset", calls.PresetArguments, calls.personal_preset, codes=("NOT_FOUND",)),
    _row(
        "personal.pin",
        calls.PinArguments,
        calls.personal_pin,
        described={"dimension": {"type": "string", "enum": list(CATEGORIES)}},
        codes=("PRECONDITION_FAILED",),
    ),
    _row("personal.engage", calls.Empty, calls.personal_engage),
    _row("personal.purge", calls.Empty, calls.personal_purge),
    _view("relational.get", calls.relational_view),
    _row("relational.norm", calls.NormArguments, calls.relational_norm, codes=_TEXTS),
    _row("relational.selfmodel", calls.SelfModelArguments, calls.relational_selfmodel, codes=_TEXTS),
    _view("relational.attest", calls.attestation_view),
    _row("relational.purge", calls.Empty, calls.relational_purge),
    _row("consensus.open", OpenArguments, calls.consensus_open, codes=("FORBIDDEN", *_TEXTS)),
    _row(
        "consensus.join",
        calls.JoinArguments,
        calls.consensus_join,
        codes=(*_PARTIES, "CONFLICT", "BAD_SIGNATURE"),
    ),
    _view("consensus.list", calls.consensus_list, codes=("FORBIDDEN",)),
    _act("consensus.add", AddArguments),
    _act("consensus.act", ActArguments, calls.acted_on_clause),
    _act("consensus.ballot", BallotArguments, calls.acted_on_clause, tool_members=("voter_id",)),
    _act("consensus.advance", AdvanceArguments),
    _act("consensus.vote", VoteArguments),
    _act("consensus.welfare", WelfareArguments),
    _row("consensus.result", calls.ResultArguments, calls.consensus_result, codes=_PARTIES),
    _row(
        "consensus.record",
        calls.DeliberationArguments,
        calls.consensus_record,
        codes=(*_PARTIES, "PRECONDITION_FAILED"),
    ),
    _row("torch.generate", calls.GenerateArguments, calls.torch_generate, tool_members=("session_id",)),
    _row(
        "torch.receive",
        calls.ReceiveArguments,
        calls.torch_receive,
        writes=frozenset(("session", "owner")),
        codes=("FORBIDDEN", "LIMIT_EXCEEDED", "STALE", "BAD_SIGNATURE", "ALREADY_USED"),
    ),
    _view("torch.lineage", calls.torch_view),
    _row("torch.purge", calls.Empty, calls.torch_purge),
    _view("intent.infer", calls.intent_view),
    _row(
        "intent.correct",
        calls.CorrectArguments,
        calls.intent_correct,
        described={"category": {"enum": [*INTENTS, None]}},
    ),
)

OPERATIONS: Final[Mapping[str, ExtensionOperation]] = {
    row.name: replace(row, codes=(*_ALWAYS, *row.codes)) for row in _ROWS
}


def perform(
    name: str, state: ExtensionState, args: Any, facts: CallFacts, rules: ExtensionRules, now: float
) -> calls.OperationOutcome:
    """Run one operation: the state after it and its result. Raises ExtensionError."""
    row = OPERATIONS.get(name)
    if row is None:
        raise ExtensionError("NOT_FOUND", f"op must be one of {', '.join(OPERATIONS)}", "op")
    refuse_inactive(row, facts.active)
    if type(args) is not dict:
        raise invalid("args must be an object", "args")
    refuse_injection(args, rules.scan_threshold)
    given = shaped(args, row.arguments)
    return row.run(OperationCall(state=state, facts=facts, rules=rules, now=now), given)


def refuse_inactive(row: ExtensionOperation, active: frozenset[str]) -> None:
    if row.extension not in active:
        raise ExtensionError("EXTENSION_INACTIVE", REMEDY.format(name=row.extension))


def tool_arguments(row: ExtensionOperation, args: Mapping[str, Any], facts: CallFacts) -> dict[str, Any]:
    """The operation's own arguments out of a tool's. Members that say who calls have to name the caller."""
    caller = {
        "session_id": facts.session_id,
        "voter_id": None if facts.voice is None else facts.voice.stakeholder_id,
    }
    for member in row.tool_members:
        if args.get(member) is not None and args[member] != caller[member]:
            raise ExtensionError("FORBIDDEN", f"{member} must be the caller's own; leave it out", member)
    return {name: value for name, value in args.items() if name not in row.tool_members}


def input_schema(row: ExtensionOperation) -> dict[str, Any]:
    """The JSON schema of a tool's arguments: one closed object."""
    [top], parts = msgspec.json.schema_components([row.arguments], ref_template="#/$defs/{name}")
    schema = parts.pop(top["$ref"].removeprefix("#/$defs/"))
    schema.pop("title", None)
    members = {member: {"type": "string", "description": _MEMBERS[member]} for member in row.tool_members}
    properties = {**members, **schema["properties"], **row.described}
    schema = {**schema, "properties": properties, "additionalProperties": False}
    return {**schema, "$defs": parts} if parts else schema
