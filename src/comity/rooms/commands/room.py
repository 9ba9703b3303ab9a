"""`comity room`: meet others in a room, talk, pass files and share state."""

import asyncio
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from comity.rooms.commands.target import (
    POLL_MS,
    JoinedRoom,
    RoomAccess,
    ask_session,
    find_session,
    folder_of,
    run_in_rooms,
    run_in_session,
)
from comity.rooms.protocol.invite import MAX_USES, is_invite
from comity.rooms.protocol.tool_table import HANDSHAKE_WORDS, MAX_FILE_BYTES, is_present, room_words
from comity.runtime.lazy import late
from comity.terminal.help import HelpfulApp
from comity.terminal.options import HomeOptions, Json, RoomOption, argument, option, settings_of, whole_number
from comity.terminal.output import (
    note,
    one_line,
    print_answer,
    print_fields,
    print_foreign,
    print_json,
    print_line,
    print_table,
)
from comity.wire import strict_json
from comity.wire.errors import ConfigError, DeadlineError, InvalidError, MalformedError

if TYPE_CHECKING:
    from comity.rooms.commands import view
    from comity.rooms.protocol import messages
else:
    messages = late("comity.rooms.protocol.messages")
    view = late("comity.rooms.commands.view")

RECEIPT_MS: Final = 3000
"""How long a command that sends waits for the receipt."""

ONLY_WAITS: Final = 3

# `comity room state`: the state that the peers of a room share.


state_app = HelpfulApp("Read and write the state that the peers of a room share.")


@state_app.add("""
    comity room state get  print the whole shared state
    comity room state get plan  print one key
""")
def get(
    key: Annotated[str | None, argument("KEY", "The key to print. Default: all keys.")] = None,
    room: RoomOption = None,
    home: HomeOptions = HomeOptions(),
) -> None:
    """Print the shared state as JSON."""
    asked = {} if key is None else {"key": key}
    print_json(ask_session(home, room, "vdo_state_get", **asked)["value"])


