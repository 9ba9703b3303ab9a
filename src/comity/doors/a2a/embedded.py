"""One vacant served from another program: its room and its walk, made when the first envelope comes.

The store behind the replay store is opened in the loop that serves. What is embedded like this has
no audit log of its own; a node has.
"""

import asyncio
from typing import Protocol

from comity.core.card.resident import ResidentForm
from comity.core.errors import InvalidError
from comity.core.identity.keys import SigningKey
from comity.pipeline.envelopes.room import Behaviour, EnvelopeRoom, StateProvider
from comity.pipeline.record import Recorder
from comity.pipeline.walk import Walk
from comity.store.protocol import Store
from comity.system_clock import SystemClock


class OnStore(Protocol):
    """A replay store, as far as serving needs it: what it stands on."""

    async def opened(self) -> Store: ...


class EmbeddedVacant:
    def __init__(
        self,
        *,
        self_form: ResidentForm,
        self_signing_key: SigningKey,
        behavior: Behaviour,
        replay_store: OnStore,
        state_provider: StateProvider | None = None,
    ) -> None:
        if self_form.identity != self_signing_key.vacant_id:
            raise InvalidError(
                f"the form is of {self_form.identity.short()}, the key of "
                f"{self_signing_key.vacant_id.short()}; give the form its own key"
            )
        if not hasattr(replay_store, "opened"):
            raise InvalidError(
                "replay_store must be an InMemoryReplayStore or a SqliteReplayStore (or one derived from "
                "them): replies are kept beside the chain"
            )
        self.form = self_form
        self._key = self_signing_key
        self._behavior = behavior
        self._replay_store = replay_store
        self._state = state_provider or (lambda: self_form.runtime_state)
        self._opening: asyncio.Task[tuple[EnvelopeRoom, Walk]] | None = None

    async def opened(self) -> tuple[EnvelopeRoom, Walk]:
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
        try:
            return await asyncio.shield(self._opening)
        except Exception:
            self._opening = None  # the next envelope may find the store mended
            raise

    async def _open(self) -> tuple[EnvelopeRoom, Walk]:
        store = await self._replay_store.opened()
        clock = SystemClock()
        room = EnvelopeRoom(
            key=self._key,
            behaviour=self._behavior,
            state_provider=self._state,
            store=store,
            clock=clock,
        )
        record = Recorder(store, clock, audited=False)
        return room, Walk(record, clock, budget=None)
