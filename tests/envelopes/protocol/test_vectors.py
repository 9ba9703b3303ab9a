"""The recorded cards, logbooks, bundles and register events of the reference, byte for byte."""

from datetime import datetime

from comity.directory.protocol.signed_requests import RegisterEvent, registered_payload
from comity.envelopes.protocol.card import CapabilityCard, SubstrateSpec, Visibility, deserialize, serialize
from comity.envelopes.protocol.envelope import digest
from comity.envelopes.protocol.errors import ProtocolError
from comity.envelopes.protocol.message import utc_iso
from comity.envelopes.protocol.resident import BehaviorBundle, Logbook, LogEntry
from comity.testing.vectors import format_runner, known_keys
from tests.envelopes.protocol.known_answers import of, sections


@format_runner("envelope", "vectors", cases=sections, takes=of("cards", "card_negative"))
def test_vector_envelope_sections_of_cards_hold_cards(case):
    assert case["cases"]


@format_runner("envelope", "vectors", cases=sections, takes=of("cards[]"))
def test_vector_envelope_card_is_signed_and_serialized_byte_for_byte(case):
    known_keys(
        case,
        *("id", "owner", "input", "substrate_canonical_utf8", "signing_payload_hex", "signature_hex"),
        *("serialized_utf8", "serialized_hex", "card_hash_hex"),
    )
    given = case["input"]
    known_keys(given, "capability_text", "allowed_substrates", "policy", "endpoint", "halo_version")
    owner = case.keys[case["owner"]]
    card = CapabilityCard(
        vacant_id=owner.vacant_id,
        capability_text=given["capability_text"],
        substrate_spec=SubstrateSpec(given["allowed_substrates"], given["policy"]),
        halo_version=given["halo_version"],
        endpoint=given["endpoint"],
    ).signed(owner)
    assert card.substrate_spec.canonical_bytes().decode() == case["substrate_canonical_utf8"]
    assert card.signing_payload().hex() == case["signing_payload_hex"]
    assert card.signature.hex() == case["signature_hex"]
    assert card.card_hash().hex() == case["card_hash_hex"]
    assert serialize(card).decode() == case["serialized_utf8"]
    assert serialize(card).hex() == case["serialized_hex"]
    received = deserialize(bytes.fromhex(case["serialized_hex"]))
    assert received == card
    assert received.verify()


@format_runner("envelope", "vectors", cases=sections, takes=of("card_negative[]"))
def test_vector_envelope_bad_card_is_refused_as_recorded(case):
    known_keys(case, "id", "blob_utf8", "error", "verifies")
    error = None
    try:
        card = deserialize(case["blob_utf8"].encode())
    except ProtocolError as refusal:
        error = type(refusal).__name__
    assert error == case["error"]
    if error is None:
        assert card.verify() is case["verifies"]


@format_runner("envelope", "vectors", cases=sections, takes=of("logbook"))
def test_vector_envelope_logbook_is_signed_and_chained_byte_for_byte(case):
    known_keys(case, "owner", "entries")
    owner = case.keys[case["owner"]]
    book = Logbook()
    for recorded in case["entries"]:
        known_keys(
            recorded,
            *("kind", "payload", "ts_in", "ts", "prev_hash_hex"),
            *("signing_payload_hex", "signature_hex", "hash_hex"),
        )
        moment = datetime.fromisoformat(recorded["ts_in"])
        entry = book.append(recorded["kind"], recorded["payload"], ts=moment, key=owner)
        assert utc_iso(entry.ts) == recorded["ts"]
        assert entry.prev_hash.hex() == recorded["prev_hash_hex"]
        assert entry.signing_payload().hex() == recorded["signing_payload_hex"]
        assert entry.signature.hex() == recorded["signature_hex"]
        assert entry.compute_hash().hex() == recorded["hash_hex"]
        assert LogEntry.from_line(entry.to_line()) == entry
    assert book.verify(owner.vacant_id)


@format_runner("envelope", "vectors", cases=sections, takes=of("behavior_bundle"))
def test_vector_envelope_behavior_bundle_has_the_recorded_hash(case):
    known_keys(case, "system_prompt", "policy_dsl", "tool_whitelist", "bundle_hash_hex")
    bundle = BehaviorBundle(
        system_prompt=case["system_prompt"],
        policy_dsl=case["policy_dsl"],
        tool_whitelist=case["tool_whitelist"],
    )
    assert bundle.bundle_hash.hex() == case["bundle_hash_hex"]


@format_runner("envelope", "vectors", cases=sections, takes=of("register_event"))
def test_vector_envelope_register_event_is_signed_byte_for_byte(case):
    known_keys(
        case,
        *("owner", "card_hash_hex", "halo_version", "visibility", "ts_ms", "actor_seq"),
        *("idempotency_key", "canonical_hex", "signature_hex"),
    )
    owner = case.keys[case["owner"]]
    payload = registered_payload(
        vacant_id=owner.vacant_id,
        card_hash=bytes.fromhex(case["card_hash_hex"]),
        halo_version=case["halo_version"],
        visibility=Visibility(case["visibility"]),
    )
    event = RegisterEvent(
        actor=owner.vacant_id,
        payload_hash=digest(payload),
        idempotency_key=case["idempotency_key"],
        ts_ms=case["ts_ms"],
        actor_seq=case["actor_seq"],
    ).signed(owner)
    assert event.signing_payload().hex() == case["canonical_hex"]
    assert event.signature.hex() == case["signature_hex"]
    assert event.verify()
