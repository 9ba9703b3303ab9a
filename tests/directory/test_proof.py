"""How a reader proves who it is."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.directory.reading import WINDOW_SECONDS, prove_reader, proven_reader
from comity.wire.errors import ComityError, InvalidError, MalformedError, UnauthenticatedError
from tests.directory.publications import agent

ALICE, MALLORY = agent("alice"), agent("mallory")
HERE = {"host": "directory.example:8443", "path": "/v1/capability_card/00"}
NOW = 1_767_225_600.25


def test_a_proof_names_its_maker():
    proof = prove_reader(ALICE, **HERE, now=NOW)
    assert proven_reader(proof, **HERE, now=NOW) == ALICE.vacant_id


def test_a_name_alone_proves_nothing():
    assert proven_reader({"caller": ALICE.vacant_id.hex()}, **HERE, now=NOW) is None
    assert proven_reader({}, **HERE, now=NOW) is None


@pytest.mark.parametrize("elsewhere", [{"host": "other.example"}, {"path": "/v1/capability_card/01"}])
def test_a_proof_for_one_place_is_none_for_another(elsewhere):
    proof = prove_reader(ALICE, **HERE, now=NOW)
    with pytest.raises(UnauthenticatedError, match="host, path and moment"):
        proven_reader(proof, **{**HERE, **elsewhere}, now=NOW)


def test_the_case_of_a_host_does_not_matter():
    proof = prove_reader(ALICE, host="Directory.Example", path="/", now=NOW)
    assert proven_reader(proof, host="directory.EXAMPLE", path="/", now=NOW) == ALICE.vacant_id


@pytest.mark.parametrize("skew", [-WINDOW_SECONDS, WINDOW_SECONDS])
def test_a_proof_holds_for_a_minute_to_either_side(skew):
    proof = prove_reader(ALICE, **HERE, now=NOW)
    assert proven_reader(proof, **HERE, now=NOW + skew)
    with pytest.raises(UnauthenticatedError, match="clock"):
        proven_reader(proof, **HERE, now=NOW + skew * 1.01)


def test_a_proof_cannot_be_dated_later_or_given_another_name():
    proof = prove_reader(ALICE, **HERE, now=NOW)
    for forged in ({"caller_ts_ms": str(int(NOW * 1000) + 1)}, {"caller": MALLORY.vacant_id.hex()}):
        with pytest.raises(UnauthenticatedError):
            proven_reader({**proof, **forged}, **HERE, now=NOW)


@pytest.mark.parametrize("missing", ["caller", "caller_ts_ms", "caller_signature_hex"])
def test_a_proof_that_is_not_whole_is_refused_unless_only_the_name_is_left(missing):
    proof = prove_reader(ALICE, **HERE, now=NOW)
    del proof[missing]
    with pytest.raises(InvalidError, match="all three"):
        proven_reader(proof, **HERE, now=NOW)


@pytest.mark.parametrize(
    "wrong",
    [
        {"caller": "zz"},
        {"caller_ts_ms": "1e9"},
        {"caller_ts_ms": "-5"},
        {"caller_ts_ms": "\u0661\u0662"},
        {"caller_ts_ms": "9" * 17},
        {"caller_signature_hex": "00" * 63},
        {"caller_signature_hex": "zz" * 64},
        {"caller_signature_hex": " 0" * 64},
    ],
)
def test_what_is_not_written_as_it_should_be_is_malformed(wrong):
    proof = prove_reader(ALICE, **HERE, now=NOW)
    with pytest.raises(MalformedError):
        proven_reader({**proof, **wrong}, **HERE, now=NOW)


@given(st.dictionaries(st.sampled_from(["caller", "caller_ts_ms", "caller_signature_hex", "x"]), st.text()))
def test_whatever_is_offered_proves_nobody_or_is_refused_in_words(query):
    with contextlib.suppress(ComityError):
        assert proven_reader(query, **HERE, now=NOW) is None
