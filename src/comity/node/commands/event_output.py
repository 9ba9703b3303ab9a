"""`comity up` writes each event to the log and to the terminal.

- Both read the events of the node in batches, separately from the request that caused an event.
- A slow reader never delays the node: what cannot be written waits where events are kept, and what is dropped there is
  counted in one line. A pipe is filled at most by half, so that warnings, which block, still fit.
- A terminal shows at most `LINES` lines a second; the last of them counts the rest.
"""

import asyncio
import contextlib
import logging
import os
import select
import shutil
import stat
import sys
import time
from collections.abc import Callable, Coroutine
from functools import lru_cache
from typing import Final, TextIO

import msgspec

from comity.requests.events import Events, NodeEvent, act_in_words, encode
from comity.runtime.settings import Settings
from comity.store.audit_chain import timestamp
from comity.terminal.output import colour_wanted, one_line, paint, with_flags

# One line for each event: in plain words for people, as a log line for files.


LOGGER: Final = "comity.acts"

_WHO: Final = {"vacant": "vacant", "oauth": "visitor", "vcp": "VCP", "peer": "peer"}
_FEATURE_WIDTH: Final = 9
_DONE: Final = 24
_BY: Final = 15
_ABOUT: Final = 16
_GAP: Final = "  "

_OWN_WAYS: Final = {"browser": "you, in a browser", "model": "your MCP client"}
"""How the node's own user came, where that is shown."""


def words_for(event: NodeEvent) -> str:
    """Return what happened in plain words."""
    said = act_in_words(event.kind, event.feature)
    reason = event.failed.removeprefix(f"{event.feature}:")
    if reason:
        said += f": {reason.lower().replace('_', ' ')}"
    if event.count > 1:
        said += f", {event.count:,} times"
    return one_line(said)


def who_in_words(who: str) -> str:
    kind, _, short = who.partition(":")
    if kind == "local":
        way, _, token = short.partition(":")
        return one_line(f"your token {token}") if token else _OWN_WAYS.get(way, "you")
    if kind in _WHO and short not in ("", "-"):
        return one_line(f"{_WHO[kind]} {short}")
    return "anonymous" if kind == "unknown" else one_line(who)


def readable(event: NodeEvent, *, coloured: bool, width: int = 0) -> str:
    """Return time, feature, act, caller, subject and request. With a `width`, the last parts that do not fit are left
    out.
    """
    bad = bool(event.failed)
    what = "" if event.kind == "REFUSED" else one_line(event.what)
    parts = [
        (time.strftime("%H:%M:%S", time.localtime(event.time)), "dim"),
        (one_line(event.feature).ljust(_FEATURE_WIDTH), "cyan"),
        (words_for(event).ljust(_DONE), "red" if bad else "green"),
        (who_in_words(event.who).ljust(_BY), "bold"),
        *([(what.ljust(_ABOUT), "")] if what or event.request else []),
        *([(f"request {one_line(event.request)}", "dim")] if event.request else []),
    ]
    while width and len(parts) > 4 and len(_GAP.join(text for text, _ in parts).rstrip()) > width:
        parts.pop()
    while not parts[-1][0].strip():
        parts.pop()
    text, style = parts[-1]
    parts[-1] = text.rstrip(), style
    return _GAP.join(paint(text, style, wanted=coloured and bool(style)) for text, style in parts)


def log_line(event: NodeEvent) -> str:
    """Return a line in the form of the log, with the fields of the act as `name=value`."""
    whole = int(event.time)
    milliseconds = int((event.time - whole) * 1000)
    line = f"{_to_the_second(whole)},{milliseconds:03} {_beginning(event.kind, event.feature, event.who)}"
    if event.what:
        line += f" what={_value(event.what)}"
    if event.request:
        line += f" request={_value(event.request)}"
    if event.trace:
        line += f" trace={_value(event.trace)}"
    if event.failed:
        line += f" failed={_value(event.failed)}"
    if event.count != 1:
        line += f" count={event.count}"
    return line + "\n"


def json_log_line(event: NodeEvent) -> str:
    """Return the fields of every log line, then the event as its readers get it, without its number and time."""
    at = timestamp(event.time)[:-1] + "+00:00"
    head = _encode({"at": at, "level": "info", "logger": LOGGER, "message": event.kind})
    fields = encode(event)
    return (head[:-1] + b"," + fields[fields.index(b'"room":') :]).decode() + "\n"


def _value(text: str) -> str:
    """Return the text, in quotes and escaped if it could be misread."""
    if text.isascii() and text.isprintable() and " " not in text and '"' not in text:
        return text
    return _encode(one_line(text)).decode()


@lru_cache(1024)  # there are few of them, and each comes often
def _beginning(kind: str, feature: str, who: str) -> str:
    by = f" who={_value(who)}" if who else ""
    return f"INFO {LOGGER}: {_value(kind)} room={_value(feature)}{by}"


