"""The state of this folder's own agent: asked of the node that serves it, else kept in the database.

While no node serves it, the folder is held for the moment of writing, so that no node starts in between
with the former state.
"""

import contextlib

from comity.cli.own_node import OwnNode
from comity.cli.own_store import own_key, refuse_memory, writing
from comity.config import Settings
from comity.core.card.lifecycle import RuntimeState
from comity.core.errors import NotFoundError
from comity.pipeline.directory.records import move_record
from comity.pipeline.record import own_act
from comity.pipeline.residence import new_state, store_state, stored_state
from comity.store.claim import FolderClaim
from comity.store.opening import reading
from comity.system_clock import SystemClock

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
