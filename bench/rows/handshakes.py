"""VCP handshakes: in the core alone, over WebSocket, and among a thousand connections that say nothing.

Over WebSocket a handshake is connect, hello, ack, close; beside it the same client connects to a bare
server of the same kind, sends the same hello, has it echoed and closes. The node's limit on handshakes
is raised for this; nothing else is.
"""

import asyncio
import contextlib
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from time import perf_counter
from urllib.parse import urlsplit

from websockets.asyncio.client import connect

from bench.harness.bars import AtLeast, AtMostTimes
from bench.harness.measure import computing
from bench.harness.row import Contender, Row, Setting, Unit
from bench.harness.servers import serving
from comity.vcp.protocol.negotiation import ServerPolicy
from comity.vcp.protocol.registry import ExtensionRegistry
from comity.vcp.protocol.server import ServerMachine
from comity.wire import strict_json
from comity.wire.machine import Received, Send, Started
from comity.wire.rate_limit import RateLimiter

HELLO = strict_json.dumps(
    {
        "type": "vcp-hello",
        "version": "3.1",
        "min_version": "1.0",
        "extensions": ["VCP-X-Personal", "VCP-X-Relational", "VCP-X-Torch"],
        "identity": None,
        "client_id": "bench",
    }
)
FEATURES = dict.fromkeys(
    ("encryption", "injection_scanning", "revocation", "audit_chain", "context_opacity"), True
)
PATIENCE = 2.5
CALLERS = 8
HALF_OPEN = 1000
PARSE = "reading the hello as JSON"
ECHO = "connect, echo, close"
ALONE = "nobody else"


@contextlib.contextmanager
def open_core(setting: Setting) -> Iterator[Sequence[Contender]]:
    policy = ServerPolicy(core_features=FEATURES, registry=ExtensionRegistry(), server_id="bench")

    def handshake() -> None:
        machine = ServerMachine(policy, peer="p", session_id="ses_bench", limiter=RateLimiter(1e9, 1))
        machine.receive(Started(), 0.0)
        effects = machine.receive(Received(HELLO), 0.0)
        if not any(isinstance(effect, Send) for effect in effects):
            raise ValueError("the hello was not answered at once")

    yield [
        computing("comity, hello to ack", handshake, setting.seconds),
        computing(PARSE, lambda: strict_json.loads(HELLO, unique_keys=True), setting.seconds),
    ]


@contextlib.contextmanager
def open_websocket(setting: Setting) -> Iterator[Sequence[Contender]]:
    with _servers(setting) as (node, echo), asyncio.Runner() as runner:
        yield [
            Contender("comity, connect, hello, ack, close", _per_second(runner, node, setting.seconds)),
            Contender(ECHO, _per_second(runner, echo, setting.seconds)),
        ]


@contextlib.contextmanager
def open_half_open(setting: Setting) -> Iterator[Sequence[Contender]]:
    with _servers(setting) as (node, _), asyncio.Runner() as runner:

        def crowded() -> float:
            with _half_open(node):
                return runner.run(_ninety_ninth(node, setting.seconds))

        yield [
            Contender(f"among {HALF_OPEN:,} half-open connections", crowded),
            Contender(ALONE, lambda: runner.run(_ninety_ninth(node, setting.seconds))),
        ]


@contextlib.contextmanager
def _servers(setting: Setting) -> Iterator[tuple[str, str]]:
    data = setting.folder / "data"
    data.mkdir(mode=0o700)
    (data / "config.toml").write_text("[vcp]\nloopback_handshakes = 1_000_000_000\n", "utf-8")
    up = [sys.executable, "-m", "comity", "up", "--json", "--port", "0", "--data", str(data)]
    bare = [sys.executable, "-m", "bench.baselines.websocket_echo"]
    with (
        serving(up, setting.folder / "node.stderr") as node,
        serving(bare, setting.folder / "echo.stderr") as echo,
    ):
        yield node.replace("http", "ws", 1) + "/vcp", echo.replace("http", "ws", 1) + "/"


def _per_second(runner: asyncio.Runner, url: str, seconds: float) -> Callable[[], float]:
    async def measured() -> float:
        end = perf_counter() + PATIENCE * seconds
        start = perf_counter()
        counts = await asyncio.gather(*(_until(end, lambda: _exchange(url)) for _ in range(CALLERS)))
        return sum(counts) / (perf_counter() - start)

    return lambda: runner.run(measured())


async def _until(end: float, act: Callable[[], Awaitable[None]]) -> int:
    count = 0
    while perf_counter() < end:
        await act()
        count += 1
    return count


async def _exchange(url: str) -> None:
    async with connect(url, compression=None, proxy=None) as connection:
        await connection.send(HELLO.decode())
        answer = strict_json.loads(str(await connection.recv()).encode())
        if answer["type"] not in ("vcp-ack", "vcp-hello"):
            raise ValueError(f"the hello was refused: {answer}")


async def _ninety_ninth(url: str, seconds: float) -> float:
    """Of handshakes one after the other, the time that one in a hundred exceeds."""
    times: list[float] = []
    end = perf_counter() + PATIENCE * seconds
    while perf_counter() < end or len(times) < 100:
        start = perf_counter()
        await _exchange(url)
        times.append(perf_counter() - start)
    return sorted(times)[len(times) * 99 // 100]


@contextlib.contextmanager
def _half_open(url: str) -> Iterator[None]:
    """Connections that begin a request and never end it."""
    target = urlsplit(url)
    address = (target.hostname or "127.0.0.1", target.port or 80)
    opened: list[socket.socket] = []
    try:
        for _ in range(HALF_OPEN):
            connection = socket.create_connection(address)
            opened.append(connection)
            connection.sendall(b"GET /vcp HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        yield
    finally:
        for connection in opened:
            connection.close()


ROWS = (
    Row(
        name="vcp-core",
        title="a hello answered by the server machine",
        unit=Unit.RATE,
        open=open_core,
    ),
    Row(
        name="vcp-websocket",
        title="handshakes over WebSocket, 8 at a time",
        unit=Unit.RATE,
        open=open_websocket,
        bars=(AtLeast(0.5, ECHO),),
    ),
    Row(
        name="vcp-half-open",
        title="99th percentile of honest handshakes",
        unit=Unit.TIME,
        open=open_half_open,
        bars=(AtMostTimes(2, ALONE),),
    ),
)
