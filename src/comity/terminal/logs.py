"""Where log lines go while a node runs: stderr, for people or, with `log_json`, one JSON object each.

A repeated warning or error is logged once and then counted: a full disk or a broken peer may cause thousands in a minute.
Once a minute a line says how many there were. After a minute without one, the next is logged in full again.
"""

import json
import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from comity.runtime.settings import LogLevel

SUMMED_UP_EVERY: Final = 60.0

_MAX_KINDS: Final = 1000

Later = Callable[[float, Callable[[], None]], threading.Timer]


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, separators=(",", ":"))


class SparingHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """`later` calls a function after some seconds, on another thread."""

    def __init__(self, later: Later | None = None) -> None:
        super().__init__()
        self._later = later or _daemon_timer
        self._counts: dict[_Kind, int] = {}
        self._last: dict[_Kind, logging.LogRecord] = {}
        self._timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Log or count a record. The handler holds its lock."""
        if record.levelno < logging.WARNING:
            super().emit(record)
            return
        kind = _kind_of(record)
        if kind in self._counts:
            self._counts[kind] += 1
            self._last[kind] = record
            return
        super().emit(record)
        if len(self._counts) < _MAX_KINDS:
            self._counts[kind] = 0
            self._sum_up_later()

    def sum_up(self) -> None:
        with self.lock:  # type: ignore[union-attr]
            self._timer = None
            self._log_repeats()
            if self._counts:
                self._sum_up_later()

    def close(self) -> None:
        with self.lock:  # type: ignore[union-attr]
            if self._timer is not None:
                self._timer.cancel()
            self._log_repeats()
        super().close()

    def _log_repeats(self) -> None:
        for kind, count in tuple(self._counts.items()):
            if not count:
                del self._counts[kind]
                continue
            last = self._last.pop(kind)
            times = "once" if count == 1 else f"{count:,} times"
            text = f"{last.getMessage()} (this came {times} more in the last minute)"
            super().emit(
                logging.LogRecord(last.name, last.levelno, last.pathname, last.lineno, text, (), None)
            )
            self._counts[kind] = 0

    def _sum_up_later(self) -> None:
        if self._timer is None:
            self._timer = self._later(SUMMED_UP_EVERY, self.sum_up)


_Kind = tuple[object, ...]


def _kind_of(record: logging.LogRecord) -> _Kind:
    """Return the same value for the same failure: where it was logged, what was raised, and where."""
    arguments = record.args if isinstance(record.args, tuple) else ()
    named = tuple(type(argument) for argument in arguments if isinstance(argument, BaseException))
    raised: _Kind = ()
    if record.exc_info and record.exc_info[0] is not None:
        traceback = record.exc_info[2]
        while traceback is not None and traceback.tb_next is not None:
            traceback = traceback.tb_next
        place = () if traceback is None else (traceback.tb_frame.f_code.co_filename, traceback.tb_lineno)
        raised = (record.exc_info[0], *place)
    return (record.name, record.levelno, record.msg, *named, *raised)


def _daemon_timer(seconds: float, call: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()
    return timer


def write_logs(level: LogLevel, *, as_json: bool) -> None:
    handler = SparingHandler()
    handler.setFormatter(
        JsonLines() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    if level != "debug":  # the node reports better what asyncio reports of itself
        logging.getLogger("asyncio").setLevel(logging.WARNING)
