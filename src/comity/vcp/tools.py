"""The four core tools and the resources of VCP in the catalogue of MCP, with their schemas (vcp 7). Inputs are closed.

`vcp_encode_context` takes its dimensions in one object or one by one, so its schema has both, and a list has a short one. The
length of a token or code is checked by its grammar.
"""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from comity.mcp.protocol.catalog import CORE_GROUP, Resources, Tool
from comity.mcp.protocol.context import Context, McpClient
from comity.mcp.protocol.results import Contents, ToolResult, structured, text
from comity.runtime.lazy import late
from comity.vcp.protocol.built_in import addresses
from comity.vcp.protocol.context_wire import MAX_VALUES, PERSONAL_SYMBOLS, RELATIONSHIP, SITUATIONAL
from comity.vcp.protocol.resource_addresses import (
    ALIASES,
    CAPABILITIES,
    VcpAddress,
    core_templates,
    shown,
    template,
)
from comity.vcp.protocol.signals import CATEGORIES, INTENSITIES, SOURCES

if TYPE_CHECKING:
    from comity.vcp import extension_host, identity, tool_handlers
    from comity.vcp import resources as vcp_resources
    from comity.vcp.protocol.agreement import Session
else:
    extension_host = late("comity.vcp.extension_host")
    vcp_resources = late("comity.vcp.resources")
    tool_handlers = late("comity.vcp.tool_handlers")

Schema = dict[str, Any]

_TEXT: Final[Schema] = {"type": "string"}
_MAYBE_TEXT: Final[Schema] = {"type": ["string", "null"]}
_YES_OR_NO: Final[Schema] = {"type": "boolean"}
_WHOLE_NUMBER: Final[Schema] = {"type": "integer"}
_TEXTS: Final[Schema] = {"type": "array", "items": _TEXT}


def _closed(properties: Schema, *required: str) -> Schema:
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": list(required)} if required else schema


def _answer(properties: Schema, *required: str) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required)}


def _about(name: str) -> str:
    if name == RELATIONSHIP:
        return "tie:function, such as colleague:professional"
    return f"{', '.join(SITUATIONAL[name].values)}; or the symbols for them"


_SIGNAL: Final = _closed(
    {
        "category": _TEXT,
        "value": _TEXT,
        "intensity": {"type": "integer", "minimum": INTENSITIES.start, "maximum": INTENSITIES.stop - 1},
        "source": {"type": "string", "description": f"one of {', '.join(SOURCES)}"},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        "declared_at": _MAYBE_TEXT,
        "extended": _MAYBE_TEXT,
    }
)
_DEFINITIONS: Final[Schema] = {
    "signal": _SIGNAL,
    **{
        name: {
            "description": _about(name),
            "anyOf": [_TEXT, {"type": "array", "items": _TEXT, "maxItems": MAX_VALUES}, {"type": "null"}],
        }
        for name in SITUATIONAL
    },
    **{
        name: {
            "description": f"one of {', '.join(CATEGORIES[name])}, alone, with an intensity "
            f"({CATEGORIES[name][0]}:4) or as an object",
            "anyOf": [_TEXT, {"type": "null"}, {"$ref": "#/$defs/signal"}],
        }
        for name in PERSONAL_SYMBOLS
    },
}
"""Each dimension once: it can be given in several places."""


def _defined(names: Iterable[str]) -> Schema:
    return {name: {"$ref": f"#/$defs/{name}"} for name in names}


_SITUATION: Final = _defined(SITUATIONAL)
_PERSON: Final = _defined(PERSONAL_SYMBOLS)