@state_app.add("""
    comity room state set plan '{"step": 2}'  set a key to any JSON
    comity room state set plan --delete  delete it
""")
def set_(
    key: Annotated[str, argument("KEY", "The key.")],
    value: Annotated[
        str | None, argument("JSON", "The value, as JSON. If it is not valid JSON, it is stored as a text.")
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the key.")] = False,
    room: RoomOption = None,
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Set or delete a key of the shared state. Every peer of the room sees the change."""
    if delete == (value is not None):
        raise ConfigError("give a value, or --delete")
    if delete:
        result = ask_session(home, room, "vdo_state_delete", key=key)
    else:
        result = ask_session(home, room, "vdo_state_set", key=key, value=_json_or_text(value or ""))
    entry, done = result["entry"], "deleted" if delete else "set"
    print_answer(entry, f"{key} {done}, clock {entry['clock']}", as_json=as_json)


@state_app.add("""
    comity room state watch  print every change, one JSON object per line
    comity room state watch plan  only keys that begin with plan
""")
def watch(
    prefix: Annotated[
        str, argument("PREFIX", "Print only keys that begin with this text. Default: all keys.")
    ] = "",
    room: RoomOption = None,
    home: HomeOptions = HomeOptions(),
) -> None:
    """Print the shared state and then every change, until Ctrl-C."""

    async def run(session: JoinedRoom) -> None:
        asked = {"prefix": prefix} if prefix else {}
        while True:
            for change in (await session.ask("vdo_state_watch", wait_ms=POLL_MS, **asked))["changes"]:
                print_json(change)

    run_in_session(home, room, run)


def read_value(text: str, name: str) -> Any:
    try:
        return strict_json.loads(text.encode("utf-8", "surrogateescape"))
    except MalformedError as why:
        raise ConfigError(f"{name} is not valid JSON: {why.message}") from None


def _json_or_text(text: str) -> Any:
    try:
        return read_value(text, "")
    except ConfigError:
        return text


app = HelpfulApp("Meet other agents in a room: talk, pass files and share state, peer to peer.")
app.add_typer(state_app, name="state")


@app.add("""
    comity room invite lab  print the line that lets another machine join the room lab
    comity room invite lab --hours 1  an invite that expires after one hour
    comity room invite lab --revoke  revoke the invite, so that nobody can use it any more
""")
def invite(
    room: Annotated[str, argument("ROOM", "A name of letters, digits and _.")],
    revoke: Annotated[
        bool,
        typer.Option(
            "--revoke",
            help="Revoke the invite. Who has come by it stays; `comity room kick` removes somebody.",
        ),
    ] = False,
    hours: Annotated[
        str | None, option("--hours", "N", "Hours until it expires, from 1 to 720. Default: 24.")
    ] = None,
    uses: Annotated[
        str | None, option("--uses", "N", "How many people may come by it, from 1 to 256. Default: 1.")
    ] = None,
    relay: Annotated[
        str | None,
        option(
            "--relay",
            "URL",
            "A relay that both sides can reach, or the line that `comity relay` prints. Default: the settings peers.relay_file and "
            "peers.relay, else the relay of this node.",
        ),
    ] = None,
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Print an invite: one line with everything that another person needs to join the room.

    Send the line over a channel that you trust: whoever comes first can join, until it is used, expires or you revoke it. You
    let people in, so you have to be in the room yourself. A room has only one invite at a time. If you run the command again,
    it prints the same line, or another one if somebody has used it.
    """
    if revoke and (hours is not None or relay is not None or uses is not None):
        raise ConfigError("--revoke takes no --hours, no --uses and no --relay")
    seconds = 3600 * (24 if hours is None else whole_number("--hours", hours, 1, 720))
    if revoke:
        result = run_in_rooms(home, lambda rooms: rooms.ask("revoke", {"room": room}))
        stay = f"its members stay: {result['members']}"
        print_answer(result, f"revoked the invite to the room {result['room']}; {stay}", as_json=as_json)
        return
    people = None if uses is None else whole_number("--uses", uses, 1, MAX_USES)
    asked = {"room": room, "seconds": seconds, "host": relay, "uses": people}
    result = run_in_rooms(home, lambda rooms: rooms.ask("invite", asked))
    print_answer(result, result["invite"], as_json=as_json)
    if not as_json:
        until = _minute(result["expires_at"])
        note(f"valid until {until}; on the other machine: comity room join, then paste the line")
        if result["notice"]:
            note(result["notice"])


@app.add("""
    comity room kick lab bert  remove bert from the room lab
""")
def kick(
    room: Annotated[str, argument("ROOM", "The name of the room.")],
    name: Annotated[str, argument("NAME", "The stream id of the member, or the id of its node.")],
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Remove a member from a room that you have invited to. The others are told, and connect to it no more.

    The invite that it came by ends as well. A new invite lets it in again.
    """
    result = run_in_rooms(home, lambda rooms: rooms.ask("kick", {"room": room, "member": name}))
    ended = "; the invite has ended too" if result["invite_ended"] else ""
    done = one_line(f"removed {result['removed']} from the room {result['room']}{ended}")
    print_answer(result, done, as_json=as_json)


@app.add("""
    comity room invites  show which invites are still valid
""")
def invites(home: HomeOptions = HomeOptions(), as_json: Json = False) -> None:
    """Show which rooms have a valid invite, and when it expires. The invites themselves are not shown."""
    result = run_in_rooms(home, lambda rooms: rooms.ask("invites", {}))
    if as_json:
        print_json(result)
    elif result["invites"]:
        rows = [
            (one["room"], _minute(one["expires_at"]), f"{one['left']} of {one['uses']}")
            for one in result["invites"]
        ]
        print_table(("room", "valid until", "left"), rows)
    else:
        print_line("No invite is valid. Make one with `comity room invite`.")


@app.add("""
    comity room join  paste an invite and talk
    comity room join lab  join a room that you made an invite for, or a room on the relay of this node
    comity room join lab --on-message "notify-send Comity"  run a program when a message arrives
""")
def join(
    room: Annotated[
        str | None, argument("ROOM", "An invite, or the name of a room. Default: a line from standard input.")
    ] = None,
    name: Annotated[
        str | None,
        option("--name", "NAME", "Your stream id, which others see. Default: guest_ and random digits."),
    ] = None,
    relay: Annotated[str | None, option("--relay", "URL", "The relay of a room without an invite.")] = None,
    file_max_bytes: Annotated[
        str | None,
        option(
            "--file-max-bytes",
            "N",
            f"The largest file to send or to accept, in bytes, at most {MAX_FILE_BYTES}. Default: 67108864.",
        ),
    ] = None,
    on_message: Annotated[
        str | None,
        option(
            "--on-message",
            "COMMAND",
            "Run this command when messages arrive. It reads them from standard input, one JSON object per line.",
        ),
    ] = None,
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Join a room, and show its peers, messages and transfers. Each line that you type is sent; Ctrl-D ends the view.

    If a node runs, you stay in the room after the view has ended, until `comity room leave`. If the node is restarted, the
    view continues. Without a node, you leave the room when this command ends. In a pipe, each line of standard input is
    sent as a message.
    """
    settings = settings_of(home).settings
    most = None
    if file_max_bytes is not None:
        most = whole_number("--file-max-bytes", file_max_bytes, 1, MAX_FILE_BYTES)
    wanted = (room or "").strip() or _read_line()
    asyncio.run(
        view.show_room(
            settings,
            wanted,
            name=name,
            relay=relay,
            file_max_bytes=most,
            on_message=on_message,
            as_json=as_json,
        )
    )


@app.add("""
    comity room leave lab  leave the room lab
""")
def leave(
    room: Annotated[
        str | None, argument("ROOM", "The name of the room, or a session id. Default: the only open room.")
    ] = None,
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Leave a room. Messages and transfers that are not finished are dropped."""

    async def run(session: JoinedRoom) -> None:
        result = await session.ask("vdo_disconnect")
        print_answer(result, f"left the room {session.room}", as_json=as_json)

    run_in_session(home, room, run)


@app.add("""
    comity room peers  show who is in your rooms
    comity room peers --json  the same for programs
""")
def peers(
    room: Annotated[
        str | None,
        option("--room", "ROOM", "The name of the room, or a session id. Default: all open rooms."),
    ] = None,
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Show the peers in your rooms: stream id, state, network path and node id."""

    async def run(rooms: RoomAccess) -> None:
        sessions = (await rooms.ask("vdo_list_sessions", {}))["sessions"]
        if room is not None:
            sessions = [await find_session(rooms, room)]
        shown: list[dict[str, Any]] = []
        states, empty = [], ""
        for session in sessions:
            chosen = JoinedRoom(rooms, session)
            links = (await chosen.ask("links"))["links"]
            known = (await chosen.ask("vdo_sync_peers"))["peers"]
            shown += [{"room": chosen.room, **peer, "link": links.get(peer["uuid"])} for peer in known]
            present = {peer["stream_id"] or peer["uuid"] for peer in known if is_present(peer)}
            words = room_words(session["state"], len(present))
            states.append((chosen.room, f"{words}; you are {session['stream_id']}"))
            empty = empty if present else chosen.room
        if as_json:
            print_json({"sessions": sessions, "peers": shown})
            return
        if not sessions:
            print_line("This node is in no room. Join one with `comity room join`.")
            return
        print_fields(states)
        here = [peer for peer in shown if peer["connected"] or peer["handshake_state"] == "rejected"]
        if here:
            print_line()
            print_table(("room", "peer", "state", "path", "node"), [_peer_row(peer) for peer in here])
        if empty:
            note(f"`comity room invite {empty}` prints a line that lets others in")

    run_in_rooms(home, run)


@app.add("""
    comity room send "hello"  send a text to everybody in the room
    comity room send --to bert --data-json '{"temperature": 21}'  send JSON to one peer
""")
def send(
    text: Annotated[str | None, argument("TEXT", "The text. Default: read from standard input.")] = None,
    json_data: Annotated[
        str | None, option("--data-json", "JSON", "A JSON value, instead of a text.")
    ] = None,
    to: Annotated[
        str | None, option("--to", "PEER", "The stream id of one peer. Default: everybody.")
    ] = None,
    signed: Annotated[bool, typer.Option("--signed", help="Sign and number the message.")] = False,
    room: RoomOption = None,
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Send a message to everybody who is in the room now, or to one peer.

    The command says what became of it: stored by the other side, or waiting, which ends with exit code 3. With --to, a node
    that is offline gets the message if it comes back within 24 hours. With --signed, `comity room export` can later prove
    to others what you sent.
    """
    value: Any = read_value(json_data, "--data-json") if json_data is not None else text
    if json_data is not None and text is not None:
        raise ConfigError("give either a text or --data-json, not both")
    if value is None and json_data is None:
        value = sys.stdin.read()

    async def run(session: JoinedRoom) -> dict[str, Any]:
        result = await session.ask("vdo_send", data=value, signed=signed, **_target(to))
        ids = result.get("message_ids")
        if not ids:
            return {**result, "messages": []}
        wait_ms = 0 if result.get("status") == "waiting" else RECEIPT_MS
        delivery = await session.ask("delivery", message_ids=ids, wait_ms=wait_ms)
        return {**result, "messages": delivery["messages"]}

    result = run_in_session(home, room, run)
    if as_json:
        print_json(result)
    if not result["ok"]:
        raise InvalidError(view.not_sent(to))
    words, waits = _delivery_words(result)
    if not as_json:
        print_line(words)
    if waits:
        raise typer.Exit(ONLY_WAITS)


@app.add("""
    comity room send-file report.pdf  send a file to the only peer of the room
    comity room send-file report.pdf --to bert  send it to one of several peers
""")
def send_file(
    path: Annotated[str, argument("FILE", "The file to send.")],
    to: Annotated[
        str | None, option("--to", "PEER", "The stream id of the peer. Default: the only other peer.")
    ] = None,
    room: RoomOption = None,
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Send a file to one peer, and wait until the peer has received it. If you stop this command, the transfer continues."""
    whole, folder = folder_of(path)

    async def run(session: JoinedRoom) -> None:
        asked = {"file_path": whole, "timeout_ms": 200, **_target(to)}
        try:
            result = await session.ask("vdo_file_send_path", folder, **asked)
        except InvalidError as refused:
            raise InvalidError(view.with_remedy(refused.message)) from None
        transfer = await view.follow_transfer(session, result["transfer"])
        if as_json:
            print_json(transfer)
        if transfer["status"] != "completed":
            raise InvalidError(f"not sent: {view.with_remedy(transfer['last_error'] or transfer['status'])}")
        if not as_json:
            print_line(f"sent {transfer['name']}, {transfer['total_bytes']:,} bytes, {transfer['file_hash']}")

    run_in_session(home, room, run)


@app.add("""
    comity room files  show the transfers of the room, with their ids
    comity room files --save file_1a2b3c4d --as report.pdf  save a received file
""")
def files(
    save: Annotated[str | None, option("--save", "ID", "Save the received file with this id.")] = None,
    save_as: Annotated[
        str | None, option("--as", "FILE", "The file to write. Default: its name, in this folder.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
    room: RoomOption = None,
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Show the file transfers of a room, or save a file that was received."""

    async def run(session: JoinedRoom) -> None:
        listed = await session.ask("vdo_file_transfers")
        if save is None:
            if as_json:
                print_json(listed)
            elif listed["incoming"] or listed["outgoing"]:
                rows = [_transfer_row(one) for one in (*listed["incoming"], *listed["outgoing"])]
                print_table(("id", "way", "peer", "name", "bytes", "status"), rows)
            else:
                print_line("No files yet.")
            return
        name = next((one["name"] for one in listed["incoming"] if one["transfer_id"] == save), save)
        whole, folder = folder_of(save_as or Path(name).name or save)
        saving = {"transfer_id": save, "output_path": whole, "overwrite": overwrite}
        result = await session.ask("vdo_file_save", folder, **saving)
        print_answer(
            result, f"saved {result['output_path']}, {result['bytes_written']:,} bytes", as_json=as_json
        )

    run_in_session(home, room, run)


@app.add("""
    comity room wait  wait for the next message and print it
    comity room wait --seconds 60 --json  wait for a minute at most
""")
def wait(
    seconds: Annotated[
        str | None, option("--seconds", "N", "The longest time to wait, in seconds. Default: no limit.")
    ] = None,
    room: RoomOption = None,
    home: HomeOptions = HomeOptions(),
    as_json: Json = False,
) -> None:
    """Wait until a message arrives, print it and end. A message that arrived earlier and was not printed yet comes first.

    A message counts as read after it was printed. If the command is stopped or times out, no message is lost. If it is
    stopped at the moment of printing, or if several of these commands run at the same time, a message can be printed twice.
    """
    limit = None if seconds is None else whole_number("--seconds", seconds, 0, 10_000_000)

    async def run(session: JoinedRoom) -> None:
        try:
            place, event = await session.next_message(limit)
        except TimeoutError:
            raise DeadlineError(f"no message arrived within {limit} seconds") from None
        if as_json:
            print_json(event)
        elif isinstance(event["data"], str):
            print_foreign(event["data"])
        else:
            print_json(event["data"])
        sys.stdout.flush()
        await session.acknowledge(place)

    run_in_session(home, room, run, "cli wait")


@app.add("""
    comity room export > messages.ndjson  save all signed messages, yours and those of others
    comity room verify messages.ndjson  check them anywhere, without a node
""")
def export(home: HomeOptions = HomeOptions()) -> None:
    """Print the signed messages that this node has sent and received, one JSON object per line.

    `comity room verify` checks the output offline: who said what to whom, and in which order. The node keeps the last
    10,000 signed messages. `comity receipt messages` writes them as a receipt.
    """

    async def run(rooms: RoomAccess) -> None:
        after = 0
        while True:
            page = await rooms.ask("export", {"after": after})
            sys.stdout.write(messages.export_lines(page["messages"]).decode())
            after = page["after"]
            if not after:
                return

    run_in_rooms(home, run)


@app.add("""
    comity room verify messages.ndjson  check signatures and order
""")
def verify(
    file: Annotated[str, argument("FILE", "A file that `comity room export` wrote.")], as_json: Json = False
) -> None:
    """Check exported messages: every signature is valid, and no number is missing between two messages of a sender."""
    try:
        found = messages.verify_export(Path(file).read_bytes())
    except OSError as why:
        raise ConfigError(f"{file} cannot be read: {(why.strerror or str(why)).lower()}") from None
    rows = [
        {
            "from": one.envelope.from_vacant_id.short(),
            "to": one.envelope.to_vacant_id.short(),
            "number": one.envelope.sequence_no,
            "time": one.envelope.timestamp.isoformat(),
            "data": one.text,
        }
        for one in found
    ]
    if as_json:
        print_json({"verified": len(rows), "messages": rows})
        return
    for row in rows:
        print_line(one_line("{time} {from} -> {to} #{number} {data}".format_map(row)))
    print_line(f"messages verified: {len(rows)}")


def _delivery_words(result: dict[str, Any]) -> tuple[str, bool]:
    """Return what became of a message, and whether it only waits. Raise InvalidError if it was refused."""
    states = {one["status"]: one["reason"] for one in result["messages"]}
    for state in ("refused", "expired"):
        if state in states:
            raise InvalidError(f"{state}: {states[state]}")
    if states.keys() & {"waiting", "sent"}:
        return (
            f"waiting: {result.get('reason', 'no receipt has come yet; it is sent again until one comes')}",
            True,
        )
    if not states:
        return "sent, without a receipt", False
    return f"sent, and {'stored' if 'stored' in states else 'read'} by the other side", False


def _minute(moment: float) -> str:
    return datetime.fromtimestamp(moment).strftime("%Y-%m-%d %H:%M")  # noqa: DTZ006 - local time


def _target(to: str | None) -> dict[str, Any]:
    return {} if to is None else {"target": to}


def _read_line() -> str:
    if sys.stdin.isatty():
        sys.stderr.write("Paste the invite, or type the name of a room: ")
        sys.stderr.flush()
    line = sys.stdin.readline().strip()
    if not line:
        raise ConfigError("give an invite, or the name of a room")
    if not is_invite(line) and len(line) > 80:
        raise ConfigError("this is neither an invite nor the name of a room; an invite begins with comity:2:")
    return line


def _peer_row(peer: dict[str, Any]) -> tuple[str, ...]:
    link = peer["link"] or {}
    state = peer["rejected_reason"] or HANDSHAKE_WORDS[peer["handshake_state"]]
    return (
        peer["room"],
        one_line(str(peer["stream_id"] or peer["uuid"])),
        one_line(state),
        str(link.get("path", "")),
        peer.get("vacant_id", "")[:16],
    )


def _transfer_row(one: dict[str, Any]) -> tuple[str, ...]:
    peer = one["from_stream_id"] or one["target_stream_id"] or ""
    done = min(one["total_bytes"], one["acked_chunks"] * one["chunk_bytes"])
    size = (
        f"{one['total_bytes']:,}" if one["status"] == "completed" else f"{done:,} of {one['total_bytes']:,}"
    )
    way = "in" if one["direction"] == "incoming" else "out"
    return one["transfer_id"], way, one_line(peer), one_line(one["name"]), size, one["status"]
