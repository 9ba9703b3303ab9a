"""The server of fixtures: `python -m compliance.server --port 0` prints its address and serves until it is stopped.

Everything below the fixtures is the product: catalogue, calls, tasks, sessions, the endpoint, and our own HTTP.
"""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from comity.http.asgi import App, Receive, Scope, Send, answer_error
from comity.http.guard import Guard, HttpAccess
from comity.http.server import HttpServer
from comity.identity.protocol.keys import SigningKey
from comity.mcp.calls import McpCalls
from comity.mcp.http import MCP_PATH, McpEndpoint
from comity.mcp.protocol.catalog import Catalog
from comity.mcp.protocol.context import HandshakeResult, McpClient
from comity.mcp.protocol.methods import Server
from comity.mcp.protocol.session import KEY_BYTES, Sealer
from comity.mcp.sessions import Sessions
from comity.mcp.streams import Changes
from comity.mcp.tasks import StoredTasks
from comity.requests.budget import Budget
from comity.requests.record import Recorder
from comity.runtime.system_clock import SystemClock
from comity.store.audit_trail import AuditTrail
from comity.store.interface import Store
from comity.store.memory import MemoryStore
from comity.store.vault import Vault
from comity.vcp.protocol.mcp_places import VcpHandshake
from comity.wire.errors import NotFoundError
from compliance.changing import changing_tools
from compliance.content import content_tools
from compliance.input_required import input_required_prompts, input_required_tools
from compliance.prompts import fixture_prompts
from compliance.questions import question_tools
from compliance.resources import fixture_resources
from compliance.tasks import task_tools

BODY_LIMIT: Final = 1_048_576
IDLE_SECONDS: Final = 600.0


def fixtures() -> Catalog:
    catalog = Catalog()
    for tools in (content_tools(), question_tools(), input_required_tools(), task_tools()):
        catalog.add_tools(tools)
    catalog.add_tools(changing_tools(catalog))
    catalog.add_resources(*fixture_resources())
    catalog.add_prompts(*fixture_prompts(), *input_required_prompts())
    return catalog


class NodeRuntime(NamedTuple):
    store: Store
    record: Recorder


@asynccontextmanager
async def serving(port: int) -> AsyncIterator[str]:
    """The address of a running server."""
    clock, catalog = SystemClock(), fixtures()
    store = MemoryStore(clock, trail=AuditTrail("fixtures", SigningKey.from_seed(os.urandom(32))))
    changes = Changes(catalog)

    runtime = NodeRuntime(store, Recorder(store, clock))

    async def opened() -> NodeRuntime:
        return runtime

    tasks = StoredTasks(opened, clock, changes)
    server = Server(
        catalog=catalog,
        info={"name": "comity-fixtures", "version": "1"},
        tasks=True,
        handshake=VcpHandshake(),
    )
    sealer = Sealer(os.urandom(KEY_BYTES), os.urandom)
    calls = McpCalls(server, clock, sealer=sealer, changes=changes, tasks=tasks)
    vault = Vault([], environment="test", plaintext=True)
    sessions = Sessions(store, runtime.record, clock, changes, vault=lambda: vault, idle=IDLE_SECONDS)
    endpoint = McpEndpoint(
        calls=calls, sessions=sessions, negotiate=_no_vcp, body_limit=BODY_LIMIT, record=runtime.record
    )
    http = HttpServer("127.0.0.1", port, cert=None, key=None)
    entry = HttpAccess(lambda _token: None, clock, port=http.port, secure=False)
    guard = Guard(
        _only(endpoint), entry, is_public=lambda _path: True, body_limit=BODY_LIMIT, budget=Budget(clock)
    )
    await http.start(guard, shutdown_seconds=1.0)
    try:
        yield f"{http.url}{MCP_PATH}"
    finally:
        changes.closing.set()
        await http.stop()
        await tasks.close()
        sessions.close()
        await store.close()


def _only(endpoint: McpEndpoint) -> App:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == MCP_PATH:
            await endpoint(scope, receive, send)
        else:
            await answer_error(send, NotFoundError(f"there is only {MCP_PATH} here"))

    return app


async def _no_vcp(_hello: object, _client: McpClient) -> HandshakeResult:
    return HandshakeResult(reply={"type": "vcp-error", "message": "the fixtures speak no VCP"})


async def _serve(port: int) -> None:
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, over.set)
    async with serving(port) as url:
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()
        await over.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: any that is free")
    asyncio.run(_serve(parser.parse_args().port))