VALIDATE_TOKEN_INPUT: Final = _closed(
    {
        "token": {
            "type": "string",
            "description": "a value token (family.safe.guide@1.2.0), its creed:// address, or an identity token",
        }
    },
    "token",
)
VALIDATE_TOKEN_OUTPUT: Final = _answer(
    {
        "valid": _YES_OR_NO,
        "error": _TEXT,
        "kind": {"enum": ["uvc", "signed_a", "signed_b", None]},
        "verification": {"enum": ["none", "structural", "verified", "refused"]},
        "canonical": _MAYBE_TEXT,
        "issuer": _TEXT,
    },
    "valid",
)
PARSE_CSM1_INPUT: Final = _closed(
    {
        "code": {
            "type": "string",
            "description": "a CSM-1 code: N5+E+F, N5+E+F:ELEM@1.2.0 or CS1|nanny|5|family.safe.guide|E,F. "
            "Personas are N, Z, G, A, M, D and C",
        }
    },
    "code",
)
PARSE_CSM1_OUTPUT: Final = _answer(
    {
        "valid": _YES_OR_NO,
        **dict.fromkeys(("error", "label", "persona"), _TEXT),
        "adherence": _WHOLE_NUMBER,
        "scopes": _TEXTS,
        "namespace": _MAYBE_TEXT,
    },
    "valid",
)
ENCODE_CONTEXT_INPUT: Final = {
    **_closed(
        {
            "dimensions": {
                **_closed({**_SITUATION, **_PERSON}),
                "description": "the situation, and the person unless that is in personal",
            },
            "personal": {
                **_closed({**_PERSON, "signals": {"$ref": "#/$defs/person"}}),
                "description": "how the person is",
            },
            **_SITUATION,
            **_PERSON,
        }
    ),
    "$defs": {**_DEFINITIONS, "person": _closed(_PERSON)},
}
_DIMENSION: Final = {
    "type": ["string", "array", "object", "null"],
    "description": "a dimension by itself",
}
ENCODE_CONTEXT_LISTED: Final = {
    "type": "object",
    "properties": {
        "dimensions": {
            "type": "object",
            "description": f"the situation: {', '.join(SITUATIONAL)}; a text or a list each",
        },
        "personal": {
            "type": "object",
            "description": "how the person is: "
            + "; ".join(f"{name} ({', '.join(CATEGORIES[name])})" for name in PERSONAL_SYMBOLS)
            + "; a text such as focused:4, or an object with value and intensity 1 to 5",
        },
    },
    "additionalProperties": _DIMENSION,
}
"""What is listed. A wrong dimension or value is refused with those that there are."""
ENCODE_CONTEXT_OUTPUT: Final = _answer(
    {
        "wire_format": _TEXT,
        "json_format": {"type": "object"},
        "dimensions_set": _TEXTS,
        "conformance_level": _TEXT,
        "categorical_wire": _TEXT,
        "metadata": {"type": "object"},
    },
    *("wire_format", "json_format", "dimensions_set"),
)
STATUS_INPUT: Final = _closed({})
STATUS_OUTPUT: Final = _answer(
    {
        **dict.fromkeys(("server_version", "negotiated_version"), _TEXT),
        "negotiated": _YES_OR_NO,
        **dict.fromkeys(("session_id", "session_ended"), _MAYBE_TEXT),
        "active_extensions": _TEXTS,
        "core_features": {"type": "object"},
    },
    *("negotiated_version", "active_extensions", "core_features"),
)


# The entries of the catalogue.


_READS = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}


class VcpTools(NamedTuple):
    """What the tools work with. `uptime` is in seconds."""

    checker: "identity.IdentityChecker"
    resources: "vcp_resources.VcpResources"
    version: str
    uptime: Callable[[], float]


Opened = Callable[[], Awaitable[VcpTools]]


