"""`comity state`: whether this folder's agent takes calls."""

import asyncio
from typing import Annotated

import typer

from comity.cli import completion
from comity.cli.help import HelpfulApp
from comity.cli.options import HomeOptions, Json, KeyOptions, Yes, confirm, settings_of
from comity.cli.own_node import own_node
from comity.cli.own_state import current_state, set_state
from comity.cli.own_store import own_id
from comity.cli.screen import print_fields, print_json, print_line
from comity.core.card.lifecycle import RuntimeState
from comity.core.errors import ConfigError

app = HelpfulApp("Show or set the state of this node's agent: whether it takes calls.")

MEANINGS = {
    RuntimeState.LOCAL: "takes calls from whoever knows its address; not published",
    RuntimeState.ACTIVE: "takes calls; published",
    RuntimeState.HIBERNATING: "asleep, refuses calls for now (423)",
    RuntimeState.STALE: "asleep for long, refuses calls until it is woken (423)",
    RuntimeState.SUNK: "gone, refuses calls for good (410)",
    RuntimeState.ARCHIVED: "gone and closed, refuses calls for good (410)",
}


@app.add("""
    comity state show  show whether the agent of your data folder takes calls
    comity state show --json  print JSON
""")
def show(home: HomeOptions = HomeOptions(), as_json: Json = False) -> None:
    """Show the state of the running node, or the stored state if no node runs."""
    settings = settings_of(home).settings
    own = own_node(settings)
    vacant_id = own_id(settings)
    state = asyncio.run(current_state(settings, own))
    if as_json:
        print_json({"vacant_id": vacant_id.hex(), "state": state.value, "node": own.url if own else None})
        return
    print_fields(
        (
            ("agent", str(vacant_id)),
            ("state", state.value),
            ("", MEANINGS[state]),
            ("node", f"running at {own.url}" if own else "not running"),
        )
    )


@app.add("""
    comity state set hibernating  refuse calls for now
    comity state set active  take calls again
    comity state set archived --yes  refuse calls permanently
""")
def set_(
    wanted: Annotated[
        str,
        typer.Argument(
            metavar="STATE",
            help="LOCAL, ACTIVE, HIBERNATING, STALE, SUNK or ARCHIVED.",
            autocompletion=completion.states,
        ),
    ],
    home: KeyOptions = KeyOptions(),
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Set the state. It takes effect at once and survives a restart. ARCHIVED cannot be undone.

    The directory of the node itself follows, and so does the one of `comity up --directory`. Any other directory shows
    what was published there last: `comity card publish` tells it the new state.
    """
    state = read_state(wanted)
    settings = settings_of(home).settings
    own = own_node(settings)
    if state is RuntimeState.ARCHIVED:
        confirm("An archived agent never takes a call again. This cannot be undone. Archive it?", yes=yes)
    former = asyncio.run(set_state(settings, own, state, home.passphrase_file))
    if as_json:
        print_json({"state": state.value, "former": former.value, "node": own.url if own else None})
        return
    moved = f"{state.value}, as it was" if former is state else f"{former.value} → {state.value}"
    print_line(f"{moved}: {MEANINGS[state]}")


def read_state(text: str) -> RuntimeState:
    try:
        return RuntimeState(text.upper())
    except ValueError:
        raise ConfigError(f"STATE must be one of {', '.join(RuntimeState)}, not {text[:60]!r}") from None
