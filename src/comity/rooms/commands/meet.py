"""`comity invite`, `join`, `send` and `receive`: two people on two machines, one line between them.

- Who invites has the node: where none runs, this process is one for as long as the command lasts. Guests come through the outside
  door, which a person opens by a word, or meet at a relay.
- Who comes by the line is shown; what is typed is sent; files that arrive are saved.
"""

import asyncio
import os
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from comity.rooms.commands.target import JoinedRoom, RoomAccess, folder_of, open_rooms
from comity.rooms.protocol.invite import MAX_USES, is_invite
from comity.rooms.protocol.loose_values import free_names, safe_name
from comity.runtime.lazy import late
from comity.runtime.settings import Settings
from comity.terminal.help import HelpfulApp
from comity.terminal.options import HomeOptions, Json, argument, option, settings_of, whole_number
from comity.terminal.output import note, one_line, print_json, print_line
from comity.wire.errors import ConfigError, InvalidError

if TYPE_CHECKING:
    from comity.rooms.commands import screen, view
else:
    screen = late("comity.rooms.commands.screen")
    view = late("comity.rooms.commands.view")

HOURS: Final = 24
HOST_NAME: Final = "host"
LOOK_SECONDS: Final = 0.25

Name = Annotated[str | None, option("--name", "NAME", "Your name in the room, which others see.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Open the door for other machines without asking.")]
Hours = Annotated[str | None, option("--expires", "HOURS", "Hours until the line expires. Default: 24.")]
RelayLine = Annotated[
    str | None,
    option(
        "--relay",
        "LINE",
        "Meet at a relay, by the line that `comity relay --public` prints, or by its address.",
    ),
]

invite_app, join_app, send_app, receive_app = HelpfulApp(), HelpfulApp(), HelpfulApp(), HelpfulApp()


