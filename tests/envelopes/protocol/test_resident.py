import pytest
from msgspec.structs import replace

from comity.envelopes.protocol.card import RuntimeState, SubstrateSpec
from comity.envelopes.protocol.errors import HashChainError, SignatureVerificationError, TypeIntegrityError
from comity.envelopes.protocol.resident import BehaviorBundle, Logbook, ResidentForm
from tests.envelopes.protocol.envelope_samples import ALICE, BOB, NOON
from tests.envelopes.protocol.samples import card


def resident(**more):
    logbook = Logbook()
    logbook.append("GENESIS", {"name": "alice"}, ts=NOON, key=ALICE)
    return ResidentForm(
        **{
            "identity": ALICE.vacant_id,
            "logbook": logbook,
            "behavior_bundle": BehaviorBundle(),
            "substrate_spec": SubstrateSpec(),
        }
        | more
    )


def test_a_resident_starts_local_without_card_and_parent():
    form = resident()
    assert form.runtime_state is RuntimeState.LOCAL
    assert form.capability_card is None
    assert form.parent_id is None
    form.check()


def test_a_resident_with_its_own_signed_card_is_sound():
    resident(capability_card=card()).check()


def test_a_resident_changes_while_it_lives():
    form = resident()
    form.runtime_state = RuntimeState.ACTIVE
    form.capability_card = card()
    form.check()


def test_the_card_of_somebody_else_is_noticed():
    with pytest.raises(TypeIntegrityError, match=BOB.vacant_id.short()):
        resident(capability_card=card(BOB)).check()


@pytest.mark.parametrize("signature", [b"", bytes(64)])
def test_a_card_that_is_not_signed_is_noticed(signature):
    with pytest.raises(SignatureVerificationError, match="not signed"):
        resident(capability_card=replace(card(), signature=signature)).check()


def test_the_logbook_of_somebody_else_is_noticed():
    with pytest.raises(HashChainError, match="entry 1"):
        resident(identity=BOB.vacant_id).check()
