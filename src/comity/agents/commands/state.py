"""`comity state`: whether this folder's agent takes calls; asked of the node that serves it, else kept in the database.

While no node serves it, the folder is held for the moment of writing, so that no node starts in between
with the former state.
"""

import asyncio
import contextlib
from typing import Annotated

from comity.actions import completion
from comity.agents.residence import new_state, store_state, stored_state
from comity.directory.cards import move_record
from comity.envelopes.protocol.lifecycle import RuntimeState
from comity.requests.record import own_act
from comity.runtime.opening import reading
from comity.runtime.settings import Settings
from comity.runtime.system_clock import SystemClock
from comity.store.claim import FolderClaim
from comity.terminal.help import HelpfulApp
from comity.terminal.open_target import own_id, own_key, refuse_memory, writing
from comity.terminal.options import HomeOptions, Json, KeyOptions, Yes, argument, confirm, settings_of
from comity.terminal.output import print_fields, print_json, print_line
from comity.terminal.running_node import OwnNode, own_node
from comity.wire.errors import ConfigError, NotFoundError

STATE_PATH = "/v1/state"
HEALTH_PATH = "/health"
STATE_SET = "STATE_SET"


async def current_state(settings: Settings, own: OwnNode | None) -> RuntimeState:
    if own is not None:
        with contextlib.suppress(NotFoundError):  # it serves no agent
            return RuntimeState((await own.ask("GET", HEALTH_PATH))["state"])
    refuse_memory(settings, "only a running node knows the state")
    if not settings.database.is_file():
        return RuntimeState.LOCAL
    async with reading(settings, SystemClock()) as store:
        return await stored_state(store)


async def set_state(
    settings: Settings, own: OwnNode | None, wanted: RuntimeState, passphrase_file: str | None
) -> RuntimeState:
    """Set it, and return what it was."""
    if own is not None:
        with contextlib.suppress(NotFoundError):
            told = await own.ask("POST", STATE_PATH, {"state": wanted.value})
            return RuntimeState(told["former"])
    refuse_memory(settings, "a state needs to be kept")
    key = own_key(settings, passphrase_file)
    with contextlib.ExitStack() as held:
        if own is None:
            held.callback(FolderClaim(settings.data).release)
        async with writing(settings, key) as (store, record, _chain):
            former = await stored_state(store)
            operation = store_state(new_state(former, wanted.value))
            moved = await move_record(store, key.vacant_id, wanted)
            await record.commit((operation, *moved), own_act(STATE_SET, f"state:{wanted.value}"))
            return former


app = HelpfulApp(
    "Show or set the state of the agent of this node. The state says whether the agent accepts calls."
)

MEANINGS = {
    RuntimeState.LOCAL: "accepts calls from everybody who knows its address; not published",
    RuntimeState.ACTIVE: "accepts calls; directories show its card if it is published",
    RuntimeState.HIBERNATING: "paused, refuses calls for now (423)",
    RuntimeState.STALE: "paused for a long time, refuses calls until you set another state (423)",
    RuntimeState.SUNK: "shut down, refuses all calls (410)",
    RuntimeState.ARCHIVED: "closed permanently, refuses all calls (410)",
}


@app.add("""
    comity state show  show whether the agent accepts calls
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
    comity state set active  accept calls again
    comity state set archived --yes  refuse calls permanently
""")
def set_(
    wanted: Annotated[
        str,
        argument(
            "STATE",
            ". ".join(f"{state.value}: {meaning}" for state, meaning in MEANINGS.items()) + ".",
            autocompletion=completion.states,
        ),
    ],
    home: KeyOptions = KeyOptions(),
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Set the state. It takes effect at once and survives a restart. ARCHIVED cannot be undone.

    The directory of this node shows the new state at once, and so does the directory that was given with `comity up
    --directory`. Any other directory shows it after the next `comity card publish`.
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
    moved = f"{state.value}, unchanged" if former is state else f"{former.value} → {state.value}"
    print_line(f"{moved}: {MEANINGS[state]}")


def read_state(text: str) -> RuntimeState:
    try:
        return RuntimeState(text.upper())
    except ValueError:
        raise ConfigError(f"STATE must be one of {', '.join(RuntimeState)}, not {text[:60]!r}") from None
