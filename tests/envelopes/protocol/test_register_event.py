import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from comity.directory.protocol.signed_requests import (
    RegisterEvent,
    check_actor_sequence,
    register_event,
    registered_payload,
)
from comity.envelopes.protocol.card import Visibility
from comity.envelopes.protocol.errors import EnvelopeFormatError, SequenceMonotonicityError
from tests.envelopes.protocol.envelope_samples import ALICE, BOB, hashes
from tests.envelopes.protocol.samples import card, cards
from tests.wire.json_values import texts

numbers = st.integers(1, 2**64 - 1)


def registered(**more):
    given = {"idempotency_key": "register:x:1", "ts_ms": 1_778_025_600_123, "actor_seq": 1} | more
    return register_event(card(), Visibility.PUBLIC, **given).signed(ALICE)


def test_what_is_registered_is_the_card_by_its_hash():
    assert (
        registered_payload(
            vacant_id=ALICE.vacant_id, card_hash=b"\xab" * 32, halo_version=1, visibility=Visibility.PUBLIC
        )
        == (
            f'{{"card_hash":"{"ab" * 32}","halo_version":1,"vacant_id":"{ALICE.vacant_id.hex()}",'
            '"visibility":"PUBLIC"}'
        ).encode()
    )


def test_an_event_is_signed_over_eight_fields():
    event = registered()
    payload = registered_payload(
        vacant_id=ALICE.vacant_id, card_hash=card().card_hash(), halo_version=1, visibility=Visibility.PUBLIC
    )
    assert event.signing_payload() == b"\x1f".join(
        [
            b"register",
            ALICE.vacant_id.hex().encode(),
            b"",
            hashlib.blake2b(payload, digest_size=32).digest(),
            b"register:x:1",
            ALICE.vacant_id.public,
            (1_778_025_600_123).to_bytes(8, "big"),
            (1).to_bytes(8, "big"),
        ]
    )
    assert event.verify()


def test_a_subject_is_signed_by_its_name():
    fields = replace(registered(), subject=BOB.vacant_id).signing_payload().split(b"\x1f", 3)
    assert fields[2] == BOB.vacant_id.hex().encode()


@pytest.mark.parametrize(
    "change",
    [
        {"actor": BOB.vacant_id},
        {"subject": BOB.vacant_id},
        {"payload_hash": bytes(32)},
        {"idempotency_key": "register:x:2"},
        {"ts_ms": 1_778_025_600_124},
        {"actor_seq": 2},
        {"signature": b""},
    ],
)
def test_every_field_is_covered_by_the_signature(change):
    assert not replace(registered(), **change).verify()


@pytest.mark.parametrize("visibility", [Visibility.NONE, Visibility.RESTRICTED])
def test_the_visibility_and_the_card_are_covered_through_their_hash(visibility):
    signature = registered().signature
    given = {"idempotency_key": "register:x:1", "ts_ms": 1_778_025_600_123, "actor_seq": 1}
    assert not replace(register_event(card(), visibility, **given), signature=signature).verify()
    other = card(capability_text="more")
    assert not replace(register_event(other, Visibility.PUBLIC, **given), signature=signature).verify()


@given(cards(), texts, numbers, numbers)
def test_any_card_can_be_registered_by_its_owner(registered_card, key, ts_ms, actor_seq):
    event = register_event(
        registered_card, Visibility.PUBLIC, idempotency_key=key, ts_ms=ts_ms, actor_seq=actor_seq
    )
    assert event.signature == b""
    assert not event.verify()
    assert event.actor == registered_card.vacant_id


@given(hashes)
def test_each_event_is_linked_to_the_one_before(previous):
    event = registered()
    covered = previous + event.signing_payload() + event.signature
    assert event.event_hash(previous) == hashlib.blake2b(covered, digest_size=32).digest()


@pytest.mark.parametrize(("last", "number"), [(0, 1), (1, 2), (2**63, 2**63 + 1)])
def test_the_next_number_of_an_actor_is_accepted(last, number):
    check_actor_sequence(last, registered(actor_seq=number))


@pytest.mark.parametrize(("last", "number"), [(0, 2), (1, 1), (5, 4), (1, 3)])
def test_any_other_number_is_refused(last, number):
    with pytest.raises(SequenceMonotonicityError, match=f"must be {last + 1}, got {number}"):
        check_actor_sequence(last, registered(actor_seq=number))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("ts_ms", value) for value in (-1, 2**64, 1.5, True, "1")),
        *(("actor_seq", value) for value in (0, -1, 2**64, True, "1")),
        *(("payload_hash", value) for value in (b"", bytes(31), "00" * 32)),
    ],
)
def test_a_field_out_of_range_is_refused_by_name(name, value):
    given = {"actor": ALICE.vacant_id, "payload_hash": bytes(32), "idempotency_key": ""}
    with pytest.raises(EnvelopeFormatError, match=name):
        RegisterEvent(**given | {"ts_ms": 0, "actor_seq": 1} | {name: value})


def test_half_a_surrogate_pair_is_not_signed():
    with pytest.raises(EnvelopeFormatError, match="surrogate"):
        registered(idempotency_key="\ud800")
