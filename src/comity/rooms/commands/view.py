"""`comity room join`: a room on a terminal. Messages scroll by; below them are transfers, peers and what is being typed.

In a pipe the same is plain lines, or JSON: what arrives on standard output, what is typed from standard input. A view goes
on when its node was restarted.
"""

import asyncio
import codecs
import contextlib
import os
import secrets
import shlex
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from comity.rooms.commands.target import NODE_GONE, JoinedRoom, RoomAccess, folder_of, open_rooms
from comity.rooms.protocol.invite import is_invite
from comity.rooms.protocol.loose_values import sanitize_id
from comity.rooms.protocol.tool_table import MAX_FILE_BYTES
from comity.runtime.lazy import late
from comity.runtime.settings import Settings
from comity.terminal.output import note, one_line, print_json, print_line
from comity.wire import strict_json
from comity.wire.errors import ComityError, ConfigError, InvalidError

if TYPE_CHECKING:
    from rich import console as rich_console
    from rich import constrain as rich_constrain
    from rich import live as rich_live
    from rich import progress as rich_progress
    from rich import progress_bar as rich_progress_bar
    from rich import rule as rich_rule
    from rich import table as rich_table
    from rich import text as rich_text
else:
    rich_console = late("rich.console")
    rich_constrain = late("rich.constrain")
    rich_live = late("rich.live")
    rich_progress = late("rich.progress")
    rich_progress_bar = late("rich.progress_bar")
    rich_rule = late("rich.rule")
    rich_table = late("rich.table")
    rich_text = late("rich.text")

REDRAW_SECONDS: Final = 0.25
COMMAND_EVERY: Final = 1.0
MAX_COALESCED: Final = 1000
MAX_SHOWN: Final = 2000
PICTURE_WIDTH: Final = 72
_HELP: Final = (
    "/file PATH sends a file, /save ID saves one, /to PEER TEXT talks to one peer, /quit ends the view"
)
Acknowledge = Callable[[], Awaitable[None]]
_ENTER, _DELETE, _LINE, _END = ("\r", "\n"), ("\x7f", "\b"), "\x15", "\x04"


async def show_room(
    settings: Settings,
    wanted: str,
    *,
    name: str | None,
    relay: str | None,
    file_max_bytes: int | None,
    on_message: str | None,
    as_json: bool,
) -> None:
    command = None if on_message is None else _split(on_message)
    async with open_rooms(settings, alone=True) as rooms:
        session, opened = await _enter(rooms, wanted, name, relay, file_max_bytes)
        view: _View = _Plain(rooms, session, as_json=as_json)
        if not as_json and sys.stdin.isatty() and sys.stdout.isatty():
            view = _Terminal(rooms, session)
        runner = None if command is None else MessageRunner(command)
        try:
            await view.run(runner)
        finally:
            if not rooms.alone and not as_json and not view.ended:
                note(
                    f"you are still in the room {view.room}; `comity room leave {view.room}` ends the session"
                )
            if runner is not None:
                await runner.close()
            if rooms.alone and opened:
                await view.ask("vdo_disconnect")


async def _enter(
    rooms: RoomAccess, wanted: str, name: str | None, relay: str | None, file_max_bytes: int | None
) -> tuple[dict[str, Any], bool]:
    """Return the session, and whether it is a new one. A room that the node is in is shown as it is."""
    if not is_invite(wanted) and name is None and relay is None:
        for session in (await rooms.ask("vdo_list_sessions", {}))["sessions"]:
            if session["room"] == sanitize_id(wanted):
                if file_max_bytes is not None:
                    raise InvalidError(
                        f"you are in the room {session['room']} already; `comity room leave {session['room']}` first: "
                        "--file-max-bytes holds from the moment of joining"
                    )
                return session, False
    asked: dict[str, Any] = {"room": wanted, "stream_id": name or f"guest_{secrets.token_hex(3)}"}
    if relay is not None:
        asked["host"] = relay
    if file_max_bytes is not None:
        asked["file_max_bytes"] = file_max_bytes
    session = await rooms.ask("vdo_connect", asked)
    if session.get("notice"):
        note(session["notice"])
    return session, True


class MessageRunner:
    """Runs a program for messages: one run at a time, all that came meanwhile in the next one, not too often. What a run
    has read is acknowledged after it.
    """

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._waiting: list[tuple[dict[str, Any], Acknowledge]] = []
        self._task: asyncio.Task[None] | None = None
        self._taken = asyncio.Event()

    async def put(self, event: dict[str, Any], acknowledge: "Acknowledge") -> None:
        """Wait while too many messages wait for the program."""
        while len(self._waiting) >= MAX_COALESCED:
            self._taken.clear()
            await self._taken.wait()
        self._waiting.append((event, acknowledge))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            await asyncio.wait([self._task], timeout=COMMAND_EVERY)
            self._task.cancel()

    async def _run(self) -> None:
        while self._waiting:
            messages, self._waiting = self._waiting, []
            self._taken.set()
            lines = b"".join(strict_json.dumps(event) + b"\n" for event, _ in messages)
            try:
                process = await asyncio.create_subprocess_exec(
                    *self._command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL
                )
                await process.communicate(lines)
            except OSError as why:
                note(f"{self._command[0]} cannot be run: {why.strerror or why}")
            else:
                await messages[-1][1]()
            await asyncio.sleep(COMMAND_EVERY)


