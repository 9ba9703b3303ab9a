"""Signalling messages as a peer says and hears them."""

import json

import pytest

from comity.rooms.protocol.signalling import (
    MAX_CANDIDATE_LENGTH,
    MAX_CANDIDATES,
    SDP_LIMIT,
    Candidates,
    Described,
    IceCandidate,
    Listed,
    Listing,
    OfferWanted,
    PeerJoined,
    RelayRefusal,
    RoomCipher,
    StreamAdded,
    StreamTaken,
    effective_password,
    read_message,
    write_candidates,
    write_description,
)
from comity.testing.vectors import vector_file
from comity.wire.errors import InvalidError, MalformedError, TooLargeError

OPEN = RoomCipher(None)
CLOSED = RoomCipher("secret")
IV = bytes(range(16))


def heard(cipher=OPEN, **message):
    return read_message(json.dumps(message).encode(), cipher)


def offer(sdp="v=0\r\n", **more):
    members = {"uuid": "u", "session": "s", "kind": "offer", "stream": "agent", "ticket": None}
    return Described(sdp=sdp, **{**members, **more})


@pytest.mark.parametrize("cipher", [OPEN, CLOSED], ids=["clear", "encrypted"])
def test_what_is_said_is_heard(cipher):
    for described in (offer(), offer(kind="answer", ticket="ab" * 16), offer("é" * 1000 + "\r\n")):
        assert read_message(write_description(described, cipher, IV), cipher) == described
    outcome = Candidates(
        "u", "s", (IceCandidate("candidate:1", "0", 0), IceCandidate("candidate:2", None, None))
    )
    assert read_message(write_candidates(outcome, "local", cipher, IV), cipher) == outcome


@pytest.mark.vector
def test_vector_peers_we_write_members_in_the_recorded_order():
    cipher = RoomCipher(effective_password(None))
    compared = 0
    for line in vector_file("peers", "tap_a"):
        message = line["msg"]
        if line["via"] != "WebSocket" or line["dir"] != "OUT" or "UUID" not in message:
            continue
        outcome = read_message(json.dumps(message).encode(), cipher)
        iv = bytes.fromhex(message["vector"])
        again = (
            write_description(outcome, cipher, iv)
            if isinstance(outcome, Described)
            else write_candidates(outcome, "local", cipher, iv)
        )
        written = json.loads(again)
        assert list(written) == [name for name in message if name != "decrypted"]
        assert {name: written[name] for name in written if name != "candidates"} == {
            name: message[name] for name in written if name != "candidates"
        }
        compared += 1
    assert compared == 2


@pytest.mark.vector
def test_vector_peers_every_recorded_message_is_understood():
    cipher = RoomCipher(effective_password(None))
    kinds = [
        type(read_message(json.dumps(line["msg"]).encode(), cipher))
        for line in vector_file("peers", "tap_a") + vector_file("peers", "tap_b")
        if line["via"] == "WebSocket" and line["dir"] == "IN"
    ]
    expected = {Listing, PeerJoined, StreamAdded, OfferWanted, Described, Candidates}
    assert set(kinds) == expected


def test_streams_are_told_in_clear_and_those_of_other_passwords_not_at_all():
    mine, theirs = CLOSED.stream_id("agent"), RoomCipher("other").stream_id("agent")
    listing = [{"UUID": "a", "streamID": mine}, {"UUID": "b", "streamID": theirs}, {"UUID": "c"}, "nonsense"]
    assert heard(CLOSED, request="listing", list=listing) == Listing(
        (Listed("a", "agent"), Listed("b", None), Listed("c", None))
    )


def test_refusals_of_a_relay_are_understood():
    assert heard(request="alert", message="Error: Stream ID is already in use!") == StreamTaken()
    assert heard(request="error", message="x", code="STREAMID_IN_USE") == StreamTaken()
    assert heard(request="error", message="no\nroom", code="ROOM_FULL") == RelayRefusal(
        "ROOM_FULL", "no room", None
    )
    assert heard(request="error", code=7, UUID="u" * 500) == RelayRefusal("", "", "u" * 128)


def test_what_does_not_concern_us_is_nothing():
    for message in (
        {"request": "joke"},
        {"id": "me"},
        {"UUID": "u", "iceRestartRequest": True},
        {},
        {"bye": True},
    ):
        assert heard(**message) is None


def test_a_description_over_64_kib_is_refused_before_it_is_used():
    longest = offer("x" * SDP_LIMIT)
    assert read_message(write_description(longest, CLOSED, IV), CLOSED) == longest
    with pytest.raises(TooLargeError, match="65,536"):
        write_description(offer("x" * (SDP_LIMIT + 1)), CLOSED, IV)
    with pytest.raises(TooLargeError, match="65,536"):
        heard(UUID="u", session="s", description={"type": "offer", "sdp": "x" * (SDP_LIMIT + 1)})
    with pytest.raises(TooLargeError):
        heard(CLOSED, UUID="u", session="s", description="ab" * 200_000, vector="00" * 16)


def test_more_than_100_candidates_are_refused():
    entries = [{"candidate": f"candidate:{number}"} for number in range(MAX_CANDIDATES)]
    assert len(heard(UUID="u", session="s", candidates=entries).candidates) == MAX_CANDIDATES
    with pytest.raises(InvalidError, match="at most 100 candidates, not 101"):
        heard(UUID="u", session="s", candidates=[*entries, {"candidate": "one more"}])
    with pytest.raises(InvalidError, match="1024 characters"):
        heard(UUID="u", session="s", candidate={"candidate": "c" * (MAX_CANDIDATE_LENGTH + 1)})


@pytest.mark.parametrize(
    "message",
    [
        {"UUID": "u", "session": "s", "description": "text in a room without a password"},
        {"UUID": "u", "session": "s", "description": {"type": "rollback", "sdp": ""}},
        {"UUID": "u", "session": "s", "description": {"type": "offer"}},
        {"UUID": "u", "session": "s", "description": {"type": "offer", "sdp": 7}},
        {"UUID": 7, "session": "s", "description": {"type": "offer", "sdp": ""}},
        {"UUID": "u", "description": {"type": "offer", "sdp": ""}},
        {"UUID": "u" * 200, "session": "s", "description": {"type": "offer", "sdp": ""}},
        {"UUID": "u", "session": "s", "candidates": [{"candidate": 7}]},
        {"request": "listing", "list": "everybody"},
        {"request": "listing", "list": [{"UUID": str(number)} for number in range(1001)]},
        {"request": "listing", "list": [{"UUID": None}]},
        {"request": "offerSDP"},
        {"request": "videoaddedtoroom", "streamID": "s"},
    ],
)
def test_what_no_relay_says_is_refused(message):
    with pytest.raises((InvalidError, MalformedError)):
        heard(**message)


@pytest.mark.parametrize("text", [b"", b"[]", b"7", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_object_is_refused(text):
    with pytest.raises(MalformedError):
        read_message(text, OPEN)


def test_in_a_room_with_a_password_nothing_is_taken_in_clear():
    message = {"UUID": "u", "session": "s", "description": {"type": "offer", "sdp": ""}}
    with pytest.raises(MalformedError, match="must be encrypted"):
        heard(CLOSED, **message)
    with pytest.raises(MalformedError, match="must be encrypted"):
        heard(CLOSED, UUID="u", session="s", candidates=[{"candidate": "c"}])
