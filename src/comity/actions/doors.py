"""Actions on standard input and output, for a program that started us (actions 1.1).

- Bytes are read and written on the file descriptors themselves: all lines of one read are answered with one
  write. What anything in this process prints goes to stderr, so that stdout holds replies and nothing else.
- stderr gets four lines at the start. When the input ends, what was asked is answered and the process
  ends well; SIGTERM and SIGINT end it at once, and well. When nobody reads the replies any more, it ends.
"""

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Final

from comity.actions.protocol.action import Mode
from comity.actions.protocol.calls import Settled, Work
from comity.actions.protocol.machine import NdjsonMachine, Steps
from comity.actions.protocol.rpc import RpcMachine
from comity.actions.runner import Runner
from comity.http.statuses import rpc_code

READ_SIZE: Final = 65_536

_PIPE_SIZE: Final = 1_048_576
_PIECES: Final = 1024  # as many as the system takes at once

_WIRES: Final[dict[Mode, str]] = {
    "strict": "the wire of 0.1.1",
    "compat": "the shapes of 1.0.8",
    "enhanced": "with evidence",
}


def serve_stdio(runner: Runner, version: str, *, jsonrpc: bool = False) -> None:
    """Until the input ends."""
    calls = runner.library.calls
    machine = RpcMachine(calls, rpc_code) if jsonrpc else NdjsonMachine(calls)
    with _stdout_for_replies() as replies, asyncio.Runner() as loop:
        _end_well_when_told()
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
    settled: Settled | None = None
    with contextlib.suppress(StopIteration):
        while True:
            step = steps.send(settled)
            settled = None
            if isinstance(step, Work):
                settled = loop.run(runner.settle(step))
            else:
                _write(replies, step)


def _write(replies: int, pieces: list[bytes]) -> None:
    """As they lie in memory, where the system can do that: a listing is not copied for each who asks."""
    if not hasattr(os, "writev"):
        _write_whole(replies, b"".join(pieces))
        return
    for at in range(0, len(pieces), _PIECES):
        some = pieces[at : at + _PIECES]
        written = os.writev(replies, some)
        if written < sum(map(len, some)):  # a signal came in between
            _write_whole(replies, b"".join(some)[written:])


def _write_whole(replies: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(replies, view) :]


@contextlib.contextmanager
def _stdout_for_replies() -> Iterator[int]:
    """A descriptor of our own for the replies; the usual one leads to stderr meanwhile."""
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
    """A wider pipe wakes the reader, and us, less often. What is no pipe, or may not grow, stays as it is."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)


def _end_well_when_told() -> None:
    """At once, also when the signal comes just before a read: a handler in Python would wait for its end, so the
    interpreter writes the signal to a pipe on the spot and a thread of its own reads it.
    """
    told, teller = os.pipe()
    os.set_blocking(teller, False)
    signal.set_wakeup_fd(teller)

    def end(*_: object) -> None:
        os._exit(0)

    for asked in (signal.SIGTERM, signal.SIGINT):
        signal.signal(asked, end)
    threading.Thread(target=lambda: end(os.read(told, 1)), daemon=True).start()
