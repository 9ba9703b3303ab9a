"""`comity watch`: what happens on the running node, one line for each act.

It reads `/v1/events`. If the node stops, the command waits until it runs again and continues after the last event. Lost
events are reported on stderr.
"""

import asyncio
import shutil
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple

from msgspec import convert

from comity.node.commands.event_output import readable
from comity.node.event_stream import EVENTS_PATH
from comity.requests.events import KEPT, NodeEvent
from comity.runtime.settings import Settings
from comity.terminal.help import HelpfulApp
from comity.terminal.open_target import OwnNode, own_node, require_node
from comity.terminal.options import HomeOptions, Json, option, settings_of, whole_number
from comity.terminal.output import colour_wanted, note, print_json, print_line
from comity.wire import strict_json
from comity.wire.errors import ComityError, NoAnswerError, UnreachableError, UnusableAnswerError

app = HelpfulApp()

RETRY_SECONDS: Final = 0.5

_SILENCE: Final = 45.0  # three heartbeats of the node
_MAX_MESSAGE_LENGTH: Final = 16 * 1024 * 1024


@app.add("""
    comity watch  show events from now on
    comity watch --since 0  also show the events that the node still keeps
    comity watch --json  print one JSON object per line
""")
def watch(
    since: Annotated[
        str | None,
        option("--since", "NUMBER", "Start after the event with this number. Default: only new events."),
    ] = None,
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Show the events of the running node, one line for each event, until Ctrl-C.

    A line shows the time, the part of the node, what happened, who caused it, what it was about, and the id of the
    request. The same id is in the header x-request-id of the response and in the log; its hash is in the audit record.
    The text of a message is never shown. Similar calls in quick succession are shown as one line with their number, and so
    are similar refusals within a minute. The node keeps its last 4,096 events.
    """
    settings = settings_of(home).settings
    after = "" if since is None else str(whole_number("--since", since, 0, 10**15))
    asyncio.run(_watch(settings, after, as_json=as_json))


class ServerSentEvent(NamedTuple):
    """One server-sent event. `data` has one entry for each line of it."""

    id: str
    kind: str
    data: list[str]


class Messages:
    """Bytes in, server-sent events out."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, part: bytes) -> Iterator[ServerSentEvent]:
        *whole, self._rest = (self._rest + part).split(b"\n\n")
        if len(self._rest) > _MAX_MESSAGE_LENGTH:
            raise UnusableAnswerError("the node sent an event that does not end")
        for text in whole:
            fields = [line.partition(": ") for line in text.decode("utf-8", "replace").split("\n")]
            yield ServerSentEvent(
                next((value for name, _, value in fields if name == "id"), ""),
                next((value for name, _, value in fields if name == "event"), "message"),
                [value for name, _, value in fields if name == "data"],
            )


class _Watching:
    def __init__(self, after: str, *, as_json: bool) -> None:
        self.after = after
        self._as_json = as_json
        self._coloured = colour_wanted()
        self._answers = True

    async def follow(self, own: OwnNode) -> None:
        """Show events until the node ends the stream."""
        place = {"last-event-id": self.after} if self.after else {}
        messages = Messages()
        accept = {"accept": "text/event-stream"}
        async for part in own.stream(EVENTS_PATH, accept | place, silence=_SILENCE):
            self._answers = True
            for message in messages.feed(part):
                self._take(message)

    def complain(self, trouble: ComityError) -> None:
        """Say that the node does not answer, once for each time that it stops answering."""
        if not self._answers:
            return
        self._answers = False
        note(f"{trouble.message}; trying again until it answers")

    def _take(self, message: ServerSentEvent) -> None:
        if message.kind == "reset":
            oldest = strict_json.loads(message.data[0].encode())["oldest"]
            note(f"events before number {oldest} are gone; the node keeps the last {KEPT:,} since its start")
        else:
            for line in message.data:
                self._show(strict_json.loads(line.encode()))
            sys.stdout.flush()
        self.after = message.id or self.after

    def _show(self, act: dict[str, Any]) -> None:
        if self._as_json:
            print_json(act)
            return
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
        moment = datetime.fromisoformat(act.pop("time")).timestamp()
        event = convert({**act, "time": moment}, NodeEvent)
        print_line(readable(event, coloured=self._coloured, width=width))


async def _watch(settings: Settings, after: str, *, as_json: bool) -> None:
    watching = _Watching(after, as_json=as_json)
    own = require_node(settings)
    while True:
        try:
            await watching.follow(own)
        except (UnreachableError, NoAnswerError) as trouble:
            watching.complain(trouble)
        finally:
            await own.http.aclose()
        own = await _again(settings)


async def _again(settings: Settings) -> OwnNode:
    """Return the node once it runs. A connection lost while it runs is not reported."""
    await asyncio.sleep(RETRY_SECONDS)
    own = own_node(settings)
    if own is not None:
        return own
    note("the node has stopped; waiting for it to start again")
    while own is None:
        await asyncio.sleep(RETRY_SECONDS)
        own = own_node(settings)
    note("the node is running again")
    return own
