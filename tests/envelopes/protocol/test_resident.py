import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from comity.envelopes.protocol.card import RuntimeState, SubstrateSpec
from comity.envelopes.protocol.errors import (
    EnvelopeFormatError,
    HashChainError,
    SignatureVerificationError,
    TypeIntegrityError,
)
from comity.envelopes.protocol.resident import BehaviorBundle, Logbook, LogEntry, ResidentForm
from tests.envelopes.protocol.envelope_samples import ALICE, BOB, NOON, hashes, moments
from tests.envelopes.protocol.samples import card, policies
from tests.wire.json_values import nested, texts, values


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


TOLD = {"system_prompt": "be honest ✓", "policy_dsl": "allow *", "tool_whitelist": ["b", "a"]}


def test_a_bundle_fills_in_its_own_hash():
    form = '{"policy_dsl":"allow *","system_prompt":"be honest ✓","tool_whitelist":["a","b"]}'
    assert BehaviorBundle(**TOLD).bundle_hash == hashlib.blake2b(form.encode(), digest_size=32).digest()


def test_a_bundle_keeps_a_list_of_tools_as_a_tuple_and_can_be_a_key():
    assert BehaviorBundle(**TOLD).tool_whitelist == ("b", "a")
    assert len({BehaviorBundle(**TOLD), BehaviorBundle(**TOLD)}) == 1


def test_the_order_of_tools_does_not_matter_and_everything_else_does():
    shown = BehaviorBundle(**TOLD)
    assert BehaviorBundle(**TOLD | {"tool_whitelist": ("a", "b")}).bundle_hash == shown.bundle_hash
    for change in ({"system_prompt": ""}, {"policy_dsl": ""}, {"tool_whitelist": ["a"]}):
        assert BehaviorBundle(**TOLD | change).bundle_hash != shown.bundle_hash


def test_a_hash_that_fits_is_taken_and_any_other_refused():
    shown = BehaviorBundle(**TOLD)
    assert BehaviorBundle(**TOLD, bundle_hash=shown.bundle_hash) == shown
    with pytest.raises(TypeIntegrityError, match="bundle_hash"):
        BehaviorBundle(**TOLD, bundle_hash=bytes(32))


@pytest.mark.parametrize(
    "wrong", [{"system_prompt": "\ud800"}, {"policy_dsl": object()}, {"tool_whitelist": [1, "a"]}]
)
def test_what_has_no_hash_is_refused(wrong):
    with pytest.raises(EnvelopeFormatError, match="hashed"):
        BehaviorBundle(**TOLD | wrong)


kinds = texts.filter(str.strip)


def entry(**more):
    return LogEntry(**({"kind": "HEARTBEAT", "payload": {"liveness": True}, "ts": NOON} | more))


def kept(length):
    book = Logbook()
    for number in range(length):
        book.append("NOTE", {"number": number}, ts=NOON, key=ALICE)
    return book


