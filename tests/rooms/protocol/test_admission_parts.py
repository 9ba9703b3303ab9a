"""What admits a peer: its session key, its join token, its hello with a proof of who it is."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from comity.identity.protocol.keys import SigningKey
from comity.rooms.protocol import hello as join_token
from comity.rooms.protocol.channel import BridgeEnvelope
from comity.rooms.protocol.effects import TakeWitness, WitnessReady
from comity.rooms.protocol.hello import (
    JoinTokenError,
    SessionKeys,
    hello_payload,
    own_layer,
    prove_layer,
    read_hello,
)
from comity.wire.errors import InvalidError
from tests.rooms.protocol.session_scene import pair

SECRETS = st.binary(min_size=32, max_size=32)
NODE = SigningKey.from_seed(bytes(range(32)))
ENDS = ("sha-256 AA:BB", "sha-256 CC:DD")


@given(SECRETS, SECRETS)
def test_two_sessions_share_one_key(one, other):
    left, right = SessionKeys(one), SessionKeys(other)
    assert left.shared_with(right.public_key) == right.shared_with(left.public_key)


@pytest.mark.parametrize(
    "public_key", [None, 5, "", "x" * 60, "A" * 60, base64.b64encode(bytes(44)).decode()]
)
def test_what_is_no_public_key_is_refused(public_key):
    with pytest.raises(InvalidError, match="public_key"):
        SessionKeys(bytes(range(32))).shared_with(public_key)


@pytest.mark.parametrize("point", [bytes(32), bytes([1, *bytes(31)])])
def test_a_key_of_small_order_is_refused(point):
    spki = bytes.fromhex("302a300506032b656e032100") + point
    with pytest.raises(InvalidError, match="small order"):
        SessionKeys(bytes(range(32))).shared_with(base64.b64encode(spki).decode())


def test_session_keys_never_show_their_secret():
    keys = SessionKeys(b"S" * 32)
    assert "SSSS" not in repr(keys)
    with pytest.raises(TypeError):
        keys.__reduce__()


def admitted(token, **given):
    asked = {"room": "r", "stream_id": "me", "now_ms": 1000.0, **given}
    return join_token.admit(token, "secret", **asked)


def token_of(exp=2000, room="r", stream_id="me", secret="secret"):
    return join_token.mint(secret, room=room, stream_id=stream_id, exp=exp, nonce="join_00112233")


def test_a_fresh_token_admits_its_peer_to_its_room():
    assert admitted(token_of()) == {"room": "r", "stream_id": "me", "exp": 2000, "nonce": "join_00112233"}
    admitted(token_of(exp=1000))


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (None, "join token required"),
        ("", "join token required"),
        (5, "token must be a non-empty string"),
        ("a", "invalid token format"),
        ("a.b.c", "invalid token format"),
        ("x" * 5000 + "." + "y" * 5000, "invalid token format"),
        ("a.\ud800", "invalid token signature"),
        (token_of(secret="other"), "invalid token signature"),
        (token_of(room="s"), "join token room mismatch"),
        (token_of(stream_id="you"), "join token stream mismatch"),
        (token_of(exp=999), "join token expired"),
    ],
)
def test_a_bad_token_is_refused_in_the_words_of_the_contract(token, reason):
    with pytest.raises(JoinTokenError) as refused:
        admitted(token)
    assert refused.value.message == reason


def signed(body):
    text = base64.urlsafe_b64encode(body).rstrip(b"=").decode()
    return f"{text}.{join_token._signature('secret', text)}"


@pytest.mark.parametrize(
    "body", [b"{}", b"", b"[]", b"5", b"\xff", b'{"exp":"1"}', b'{"exp":null}', b'{"exp":true}']
)
def test_a_payload_that_cannot_be_used_is_refused_although_it_is_signed(body):
    if body == b"{}":
        assert admitted(signed(body)) == {}
        return
    with pytest.raises(JoinTokenError, match="invalid token payload"):
        admitted(signed(body))


def test_a_token_must_not_outlive_the_invite():
    admitted(token_of(exp=2000), latest=2000)
    for token in (token_of(exp=2001), signed(b"{}")):
        with pytest.raises(JoinTokenError, match="outlives the invite"):
            admitted(token, latest=2000)


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        ("a.b", "invalid join_token: invalid token signature"),
        (token_of(room="s"), "join_token room mismatch"),
        (token_of(stream_id="you"), "join_token stream mismatch"),
        (token_of(exp=999), "join_token expired"),
    ],
)
def test_our_own_token_is_looked_at_before_we_show_it(token, reason):
    with pytest.raises(JoinTokenError) as refused:
        join_token.check_own(token, "secret", room="r", stream_id="me", now_ms=1000)
    assert refused.value.message == reason
    join_token.check_own(token_of(), "secret", room="r", stream_id="me", now_ms=1000)


def hello(**changed):
    made = {
        "room": "r",
        "stream_id": "a",
        "public_key": "PK",
        "ts": 5,
        "nonce": "p_1",
        "fingerprints": ENDS,
        "max_message": 262144,
    }
    layer = own_layer(NODE, **{**made, **changed})
    return BridgeEnvelope(
        kind="sync.hello",
        ts=5,
        nonce="p_1",
        room="r",
        from_stream_id="a",
        payload=hello_payload("PK", None, layer),
    )


def proven(envelope, room="r", ends=ENDS[::-1]):
    return prove_layer(read_hello(envelope.payload), envelope, room=room, fingerprints=ends)


def test_the_identity_of_our_own_node_is_proven_on_its_channel():
    layer = proven(hello())
    assert layer.vacant_id == NODE.vacant_id
    assert layer.takes_file_frames
    assert layer.max_message == 262144


@pytest.mark.parametrize("witness", [None, 5, [], {"head": "x" * 16_384}])
def test_a_witness_that_is_no_object_or_too_large_is_left_out(witness):
    assert proven(hello(witness=witness)).witness is None
    assert proven(hello(witness={"head": "x"})).witness == {"head": "x"}


@pytest.mark.parametrize(
    "changed",
    [
        {"room": "s"},
        {"stream_id": "b"},
        {"public_key": "other"},
        {"ts": 6},
        {"nonce": "p_2"},
        {"fingerprints": ENDS[::-1]},
        {"fingerprints": ("sha-256 AA:BB", "sha-256 EE:FF")},
    ],
)
def test_a_proof_made_for_anything_else_does_not_hold(changed):
    with pytest.raises(InvalidError, match="does not hold"):
        proven(hello(**changed))


@pytest.mark.parametrize(
    "layer", [{}, {"id": 5}, {"id": "00" * 32, "sig": "zz"}, {"id": "00" * 32, "sig": "00" * 64}]
)
def test_a_malformed_proof_is_refused(layer):
    envelope = hello()
    with pytest.raises(InvalidError, match="identity proof"):
        proven(replace(envelope, payload=hello_payload("PK", None, layer)))


def test_a_proof_needs_a_channel_that_it_can_be_bound_to():
    with pytest.raises(InvalidError, match="no marks"):
        proven(hello(), ends=None)


def test_half_a_surrogate_pair_in_a_hello_is_refused_and_does_not_crash():
    with pytest.raises(InvalidError, match="malformed"):
        proven(replace(hello(), from_stream_id="\ud800"))


@pytest.mark.parametrize(
    "payload", [{"capabilities": 5}, {"public_key": 5}, {"capabilities": {str(n): True for n in range(65)}}]
)
def test_a_hello_of_wrong_types_is_refused(payload):
    with pytest.raises(InvalidError):
        read_hello(payload)


def test_the_hello_of_the_reference_is_read():
    read = read_hello({"capabilities": {"sync_v1": True, "x": 1}, "public_key": "k", "join_token": None})
    assert read.capabilities == {"sync_v1": True}
    assert read.layer is None
    assert read_hello({}).public_key is None


def test_the_hellos_of_a_session_carry_what_was_made_ready_and_give_out_what_came():
    world, a, b = pair()
    a.handle(WitnessReady("", {"head": "ours"}))
    taken = []
    b._ACTS = {**b._ACTS, TakeWitness: lambda _host, effect: taken.append(effect)}
    world.run(61)
    node = a.node_key.vacant_id.hex()
    assert TakeWitness(node, {"head": "ours"}) in taken
    a.handle(WitnessReady(b.node_key.vacant_id.hex(), {"head": "for bob"}))
    world.run(61)
    assert taken[-1] == TakeWitness(node, {"head": "for bob"})