@invite_app.add("""
    comity invite  print a line that lets one person join you, and wait for them
    comity invite lab --uses 3  for three people, into the room lab
    comity invite lab --revoke  nobody else can use the line of the room lab
""")
def invite(
    room: Annotated[
        str | None, argument("ROOM", "A name of letters, digits and _. Default: a new room.")
    ] = None,
    name: Name = None,
    uses: Annotated[
        str | None, option("--uses", "N", "How many people may come by the line. Default: 1.")
    ] = None,
    expires: Hours = None,
    relay: RelayLine = None,
    revoke: Annotated[bool, typer.Option("--revoke", help="Revoke the line. Who is in stays.")] = False,
    yes: Yes = False,
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Print one line for a person that you trust, and show who comes. Each line that you type is sent; Ctrl-C ends it.

    If no node runs, this command is one until it ends, and you leave the room with it. Otherwise you stay in the room, until
    `comity room leave`. Files that arrive are saved in the folder `shared` of the data folder.
    """
    settings = settings_of(home).settings
    people = None if uses is None else whole_number("--uses", uses, 1, MAX_USES)
    hours = HOURS if expires is None else whole_number("--expires", expires, 1, 720)
    if revoke:
        if room is None:
            raise ConfigError("name the room whose line is to be revoked: comity invite ROOM --revoke")
        asyncio.run(_revoke(settings, room, as_json=as_json))
        return

    async def run() -> None:
        asked = {
            "room": room or f"room_{secrets.token_hex(3)}",
            "uses": people,
            "seconds": hours * 3600,
            "host": relay,
        }
        async with _hosted(settings, asked, name or HOST_NAME, yes=yes, as_json=as_json) as (
            rooms,
            session,
            _,
        ):
            await view.show_session(
                rooms, session, as_json=as_json, saves_files=True, listens=not sys.stdin.isatty()
            )

    asyncio.run(run())


@join_app.add("""
    comity join LINE  join the person that sent you the line
    comity join  paste the line
""")
def join(
    line: Annotated[str | None, argument("LINE", "The line. Default: read from standard input.")] = None,
    name: Name = None,
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Join somebody by the line that `comity invite` printed. Each line that you type is sent; Ctrl-C ends it.

    `/file PATH` sends a file. Files that arrive are saved in the folder `shared` of the data folder. If a node runs, you stay
    in the room after the view has ended, until `comity room leave`.
    """
    settings = settings_of(home).settings
    wanted = _line(line)

    async def run() -> None:
        async with open_rooms(settings, alone=True) as rooms:
            asked = {"room": wanted, "stream_id": name or _guest(), "any_name": name is None}
            session = await rooms.ask("join", asked)
            if session.get("notice"):
                note(session["notice"])
            await view.show_session(rooms, session, as_json=as_json, saves_files=True)

    asyncio.run(run())


@send_app.add("""
    comity send report.pdf  print a line; who has it gets the file
    comity send a.jpg b.jpg  several files
""")
def send(
    files: Annotated[list[str], argument("FILE", "The files to send.")],
    expires: Hours = None,
    relay: RelayLine = None,
    yes: Yes = False,
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Print one line for one person, wait until it is used, and send the files. The other side types `comity receive` and the line."""
    settings = settings_of(home).settings
    chosen = [folder_of(file) for file in files]
    for whole, _ in chosen:
        if not Path(whole).is_file():
            raise ConfigError(f"there is no file {whole}")
    hours = HOURS if expires is None else whole_number("--expires", expires, 1, 720)

    async def run() -> None:
        asked = {"room": f"send_{secrets.token_hex(3)}", "seconds": hours * 3600, "host": relay}
        async with _hosted(settings, asked, "sender", yes=yes, as_json=as_json) as (rooms, session, result):
            joined = JoinedRoom(rooms, session)
            try:
                peer = await _first_peer(joined)
                if not as_json:
                    note(f"{one_line(peer)} is here")
                for whole, folder in chosen:
                    await _send_one(joined, whole, folder, peer, as_json=as_json)
            finally:
                await _leave(joined, str(result["room"]))

    asyncio.run(run())


@receive_app.add("""
    comity receive LINE  receive what the sender of the line sends, into this folder
""")
def receive(
    line: Annotated[str | None, argument("LINE", "The line. Default: read from standard input.")] = None,
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Receive files by the line that `comity send` printed, into the current folder. No file that is there is replaced."""
    settings = settings_of(home).settings
    wanted = _line(line)

    async def run() -> None:
        async with open_rooms(settings, alone=True) as rooms:
            joined = JoinedRoom(
                rooms, await rooms.ask("vdo_connect", {"room": wanted, "stream_id": _guest()})
            )
            try:
                await _receive_all(joined, as_json=as_json)
            finally:
                await joined.ask("vdo_disconnect")

    asyncio.run(run())


# The side that invites.


@asynccontextmanager
async def _hosted(
    settings: Settings, asked: dict[str, Any], name: str, *, yes: bool, as_json: bool
) -> "AsyncIterator[tuple[RoomAccess, dict[str, Any], dict[str, Any]]]":
    """Open the way for others, join the room and print its line."""
    async with open_rooms(settings, serving=True) as rooms:
        door = await rooms.ask("door", {})
        opens = not door["has_relay"] and asked["host"] is None
        if opens and not door["open"]:
            await asyncio.to_thread(_consent, yes=yes)
        result = await rooms.ask("invite", {**asked, "door": opens})
        session = await rooms.ask("vdo_connect", {"room": result["room"], "stream_id": name})
        if as_json:
            print_json(
                {
                    name: result[name]
                    for name in ("invite", "room", "expires_at", "uses", "left", "reach", "notice")
                }
            )
        else:
            if result["notice"]:
                note(result["notice"])
            note(
                "send this line to one person that you trust; on the other machine: comity join LINE"
                if result["uses"] == 1
                else f"send this line to {result['uses']} people that you trust; on the other machines: comity join LINE"
            )
            print_line(result["invite"])
        sys.stdout.flush()
        yield rooms, session, result


def _consent(*, yes: bool) -> None:
    """Opening a door of this machine is the word of a person."""
    if yes:
        return
    question = "Other machines reach this one by a port of its own, for people with a line only. Open it?"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigError(
            "the door for other machines is closed; --yes opens it, or meet at a relay with --relay"
        )
    if not typer.confirm(question, default=True, err=True):
        raise ConfigError("not opened; `comity invite --relay LINE` meets at a relay instead")


async def _revoke(settings: Settings, room: str, *, as_json: bool) -> None:
    async with open_rooms(settings, alone=True) as rooms:
        result = await rooms.ask("revoke", {"room": room})
        if as_json:
            print_json(result)
        else:
            print_line(
                f"revoked the invite to the room {result['room']}; its members stay: {result['members']}"
            )


async def _first_peer(joined: JoinedRoom) -> str:
    while True:
        for peer in (await joined.ask("vdo_sync_peers"))["peers"]:
            if peer["connected"] and peer["handshake_state"] == "ready":
                return str(peer["stream_id"])
        await asyncio.sleep(LOOK_SECONDS)


async def _send_one(joined: JoinedRoom, whole: str, folder: str, peer: str, *, as_json: bool) -> None:
    asked = {"file_path": whole, "timeout_ms": 200, "target": peer}
    transfer = (await joined.ask("vdo_file_send_path", folder, **asked))["transfer"]
    transfer = await view.follow_transfer(joined, transfer)
    if as_json:
        print_json(transfer)
    if transfer["status"] != "completed":
        raise InvalidError(f"not sent: {view.with_remedy(transfer['last_error'] or transfer['status'])}")
    if not as_json:
        print_line(one_line(f"sent {transfer['name']}, {transfer['total_bytes']:,} bytes"))


async def _leave(joined: JoinedRoom, room: str) -> None:
    """A line that nobody has used ends with the command."""
    invites = (await joined.rooms.ask("invites", {}))["invites"]
    if any(one["room"] == room for one in invites):
        await joined.rooms.ask("revoke", {"room": room})
    await joined.ask("vdo_disconnect")


# The side that receives.


async def _receive_all(joined: JoinedRoom, *, as_json: bool) -> None:
    """Save what comes until the sender has left."""
    saved: set[str] = set()
    bars: dict[str, Any] = {}
    shows_bars = sys.stderr.isatty() and not as_json
    was_met = False
    refusal: str | None = None
    try:
        while True:
            peers = (await joined.ask("vdo_sync_peers"))["peers"]
            refusals = (one["rejected_reason"] for one in peers if one["rejected_reason"])
            refusal = refusal or next(
                refusals, None
            )  # the host's comes first; a member that says no hello is later
            here = any(one["connected"] and one["shared_key_ready"] for one in peers)
            was_met = was_met or here
            incoming = (await joined.ask("vdo_file_transfers", direction="incoming"))["incoming"]
            for one in incoming:
                _show_bar(bars, one, shown=shows_bars)
                if one["status"] == "completed" and one["transfer_id"] not in saved:
                    saved.add(one["transfer_id"])
                    await _save(joined, one, as_json=as_json)
            if not here and (was_met or refusal):
                break
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        for bar in bars.values():
            bar.stop()
    unfinished = [one["name"] for one in incoming if one["transfer_id"] not in saved]
    if unfinished:
        raise InvalidError(f"not received: {one_line(', '.join(map(str, unfinished)))}; the sender has left")
    if not saved:
        raise InvalidError(f"nothing was received: {one_line(refusal) if refusal else 'the sender has left'}")


def _show_bar(bars: dict[str, Any], transfer: dict[str, Any], *, shown: bool) -> None:
    if not shown:
        return
    key = transfer["transfer_id"]
    if transfer["status"] != "receiving":
        bar = bars.pop(key, None)
        if bar is not None:
            bar.stop()
        return
    if not bars:
        bars[key] = screen.progress_bar(transfer)
    if key in bars:
        done = transfer["acked_chunks"] * transfer["chunk_bytes"]
        bars[key].update(bars[key].task_ids[0], completed=min(done, transfer["total_bytes"]))


async def _save(joined: JoinedRoom, transfer: dict[str, Any], *, as_json: bool) -> None:
    whole, folder = folder_of(_free_name(safe_name(transfer["name"])))
    result = await joined.ask("vdo_file_save", folder, transfer_id=transfer["transfer_id"], output_path=whole)
    if as_json:
        print_json(result)
    else:
        print_line(one_line(f"received {result['output_path']}, {result['bytes_written']:,} bytes"))
    sys.stdout.flush()


def _free_name(name: str) -> str:
    free = (one for one in free_names(name) if not os.path.lexists(one))
    found = next(free, None)
    if found is None:
        raise InvalidError(f"{name} is in this folder too often already; receive it in another one")
    return found


def _guest() -> str:
    return f"guest_{secrets.token_hex(3)}"


def _line(given: str | None) -> str:
    line = (given or "").strip()
    if not line:
        if sys.stdin.isatty():
            sys.stderr.write("Paste the line: ")
            sys.stderr.flush()
        line = sys.stdin.readline().strip()
    if not is_invite(line):
        raise ConfigError(
            "this is no line of `comity invite`; it begins with comity:2: and is to be copied whole"
        )
    return line
