import hashlib
import json

import pytest
from hypothesis import given
from msgspec.structs import replace

from comity.envelopes.protocol.card import CapabilityCard, SubstrateSpec, refuse_control_characters
from comity.envelopes.protocol.errors import EnvelopeFormatError
from tests.envelopes.protocol.envelope_samples import ALICE, BOB
from tests.envelopes.protocol.samples import ENDPOINT, card, cards, specs

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
