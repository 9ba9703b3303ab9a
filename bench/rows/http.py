"""A running node over HTTP, beside a bare ASGI application on the same kind of server.

Each server has a process of its own; one client in this process loads them in turn, so the cores are
shared by one server and the client. A ping takes the whole walk: guard, token, rate, room, audit.
"""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import uvloop

from bench.harness.http_load import request_bytes, requests_per_second
from bench.harness.row import Contender, Row, Setting, Unit
from bench.harness.servers import serving
from comity.identity.secrets import TOKEN_FILE, read_token

# Two processes that find their pace together need longer turns than a loop in one.
PATIENCE = 2.5
BODY = b'{"nonce":"0f1e2d3c4b5a69788796a5b4c3d2e1f0"}'


@contextlib.contextmanager
def open_healthz(setting: Setting) -> Iterator[Sequence[Contender]]:
    with _servers(setting.folder) as (node, echo), _asking(setting.seconds) as asking:
        yield [
            asking("comity GET /healthz", node, request_bytes("GET", f"{node}/healthz")),
            asking("bare ASGI", echo, request_bytes("GET", f"{echo}/healthz")),
        ]


@contextlib.contextmanager
def open_ping(setting: Setting) -> Iterator[Sequence[Contender]]:
    with _servers(setting.folder) as (node, echo), _asking(setting.seconds) as asking:
        token = read_token(setting.folder / "data" / TOKEN_FILE)
        headers = [("Authorization", f"Bearer {token}"), ("Content-Type", "application/json")]

        def ping(url: str) -> bytes:
            return request_bytes("POST", f"{url}/v1/ping", headers=headers, body=BODY)

        yield [
            asking("comity POST /v1/ping", node, ping(node)),
            asking("bare ASGI echo", echo, ping(echo)),
        ]


@contextlib.contextmanager
def _servers(folder: Path) -> Iterator[tuple[str, str]]:
    up = [sys.executable, "-m", "comity", "up", "--json", "--port", "0", "--data", str(folder / "data")]
    with (
        serving(up, folder / "node.stderr") as node,
        serving([sys.executable, "-m", "bench.baselines.asgi_echo"], folder / "echo.stderr") as echo,
    ):
        yield node, echo


@contextlib.contextmanager
def _asking(seconds: float) -> Iterator[Callable[[str, str, bytes], Contender]]:
    """Makes contenders that share one client."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:

        def contender(name: str, url: str, request: bytes) -> Contender:
            return Contender(name, lambda: runner.run(requests_per_second(url, request, PATIENCE * seconds)))

        yield contender


ROWS = (
    Row(name="http-healthz", title="GET over kept connections", unit=Unit.RATE, open=open_healthz),
    Row(
        name="http-ping",
        title="POST with a token, through the whole walk, audited",
        unit=Unit.RATE,
        open=open_ping,
    ),
)
