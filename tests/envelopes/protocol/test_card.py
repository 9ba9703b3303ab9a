import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from comity.envelopes.protocol.card import (
    CapabilityCard,
    SubstrateSpec,
    deserialize,
    refuse_control_characters,
    serialize,
)
from comity.envelopes.protocol.errors import EnvelopeFormatError, UnsupportedHaloVersionError
from comity.wire.errors import MalformedError
from comity.wire.strict_json import dumps, loads
from tests.envelopes.protocol.envelope_samples import ALICE, BOB
from tests.envelopes.protocol.samples import ENDPOINT, card, cards, specs
from tests.wire.json_values import nested, values

SPEC = SubstrateSpec(["mock"], {"bind_replies": True})


class TestASubstrateSpec:
    @given(specs)
    def test_is_written_in_the_sorted_form(self, spec):
        members = {"allowed_substrates": list(spec.allowed_substrates), "policy": spec.policy}
        text = json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert spec.canonical_bytes() == text.encode()

    def test_keeps_the_order_of_its_names_and_not_that_of_its_policy(self):
        spec = SubstrateSpec(["b", "a"], {"z": 1, "a": 2})
        assert spec.canonical_bytes() == b'{"allowed_substrates":["b","a"],"policy":{"a":2,"z":1}}'
        assert spec == SubstrateSpec(("b", "a"), {"a": 2, "z": 1})

    def test_is_empty_by_default_and_shares_nothing(self):
        one, other = SubstrateSpec(), SubstrateSpec()
        assert one.canonical_bytes() == b'{"allowed_substrates":[],"policy":{}}'
        assert one.policy is not other.policy

    @pytest.mark.parametrize("names", [[""], [" "], ["ok", "\t\n"], "mock", [1], [None], None, {"a": 1}])
    def test_refuses_what_is_no_list_of_names(self, names):
        with pytest.raises(EnvelopeFormatError, match="allowed_substrates"):
            SubstrateSpec(names)

    @pytest.mark.parametrize("policy", [None, [], "any", 1])
    def test_refuses_a_policy_that_is_no_object(self, policy):
        with pytest.raises(EnvelopeFormatError, match="policy"):
            SubstrateSpec((), policy)

    @pytest.mark.parametrize("value", [object(), b"bytes", float("nan"), "\ud800", {1: 2}])
    def test_does_not_sign_what_is_not_json(self, value):
        with pytest.raises(EnvelopeFormatError, match="substrate_spec"):
            SubstrateSpec((), {"key": value}).canonical_bytes()


class TestACard:
    def test_is_signed_over_five_fields(self):
        signed = card(substrate_spec=SPEC)
        assert signed.signing_payload() == b"\x1f".join(
            [
                ALICE.vacant_id.public,
                b"echo",
                b'{"allowed_substrates":["mock"],"policy":{"bind_replies":true}}',
                b"\0\0\0\0\0\0\0\1",
                ENDPOINT.encode(),
            ]
        )
        assert signed.verify()
        assert signed.card_hash() == hashlib.blake2b(signed.signing_payload(), digest_size=32).digest()

    def test_has_no_endpoint_and_version_one_by_default(self):
        bare = CapabilityCard(vacant_id=ALICE.vacant_id, capability_text="echo")
        assert (bare.endpoint, bare.halo_version, bare.signature) == (None, 1, b"")
        assert bare.signed(ALICE).verify()

    def test_may_be_of_any_version_that_eight_bytes_hold(self):
        last = card(halo_version=2**64 - 1)
        assert b"\x1f" + b"\xff" * 8 + b"\x1f" in last.signing_payload()
        assert last.verify()

    def test_signs_no_endpoint_and_an_empty_one_alike(self):
        assert card(endpoint=None).signing_payload() == card(endpoint="").signing_payload()
        assert replace(card(endpoint=None), endpoint="").verify()

    @pytest.mark.parametrize(
        "change",
        [
            {"vacant_id": BOB.vacant_id},
            {"capability_text": "echo "},
            {"endpoint": ENDPOINT.replace("a2a", "b2b")},
            {"endpoint": None},
            {"halo_version": 2},
            {"substrate_spec": SPEC},
            {"substrate_spec": SubstrateSpec((), {"a": 1})},
            {"signature": b""},
            {"signature": bytes(64)},
        ],
    )
    def test_is_covered_by_its_signature(self, change):
        assert card().verify()
        assert not replace(card(), **change).verify()

    @given(cards())
    def test_verifies_only_under_the_key_it_names(self, signed):
        assert signed.verify()
        other = next(key for key in (ALICE, BOB) if key.vacant_id != signed.vacant_id)
        assert not replace(signed, vacant_id=other.vacant_id).verify()

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("vacant_id", ALICE.vacant_id.hex()),
            ("substrate_spec", {}),
            ("capability_text", None),
            ("endpoint", 7),
            *(("halo_version", version) for version in (0, -1, 2**64, True, 1.0, "1", None)),
            ("signature", "ab"),
        ],
    )
    def test_refuses_by_name_what_it_cannot_be(self, name, value):
        with pytest.raises(EnvelopeFormatError, match=name):
            replace(card(), **{name: value})

    @pytest.mark.parametrize("name", ["capability_text", "endpoint"])
    def test_is_not_signed_with_half_a_surrogate_pair(self, name):
        with pytest.raises(EnvelopeFormatError, match="surrogate"):
            card(**{name: "\ud800"})


