"""Actions over HTTP, for the owner of the node, and on standard input and output (actions 1.1).

On standard input and output:

- The replies to all lines of one read are sent with one write. What anything in this process prints goes to stderr, so that
  stdout has replies and nothing else.
- stderr gets four lines at the start. At the end of the input the last replies are written and the process ends; SIGTERM
  and SIGINT end it at once, with exit code 0. If nobody reads the replies any more, it ends too.
"""

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from starlette.routing import BaseRoute, Route

from comity.actions.handler import ActionsHandler, Invocation
from comity.actions.protocol.action import Mode
from comity.actions.protocol.calls import RegisteredAction, Registry, Work, WorkResult, embedded, reply_schema
from comity.actions.protocol.machine import NdjsonMachine, RpcMachine, Steps
from comity.actions.runner import Runner
from comity.http.asgi import Endpoint, Receive, Scope, read_json_body
from comity.http.guard import caller_of
from comity.requests.handler import Request
from comity.requests.pipeline import Pipeline
from comity.wire import strict_json
from comity.wire.errors import rpc_code

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

ACTIONS_PATH: Final = "/v1/actions"

_REFUSALS: Final = {
    "400": "The input breaks the contract; the sentence says where.",
    "401": "The token of the node is missing or wrong.",
    "404": "There is no action of that name.",
    "504": "The work took too long.",
}


def openapi(registry: Registry, version: str) -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Comity actions",
            "version": version,
            "description": "Skills for humane communication. Show each boundary notice, and say how sure "
            "an answer is.",
        },
        "security": [{"token": []}],
        "paths": {
            ACTIONS_PATH: {"get": _listing()},
            **{f"{ACTIONS_PATH}/{entry.name}": {"post": _operation(entry)} for entry in registry.entries()},
        },
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Refusal": {
                    "type": "object",
                    "required": ["detail", "code"],
                    "properties": {"detail": {"type": "string"}, "code": {"type": "string"}},
                }
            },
        },
    }


def _listing() -> dict[str, Any]:
    return {
        "operationId": "list_actions",
        "summary": "List the actions and their contracts",
        "responses": {
            "200": {
                "description": "The actions, in order.",
                "content": {"application/json": {"schema": {"type": "object", "required": ["actions"]}}},
            },
            "401": _refused("401"),
        },
    }


def _operation(entry: RegisteredAction) -> dict[str, Any]:
    contract = entry.contract
    return {
        "operationId": entry.name,
        "summary": contract.description or entry.name,
        "description": contract.boundary,
        "tags": [contract.skill],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": embedded(contract.input_schema)}},
        },
        "responses": {
            "200": {
                "description": "What the action has to say.",
                "content": {"application/json": {"schema": reply_schema(entry)}},
            },
            **{status: _refused(status) for status in _REFUSALS},
        },
    }


def _refused(status: str) -> dict[str, Any]:
    reference = {"$ref": "#/components/schemas/Refusal"}
    return {"description": _REFUSALS[status], "content": {"application/json": {"schema": reference}}}


OPENAPI_PATH: Final = f"{ACTIONS_PATH}/openapi.json"


def action_routes(runner: Runner, pipeline: Pipeline, *, body_limit: int, version: str) -> list[BaseRoute]:
    handler = ActionsHandler(runner)
    registry = runner.library.registry

    # in a thread: the first listing imports the skills
    async def listing(_scope: Scope, _receive: Receive) -> Any:
        return {"actions": await asyncio.to_thread(registry.descriptions)}

    async def document(_scope: Scope, _receive: Receive) -> Any:
        return await asyncio.to_thread(openapi, registry, version)

    async def call(scope: Scope, receive: Receive) -> Any:
        body = await read_json_body(scope, receive, body_limit, "the input of an action")
        given = strict_json.loads(body, lone_surrogates=True)
        invocation = Invocation(scope["path_params"]["name"], given)
        return await pipeline.run(handler, Request(door="http", caller=caller_of(scope), body=invocation))

    endpoint = partial(Endpoint, feature=handler.name, record=pipeline.record)
    return [
        Route(ACTIONS_PATH, endpoint("GET", listing)),
        Route(OPENAPI_PATH, endpoint("GET", document)),
        Route(f"{ACTIONS_PATH}/{{name}}", endpoint("POST", call)),
    ]


READ_SIZE: Final = 65_536

_PIPE_SIZE: Final = 1_048_576
_PIECES: Final = 1024  # as many as the system takes at once

_WIRES: Final[dict[Mode, str]] = {
    "strict": "the wire of 0.1.1",
    "compat": "the shapes of 1.0.8",
    "enhanced": "with evidence",
}


def serve_stdio(runner: Runner, version: str, *, jsonrpc: bool = False) -> None:
    """Answer requests until the input ends."""
    calls = runner.library.calls
    machine = RpcMachine(calls, rpc_code) if jsonrpc else NdjsonMachine(calls)
    with _stdout_for_replies() as replies, asyncio.Runner() as loop:
        _exit_on_signals()
        sys.stderr.write(banner(runner, version, jsonrpc=jsonrpc))
        sys.stderr.flush()
        try:
            while data := os.read(0, READ_SIZE):
                _drive(machine.receive(data), runner, loop, replies)
            _drive(machine.end(), runner, loop, replies)
        except BrokenPipeError:
            return
        finally:
            loop.run(runner.aclose())


def banner(runner: Runner, version: str, *, jsonrpc: bool) -> str:
    registry = runner.library.registry
    wire = "JSON-RPC 2.0" if jsonrpc else "NDJSON"
    return (
        f"comity actions {version}\n"
        f"Actions: {len(registry.listed)} registered\n"
        f"Protocol: {wire} on stdin and stdout, {registry.mode}: {_WIRES[registry.mode]}\n"
        "Ready\n"
    )


def _drive(steps: Steps, runner: Runner, loop: asyncio.Runner, replies: int) -> None:
    result: WorkResult | None = None
    with contextlib.suppress(StopIteration):
        while True:
            step = steps.send(result)
            result = None
            if isinstance(step, Work):
                result = loop.run(runner.run(step))
            else:
                _write(replies, step)


def _write(replies: int, pieces: list[bytes]) -> None:
    """Write without joining the pieces if the system can do that, so that a listing is not copied for each request."""
    if not hasattr(os, "writev"):
        _write_whole(replies, b"".join(pieces))
        return
    for at in range(0, len(pieces), _PIECES):
        some = pieces[at : at + _PIECES]
        written = os.writev(replies, some)
        if written < sum(map(len, some)):  # interrupted by a signal
            _write_whole(replies, b"".join(some)[written:])


def _write_whole(replies: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(replies, view) :]


@contextlib.contextmanager
def _stdout_for_replies() -> Iterator[int]:
    """Yield a descriptor for the replies; the usual one leads to stderr meanwhile."""
    sys.stdout.flush()
    replies = os.dup(1)
    os.dup2(2, 1)
    _widen(replies)
    try:
        yield replies
    finally:
        sys.stdout.flush()
        os.dup2(replies, 1)
        os.close(replies)


def _widen(pipe: int) -> None:
    """Make the pipe larger, so that the reader and we wake less often. Do nothing if it is no pipe or may not grow."""
    with contextlib.suppress(AttributeError, OSError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)


def _exit_on_signals() -> None:
    """End the process at once with exit code 0. A handler in Python would not run while `os.read` waits, so the
    interpreter writes the signal to a pipe, which a thread reads.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)

    def end(*_: object) -> None:
        os._exit(0)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    threading.Thread(target=lambda: end(os.read(reader, 1)), daemon=True).start()
