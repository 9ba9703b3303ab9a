"""`comity room state`: the state that the peers of a room share."""

from typing import Annotated, Any

import typer

from comity.cli.help import HelpfulApp
from comity.cli.options import HomeOptions, Json, argument, settings_of
from comity.cli.room_access import POLL_MS, RoomAccess, RoomOption, find_session, run_in_rooms
from comity.cli.screen import print_json, print_line
from comity.core.errors import ConfigError, MalformedError
from comity.core.wire import strict_json

app = HelpfulApp("Read and write the state that the peers of a room share.")


@app.add("""
    comity room state get  print the whole shared state
    comity room state get plan  print one key
""")
def get(
    key: Annotated[str | None, argument("KEY", "The key to print. Default: all keys.")] = None,
    room: RoomOption = None,
    home: HomeOptions = HomeOptions(),
) -> None:
    """Print the shared state as JSON."""

    async def run(rooms: RoomAccess) -> None:
        session = await find_session(rooms, room)
        asked = {"session_id": session["session_id"], **({} if key is None else {"key": key})}
        print_json((await rooms.ask("vdo_state_get", asked))["value"])

    run_in_rooms(settings_of(home).settings, run)


@app.add("""
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

    async def run(rooms: RoomAccess) -> None:
        session = await find_session(rooms, room)
        asked: dict[str, Any] = {"session_id": session["session_id"], "key": key}
        if delete:
            told = await rooms.ask("vdo_state_delete", asked)
        else:
            told = await rooms.ask("vdo_state_set", {**asked, "value": _json_or_text(value or "")})
        if as_json:
            print_json(told["entry"])
        else:
            print_line(f"{key} {'deleted' if delete else 'set'}, clock {told['entry']['clock']}")

    run_in_rooms(settings_of(home).settings, run)


@app.add("""
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

    async def run(rooms: RoomAccess) -> None:
        session = await find_session(rooms, room)
        asked = {
            "session_id": session["session_id"],
            "wait_ms": POLL_MS,
            **({"prefix": prefix} if prefix else {}),
        }
        while True:
            for change in (await rooms.ask("vdo_state_watch", asked))["changes"]:
                print_json(change)

    run_in_rooms(settings_of(home).settings, run)


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
