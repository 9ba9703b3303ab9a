"""`comity room join`: a room as lines of text or JSON. What arrives goes to standard output, what is typed comes from standard
input; on a terminal `screen` shows both. A view continues when its node was restarted.
"""

import asyncio
import contextlib
import os
import secrets
import shlex
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from comity.rooms.commands.target import NODE_GONE, JoinedRoom, RoomAccess, folder_of, open_rooms
from comity.rooms.protocol.tool_table import MAX_FILE_BYTES
from comity.runtime.lazy import late
from comity.runtime.settings import Settings
from comity.terminal.output import note, one_line, print_json, print_line
from comity.wire import strict_json
from comity.wire.errors import ComityError, ConfigError, InvalidError

if TYPE_CHECKING:
    from comity.rooms.commands import screen
else:
    screen = late("comity.rooms.commands.screen")

REDRAW_SECONDS: Final = 0.25
COMMAND_EVERY: Final = 1.0
MAX_COALESCED: Final = 1000
HELP: Final = (
    "/file PATH sends a file, /save ID saves one, /to PEER TEXT talks to one peer, /quit ends the view"
)
Acknowledge = Callable[[], Awaitable[None]]


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
        await show_session(rooms, session, as_json=as_json, command=command, opened=opened)


async def show_session(
    rooms: RoomAccess,
    session: dict[str, Any],
    *,
    as_json: bool,
    command: list[str] | None = None,
    opened: bool = True,
    saves_files: bool = False,
    listens: bool = False,
) -> None:
    """Show a session until the person ends it. `opened`: it was opened for this view. `listens`: nobody types."""
    view: RoomView = PlainView(rooms, session, as_json=as_json)
    if not as_json and sys.stdin.isatty() and sys.stdout.isatty():
        view = screen.TerminalView(rooms, session)
    view.saves_files, view.reads_lines = saves_files, not listens
    runner = None if command is None else MessageRunner(command)
    try:
        await view.run(runner)
    finally:
        if not rooms.alone and not as_json and not view.ended:
            note(f"you are still in the room {view.room}; `comity room leave {view.room}` ends the session")
        if runner is not None:
            await runner.close()
        if rooms.alone and opened:
            await view.ask("vdo_disconnect")


async def _enter(
    rooms: RoomAccess, wanted: str, name: str | None, relay: str | None, file_max_bytes: int | None
) -> tuple[dict[str, Any], bool]:
    """Return the session, and whether it is a new one. A room that the node is in is shown as it is."""
    asked: dict[str, Any] = {"room": wanted, "stream_id": name or f"guest_{secrets.token_hex(3)}"}
    asked["any_name"] = name is None
    if relay is not None:
        asked["host"] = relay
    if file_max_bytes is not None:
        asked["file_max_bytes"] = file_max_bytes
    session = await rooms.ask("join", asked)
    if session["attached"] and file_max_bytes is not None:
        raise InvalidError(
            f"you are in the room {session['room']} already; `comity room leave {session['room']}` first: "
            "--file-max-bytes holds from the moment of joining"
        )
    if session.get("notice"):
        note(session["notice"])
    return session, not session["attached"]


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


class RoomView(JoinedRoom, ABC):
    def __init__(self, rooms: RoomAccess, session: dict[str, Any]) -> None:
        super().__init__(rooms, session)
        self.me = session["stream_id"]
        self.ended = False
        self.saves_files = False
        """Whether a file that arrives is saved at once, in the folder `shared`."""
        self.reads_lines = True
        self._here: dict[str, str] = {}
        self._met: set[str] = set()
        self._names: dict[str, str] = {}
        self._unconfirmed: dict[str, str] = {}
        self._waiting: set[str] = set()

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
                if self.saves_files and event["type"] == "file_received":
                    await self._keep_file(event)
                elif self._is_new(event):
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
        if event["type"] == "message_status":
            return self._delivery_words(event)
        words = sentence_of(event)
        name = self._names.get(event.get("transfer_id", ""))
        return words if words is None or name is None else words.replace(event["transfer_id"], name, 1)

    async def _keep_file(self, event: dict[str, Any]) -> None:
        try:
            result = await self.ask("keep_file", transfer_id=event["transfer_id"])
        except InvalidError as why:
            self.complain(with_remedy(why.message))
        else:
            self.inform(f"{event['from_stream_id']} sent {event['name']}: {result['output_path']}")

    def _delivery_words(self, event: dict[str, Any]) -> str | None:
        """Say what became of a line that was typed here, unless it arrived as it should."""
        text = self._unconfirmed.pop(event["message_id"], None)
        waited = event["message_id"] in self._waiting
        self._waiting.discard(event["message_id"])
        if text is None:
            return None
        if event["status"] in ("stored", "read"):
            return f"{event['status']} by the other side: {text}" if waited else None
        return one_line(f"{event['status']}: {text} ({event['reason']})")

    async def _read_lines(self) -> None:
        if not self.reads_lines:
            await asyncio.Event().wait()
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
            self.inform(HELP)
        elif line:
            await self._send(line, None)
        return True

    async def _send(self, text: str, peer: str | None) -> None:
        result = await self.ask("vdo_send", data=text, **({} if peer is None else {"target": peer}))
        if not result["ok"]:
            raise InvalidError(not_sent(peer))
        for message_id in result.get("message_ids", ()):
            self._unconfirmed[message_id] = one_line(text)[:40]
        if result.get("status") == "waiting":
            self._waiting.update(result["message_ids"])
            self.inform(f"waiting: {result['reason']}")
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


