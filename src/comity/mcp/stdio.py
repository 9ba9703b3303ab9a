"""MCP on standard input and output.

First both file descriptors are replaced: everything that this process prints goes to standard error and cannot break the
stream. Pipes, sockets and terminals are read by the event loop, other files by a thread. Non-blocking mode is shared with
other processes, so it is reset at the end.
"""

import asyncio
import contextlib
import os
import signal
import stat
import sys
from collections.abc import Callable
from typing import Final

from comity.mcp.stream import CLOSE_SECONDS, McpStream

PATIENCE: Final = 10.0
"""Seconds to answer what was asked before the input ended, as in a pipe, unless we are stopped."""

CHUNK: Final = 1 << 18
MAX_UNREAD: Final = 1 << 20
"""Unread bytes after which nothing more is read from the client."""


class ClaimedStdio:
    def __init__(self) -> None:
        self.input, self.output = os.dup(0), os.dup(1)
        self._blocking: dict[int, bool] = {}
        if sys.platform != "win32":
            self._blocking = {one: os.get_blocking(one) for one in (self.input, self.output)}
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)

    def leave(self) -> None:
        """Restore the blocking mode, which other processes at the terminal share."""
        for descriptor, blocking in self._blocking.items():
            os.set_blocking(descriptor, blocking)


class Outflow:
    """Writes what the descriptor takes at once, and the rest when it is ready again."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting = bytearray()
        self._drained = asyncio.Event()
        self._drained.set()
        self._callbacks: list[Callable[[], None]] = []
        self._watched = False
        self._broken = False
        if sys.platform != "win32":  # there a write blocks
            os.set_blocking(descriptor, False)

    def write(self, data: bytes) -> None:
        if self._broken:
            return
        if self._waiting:
            self._waiting += data
        else:
            written = self._try(data)
            if written == len(data) or self._broken:
                return
            self._waiting += memoryview(data)[written:]
            self._watch()
        if len(self._waiting) > MAX_UNREAD:
            self._drained.clear()

    async def ready(self) -> None:
        """Wait until the client has read enough."""
        await self._drained.wait()

    def when_drained(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def is_clogged(self) -> bool:
        return not self._drained.is_set()

    async def finish(self, patience: float) -> None:
        """Wait for the rest to be written, as long as the client reads any of it."""
        left = -1
        while self._waiting and len(self._waiting) != left:
            left = len(self._waiting)
            self._drained.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._drained.wait(), patience)
        self._unwatch()

    def _try(self, data: bytes | bytearray) -> int:
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:
            return 0
        except OSError:  # the client has closed its end
            self._broken = True
            self._waiting.clear()
            self._all_gone()
            return 0

    def _more(self) -> None:
        del self._waiting[: self._try(self._waiting)]
        if not self._waiting or self._broken:
            self._unwatch()
            self._all_gone()

    def _all_gone(self) -> None:
        self._drained.set()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def _watch(self) -> None:
        if not self._watched:
            self._watched = True
            asyncio.get_running_loop().add_writer(self._descriptor, self._more)

    def _unwatch(self) -> None:
        if self._watched:
            self._watched = False
            asyncio.get_running_loop().remove_writer(self._descriptor)


async def serve_stdio(open_stream: Callable[[Callable[[bytes], None]], McpStream]) -> None:
    """Serve until the input ends, the client says exit, or SIGTERM or SIGINT arrives."""
    claimed = ClaimedStdio()
    try:
        await _serve(claimed, open_stream)
    finally:
        claimed.leave()
        sys.stderr.flush()


async def _serve(claimed: ClaimedStdio, open_stream: Callable[[Callable[[bytes], None]], McpStream]) -> None:
    outflow = Outflow(claimed.output)
    stream = open_stream(outflow.write)
    stream.clogged = outflow.is_clogged
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for asked in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):  # Windows has Ctrl-C only
            loop.add_signal_handler(asked, stopped.set)
    reading = asyncio.ensure_future(_read(claimed.input, stream, outflow))
    ends = (reading, *map(asyncio.ensure_future, (stream.exit_asked.wait(), stopped.wait())))
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if not stopped.is_set():
        patience = CLOSE_SECONDS if stream.exit_asked.is_set() else PATIENCE
        answering = asyncio.ensure_future(stream.wait_for_answers(patience))
        await asyncio.wait((answering, ends[-1]), return_when=asyncio.FIRST_COMPLETED)
        ends = (*ends, answering)
    for end in ends:
        end.cancel()
    await asyncio.wait(ends)
    await stream.close(0.0)
    await outflow.finish(CLOSE_SECONDS)
    if not reading.cancelled():
        reading.result()


async def _read(descriptor: int, stream: McpStream, outflow: Outflow) -> None:
    if _is_pollable(descriptor):
        os.set_blocking(descriptor, False)
        inflow = _Inflow(descriptor, stream, outflow)
        inflow.proceed()
        try:
            await inflow.over
        finally:
            inflow.stop()
    else:
        while data := await asyncio.to_thread(os.read, descriptor, CHUNK):
            stream.receive(data)
            await outflow.ready()
            while stream.waits:
                stream.proceed()
                await outflow.ready()
    stream.end()
    while stream.waits:
        await outflow.finish(CLOSE_SECONDS)
        if outflow.is_clogged():
            return  # the client has closed its end
        stream.proceed()


def _is_pollable(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    pollable = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)
    return pollable and sys.platform != "win32"


class _Inflow:
    """Reads whenever there is input, unless the client does not read what we wrote."""

    def __init__(self, descriptor: int, stream: McpStream, outflow: Outflow) -> None:
        self._loop = asyncio.get_running_loop()
        self.over: asyncio.Future[None] = self._loop.create_future()
        self._descriptor = descriptor
        self._stream = stream
        self._outflow = outflow

    def proceed(self) -> None:
        if self.over.done():
            return
        self._run_guarded(self._stream.proceed)
        if self._outflow.is_clogged():
            self._outflow.when_drained(self.proceed)
        elif not self.over.done():
            self._loop.add_reader(self._descriptor, self._ready)

    def stop(self) -> None:
        self._loop.remove_reader(self._descriptor)
        self.over.cancel()

    def _ready(self) -> None:
        try:
            data = os.read(self._descriptor, CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # treated as the end
            data = b""
        if not data:
            self._loop.remove_reader(self._descriptor)
            self.over.set_result(None)
            return
        self._run_guarded(self._stream.receive, data)
        if self._outflow.is_clogged() and not self.over.done():
            self._loop.remove_reader(self._descriptor)
            self._outflow.when_drained(self.proceed)

    def _run_guarded(self, act: Callable[..., None], *given: bytes) -> None:
        try:
            act(*given)
        except Exception as fault:  # noqa: BLE001 - it ends the reading, and `over` raises it
            self._loop.remove_reader(self._descriptor)
            self.over.set_exception(fault)
