"""A reply made by hand, for programs that drive the replay store themselves."""

from datetime import UTC, datetime

from comity.core.card.resident import ResidentForm
from comity.core.envelope.chain import ReplayStore
from comity.core.envelope.envelope import VacantEnvelope
from comity.core.envelope.message import A2AMessage
from comity.core.identity.keys import AnySigningKey
from comity.doors.a2a.embedded import key_of
from comity.pipeline.envelopes.foreign import chained_reply


async def make_response_envelope(
    *,
    request: VacantEnvelope,
    response_payload: A2AMessage,
    self_signing_key: AnySigningKey,
    response_replay_store: ReplayStore,
    self_form: ResidentForm,
) -> VacantEnvelope:
    """The next signed link of the chain of replies to this caller, recorded before it is returned."""
    return await chained_reply(
        response_replay_store,
        request=request,
        payload=response_payload,
        key=key_of(self_form, self_signing_key),
        now=datetime.now(UTC),
    )
