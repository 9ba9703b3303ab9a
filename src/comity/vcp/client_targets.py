"""Addresses of VCP servers, and which of them may be used without encryption.

| written | carried by |
|---|---|
| `ws://host:port/vcp`, `wss://…` | WebSocket, plain or over TLS |
| `http://host:port`, `https://…` | the same: the address of a node, whose door is at `/vcp` |
| `tcp://host:port`, `tcps://…` | one JSON message per line over TCP, plain or over TLS |
| `http://host:port/mcp`, `mcp:http://…` | the `initialize` of an MCP server over HTTP |
| `mcp:command` | the `initialize` of an MCP server that is started with this command |

A hello may carry an identity, and personal data follows: unencrypted connections are for this machine only, unless the
caller allows more (ruling 20).
"""

import re
import shlex
from typing import Final

from msgspec import Struct

from comity.http.addresses import read_url
from comity.system import is_loopback
from comity.wire.errors import TargetRefusedError

DOOR: Final = "/vcp"

_SCHEME: Final = re.compile(r"(ws|wss|http|https|tcp|tcps)://([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL)
_MCP: Final = "mcp:"
_MCP_URL: Final = re.compile(r"https?://[^?#]*/mcp/?", re.IGNORECASE)
_WEB: Final = re.compile(r"https?://", re.IGNORECASE)
_PORT: Final = re.compile(r":[0-9]+")
_ENCRYPTED: Final = frozenset(("wss", "tcps"))
_SPOKEN: Final = {"http": "ws", "https": "wss"}


class VcpTarget(Struct, frozen=True):
    """`host` has no brackets; `path` is empty for TCP."""

    scheme: str
    host: str
    port: int
    path: str = ""

    @property
    def secure(self) -> bool:
        return self.scheme in _ENCRYPTED

    @property
    def is_websocket(self) -> bool:
        return self.scheme in ("ws", "wss")

    @property
    def url(self) -> str:
        """The one form in which this server is written and remembered."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


class McpTarget(Struct, frozen=True):
    """An MCP server: at an `address`, or started by a `command`. `bearer` is a token for it, and is not shown."""

    address: str = ""
    command: tuple[str, ...] = ()
    bearer: str | None = None

    @property
    def url(self) -> str:
        return f"mcp:{self.address or shlex.join(self.command)}"

    def __repr__(self) -> str:
        return f"McpTarget({self.url!r})"


def read_target(url: str, *, allow_plain: bool = False, bearer: str | None = None) -> VcpTarget | McpTarget:
    """Read an address. Raises TargetRefusedError for one that is not allowed."""
    if url.startswith(_MCP):
        return _mcp_target(url.removeprefix(_MCP).strip(), bearer, allow_plain=allow_plain)
    if _MCP_URL.fullmatch(url):
        return _mcp_target(url, bearer, allow_plain=allow_plain)
    if bearer is not None:
        raise TargetRefusedError(
            "an access token is only for MCP servers; a VCP server gets a VCP/I token (--identity)"
        )
    parts = _SCHEME.fullmatch(url)
    if parts is None:
        raise TargetRefusedError(
            "a VCP server has an address that begins with ws://, wss://, tcp:// or tcps://; for a node give http:// or "
            "https://, and for an MCP server mcp:URL or mcp:COMMAND"
        )
    scheme, authority, rest = parts[1].lower(), parts[2], parts[3]
    carried = _SPOKEN.get(scheme, scheme)
    checked = read_url(f"{'https' if carried in _ENCRYPTED else 'http'}://{authority}{rest}")
    if carried in ("tcp", "tcps"):
        if not _PORT.search(authority.rpartition("]")[2]) or rest not in ("", "/"):
            raise TargetRefusedError(f"a TCP server is written as {carried}://host:port and nothing more")
        target = VcpTarget(carried, checked.host, checked.port)
    else:
        target = VcpTarget(carried, checked.host, checked.port, _path(scheme, rest, checked.target))
    if not (target.secure or allow_plain or is_loopback(target.host)):
        raise TargetRefusedError(
            f"{target.host} is another machine and {scheme}:// is not encrypted; use {scheme}s://"
        )
    return target


def _mcp_target(written: str, bearer: str | None, *, allow_plain: bool) -> McpTarget:
    if not _WEB.match(written):
        try:
            command = tuple(shlex.split(written))
        except ValueError as fault:
            raise TargetRefusedError(f"the command of an MCP server cannot be read: {fault}") from None
        if not command:
            raise TargetRefusedError("mcp: is followed by the URL or the command of an MCP server")
        if bearer is not None:
            raise TargetRefusedError(
                "an access token is only for MCP servers at a URL; a server that is started by a command needs none"
            )
        return McpTarget(command=command)
    checked = read_url(written)
    secure = written[:8].lower() == "https://"
    if not (secure or allow_plain or is_loopback(checked.host)):
        raise TargetRefusedError(
            f"{checked.host} is another machine and http:// is not encrypted; use https://"
        )
    return McpTarget(address=written, bearer=bearer)


def _path(scheme: str, written: str, target: str) -> str:
    if scheme in _SPOKEN:
        path, mark, query = target.partition("?")
        path = path.rstrip("/")
        return f"{path if path.endswith(DOOR) else path + DOOR}{mark}{query}"
    return DOOR if not written else target