class TestControlCharacters:
    @pytest.mark.parametrize("text", ["", "line\nline", "a\tb", "é✓😀", "\x7f", "~ \u2028"])
    def test_that_are_none_or_legal_pass(self, text):
        refuse_control_characters(card(capability_text=text))

    @pytest.mark.parametrize("code", sorted(set(range(32)) - {9, 10}))
    def test_of_c0_are_refused_in_the_text(self, code):
        with pytest.raises(EnvelopeFormatError, match=f"capability_text .*0x{code:02X}"):
            refuse_control_characters(card(capability_text=f"a{chr(code)}b"))

    @pytest.mark.parametrize("code", range(32))
    def test_of_c0_are_all_refused_in_the_endpoint(self, code):
        with pytest.raises(EnvelopeFormatError, match=f"endpoint .*0x{code:02X}"):
            refuse_control_characters(card(endpoint=f"{ENDPOINT}{chr(code)}"))

    def test_keep_one_signature_from_covering_two_cards(self):
        """The text of one is the text, the substrate, the version and the endpoint of the other."""
        inner = [b"", b'{"allowed_substrates":[],"policy":{}}', b"\0\0\0\0\0\0\0\1", b"http://evil.example"]
        honest = card(capability_text="echo", endpoint=b"\x1f".join(inner).decode())
        tail = honest.signing_payload().removeprefix(ALICE.vacant_id.public + b"\x1f")
        text = tail.rsplit(b"\x1f", 3)[0].decode()
        forged = replace(honest, capability_text=text, endpoint="http://evil.example")
        assert forged != honest
        assert forged.verify()
        for each in (honest, forged):
            with pytest.raises(EnvelopeFormatError, match="0x1F"):
                refuse_control_characters(each)


MISSING = object()
REFUSED = (EnvelopeFormatError, UnsupportedHaloVersionError)


def blob(**changes):
    members = json.loads(serialize(card())) | changes
    return dumps({name: value for name, value in members.items() if value is not MISSING})


