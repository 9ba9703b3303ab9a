"""One line for each act: in plain words for people, as a log line for files.

Whatever a line shows of others is made harmless first: no control character reaches a terminal or a log.
"""

import time
from functools import lru_cache
from typing import Final

import msgspec

from comity.requests.events import NodeEvent, act_in_words, encode
from comity.store.audit_chain import timestamp
from comity.terminal.colour import paint
from comity.terminal.output import one_line

LOGGER: Final = "comity.acts"

_WHO: Final = {"vacant": "vacant", "oauth": "visitor", "vcp": "VCP", "peer": "peer"}
_ROOM: Final = 9
_DONE: Final = 24
_BY: Final = 15
_ABOUT: Final = 16
_GAP: Final = "  "

_OWN_WAYS: Final = {"browser": "you, in a browser", "model": "your MCP client"}
"""How the node's own user came, where that is worth a word; entries of older releases do not say it."""


def words_for(event: NodeEvent) -> str:
    """What happened, in plain words."""
    said = act_in_words(event.kind, event.room)
    reason = event.failed.removeprefix(f"{event.room}:")
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
    return "a stranger" if kind == "unknown" else one_line(who)


def readable(event: NodeEvent, *, coloured: bool, width: int = 0) -> str:
    """Time, room, what happened, who, what it was about, and the request. With a `width`, what does not fit is left out,
    the last first.
    """
    bad = bool(event.failed)
    what = "" if event.kind == "REFUSED" else one_line(event.what)
    parts = [
        (time.strftime("%H:%M:%S", time.localtime(event.time)), "dim"),
        (one_line(event.room).ljust(_ROOM), "cyan"),
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
    """As the other lines of the log look, with what belongs to the act as `name=value`."""
    whole = int(event.time)
    milliseconds = int((event.time - whole) * 1000)
    line = f"{_to_the_second(whole)},{milliseconds:03} {_beginning(event.kind, event.room, event.who)}"
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
    """What every log line says, and then the event as its readers get it, without its number and time."""
    at = timestamp(event.time)[:-1] + "+00:00"
    head = _encode({"at": at, "level": "info", "logger": LOGGER, "message": event.kind})
    told = encode(event)
    return (head[:-1] + b"," + told[told.index(b'"room":') :]).decode() + "\n"


def _value(text: str) -> str:
    """As it is; in quotes and escaped where it could be read as something else."""
    if text.isascii() and text.isprintable() and " " not in text and '"' not in text:
        return text
    return _encode(one_line(text)).decode()


@lru_cache(1024)  # there are few of them, and each comes often
def _beginning(kind: str, room: str, who: str) -> str:
    by = f" who={_value(who)}" if who else ""
    return f"INFO {LOGGER}: {_value(kind)} room={_value(room)}{by}"


@lru_cache(2)  # many are written within the same one
def _to_the_second(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


_encode = msgspec.json.Encoder().encode
