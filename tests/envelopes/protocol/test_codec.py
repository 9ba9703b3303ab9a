import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.envelopes.protocol.card import CapabilityCard, SubstrateSpec, deserialize, serialize
from comity.envelopes.protocol.errors import EnvelopeFormatError, UnsupportedHaloVersionError
from comity.wire.errors import MalformedError
from comity.wire.strict_json import dumps, loads
from tests.envelopes.protocol.envelope_samples import ALICE
from tests.envelopes.protocol.samples import card, cards
from tests.wire.json_values import nested, values

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
