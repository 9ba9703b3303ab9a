"""Signed envelopes on a replay store of another program's (ruling 41): the reference's own semantics.

Such a store accepts an envelope before the work begins, and cannot undo that. So a number is used up even if the agent
fails, and a repeated envelope is refused, because no reply is stored. The checks before that are those of the node.
"""

import asyncio
import logging
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime
from typing import Any, Final, cast

from comity.envelopes.protocol.carrier import to_a2a_message
from comity.envelopes.protocol.chain import PairKey, ReplayState, ReplayStore
from comity.envelopes.protocol.envelope import VacantEnvelope, reply_key, signed_envelope, spoken_in
from comity.envelopes.protocol.message import A2AMessage
from comity.envelopes.protocol.refusals import BehaviourError, OutOfChainError
from comity.envelopes.protocol.statement import TipStatement
from comity.envelopes.server import Behaviour, EnvelopeRoom, StateProvider
from comity.identity.protocol.keys import SigningKey
from comity.requests.handler import Admission, Call, Sealed
from comity.store.interface import Store
from comity.wire import strict_json
from comity.wire.clock import Clock
from comity.wire.errors import ComityError, ConflictError

log = logging.getLogger("comity.envelopes")

NO_STORE: Final = cast("Store", None)
"""The replay store keeps all the state there is: nothing is ever committed beside it."""


class ForeignStoreRoom(EnvelopeRoom):
    def __init__(
        self,
        replay_store: ReplayStore,
        *,
        key: SigningKey,
        behaviour: Behaviour,
        state_provider: StateProvider,
        clock: Clock,
    ) -> None:
        super().__init__(
            key=key, behaviour=behaviour, state_provider=state_provider, store=NO_STORE, clock=clock
        )
        self._replay_store = replay_store
        self._replying = asyncio.Lock()

    def hold(self, call: Call) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def knows(self, call: Call) -> bool:
        return False  # only the store could tell

    async def admit(self, call: Call) -> Admission:
        envelope: VacantEnvelope = call.evidence.envelope
        try:
            await self._replay_store.check_and_advance(envelope)
        except Exception as refusal:
            raise await self._out_of_chain(envelope, refusal) from refusal
        return Admission(checks=("signature", "chain"))

    async def handle(self, call: Call) -> A2AMessage:
        try:
            return await super().handle(call)
        except BehaviourError as failure:
            raise BehaviourError(
                "the agent failed on this message; its number is used, so go on with the next one"
            ) from failure

    async def seal(self, call: Call, result: A2AMessage) -> Sealed:
        request: VacantEnvelope = call.evidence.envelope
        async with self._replying:  # the store reads and advances in two steps: nobody may come between
            reply = await chained_reply(
                self._replay_store, request=request, payload=result, key=self._key, now=self._now()
            )
        return Sealed(reply=strict_json.dumps(to_a2a_message(reply)))

    async def _out_of_chain(self, envelope: VacantEnvelope, refusal: Exception) -> ComityError:
        """What the store raised, as 409, whatever it was; with the way back where the store can say it."""
        if not isinstance(refusal, ComityError):
            log.warning("the replay store refused an envelope: %s: %s", type(refusal).__name__, refusal)
        detail = refusal.message if isinstance(refusal, ComityError) else str(refusal)
        pair = PairKey.from_envelope(envelope)
        try:
            state = _own_state(await self._replay_store.get(pair))
            statement = TipStatement.of(pair, state, now=self._now()).signed(self._key)
        except Exception:
            log.exception("the replay store does not say where a pair stands")
            return ConflictError(detail)
        return OutOfChainError(detail, pair, state, statement)


async def chained_reply(
    store: ReplayStore, *, request: VacantEnvelope, payload: A2AMessage, key: SigningKey, now: datetime
) -> VacantEnvelope:
    """The next signed link of the chain of replies to this caller, recorded before it is returned."""
    state = _own_state(await store.get(PairKey(key.vacant_id, request.from_vacant_id)))
    reply = signed_envelope(
        from_vid=key.vacant_id,
        to_vid=request.from_vacant_id,
        payload=spoken_in(request.dialect, payload),
        sequence_no=state.last_sequence_no + 1,
        prev_envelope_hash=state.chain_tip,
        idempotency_key=reply_key(request),
        timestamp=now,
        signing_key=key,
        dialect=request.dialect,
    )
    await store.check_and_advance(reply)
    return reply


def _own_state(state: Any) -> ReplayState:
    return ReplayState(state.last_sequence_no, state.chain_tip)
