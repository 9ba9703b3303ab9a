"""A resident to be served."""

from comity.envelopes.protocol.card import CapabilityCard, RuntimeState, SubstrateSpec
from comity.envelopes.protocol.resident import BehaviorBundle, Logbook, ResidentForm
from tests.envelopes.peers import SERVER


def resident(**changed) -> ResidentForm:
    card = CapabilityCard(
        vacant_id=SERVER.vacant_id,
        capability_text="says what it was told",
        endpoint="http://127.0.0.1/a2a/message/send",
    )
    fields = {
        "identity": SERVER.vacant_id,
        "logbook": Logbook(),
        "behavior_bundle": BehaviorBundle(),
        "substrate_spec": SubstrateSpec(),
        "runtime_state": RuntimeState.ACTIVE,
        "capability_card": card.signed(SERVER),
    }
    return ResidentForm(**{**fields, **changed})
