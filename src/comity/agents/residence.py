"""The vacant that lives on this node: its card, and the state it is in, which survives a restart.

The operator sets the state. ARCHIVED is final: no other state can follow it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any

from comity.directory.cards import move_record
from comity.envelopes.protocol.card import (
    CapabilityCard,
    RuntimeState,
    SubstrateSpec,
    refuse_control_characters,
)
from comity.envelopes.protocol.resident import BehaviorBundle, Logbook, ResidentForm
from comity.identity.protocol.keys import SigningKey, VacantId
from comity.requests.handler import Call, HandlerDefaults, HandlerResult, Identified, Request
from comity.store.interface import Put, Store
from comity.wire.errors import ConflictError, InvalidError, UnauthenticatedError

SPACE = "residence"
STATE_KEY = "state"
CARD_POLICY = {"bind_replies": True, "witness": 1}

_NO_KEYS: Mapping[str, Any] = MappingProxyType({})


async def stored_state(store: Store) -> RuntimeState:
    held = await store.get(SPACE, STATE_KEY)
    return RuntimeState(held.value.decode()) if held else RuntimeState.LOCAL


def new_state(current: RuntimeState, wanted: Any) -> RuntimeState:
    """Return the state an operator asks for, if it is possible."""
    names = ", ".join(RuntimeState)
    if not isinstance(wanted, str) or wanted.upper() not in RuntimeState.__members__:
        raise InvalidError(f"state must be one of {names}")
    if current is RuntimeState.ARCHIVED and wanted.upper() != RuntimeState.ARCHIVED:
        raise ConflictError("this vacant is ARCHIVED, and that state is final; create a new identity")
    return RuntimeState(wanted.upper())


def store_state(state: RuntimeState) -> Put:
    return Put(space=SPACE, key=STATE_KEY, value=state.value.encode())


def make_card(
    key: SigningKey, capability: str, endpoint: str, keys: Mapping[str, Any] = _NO_KEYS
) -> CapabilityCard:
    """`keys` is what the card says of replaced keys and the recovery key (`OwnLine.policy`)."""
    card = CapabilityCard(
        vacant_id=key.vacant_id,
        capability_text=capability,
        substrate_spec=SubstrateSpec(policy={**CARD_POLICY, **keys}),
        endpoint=endpoint,
    )
    refuse_control_characters(card)
    return card.signed(key)


def vacant_form(identity: VacantId) -> ResidentForm:
    """Return the form of a node whose agent answers no calls."""
    return ResidentForm(
        identity=identity, logbook=Logbook(), behavior_bundle=BehaviorBundle(), substrate_spec=SubstrateSpec()
    )


async def resident_form(
    store: Store, key: SigningKey, capability: str, endpoint: str, keys: Mapping[str, Any] = _NO_KEYS
) -> ResidentForm:
    card = make_card(key, capability, endpoint, keys)
    return ResidentForm(
        identity=key.vacant_id,
        logbook=Logbook(),
        behavior_bundle=BehaviorBundle(),
        substrate_spec=card.substrate_spec,
        runtime_state=await stored_state(store),
        capability_card=card,
    )


class StateHandler(HandlerDefaults):
    """The owner sets the state of the vacant; callers feel it as soon as it is stored. So does the directory of this
    node, if the vacant is published there. `changed` is called afterwards.
    """

    name = "state"
    deadline = 5.0

    def __init__(self, form: ResidentForm, store: Store, changed: Callable[[], None] = lambda: None) -> None:
        self._form = form
        self._store = store
        self._changed = changed
        self._wanted = form.runtime_state
        self._one_at_a_time = asyncio.Lock()

    def identify(self, request: Request) -> Identified:
        if not request.caller.is_local:
            raise UnauthenticatedError("only the owner of this node sets the state of its vacant")
        return Identified(request.caller)

    @asynccontextmanager
    async def hold(self, call: Call) -> AsyncIterator[None]:
        async with self._one_at_a_time:
            self._wanted = self._form.runtime_state
            yield
            self._form.runtime_state = self._wanted
            self._changed()

    async def handle(self, call: Call) -> RuntimeState:
        body = call.request.body
        return new_state(self._form.runtime_state, body.get("state") if isinstance(body, dict) else None)

    async def seal(self, call: Call, result: RuntimeState) -> HandlerResult:
        former, self._wanted = self._form.runtime_state, result
        return HandlerResult(
            reply={"state": result.value, "former": former.value},
            operations=(store_state(result), *await move_record(self._store, self._form.identity, result)),
            audit={"content_hash": f"state:{result.value}"},
        )