class _View(JoinedRoom, ABC):
    def __init__(self, rooms: RoomAccess, session: dict[str, Any]) -> None:
        super().__init__(rooms, session)
        self.me = session["stream_id"]
        self.ended = False
        self._here: dict[str, str] = {}
        self._met: set[str] = set()
        self._names: dict[str, str] = {}

    async def run(self, runner: MessageRunner | None) -> None:
        """Show the room until the person ends the view."""
        showing = asyncio.create_task(self._show_events(runner))
        typing = asyncio.create_task(self._read_lines())
        try:
            done, _ = await asyncio.wait((showing, typing), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (showing, typing):
                task.cancel()
            await asyncio.gather(showing, typing, return_exceptions=True)

    async def _show_events(self, runner: MessageRunner | None) -> None:
        """Show the events. They are acknowledged when they were shown; with a program, when it has read their messages."""
        after: str | None = None
        while True:
            try:
                found = await self.peek(500, after=after)
            except NODE_GONE:
                self.inform("the node does not answer; waiting until it is back")
                await self.rooms.wait_node()
                self._here.clear()
                self.inform("the node is back")
                continue
            for place, event in found:
                after = place
                if self._is_new(event):
                    self.show(event)
                if runner is not None and event["type"] == "data_received":
                    await runner.put(event, partial(self._acknowledge, place))
                if event["type"] == "stopped":
                    self.ended = True
                    return
            if runner is None and after is not None:
                sys.stdout.flush()
                await self._acknowledge(after)

    async def _acknowledge(self, place: str) -> None:
        """What could not be acknowledged comes again, and the next question says why."""
        with contextlib.suppress(ComityError):
            await self.acknowledge(place)

    def _is_new(self, event: dict[str, Any]) -> bool:
        """Return whether an event is shown: a peer says hello again and again, and is shown once."""
        if event["type"] == "peer_disconnected":
            self._here.pop(event["uuid"], None)
        if event["type"] != "sync_peer_updated":
            return True
        uuid, stream = event["uuid"], event["stream_id"]
        known = uuid in self._here or stream in self._here.values()
        self._here[uuid] = stream
        self._met.add(uuid)
        return not known

    def words(self, event: dict[str, Any]) -> str | None:
        """Return the event in words, without links: a peer that has another one is still here."""
        detail = event.get("detail") or {}
        if event["type"] == "data_channel_close" and detail["streamID"] in self._here.values():
            return None
        if event["type"] == "connection_failed" and detail["uuid"] in self._met:
            return None
        words = sentence_of(event)
        name = self._names.get(event.get("transfer_id", ""))
        return words if words is None or name is None else words.replace(event["transfer_id"], name, 1)

    async def _read_lines(self) -> None:
        async for line in self.lines():
            try:
                if not await self.run_line(line):
                    return
            except ComityError as why:
                self.complain(with_remedy(why.message))

    async def run_line(self, line: str) -> bool:
        """False when the view is to end."""
        word, _, rest = line.partition(" ")
        if word == "/quit":
            return False
        if word == "/file":
            whole, folder = folder_of(rest.strip())
            result = await self.ask("vdo_file_send_path", folder, file_path=whole, timeout_ms=100)
            name, transfer_id = result["transfer"]["name"], result["transfer"]["transfer_id"]
            self._names[transfer_id] = one_line(name)
            self.inform(f"sending {name} as {transfer_id}")
        elif word == "/save":
            await self._save(rest.strip())
        elif word == "/to":
            peer, _, text = rest.strip().partition(" ")
            await self._send(text, peer)
        elif word.startswith("/") and word != "/":
            self.inform(_HELP)
        elif line:
            await self._send(line, None)
        return True

    async def _send(self, text: str, peer: str | None) -> None:
        result = await self.ask("vdo_send", data=text, **({} if peer is None else {"target": peer}))
        if not result["ok"]:
            raise InvalidError(not_sent(peer))
        self.said(text if peer is None else f"(to {peer}) {text}")

    async def _save(self, what: str) -> None:
        incoming = (await self.ask("vdo_file_transfers", direction="incoming"))["incoming"]
        named = next((one for one in incoming if what in (one["transfer_id"], one["name"])), None)
        if named is None:
            raise InvalidError(f"there is no file {what}")
        whole, folder = folder_of(os.path.basename(named["name"]) or named["transfer_id"])  # noqa: PTH119 - of any system
        result = await self.ask("vdo_file_save", folder, transfer_id=named["transfer_id"], output_path=whole)
        self.inform(f"saved {result['output_path']}, {result['bytes_written']:,} bytes")

    @abstractmethod
    def lines(self) -> AsyncIterator[str]:
        """Return what the person types, line by line, until the end of it."""

    @abstractmethod
    def show(self, event: dict[str, Any]) -> None: ...

    def said(self, text: str) -> None:
        """The person's own words."""

    @abstractmethod
    def inform(self, text: str) -> None: ...

    @abstractmethod
    def complain(self, text: str) -> None: ...


class _Plain(_View):
    def __init__(self, rooms: RoomAccess, session: dict[str, Any], *, as_json: bool) -> None:
        super().__init__(rooms, session)
        self._as_json = as_json

    async def lines(self) -> AsyncIterator[str]:
        while True:
            line = await asyncio.to_thread(sys.stdin.readline)
            if not line:
                return
            yield line.rstrip("\n")

    def show(self, event: dict[str, Any]) -> None:
        if self._as_json:
            print_json(event)
            return
        words = self.words(event)
        if words is not None:
            print_line(f"{_clock(event['ts'])} {words}")
            sys.stdout.flush()

    def inform(self, text: str) -> None:
        note(text)

    def complain(self, text: str) -> None:
        sys.stderr.write(f"error: {text}\n")


class _Terminal(_View):
    def __init__(self, rooms: RoomAccess, session: dict[str, Any]) -> None:
        super().__init__(rooms, session)
        self._typed = ""
        self._peers: list[dict[str, Any]] = []
        self._transfers: list[dict[str, Any]] = []
        self._state = session["state"]
        self._keys: asyncio.Queue[str] = asyncio.Queue()
        self._print: Callable[[rich_console.RenderableType], None] = print
        self._redraw: Callable[[], None] = lambda: None

    async def run(self, runner: MessageRunner | None) -> None:

        console = rich_console.Console(highlight=False)
        with (
            _raw_keys(self._keys.put_nowait),
            rich_live.Live(
                rich_text.Text(""), console=console, auto_refresh=False, transient=True, redirect_stdout=False
            ) as live,
        ):
            self._print = console.print
            self._redraw = lambda: live.update(self._picture(), refresh=True)
            self.inform(f"You are {self.me} in the room {self.room}. {_HELP}.")
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
        moment = (f"{_clock(event['ts'])} ", "dim")
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
        self._print(rich_text.Text.assemble(*parts))

    async def _watch(self) -> None:
        """Poll what events do not report: the progress of transfers, and the peers."""
        while True:
            with contextlib.suppress(ComityError):
                status = await self.ask("vdo_status")
                self._state, self._peers = status["state"], status["sync_peers"]
                listed = await self.ask("vdo_file_transfers")
                under_way = (*listed["incoming"], *listed["outgoing"])
                self._transfers = [one for one in under_way if one["status"] in _UNDER_WAY]
            self._redraw()
            await asyncio.sleep(REDRAW_SECONDS)

    def _picture(self) -> "rich_console.RenderableType":

        here = [one_line(str(one["stream_id"] or one["uuid"])) for one in self._peers if one["connected"]]
        title = f"{self.room}: {', '.join(here) if here else 'nobody else yet'}"
        if self._state != "connected":
            title += f" ({self._state})"
        # No line is as wide as the terminal: one that is made narrower would wrap it, and part of it would stay.
        rows: list[rich_console.RenderableType] = [
            rich_constrain.Constrain(
                rich_rule.Rule(rich_text.Text(title, style="bold"), align="left", style="dim"), PICTURE_WIDTH
            )
        ]
        if self._transfers:
            table = rich_table.Table.grid(padding=(0, 1))
            for _ in range(4):
                table.add_column(no_wrap=True)
            for one in self._transfers:
                done = min(one["total_bytes"], one["acked_chunks"] * one["chunk_bytes"])
                way = "from" if one["direction"] == "incoming" else "to"
                who = one_line(str(one["from_stream_id"] or one["target_stream_id"] or ""))
                table.add_row(
                    rich_text.Text(_cut(one_line(one["name"]), 24), style="cyan"),
                    rich_text.Text(_cut(f"{way} {who}", 16), style="dim"),
                    rich_progress_bar.ProgressBar(total=one["total_bytes"], completed=done, width=16),
                    rich_text.Text(f"{100 * done // one['total_bytes']:3d} % of {_size(one['total_bytes'])}"),
                )
            rows.append(table)
        rows.append(
            rich_text.Text.assemble(
                ("> ", "bold green"), one_line(self._typed) if self._typed else "", ("▏", "blink")
            )
        )
        return rich_console.Group(*rows)


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


def sentence_of(event: dict[str, Any]) -> str | None:
    """Return an event in words; None for what only programs want to know. What a peer wrote is made harmless."""
    kind = event["type"]
    if kind == "data_received":
        data = event["data"]
        shown = data if isinstance(data, str) else strict_json.dumps(data).decode()
        if event.get("binaryBase64") is not None:
            shown = f"{len(event['binaryBase64']) * 3 // 4:,} bytes"
        return one_line(f"{event['streamID'] or event['uuid']}: {shown}")
    make = _SENTENCES.get(kind)
    return None if make is None else one_line(make(event))


def not_sent(peer: str | None) -> str:
    return "not sent: " + ("nobody else is here" if peer is None else f"{peer} is not in the room")


def with_remedy(reason: str) -> str:
    """Add what to do to a refusal in the words of the contract."""
    again = (
        f"join the room again with --file-max-bytes (vdo_connect: file_max_bytes), at most {MAX_FILE_BYTES}"
    )
    if reason.startswith("file exceeds max "):
        return f"{reason}; for larger files leave and {again}; the receiver has to do the same"
    if reason.startswith("total_bytes must be "):
        return f"{reason}; for larger files the receiver has to leave and {again}"
    if reason.startswith("ENOENT: "):
        return f"there is no file {reason.partition(_STAT)[2].rstrip(_QUOTE)}"
    if reason.startswith("output exists: "):
        return f"{reason}; move that file away, or join the room from another folder and save it there"
    return reason


async def follow_transfer(session: JoinedRoom, transfer: dict[str, Any]) -> dict[str, Any]:
    """Until it has ended; at a terminal with a bar."""
    bar = _bar(transfer) if sys.stderr.isatty() else None
    try:
        while transfer["status"] in _UNDER_WAY:
            await asyncio.sleep(REDRAW_SECONDS)
            listed = (await session.ask("vdo_file_transfers", direction="outgoing"))["outgoing"]
            transfer = next(one for one in listed if one["transfer_id"] == transfer["transfer_id"])
            if bar is not None:
                bar.update(bar.task_ids[0], completed=transfer["acked_chunks"] * transfer["chunk_bytes"])
    finally:
        if bar is not None:
            bar.stop()
    return transfer


def _bar(transfer: dict[str, Any]) -> Any:

    bar = rich_progress.Progress(
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(),
        rich_progress.DownloadColumn(),
        rich_progress.TransferSpeedColumn(),
        console=rich_console.Console(stderr=True),
        transient=True,
    )
    bar.add_task(one_line(transfer["name"]).replace("[", "("), total=transfer["total_bytes"])
    bar.start()
    return bar


def _split(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as why:
        raise ConfigError(f"--on-message cannot be read: {why}") from None
    if not words:
        raise ConfigError("--on-message needs the name of a program")
    return words


def _clock(moment: str) -> str:
    return datetime.fromisoformat(moment).astimezone().strftime("%H:%M:%S")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _size(count: int) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}"
        count //= 1024
    return f"{count:,} GiB"


_STAT, _QUOTE = "stat '", "'"
_UNDER_WAY: Final = ("offered", "transferring", "receiving")
_STYLES: Final = {"sync_peer_rejected": "red", "file_transfer_failed": "red"}
_SENTENCES: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    "ready": lambda event: f"joined the room {event['room']}",
    "connect_error": lambda event: f"the relay cannot be reached: {event['message']}",
    "disconnected": lambda _event: "the relay is gone; connections to peers stay",
    "sync_peer_updated": lambda event: f"{event['stream_id']} is here",
    "sync_peer_rejected": lambda event: f"{event['stream_id']} was refused: {event['reason']}",
    "duplicate_stream_id": lambda event: f"another peer uses the name {event['stream_id']}",
    "data_channel_close": lambda event: f"{event['detail']['streamID']} has left",
    "connection_failed": lambda event: (
        f"no connection to {event['detail']['streamID'] or 'a peer'}: {event['detail']['reason']}"
    ),
    "file_offer_received": lambda event: (
        f"{event['from_stream_id']} sends {event['name']}, {_size(event['total_bytes'])}"
    ),
    "file_received": lambda event: f"{event['name']} has arrived; /save {event['transfer_id']} saves it",
    "file_transfer_complete": lambda event: f"{event['transfer_id']} was sent and confirmed",
    "file_transfer_failed": lambda event: f"{event['transfer_id']} failed: {with_remedy(event['reason'])}",
    "file_offer_rejected": lambda event: f"a file was refused: {with_remedy(event['reason'])}",
    "state_updated": lambda event: f"{event['actor']} set {event['key']}",
    "events_dropped": lambda event: f"{event['count']} events were dropped",
    "stopped": lambda _event: "the session has ended",
}
