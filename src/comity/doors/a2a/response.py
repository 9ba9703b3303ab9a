"""A reply made by hand, for programs that drive the replay store themselves."""

from datetime import UTC, datetime
from typing import Protocol

from comity.core.card.resident import ResidentForm
from comity.core.envelope.chain import PairKey, ReplayState
from comity.core.envelope.dialects import spoken_in
from comity.core.envelope.envelope import VacantEnvelope, signed_envelope
from comity.core.envelope.message import A2AMessage
from comity.core.envelope.replies import reply_key
from comity.core.identity.keys import SigningKey


class KeepsChains(Protocol):
    async def get(self, key: PairKey) -> ReplayState: ...

    async def check_and_advance(self, env: VacantEnvelope) -> None: ...


async def make_response_envelope(
    *,
    request: VacantEnvelope,
    response_payload: A2AMessage,
    self_signing_key: SigningKey,
    response_replay_store: KeepsChains,
    self_form: ResidentForm,
) -> VacantEnvelope:
    """The next signed link of the chain of replies to this caller, recorded before it is returned."""
    state = await response_replay_store.get(PairKey(self_form.identity, request.from_vacant_id))
    reply = signed_envelope(
        from_vid=self_form.identity,
        to_vid=request.from_vacant_id,
        payload=spoken_in(request.dialect, response_payload),
        sequence_no=state.last_sequence_no + 1,
        prev_envelope_hash=state.chain_tip,
        idempotency_key=reply_key(request),
        timestamp=datetime.now(UTC),
        signing_key=self_signing_key,
        dialect=request.dialect,
    )
    await response_replay_store.check_and_advance(reply)
    return reply