class PlainView(RoomView):
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
            print_line(f"{clock_time(event['ts'])} {words}")
            sys.stdout.flush()

    def inform(self, text: str) -> None:
        note(text)

    def complain(self, text: str) -> None:
        sys.stderr.write(f"error: {text}\n")


def sentence_of(event: dict[str, Any]) -> str | None:
    """Return an event in words; None for what only programs want to know. What a peer wrote is made harmless."""
    kind = event["type"]
    if kind == "data_received":
        data = event["data"]
        shown = data if isinstance(data, str) else strict_json.dumps(data).decode()
        if event.get("binaryBase64") is not None:
            shown = f"{len(event['binaryBase64']) * 3 // 4:,} bytes"
        return one_line(f"{event['streamID'] or event['uuid']}: {shown}")
    make = SENTENCES.get(kind)
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
    bar = screen.progress_bar(transfer) if sys.stderr.isatty() else None
    try:
        while transfer["status"] in UNDER_WAY:
            await asyncio.sleep(REDRAW_SECONDS)
            listed = (await session.ask("vdo_file_transfers", direction="outgoing"))["outgoing"]
            transfer = next(one for one in listed if one["transfer_id"] == transfer["transfer_id"])
            if bar is not None:
                bar.update(bar.task_ids[0], completed=transfer["acked_chunks"] * transfer["chunk_bytes"])
    finally:
        if bar is not None:
            bar.stop()
    return transfer


def _split(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as why:
        raise ConfigError(f"--on-message cannot be read: {why}") from None
    if not words:
        raise ConfigError("--on-message needs the name of a program")
    return words


def clock_time(moment: str) -> str:
    return datetime.fromisoformat(moment).astimezone().strftime("%H:%M:%S")


def shown_size(count: int) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}"
        count //= 1024
    return f"{count:,} GiB"


def _members_changed(reason: str, names: list[str]) -> str:
    if reason == "removed":
        return f"{', '.join(names)} was removed from the room by its host"
    return "the invite was revoked" if reason == "revoked" else "the invite is used up; others need a new one"


_STAT, _QUOTE = "stat '", "'"
UNDER_WAY: Final = ("offered", "transferring", "receiving")
SENTENCES: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    "ready": lambda event: f"joined the room {event['room']}",
    "connect_error": lambda event: f"the relay cannot be reached: {event['message']}",
    "disconnected": lambda _event: "the relay is gone; connections to peers stay",
    "sdk_error": lambda event: str(event["detail"]["error"]),
    "sync_peer_updated": lambda event: f"{event['stream_id']} is here",
    "sync_peer_rejected": lambda event: (
        f"{event['stream_id'] or 'a peer'} {'refused us' if event.get('by_peer') else 'was refused'}: {event['reason']}"
    ),
    "duplicate_stream_id": lambda event: f"another peer wants the name {event['stream_id']}, which is taken",
    "room_members_changed": lambda event: _members_changed(event["reason"], event["names"]),
    "data_channel_close": lambda event: f"{event['detail']['streamID']} has left",
    "connection_failed": lambda event: (
        f"no connection to {event['detail']['streamID'] or 'a peer'}: {event['detail']['reason']}"
    ),
    "file_offer_received": lambda event: (
        f"{event['from_stream_id']} sends {event['name']}, {shown_size(event['total_bytes'])}"
    ),
    "file_received": lambda event: f"{event['name']} has arrived; /save {event['transfer_id']} saves it",
    "file_transfer_complete": lambda event: f"{event['transfer_id']} was sent and confirmed",
    "file_transfer_failed": lambda event: f"{event['transfer_id']} failed: {with_remedy(event['reason'])}",
    "file_offer_rejected": lambda event: f"a file was refused: {with_remedy(event['reason'])}",
    "state_updated": lambda event: f"{event['actor']} set {event['key']}",
    "events_dropped": lambda event: f"{event['count']} events were dropped",
    "stopped": lambda _event: "the session has ended",
}
