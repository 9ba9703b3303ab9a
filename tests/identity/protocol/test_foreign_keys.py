"""PyNaCl's keys stand wherever ours do (ruling 41); anything else is a TypeError, never a wrong signature."""

import pytest
from nacl.signing import SigningKey as NaClSigningKey
from nacl.signing import VerifyKey

from comity import (
    CapabilityCard,
    InMemoryReplayStore,
    Logbook,
    LogEntry,
    SigningKey,
    VacantAsMCPServer,
    VacantId,
    build_a2a_app,
    build_envelope,
    make_response_envelope,
)
from tests.envelopes.peers import SERVER, Caller, echo
from tests.envelopes.protocol.envelope_samples import ALICE, BOB, NOON, said, sent
from tests.envelopes.residents import resident

THEIRS = NaClSigningKey(ALICE.seed)
NO_KEYS = [None, b"k" * 32, "k", ALICE.vacant_id, THEIRS.verify_key, object()]


def built(signing_key):
    return build_envelope(
        from_vid=ALICE.vacant_id, to_vid=BOB.vacant_id, payload=said("hi"), signing_key=signing_key
    )


def test_an_envelope_built_with_a_key_of_pynacl_is_signed_and_verifies():
    envelope = built(THEIRS)
    assert len(envelope.signature) == 64
    assert envelope.verify(THEIRS.verify_key)
    assert envelope.verify(pubkey=ALICE.vacant_id)
    assert not envelope.verify(NaClSigningKey.generate().verify_key)


def test_cards_entries_and_envelopes_are_signed_alike_with_both_kinds_of_key():
    card = CapabilityCard(vacant_id=ALICE.vacant_id, capability_text="sings")
    entry = LogEntry(kind="A", payload={}, ts=NOON)
    for unsigned in (card, entry, sent()):
        assert unsigned.signed(signing_key=THEIRS) == unsigned.signed(signing_key=ALICE)
    book = Logbook()
    book.append("A", {}, ts=NOON, key=THEIRS)
    assert book.verify(ALICE.vacant_id)


@pytest.mark.parametrize("key", NO_KEYS, ids=lambda key: type(key).__name__)
def test_what_is_no_signing_key_is_a_type_error(key):
    server = {"self_form": resident(), "self_signing_key": key, "behavior": echo}
    for signing in (
        lambda: built(key),
        lambda: sent().signed(key),
        lambda: CapabilityCard(vacant_id=ALICE.vacant_id, capability_text="sings").signed(key),
        lambda: build_a2a_app(**server, replay_store=InMemoryReplayStore()),
        lambda: VacantAsMCPServer(**server, replay_store=InMemoryReplayStore()),
    ):
        with pytest.raises(TypeError, match=r"nacl\.signing\.SigningKey"):
            signing()


@pytest.mark.parametrize("key", ["a", 7, ALICE, THEIRS, object()], ids=lambda key: type(key).__name__)
def test_what_is_no_public_key_is_a_type_error(key):
    with pytest.raises(TypeError, match=r"nacl\.signing\.VerifyKey"):
        sent().verify(key)
    with pytest.raises(TypeError, match=r"nacl\.signing\.VerifyKey"):
        VacantId.from_verify_key(key)


def test_an_id_becomes_a_key_of_pynacl_and_back():
    key = VacantId(pubkey_bytes=ALICE.vacant_id.public).verify_key()
    assert isinstance(key, VerifyKey)
    assert ALICE.verify_key == THEIRS.verify_key
    assert VacantId.from_verify_key(key) == VacantId.from_verify_key(THEIRS.verify_key) == ALICE.vacant_id


async def test_a_server_replies_under_a_key_of_pynacl():
    theirs = NaClSigningKey(SERVER.seed)
    request = Caller().next()
    reply = await make_response_envelope(
        request=request,
        response_payload=said("yes"),
        self_signing_key=theirs,
        response_replay_store=InMemoryReplayStore(),
        self_form=resident(),
    )
    assert reply.verify(theirs.verify_key)
    assert SigningKey.from_seed(SERVER.seed).vacant_id == reply.from_vacant_id
