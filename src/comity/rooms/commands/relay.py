"""`comity relay`: the signalling relay alone, for peers that have no node in common.

Every node has one at /signal. This is the same, with nothing else beside it.
"""

import asyncio
import contextlib
import signal
import sys
from pathlib import Path
from typing import Annotated

from comity.http.asgi import App, Receive, Scope, Send, answer_json
from comity.http.guard import Guard, HttpAccess, TokenHolder
from comity.http.server import HttpServer
from comity.identity.secrets import load_or_create_token, same_token
from comity.requests.budget import Budget
from comity.rooms.doors import SIGNAL_PATH, SignallingDoor
from comity.rooms.protocol.relay import SignallingRelay
from comity.runtime.system_clock import SystemClock
from comity.system import is_loopback
from comity.terminal.help import HelpfulApp
from comity.terminal.logs import write_logs
from comity.terminal.options import Json, TlsCert, TlsKey, fast_loop, option, whole_number
from comity.terminal.output import print_fields, print_json, print_line
from comity.wire.errors import ConfigError

app = HelpfulApp()

DEFAULT_PORT = 8421
BODY_LIMIT = 4096
SHUTDOWN_SECONDS = 2.0


@app.add("""
    comity relay  run a relay for programs on this machine
    comity relay --host 0.0.0.0 --name relay.example.org --tls-cert cert.pem --tls-key key.pem --token-file token  run a relay for everybody who has the token
""")
def relay(
    host: Annotated[
        str | None,
        option(
            "--host",
            "HOST",
            "The address to listen on. Default: 127.0.0.1. An address that other machines can reach needs TLS and a token.",
        ),
    ] = None,
    port: Annotated[
        str | None, option("--port", "PORT", "The port to listen on. Default: 8421. 0: any free port.")
    ] = None,
    name: Annotated[
        list[str] | None,
        option("--name", "HOST", "A host name by which clients reach the relay. You can repeat this option."),
    ] = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    token_file: Annotated[
        str | None,
        option(
            "--token-file",
            "FILE",
            "The file with the token that clients must send. It is created if it does not exist.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a signalling relay: it forwards the handshakes of peers, so that they can connect to each other in a room.

    What the peers send to each other afterwards does not pass through the relay.
    """
    host = host or "127.0.0.1"
    if (tls_cert is None) != (tls_key is None):
        raise ConfigError("--tls-cert and --tls-key must be used together; give both or neither")
    if not is_loopback(host) and (tls_cert is None or token_file is None):
        raise ConfigError(
            f"host {host} can be reached from other machines; give --tls-cert, --tls-key and --token-file, "
            "or use 127.0.0.1"
        )
    write_logs("info", as_json=as_json)
    token = None if token_file is None else load_or_create_token(Path(token_file))
    server = HttpServer(
        host,
        DEFAULT_PORT if port is None else whole_number("--port", port, 0, 65_535),
        cert=None if tls_cert is None else Path(tls_cert),
        key=None if tls_key is None else Path(tls_key),
    )
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        runner.run(_serve(server, (host, *(name or ())), token, as_json=as_json))


async def _serve(server: HttpServer, hosts: tuple[str, ...], token: str | None, *, as_json: bool) -> None:
    clock = SystemClock()

    def knows(given: str) -> bool:
        return token is not None and same_token(given, token)

    budget = Budget(clock)
    door = SignallingDoor(SignallingRelay(), clock, budget, knows_token=knows, needs_token=token is not None)
    guard = Guard(
        _paths(door),
        HttpAccess(
            lambda given: TokenHolder("admin") if knows(given) else None,
            clock,
            port=server.port,
            secure=False,
        ),
        is_public=lambda _path: True,
        body_limit=BODY_LIMIT,
        hosts=hosts,
        budget=budget,
    )
    stopping = asyncio.Event()
    for asked in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):  # Windows has Ctrl-C only
            asyncio.get_running_loop().add_signal_handler(asked, stopping.set)
    await server.start(guard, shutdown_seconds=SHUTDOWN_SECONDS, websockets=(SIGNAL_PATH,))
    try:
        address = server.url.replace("http", "ws", 1) + SIGNAL_PATH
        if as_json:
            print_json({"ready": True, "url": address})
        else:
            print_line("The relay is running.")
            print_fields((("address", address), ("stop", "Ctrl-C")), indent="  ")
            sys.stdout.flush()
        await stopping.wait()
    finally:
        await server.stop()


def _paths(door: App) -> App:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] == "websocket" and path == SIGNAL_PATH:
            await door(scope, receive, send)
        elif scope["type"] == "http" and path == "/healthz":
            await answer_json(send, {"ok": True})
        elif scope["type"] == "http":
            missing = {
                "detail": f"there is nothing at this path; connect to {SIGNAL_PATH}",
                "code": "not_found",
            }
            await answer_json(send, missing, 404)
        else:
            await send({"type": "websocket.close", "code": 1008})

    return app
