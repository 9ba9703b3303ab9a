"""A room on a terminal: messages scroll by; below them are transfers, peers and what is being typed."""

import asyncio
import codecs
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.constrain import Constrain
from rich.live import Live
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from comity.rooms.commands.target import RoomAccess
from comity.rooms.commands.view import (
    HELP,
    REDRAW_SECONDS,
    UNDER_WAY,
    MessageRunner,
    RoomView,
    clock_time,
    shown_size,
)
from comity.terminal.output import one_line
from comity.wire.errors import ComityError

MAX_SHOWN: Final = 2000
PICTURE_WIDTH: Final = 72
_ENTER, _DELETE, _LINE, _END = ("\r", "\n"), ("\x7f", "\b"), "\x15", "\x04"
_STYLES: Final = {"sync_peer_rejected": "red", "file_transfer_failed": "red"}


class TerminalView(RoomView):
    def __init__(self, rooms: RoomAccess, session: dict[str, Any]) -> None:
        super().__init__(rooms, session)
        self._typed = ""
        self._peers: list[dict[str, Any]] = []
        self._transfers: list[dict[str, Any]] = []
        self._state = session["state"]
        self._keys: asyncio.Queue[str] = asyncio.Queue()
        self._print: Callable[[RenderableType], None] = print
        self._redraw: Callable[[], None] = lambda: None

    async def run(self, runner: MessageRunner | None) -> None:

        console = Console(highlight=False)
        with (
            _raw_keys(self._keys.put_nowait),
            Live(
                Text(""), console=console, auto_refresh=False, transient=True, redirect_stdout=False
            ) as live,
        ):
            self._print = console.print
            self._redraw = lambda: live.update(self._picture(), refresh=True)
            self.inform(f"You are {self.me} in the room {self.room}. {HELP}.")
            watching = asyncio.create_task(self._watch())
            try:
                await super().run(runner)
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)

    async def lines(self) -> AsyncIterator[str]:
        while True:
            key = await self._keys.get()
            if key == _END and not self._typed:
                return
            if key in _ENTER:
                line, self._typed = self._typed.strip(), ""
                yield line
            elif key in _DELETE:
                self._typed = self._typed[:-1]
            elif key == _LINE:
                self._typed = ""
            elif key.isprintable():
                self._typed += key
            self._redraw()

    def show(self, event: dict[str, Any]) -> None:
        words = self.words(event)
        if words is None:
            return
        moment = (f"{clock_time(event['ts'])} ", "dim")
        if event["type"] == "data_received":
            who, _, rest = words.partition(":")
            rest = rest.lstrip()
            more = f"… ({len(rest):,} characters; with --json you see all of them)"
            cut = (more, "dim") if len(rest) > MAX_SHOWN else ("", "")
            self._write(moment, (f"{who}: ", "bold cyan"), (rest[:MAX_SHOWN], ""), cut)
        else:
            self._write(moment, (words, _STYLES.get(event["type"], "yellow")))

    def said(self, text: str) -> None:
        moment = f"{datetime.now():%H:%M:%S} "  # noqa: DTZ005 - local time
        self._write((moment, "dim"), (f"{self.me}: ", "bold green"), (one_line(text), ""))

    def inform(self, text: str) -> None:
        self._write((one_line(text), "dim"))

    def complain(self, text: str) -> None:
        self._write((one_line(text), "red"))

    def _write(self, *parts: tuple[str, str]) -> None:
        """One line of texts, each with its style."""
        self._print(Text.assemble(*parts))

    async def _watch(self) -> None:
        """Poll what events do not report: the progress of transfers, and the peers."""
        while True:
            with contextlib.suppress(ComityError):
                status = await self.ask("vdo_status")
                self._state, self._peers = status["state"], status["sync_peers"]
                listed = await self.ask("vdo_file_transfers")
                under_way = (*listed["incoming"], *listed["outgoing"])
                self._transfers = [one for one in under_way if one["status"] in UNDER_WAY]
            self._redraw()
            await asyncio.sleep(REDRAW_SECONDS)

    def _picture(self) -> "RenderableType":

        here = [one_line(str(one["stream_id"] or one["uuid"])) for one in self._peers if one["connected"]]
        title = f"{self.room}: {', '.join(here) if here else 'nobody else yet'}"
        if self._state != "connected":
            title += f" ({self._state})"
        # No line is as wide as the terminal: one that is made narrower would wrap it, and part of it would stay.
        rows: list[RenderableType] = [
            Constrain(Rule(Text(title, style="bold"), align="left", style="dim"), PICTURE_WIDTH)
        ]
        if self._transfers:
            table = Table.grid(padding=(0, 1))
            for _ in range(4):
                table.add_column(no_wrap=True)
            for one in self._transfers:
                done = min(one["total_bytes"], one["acked_chunks"] * one["chunk_bytes"])
                way = "from" if one["direction"] == "incoming" else "to"
                who = one_line(str(one["from_stream_id"] or one["target_stream_id"] or ""))
                table.add_row(
                    Text(_cut(one_line(one["name"]), 24), style="cyan"),
                    Text(_cut(f"{way} {who}", 16), style="dim"),
                    ProgressBar(total=one["total_bytes"], completed=done, width=16),
                    Text(f"{100 * done // one['total_bytes']:3d} % of {shown_size(one['total_bytes'])}"),
                )
            rows.append(table)
        rows.append(
            Text.assemble(("> ", "bold green"), one_line(self._typed) if self._typed else "", ("▏", "blink"))
        )
        return Group(*rows)


@contextlib.contextmanager
def _raw_keys(put: Callable[[str], None]) -> Iterator[None]:
    """Each key as it is pressed, without an echo; the terminal is as before at the end."""
    import termios  # noqa: PLC0415 - Windows has none
    import tty  # noqa: PLC0415 - same

    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    loop = asyncio.get_running_loop()

    def read() -> None:
        data = os.read(file, 4096)
        if not data:
            put(_END)
            return
        for key in _keys_of(decoder.decode(data)):
            put(key)

    tty.setcbreak(file)
    loop.add_reader(file, read)
    try:
        yield
    finally:
        loop.remove_reader(file)
        termios.tcsetattr(file, termios.TCSADRAIN, before)


def _keys_of(text: str) -> list[str]:
    """Without what arrow and function keys send."""
    keys: list[str] = []
    escaped = False
    for letter in text:
        if letter == "\x1b":
            escaped = True
        elif escaped:
            escaped = not (letter.isalpha() or letter == "~")
        else:
            keys.append(letter)
    return keys


def progress_bar(transfer: dict[str, Any]) -> Any:

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    bar.add_task(one_line(transfer["name"]).replace("[", "("), total=transfer["total_bytes"])
    bar.start()
    return bar


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