@lru_cache(2)  # many are written within the same one
def _to_the_second(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


_encode = msgspec.json.Encoder().encode


try:
    import fcntl
    import termios
except ImportError:  # Windows has no such call, so a write may block
    fcntl = termios = None  # type: ignore[assignment]

log = logging.getLogger("comity.acts")

LINES: Final = 20

_BATCH: Final = 256
_PLENTY: Final = 1 << 20
_PIPE_BYTES: Final = 16_384  # where the system does not say
_DEVICE_BYTES: Final = 4096
_RETRY: Final = 0.01
_MAX_RETRY_DELAY: Final = 1.0


class OpenWriter:
    """A stream, and how much can be written to it without blocking."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        try:
            self._fd = stream.fileno()
            self._kind = os.fstat(self._fd).st_mode
        except (OSError, ValueError):  # not a file of the system
            self._fd = -1
        self._tty = self._fd >= 0 and stream.isatty()

    def room(self) -> int:
        """Return how many bytes can be written without blocking."""
        if self._fd < 0 or fcntl is None:
            return _PLENTY
        if stat.S_ISFIFO(self._kind):
            with contextlib.suppress(OSError):
                return max(0, self._capacity() // 2 - self._unread())
        elif stat.S_ISSOCK(self._kind) or self._tty:
            poll = select.poll()
            poll.register(self._fd, select.POLLOUT)
            return _DEVICE_BYTES if poll.poll(0) else 0
        return _PLENTY

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a log that cannot be written is no reason to stop
            self._stream.write(text)
            self._stream.flush()

    def _capacity(self) -> int:
        wanted = getattr(fcntl, "F_GETPIPE_SZ", None)
        return _PIPE_BYTES if wanted is None else int(fcntl.fcntl(self._fd, wanted))

    def _unread(self) -> int:
        return int.from_bytes(fcntl.ioctl(self._fd, termios.FIONREAD, bytes(4)), sys.byteorder)


class ActLog:
    """Writes one line for each event."""

    def __init__(self, events: Events, writer: OpenWriter, format_line: Callable[[NodeEvent], str]) -> None:
        self._events = events
        self._writer = writer
        self._format_line = format_line
        self._after = 0

    async def run(self) -> None:
        """Run until the node stops."""
        async with self._events.hints() as hints:
            await self._write_all()
            async for _hint in hints:
                await self._write_all()

    async def _write_all(self) -> None:
        retry = _RETRY
        while self._after < self._events.last:
            if self.write_batch():
                retry = _RETRY
                await asyncio.sleep(0)
            else:
                await asyncio.sleep(retry)
                retry = min(2 * retry, _MAX_RETRY_DELAY)

    def write_batch(self) -> bool:
        """Write as many of the next lines as there is room for. Return False if there is none."""
        page = self._events.since(self._after, _BATCH)
        if not page.events:
            return True
        pending = [_gap(self._after, page.events[0]), *page.events] if page.reset else page.events
        room, lines = self._writer.room(), []
        for event in pending:
            line = self._format_line(event)
            room -= len(line)
            if room < 0:
                break
            lines.append(line)
            self._after = event.number
        if not lines:
            return False
        self._writer.write("".join(lines))
        return True

    def finish(self) -> None:
        """Write as many lines as there is room for."""
        while self._after < self._events.last and self.write_batch():
            pass


def _gap(after: int, first: NodeEvent) -> NodeEvent:
    """Return one event for all acts between a number and the first act that is still in the ring."""
    number = first.number - 1
    return NodeEvent(number, first.time, "node", "ACTS_NOT_LOGGED", count=number - after)


class TerminalLines:
    def __init__(self, events: Events, writer: OpenWriter) -> None:
        self._events = events
        self._writer = writer
        self._after = events.last
        self._coloured = colour_wanted()
        self._second = 0.0
        self._lines = 0
        self._more = 0

    async def run(self) -> None:
        """Run until the node stops."""
        loop = asyncio.get_running_loop()
        async with self._events.hints() as hints:
            with contextlib.suppress(StopAsyncIteration):
                while True:
                    self.show(loop.time())
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout_at(self._second + 1 if self._more else None):
                            await anext(hints)

    def show(self, now: float) -> None:
        """Show new events, as many as fit into this second. Nothing is lost while the terminal is stopped (Ctrl-S)."""
        if not self._writer.room():
            return
        text = ""
        if now - self._second >= 1:
            text += self._rest()
            self._second, self._lines = now, 0
        page = self._events.since(self._after)
        if page.reset:
            self._more += page.events[0].number - 1 - self._after
        width = shutil.get_terminal_size().columns
        for event in page.events:
            if self._lines < LINES - 1:
                self._lines += 1
                text += readable(event, coloured=self._coloured, width=width) + "\n"
            else:
                self._more += 1
        self._after = self._events.last
        if text:
            self._writer.write(text)

    def _rest(self) -> str:
        more, self._more = self._more, 0
        if not more:
            return ""
        said = with_flags(f"… and {more:,} more; `comity watch` shows every event")
        return paint(said, "dim", wanted=self._coloured) + "\n"


class ActSinks:
    """The outputs of the events of a node while it runs: terminal and log."""

    def __init__(self, events: Events, settings: Settings, *, shown: bool) -> None:
        """`shown`: on the terminal, if stdout is one. If stderr is a terminal too, these lines replace those of the log."""
        terminal = sys.stdout.isatty()
        self._log: ActLog | None = None
        self._tasks: list[asyncio.Task[None]] = []
        if shown and terminal:
            self._start(TerminalLines(events, OpenWriter(sys.stdout)).run())
        if logging.getLogger(LOGGER).isEnabledFor(logging.INFO) and not (terminal and sys.stderr.isatty()):
            format_line = json_log_line if settings.log_json else log_line
            self._log = ActLog(events, OpenWriter(sys.stderr), format_line)
            self._start(self._log.run())

    def _start(self, running: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(running)
        task.add_done_callback(_report)
        self._tasks.append(task)

    async def finish(self) -> None:
        """Write the last events to the log, after the node has stopped."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._log is not None:
            self._log.finish()


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (fault := task.exception()) is not None:
        log.error("events are not shown or logged any more", exc_info=fault)