class TestTheWayThere:
    @given(cards())
    def test_and_back_gives_the_same_card(self, signed):
        data = serialize(signed)
        assert deserialize(data) == signed
        assert deserialize(data).verify()
        assert serialize(deserialize(data)) == data

    @given(cards())
    def test_is_in_the_sorted_form(self, signed):
        data = serialize(signed)
        members = loads(data, unique_keys=True)
        assert sorted(members) == [
            *("capability_text", "endpoint", "halo_version", "signature", "substrate_spec", "vacant_id")
        ]
        text = json.dumps(json.loads(data), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert data == text.encode()

    def test_keeps_no_endpoint_apart_from_an_empty_one(self):
        assert deserialize(serialize(card(endpoint=None))).endpoint is None
        assert deserialize(serialize(card(endpoint=""))).endpoint == ""

    def test_is_open_to_a_card_that_nobody_signed(self):
        assert not deserialize(blob(signature="")).verify()

    def test_is_closed_to_what_cannot_be_signed(self):
        unsigned = CapabilityCard(vacant_id=ALICE.vacant_id, capability_text="\ud800")
        with pytest.raises(EnvelopeFormatError, match="capability_text"):
            serialize(unsigned)


class TestTheVersionGate:
    @pytest.mark.parametrize("version", [1, "1", " 1 ", 1.9, True, MISSING])
    def test_takes_whatever_python_reads_as_one(self, version):
        assert deserialize(blob(halo_version=version)).halo_version == 1
        assert deserialize(blob(halo_version=version)).verify()

    @pytest.mark.parametrize("version", [0, 2, 99, 999, -1, "2", 2.0, 0.5, False, 10**30, 1e300])
    def test_refuses_every_other_version(self, version):
        with pytest.raises(UnsupportedHaloVersionError, match="halo_version"):
            deserialize(blob(halo_version=version))

    @pytest.mark.parametrize("version", ["abc", None, "", [], {}, "1.0", [1]])
    def test_refuses_what_is_no_version(self, version):
        with pytest.raises(EnvelopeFormatError, match="halo_version"):
            deserialize(blob(halo_version=version))

    def test_comes_before_the_fields(self):
        with pytest.raises(UnsupportedHaloVersionError):
            deserialize(b'{"halo_version":2}')

    def test_comes_after_the_object(self):
        with pytest.raises(EnvelopeFormatError, match="object"):
            deserialize(b"[2]")

    def test_tells_a_number_without_all_its_digits(self):
        with pytest.raises(UnsupportedHaloVersionError) as refusal:
            deserialize(blob(halo_version=10**4000))
        assert len(refusal.value.message) < 200


class TestWhatIsTolerated:
    def test_is_what_is_missing(self):
        bare = deserialize(dumps({"vacant_id": ALICE.vacant_id.hex(), "capability_text": "x"}))
        assert (bare.endpoint, bare.signature, bare.substrate_spec) == (None, b"", SubstrateSpec())

    @pytest.mark.parametrize("spec", [None, {}, {"policy": {}}, {"allowed_substrates": []}, {"more": 1}])
    def test_is_an_empty_substrate_spec_in_every_form(self, spec):
        assert deserialize(blob(substrate_spec=spec)) == card()
        assert deserialize(blob(substrate_spec=spec)).verify()

    def test_is_what_nobody_knows(self):
        assert deserialize(blob(colour="blue")) == card()

    def test_is_hex_in_upper_case(self):
        data = blob(vacant_id=ALICE.vacant_id.hex().upper(), signature=card().signature.hex().upper())
        assert deserialize(data) == card()

    @pytest.mark.parametrize(
        ("text", "read"),
        [(7, "7"), (None, "None"), (True, "True"), (1.5, "1.5"), (["a"], "['a']"), ({"a": 1}, "{'a': 1}")],
    )
    def test_is_a_text_of_another_kind(self, text, read):
        assert deserialize(blob(capability_text=text)).capability_text == read

    def test_is_a_text_nested_as_deep_as_json_may_be(self):
        assert deserialize(blob(capability_text=nested(511))).capability_text == "[" * 511 + "]" * 511

    def test_is_every_control_character(self):
        text = "".join(map(chr, range(32)))
        assert deserialize(serialize(card(capability_text=text))) == card(capability_text=text)


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"{not-json",
            b"\xff\xfe",
            b'{"a":"\xff"}',
            b"null",
            b"[1]",
            b'"card"',
            b"1",
            b"{}",
            b'{"capability_text":"x"}',
            b'{"vacant_id":"' + b"0" * 64 + b'"}',
            b"[" * 100_000,
            serialize(card()).replace(b'"policy":{}', b'"policy":{"a":NaN}'),
            serialize(card()).replace(b'"policy":{}', b'"policy":{"a":"\\ud800"}'),
            serialize(card()).replace(b'"policy":{}', b'"policy":{"a":1,"a":2}'),
        ],
        ids=range(15),
    )
    def test_is_what_is_no_card(self, data):
        with pytest.raises(EnvelopeFormatError):
            deserialize(data)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            *(("vacant_id", value) for value in ("", "00", "zz" * 32, "00" * 33, None, 7, [])),
            *(("signature", value) for value in ("0", "zz", None, 7, [])),
            *(("endpoint", value) for value in (7, [], {}, True)),
            *(("substrate_spec", value) for value in ([], ["mock"], "mock", 7, True)),
        ],
    )
    def test_is_told_by_its_name(self, name, value):
        with pytest.raises(EnvelopeFormatError, match=name):
            deserialize(blob(**{name: value}))

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            *(("allowed_substrates", value) for value in ("mock", None, [""], [" "], [1], {}, [["a"]])),
            *(("policy", value) for value in (None, [], "any", 7)),
        ],
    )
    def test_is_told_by_its_name_within_the_substrate_spec(self, name, value):
        with pytest.raises(EnvelopeFormatError, match=name):
            deserialize(blob(substrate_spec={name: value}))


class TestNoInput:
    @given(st.binary() | values().map(dumps))
    def test_raises_anything_but_what_a_card_is_refused_with(self, data):
        with pytest.raises(REFUSED):
            deserialize(data)

    @given(st.sampled_from([*loads(serialize(card())), "unknown"]), values() | st.just(MISSING))
    def test_that_is_almost_a_card_passes_for_what_was_signed(self, name, value):
        try:
            received = deserialize(blob(**{name: value}))
        except REFUSED:
            return
        assert received == card() or not received.verify()


def test_refusals_are_never_those_of_the_reader_below():
    with pytest.raises(EnvelopeFormatError) as refusal:
        deserialize(b"{")
    assert not isinstance(refusal.value, MalformedError)
