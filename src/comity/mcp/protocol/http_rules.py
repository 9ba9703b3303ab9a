"""What HTTP adds to MCP: the era from a header, and headers that repeat what the body says.

- `MCP-Protocol-Version` names the era: one of the legacy revisions, or none, is legacy; anything else is modern.
- A modern POST repeats its method and the name of its tool, resource or prompt in headers, so that proxies need not read
  the body. If the headers and the body differ, the error is -32020.
- A value that is not plain ASCII comes as `=?base64?…?=`. White space around a value means nothing.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from comity.mcp.protocol.catalog import Tool
from comity.mcp.protocol.context import member_at, meta_of
from comity.mcp.protocol.results import (
    LEGACY,
    META_VERSION,
    MODERN,
    header_mismatch,
    invalid_params,
    no_such_method,
)
from comity.wire.jsonrpc import RpcRequest

VERSION: Final = b"mcp-protocol-version"
SESSION: Final = b"mcp-session-id"
METHOD: Final = b"mcp-method"
NAME: Final = b"mcp-name"
PARAM: Final = b"mcp-param-"
LAST_EVENT: Final = b"last-event-id"

_NAMED_BY: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
_SPACE: Final = b" \t"
_QVALUE: Final = re.compile(r"[01](\.[0-9]{0,3})?")
_ENCODED: Final = re.compile(rb"=\?base64\?(.*)\?=", re.DOTALL)


class McpHeaders(Struct, frozen=True, kw_only=True):
    """The MCP headers of a request; None for one that is missing."""

    version: str | None = None
    session: str | None = None
    method: str | None = None
    name: str | None = None
    last_event: str | None = None
    params: Mapping[str, str] = {}

    @property
    def modern(self) -> bool:
        return self.version is not None and self.version not in LEGACY

    @property
    def unknown_version(self) -> bool:
        return self.modern and self.version not in MODERN


def read_headers(headers: Iterable[tuple[bytes, bytes]]) -> McpHeaders:
    """Read the MCP headers. Raise McpError for one that comes twice or cannot be read."""
    found: dict[bytes, str] = {}
    params: dict[str, str] = {}
    for name, value in headers:
        if name in _OURS or name.startswith(PARAM):
            if name in found:
                raise header_mismatch(f"the header {name.decode('latin-1')} comes twice")
            found[name] = text = _decoded(value, name)
            if name.startswith(PARAM):
                params[name.removeprefix(PARAM).decode("latin-1")] = text
    return McpHeaders(
        version=found.get(VERSION),
        session=found.get(SESSION),
        method=found.get(METHOD),
        name=found.get(NAME),
        last_event=found.get(LAST_EVENT),
        params=params,
    )


def accepts(header: str | None, media_type: str) -> bool:
    """Return whether this Accept header allows a media type (RFC 9110, 12.5.1). The most specific range decides; a weight
    of 0 means no.
    """
    if header is None:
        return True
    ranges = {media_type: 3, media_type.partition("/")[0] + "/*": 2, "*/*": 1}
    best, taken = 0, False
    for entry in header.lower().split(","):
        name, *parameters = (part.strip(" \t") for part in entry.split(";"))
        if ranges.get(name, 0) > best:
            best, taken = ranges[name], _weight(parameters) > 0
    return taken


def _weight(parameters: Iterable[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip(" \t") == "q":
            weight = _QVALUE.fullmatch(value.strip(" \t"))
            return float(weight[0]) if weight else 1.0
    return 1.0


def check_era(headers: McpHeaders, request: RpcRequest) -> None:
    """Check that header and body are of one era (ruling 26)."""
    stated = meta_of(request.params).get(META_VERSION)
    if not headers.modern:
        if stated is not None and request.method != "initialize":
            raise header_mismatch(
                "the body is of a revision that the header MCP-Protocol-Version does not name"
            )
        return
    if request.method == "initialize":
        raise no_such_method(request.method)
    if stated is not None and stated != headers.version:
        raise header_mismatch("the header MCP-Protocol-Version differs from the revision in _meta")


def check_repeats(headers: McpHeaders, request: RpcRequest) -> None:
    """Check that the headers of a modern request repeat what its body says."""
    if headers.method is None or headers.method != request.method:
        raise header_mismatch("the header Mcp-Method must repeat the method of the body")
    member = _NAMED_BY.get(request.method)
    if member is None:
        return
    params = request.params if isinstance(request.params, dict) else {}
    said = params.get(member)
    if not isinstance(said, str):
        raise invalid_params(f"{request.method} needs params.{member}")
    if headers.name is None or headers.name != said:
        raise header_mismatch(f"the header Mcp-Name must repeat params.{member}")


def check_mirrored(headers: McpHeaders, tool: Tool, arguments: Any) -> None:
    """Check the headers that must repeat arguments of the tool."""
    for path, suffix in tool.mirrored.items():
        value = member_at(arguments, *path)
        given = headers.params.get(suffix.lower())
        where = ".".join(path)
        if value is None:
            if given is not None:
                raise header_mismatch(f"the header Mcp-Param-{suffix} is there without the argument {where}")
        elif given is None or given != _as_header(value):
            raise header_mismatch(f"the header Mcp-Param-{suffix} must repeat the argument {where}")


def _as_header(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, str | int) else None


def _decoded(value: bytes, name: bytes) -> str:
    value = value.strip(_SPACE)
    encoded = _ENCODED.fullmatch(value)
    if encoded is None:
        return value.decode("latin-1")
    try:
        return base64.b64decode(encoded[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise header_mismatch(f"the header {name.decode('latin-1')} is not base64 of UTF-8") from None


_OURS: Final = frozenset({VERSION, SESSION, METHOD, NAME, LAST_EVENT})
