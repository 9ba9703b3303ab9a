"""VCP in the catalogue of MCP: the four core tools, which everybody has, and the resources (vcp 7).

Tools and resources of an extension are added by the extension, under its name; the catalogue shows them only where
it is active. What does the work is loaded with the first call: a list of tools costs no more than the list.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from comity.mcp.protocol.catalog import CORE_ROOM, Resources, Tool
from comity.mcp.protocol.context import Asker, Context
from comity.mcp.protocol.results import Contents, ToolResult, structured, text
from comity.vcp import tools as schemas
from comity.vcp.resource_addresses import (
    ALIASES,
    CAPABILITIES,
    EXTENSION_ADDRESSES,
    VcpAddress,
    core_templates,
    shown,
    template,
)

if TYPE_CHECKING:
    from comity.vcp.identity import IdentityDesk
    from comity.vcp.protocol.agreement import Session
    from comity.vcp.remedies import VcpToolAnswer
    from comity.vcp.resource_readers import Owner
    from comity.vcp.resources import VcpResources

_READS = {"readOnlyHint": True, "openWorldHint": False}


class VcpRooms(NamedTuple):
    """What the tools work with. `uptime` is in seconds."""

    desk: "IdentityDesk"
    resources: "VcpResources"
    version: str
    uptime: Callable[[], float]


Opened = Callable[[], Awaitable[VcpRooms]]


def vcp_tools(opened: Opened) -> list[Tool]:
    async def validate(_context: Context, arguments: dict[str, Any]) -> ToolResult:
        from comity.vcp import tool_handlers as tools

        return _shown(await tools.validate_token(arguments["token"], (await opened()).desk))

    def parse(_context: Context, arguments: dict[str, Any]) -> ToolResult:
        from comity.vcp import tool_handlers as tools

        # vcp 3.2: a code that is none is a finding, not an error of the call
        return structured(tools.parse_csm1(arguments["code"]).structured)

    def encode(_context: Context, arguments: dict[str, Any]) -> ToolResult:
        from comity.vcp import tool_handlers as tools

        return _shown(tools.encode_context(arguments))

    async def status(context: Context, _arguments: dict[str, Any]) -> ToolResult:
        from comity.vcp import tool_handlers as tools

        rooms = await opened()
        asker = context.asker
        answer = tools.status(
            server_version=rooms.version, uptime=rooms.uptime(), session=asker.attached, ended=asker.vcp_ended
        )
        return _shown(answer)

    core = partial(Tool, annotations=_READS, room=CORE_ROOM)
    return [
        core(
            name="vcp_validate_token",
            title="Check a VCP/I token",
            description="Say whether a VCP/I token is valid, what it says and who vouches for it.",
            handler=validate,
            input_schema=schemas.VALIDATE_TOKEN_INPUT,
            output_schema=schemas.VALIDATE_TOKEN_OUTPUT,
        ),
        core(
            name="vcp_parse_csm1",
            title="Read a CSM-1 code",
            description="Say what a CSM-1 constitution code means: persona, adherence, scopes, namespace, version.",
            handler=parse,
            input_schema=schemas.PARSE_CSM1_INPUT,
            output_schema=schemas.PARSE_CSM1_OUTPUT,
        ),
        core(
            name="vcp_encode_context",
            title="Write a VCP context",
            description="Turn the dimensions of a situation, and of a person's state, into the VCP wire format.",
            handler=encode,
            input_schema=schemas.ENCODE_CONTEXT_INPUT,
            output_schema=schemas.ENCODE_CONTEXT_OUTPUT,
        ),
        core(
            name="vcp_status",
            title="Show the VCP session",
            description="Show the server's version, what was negotiated, active extensions and core features.",
            handler=status,
            input_schema=schemas.STATUS_INPUT,
            output_schema=schemas.STATUS_OUTPUT,
        ),
    ]


def vcp_resources(opened: Opened, room: str) -> list[Resources]:
    """Those of the core; an extension's are of a room, and come and go with the extension."""

    async def listed(context: Context) -> list[dict[str, Any]]:
        if context.asker.attached is None:  # without a hello there is nothing of one's own to look for
            return [shown(CAPABILITIES)]
        return await (await opened()).resources.list(_owner(context.asker), context.asker.active)

    async def read(context: Context, uri: str) -> Contents:
        return await (await opened()).resources.read(uri, _owner(context.asker), context.asker.active)

    of_extensions = [
        Resources(
            room=room,
            owns=partial(_is_at, address),
            read=read,
            templates=[template(address)],
            extension=address.extension,
            watchable=_is_watchable,
        )
        for address in EXTENSION_ADDRESSES.values()
    ]
    core = Resources(
        room=CORE_ROOM,
        owns=lambda uri: uri.startswith("vcp://"),
        read=read,
        list=listed,
        templates=core_templates(),
        watchable=_is_watchable,
    )
    return [*of_extensions, core]


def _is_at(address: VcpAddress, uri: str) -> bool:
    host = uri.removeprefix("vcp://").partition("/")[0] if uri.startswith("vcp://") else ""
    return ALIASES.get(host, host) == address.host


def _is_watchable(asker: Asker, uri: str) -> bool:
    from comity.vcp.resources import may_watch

    return may_watch(uri, _owner(asker), asker.active)


def _owner(asker: Asker) -> "Owner":
    from comity.vcp.resource_readers import Owner

    session: Session | None = asker.attached
    identity = None if session is None else session.identity
    return Owner(identity=identity, session=session, token_prefix=asker.token_prefix)


def _shown(answer: "VcpToolAnswer") -> ToolResult:
    """An invalid token is an error of the call, with the details in the structured content."""
    if answer.structured.get("valid") is False:
        return ToolResult([text(answer.structured["error"])], answer.structured, is_error=True)
    if answer.text is not None:
        return ToolResult([text(answer.text)], answer.structured, answer.is_error)
    return structured(answer.structured, error=answer.is_error)
