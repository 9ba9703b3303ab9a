"""The doors of a node's MCP side: the endpoint at /mcp, its authorization server, and the socket of the data folder.

What is opened here is closed by the stack that is handed in.
"""

import asyncio
import socket
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from comity.clients.crl import CRL_LIMIT, CRL_TIMEOUT
from comity.clients.guarded_http import GuardedHttp
from comity.clients.signing_keys import AuthorizationServer
from comity.config import Settings
from comity.core.clock import Clock
from comity.core.errors import ConfigError
from comity.doors.mcp.http import MCP_PATH, McpEndpoint
from comity.doors.mcp.oauth import ResourceServer
from comity.doors.mcp.unix import McpSocket, socket_path
from comity.keys.private import ensure_private_folder
from comity.node_mcp import McpSide, Opened
from comity.pipeline.housekeeping import keep_house
from comity.pipeline.mcp.sessions import HttpSession, Sessions
from comity.pipeline.vcp.over_mcp import VcpOverMcp

_EXPIRE_EVERY: Final = 60.0


def mcp_endpoint(
    side: McpSide,
    vcp: VcpOverMcp,
    node: Opened,
    clock: Clock,
    settings: Settings,
    opened: AsyncExitStack,
) -> McpEndpoint:
    def ended(session: HttpSession) -> None:
        vcp.end(session.session.asker.vcp)

    sessions = Sessions(
        node.store,
        node.record,
        clock,
        side.changes,
        idle=settings.mcp.idle_seconds,
        most=settings.mcp.sessions,
        ended=ended,
    )
    opened.callback(sessions.close)
    expiring = asyncio.create_task(keep_house(clock, [(_EXPIRE_EVERY, sessions.expire)]))
    opened.push_async_callback(_end, expiring)
    return McpEndpoint(
        calls=side.calls,
        sessions=sessions,
        negotiate=side.negotiate,
        body_limit=settings.http.body_limit,
        record=node.record,
    )


async def resource_server(
    settings: Settings, url: str, clock: Clock, opened: AsyncExitStack
) -> ResourceServer | None:
    """For clients with tokens of an authorization server, where one is set."""
    mcp = settings.mcp
    if not mcp.oauth_issuer:
        return None
    if not mcp.oauth_keys:
        raise ConfigError("mcp.oauth_issuer needs mcp.oauth_keys, the address or file of its keys")
    resource = mcp.resource or url + MCP_PATH
    http = GuardedHttp(timeout=CRL_TIMEOUT, answer_limit=CRL_LIMIT, allow=settings.dispatch.allowed_hosts)
    opened.push_async_callback(http.aclose)
    server = AuthorizationServer(http, clock, issuer=mcp.oauth_issuer, keys=mcp.oauth_keys, resource=resource)
    opened.push_async_callback(server.aclose)
    await server.start()
    return ResourceServer(resource=resource, path=MCP_PATH, issuer=mcp.oauth_issuer, judge=server.judge)


async def open_socket(side: McpSide, data: Path, opened: AsyncExitStack) -> str:
    """Where `comity mcp` of this user joins; there are no such sockets on Windows."""
    if not hasattr(socket, "AF_UNIX"):
        return ""
    path = socket_path(data)
    await asyncio.to_thread(ensure_private_folder, path.parent)
    door = McpSocket(path, side.open_stream)
    await door.start()
    opened.push_async_callback(door.stop)
    return str(path)


async def _end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task])