class TestAnEntry:
    @given(kinds, policies, moments, hashes)
    def test_is_signed_over_four_fields(self, kind, payload, ts, prev_hash):
        signed = entry(kind=kind, payload=payload, ts=ts, prev_hash=prev_hash).signed(ALICE)
        text = json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        head, moment = kind.encode(), signed.ts.isoformat().encode()
        assert signed.signing_payload() == b"\x1f".join([head, moment, text.encode(), prev_hash])
        assert signed.verify(ALICE.vacant_id)
        assert not signed.verify(BOB.vacant_id)

    @given(kinds, policies, moments, hashes)
    def test_comes_back_from_its_line_as_it_was(self, kind, payload, ts, prev_hash):
        signed = entry(kind=kind, payload=payload, ts=ts, prev_hash=prev_hash).signed(ALICE)
        line = signed.to_line()
        assert line.isascii()
        assert "\n" not in line
        assert LogEntry.from_line(line) == LogEntry.from_line(line.encode()) == signed
        assert LogEntry.from_line(line).verify(ALICE.vacant_id)

    def test_is_written_as_python_writes_json_by_default(self):
        line = entry(kind="é", payload={"b": 1.0, "a": ["✓"]}).to_line()
        assert line == (
            '{"kind": "\\u00e9", "payload": {"a": ["\\u2713"], "b": 1.0}, '
            f'"prev_hash": "{"0" * 64}", "signature": "", "ts": "2026-05-06T12:00:00.000007+00:00"}}'
        )

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("kind", ""),
            ("kind", " \n"),
            ("kind", None),
            ("payload", []),
            ("payload", None),
            ("prev_hash", bytes(31)),
            ("prev_hash", "00" * 32),
        ],
    )
    def test_refuses_by_name_what_it_cannot_be(self, name, value):
        with pytest.raises(EnvelopeFormatError, match=name):
            entry(**{name: value})

    @pytest.mark.parametrize("value", [object(), b"bytes", {1, 2}, float("nan"), "\ud800", {1: 2}])
    def test_is_not_signed_when_its_payload_is_not_json(self, value):
        with pytest.raises(EnvelopeFormatError, match="signed"):
            entry(payload={"key": value}).signed(ALICE)

    @pytest.mark.parametrize("value", [object(), b"bytes", float("inf"), nested(5_000)])
    def test_has_no_line_when_its_payload_has_none(self, value):
        with pytest.raises(EnvelopeFormatError, match="written"):
            entry(payload={"key": value}).to_line()

    @given(st.binary() | st.text() | values().map(json.dumps))
    def test_is_not_read_from_any_other_line(self, line):
        with pytest.raises(EnvelopeFormatError, match="line of the logbook"):
            LogEntry.from_line(line)

    @pytest.mark.parametrize(
        ("name", "value"),
        [("ts", "now"), ("ts", 7), ("prev_hash", "00"), ("signature", "zz"), ("kind", " "), ("payload", [])],
    )
    def test_is_not_read_from_a_line_with_a_wrong_member(self, name, value):
        members = json.loads(entry().to_line()) | {name: value}
        with pytest.raises(EnvelopeFormatError):
            LogEntry.from_line(json.dumps(members))
        del members[name]
        with pytest.raises(EnvelopeFormatError, match=name):
            LogEntry.from_line(json.dumps(members))


class TestALogbook:
    def test_starts_after_zeros_and_links_every_entry(self):
        book = kept(4)
        tip = bytes(32)
        for each in book:
            assert each.prev_hash == tip
            tip = each.compute_hash()
        assert book.tip() == tip
        assert len(book) == 4
        assert book.verify(ALICE.vacant_id)

    def test_that_is_empty_holds(self):
        assert Logbook().verify(ALICE.vacant_id)
        assert Logbook().tip() == bytes(32)

    def test_is_one_owners(self):
        book = kept(2)
        assert not book.verify(BOB.vacant_id)
        with pytest.raises(HashChainError, match="log entry 1 is not signed by"):
            book.verify_or_raise(BOB.vacant_id)

    def test_does_not_take_an_entry_of_another_key(self):
        book = kept(2)
        book.append("NOTE", {}, ts=NOON, key=BOB)
        with pytest.raises(HashChainError, match="log entry 3 is not signed by"):
            book.verify_or_raise(ALICE.vacant_id)

    @pytest.mark.parametrize(
        "change",
        [
            {"kind": "OTHER"},
            {"payload": {"number": 9}},
            {"ts": NOON.replace(year=2027)},
            {"signature": b""},
            {"signature": bytes(64)},
        ],
    )
    @pytest.mark.parametrize("place", range(3))
    def test_breaks_with_any_changed_entry(self, place, change):
        entries = list(kept(3))
        entries[place] = replace(entries[place], **change)
        with pytest.raises(HashChainError, match=f"log entry {place + 1} is not signed"):
            Logbook(entries).verify_or_raise(ALICE.vacant_id)

    @pytest.mark.parametrize("place", range(2))
    def test_breaks_with_entries_that_change_places_or_go(self, place):
        swapped = list(kept(3))
        swapped[place], swapped[place + 1] = swapped[place + 1], swapped[place]
        with pytest.raises(HashChainError, match=f"log entry {place + 1} does not follow"):
            Logbook(swapped).verify_or_raise(ALICE.vacant_id)
        cut = list(kept(3))
        del cut[place]
        assert not Logbook(cut).verify(ALICE.vacant_id)

    @given(st.binary(max_size=80))
    def test_is_not_signed_by_random_bytes(self, signature):
        (first,) = kept(1)
        assert not Logbook([replace(first, signature=signature)]).verify(ALICE.vacant_id)

    def test_survives_its_file(self):
        lines = [each.to_line() for each in kept(3)]
        book = Logbook(map(LogEntry.from_line, lines))
        assert book.verify(ALICE.vacant_id)
        book.append("NOTE", {}, ts=NOON, key=ALICE)
        assert book.verify(ALICE.vacant_id)

    def test_keeps_its_own_list(self):
        entries = list(kept(2))
        book = Logbook(entries)
        entries.clear()
        assert len(book) == 2
