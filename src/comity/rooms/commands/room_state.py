"""`comity room state`: the state that the peers of a room share."""

from typing import Annotated, Any

import typer

from comity.rooms.commands.target import POLL_MS, RoomSession, ask_session, run_in_session
from comity.terminal.help import HelpfulApp
from comity.terminal.options import HomeOptions, Json, RoomOption, argument
from comity.terminal.output import print_answer, print_json
from comity.wire import strict_json
from comity.wire.errors import ConfigError, MalformedError

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
    asked = {} if key is None else {"key": key}
    print_json(ask_session(home, room, "vdo_state_get", **asked)["value"])


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
    if delete:
        told = ask_session(home, room, "vdo_state_delete", key=key)
    else:
        told = ask_session(home, room, "vdo_state_set", key=key, value=_json_or_text(value or ""))
    entry, done = told["entry"], "deleted" if delete else "set"
    print_answer(entry, f"{key} {done}, clock {entry['clock']}", as_json=as_json)


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

    async def run(session: RoomSession) -> None:
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
