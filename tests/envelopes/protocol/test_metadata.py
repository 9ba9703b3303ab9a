"""What stands beside an envelope is a hint: it is read where it is good, and left out where it is not."""

import pytest

from comity.envelopes.protocol.envelope import from_a2a_jsonrpc, to_a2a_jsonrpc, to_a2a_message
from comity.envelopes.protocol.metadata import (
    COMITY_METADATA_KEY,
    MEMBER_BYTES,
    members_of_message,
    members_of_reply,
    members_of_request,
    with_members,
)
from tests.envelopes.peers import Caller

WITNESS = {"head": {"position": 1}, "sig": "00"}


def message(members):
    return with_members(to_a2a_message(Caller().next()), members)


def test_members_come_back_from_requests_and_replies():
    members = {"witness": WITNESS, "succession": {"old": "a"}}
    assert members_of_request({"params": {"message": message(members)}}) == members
    assert members_of_reply({"result": {"message": message(members)}}) == members


def test_the_envelope_is_the_same_with_them_and_without():
    envelope = Caller().next()
    body = to_a2a_jsonrpc(envelope)
    body["params"]["message"] = with_members(body["params"]["message"], {"witness": WITNESS})
    assert from_a2a_jsonrpc(body) == envelope
    assert from_a2a_jsonrpc(body).verify()


def test_a_message_without_members_is_as_the_contract_writes_it():
    plain = to_a2a_message(Caller().next())
    assert with_members(plain, {}) is plain
    assert members_of_message(plain) == {}


@pytest.mark.parametrize(
    "added",
    [
        None,
        [],
        "text",
        {"unknown": {}},
        {"witness": None},
        {"witness": [WITNESS]},
        {"witness": "text"},
        {"witness": {"proof": "0" * MEMBER_BYTES["witness"]}},
    ],
)
def test_what_is_unknown_no_object_or_too_large_is_left_out(added):
    plain = to_a2a_message(Caller().next())
    plain["metadata"][COMITY_METADATA_KEY] = added
    assert members_of_message(plain) == {}


def test_a_bad_member_does_not_take_a_good_one_along():
    plain = to_a2a_message(Caller().next())
    plain["metadata"][COMITY_METADATA_KEY] = {"witness": 3, "succession": {"old": "a"}}
    assert members_of_message(plain) == {"succession": {"old": "a"}}


@pytest.mark.parametrize("body", [None, 1, [], {}, {"params": []}, {"params": {"message": {"metadata": 1}}}])
def test_a_body_of_any_shape_has_no_members(body):
    assert members_of_request(body) == {}
    assert members_of_reply(body) == {}