def vcp_tools(opened: Opened) -> list[Tool]:
    async def validate(_context: Context, arguments: dict[str, Any]) -> ToolResult:
        return _shown(await tool_handlers.validate_token(arguments["token"], (await opened()).checker))

    def parse(_context: Context, arguments: dict[str, Any]) -> ToolResult:
        # vcp 3.2: a code that is none is a finding, not an error of the call
        return structured(tool_handlers.parse_csm1(arguments["code"]).structured)

    def encode(_context: Context, arguments: dict[str, Any]) -> ToolResult:
        return _shown(tool_handlers.encode_context(arguments))

    async def status(context: Context, _arguments: dict[str, Any]) -> ToolResult:
        services = await opened()
        client = context.client
        answer = tool_handlers.status(
            server_version=services.version,
            uptime=services.uptime(),
            session=client.attached,
            ended=client.vcp_ended,
        )
        return _shown(answer)

    core = partial(Tool, annotations=_READS, group=CORE_GROUP)
    return [
        core(
            name="vcp_validate_token",
            title="Check a VCP/I token",
            description="Say whether a VCP/I token is valid, what it says and who vouches for it.",
            handler=validate,
            input_schema=VALIDATE_TOKEN_INPUT,
            output_schema=VALIDATE_TOKEN_OUTPUT,
        ),
        core(
            name="vcp_parse_csm1",
            title="Read a CSM-1 code",
            description="Say what a CSM-1 constitution code means: persona, adherence, scopes, namespace, version.",
            handler=parse,
            input_schema=PARSE_CSM1_INPUT,
            output_schema=PARSE_CSM1_OUTPUT,
        ),
        core(
            name="vcp_encode_context",
            title="Write a VCP context",
            description="Turn the dimensions of a situation, and of a person's state, into the VCP wire format.",
            handler=encode,
            input_schema=ENCODE_CONTEXT_LISTED,
            accepted=ENCODE_CONTEXT_INPUT,
            output_schema=ENCODE_CONTEXT_OUTPUT,
        ),
        core(
            name="vcp_status",
            title="Show the VCP session",
            description="Show what was negotiated, active extensions and core features.",
            handler=status,
            input_schema=STATUS_INPUT,
            output_schema=STATUS_OUTPUT,
        ),
    ]


def core_resources(opened: Opened) -> list[Resources]:
    async def listed(context: Context) -> list[dict[str, Any]]:
        if context.client.attached is None:  # without a hello there is no session to list
            return [shown(CAPABILITIES)]
        return await (await opened()).resources.list(_owner(context.client), context.client.active)

    return [
        Resources(
            group=CORE_GROUP,
            owns=lambda uri: uri.startswith("vcp://"),
            read=partial(_read, opened),
            list=listed,
            templates=core_templates(),
            watchable=_is_watchable,
        )
    ]


def extension_resources(opened: Opened, group: str) -> list[Resources]:
    """Return the resources of the extensions, each for clients in which it is active. The core lists them."""
    return [
        Resources(
            group=group,
            owns=partial(_is_at, address),
            read=partial(_read, opened),
            templates=[template(address)],
            extension=address.extension,
            watchable=_is_watchable,
        )
        for address in addresses().values()
    ]


async def _read(opened: Opened, context: Context, uri: str) -> Contents:
    return await (await opened()).resources.read(uri, _owner(context.client), context.client.active)


def _is_at(address: VcpAddress, uri: str) -> bool:
    host = uri.removeprefix("vcp://").partition("/")[0] if uri.startswith("vcp://") else ""
    return ALIASES.get(host, host) == address.host


def _is_watchable(client: McpClient, uri: str) -> bool:
    return vcp_resources.may_watch(uri, _owner(client), client.active)


def _owner(client: McpClient) -> "extension_host.Owner":
    session: Session | None = client.attached
    identity = None if session is None else session.identity
    return extension_host.Owner(identity=identity, session=session, token_prefix=client.token_prefix)


def _shown(answer: "tool_handlers.VcpToolAnswer") -> ToolResult:
    """Return an invalid token as an error of the call, with the details in the structured content."""
    if answer.structured.get("valid") is False:
        return ToolResult([text(answer.structured["error"])], answer.structured, is_error=True)
    if answer.text is not None:
        return ToolResult([text(answer.text)], answer.structured, answer.is_error)
    return structured(answer.structured, error=answer.is_error)
