"""The invite: one line there and back, nothing of it in a print, and nothing but itself from a line that was cut or made up."""

import base64
import contextlib
import hashlib
import hmac
import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from comity.rooms.protocol.invite import (
    MAX_INFLATED,
    RIGHTS,
    Invite,
    InviteExpiredError,
    InviteRelay,
    invite_secret,
    is_invite,
    read_invite,
)
from comity.wire.errors import ComityError, InvalidError, MalformedError

INVITE = Invite(
    room="blue_1",
    n=3,
    id="1d" * 32,
    addrs=("192.0.2.7:8421", "[2001:db8::1]:8421"),
    pin="f0" * 32,
    relays=(InviteRelay(url="wss://a.example/signal?token=top", turn=({"urls": ["turn:a:1"]},)),),
    password="pw ö",
    secret="5e" * 32,
    exp=1_794_722_172_217,
)
HEX = st.binary(min_size=32, max_size=32).map(bytes.hex)
SERVER = st.fixed_dictionaries(
    {"urls": st.just("stun:x") | st.just(["turn:x", "turn:y"])},
    optional={"username": st.just("u"), "credential": st.text(min_size=1, max_size=9)},
)
RELAY = st.builds(
    InviteRelay,
    url=st.from_regex(r"\Awss?://[a-z]{1,9}(:[0-9]{1,5})?(/[a-z]*)?\Z"),
    pin=st.none() | HEX,
    turn=st.lists(SERVER, max_size=3).map(tuple),
)
INVITES = st.builds(
    Invite,
    room=st.from_regex(r"\A[A-Za-z0-9]{1,30}\Z"),
    n=st.integers(1, 2**31),
    id=HEX,
    addrs=st.lists(st.from_regex(r"\A[a-z0-9.]{1,20}:[1-9][0-9]{0,3}\Z"), max_size=4).map(tuple),
    pin=HEX,
    relays=st.lists(RELAY, min_size=1, max_size=3).map(tuple),
    password=st.just(False) | st.text(min_size=1, max_size=20),
    secret=HEX,
    exp=st.integers(1, 2**53 - 1),
    uses=st.integers(1, 256),
    rights=st.sets(st.sampled_from(RIGHTS)).map(tuple),
)


@given(INVITES)
def test_an_invite_reads_back(invite):
    line = invite.line()
    assert "\n" not in line
    assert is_invite(f"  {line}\n")
    assert read_invite(f"  {line}\n") == invite


def test_an_invite_never_prints_its_secrets():
    for shown in (repr(INVITE), str(INVITE), f"{INVITE}"):
        assert "5e5e" not in shown
        assert "pw" not in shown
        assert "top" not in shown


def test_the_secret_is_made_for_one_invite_to_one_room_until_one_moment():
    expected = hmac.new(b"node", b"2\nblue_1\n3\n17", hashlib.sha256).hexdigest()
    assert invite_secret(b"node", "blue_1", 3, 17) == expected
    others = {
        invite_secret(b"node", *one) for one in (("blue_1", 4, 17), ("blue_1", 3, 18), ("blue_2", 3, 17))
    }
    assert len(others - {expected}) == 3


def test_the_host_is_met_at_the_relay_of_the_invite_or_else_behind_its_own_door():
    assert [one.url for one in INVITE.meeting_places()] == ["wss://a.example/signal?token=top"]
    places = replace(INVITE, relays=()).meeting_places()
    assert [one.url for one in places] == ["wss://192.0.2.7:8421/signal", "wss://[2001:db8::1]:8421/signal"]
    assert {one.pin for one in places} == {INVITE.pin}


def members_of(invite):
    body = invite.line().removeprefix("comity:2:")
    return json.loads(zlib.decompress(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))))


def line_with(data):
    return "comity:2:" + base64.urlsafe_b64encode(zlib.compress(data, 9)).decode().rstrip("=")


def changed(**more):
    members = {**members_of(INVITE), **more}
    return line_with(json.dumps({name: value for name, value in members.items() if value != "gone"}).encode())


@pytest.mark.parametrize(
    "change",
    [
        {"v": 3},
        {"v": "2"},
        {"colour": "blue"},
        {"uses": "gone"},
        {"room": "../x"},
        {"room": 5},
        {"n": 0},
        {"n": True},
        {"id": "ab"},
        {"id": None},
        {"addrs": "192.0.2.7:1"},
        {"addrs": ["192.0.2.7"]},
        {"addrs": ["192.0.2.7:0"]},
        {"addrs": ["192.0.2.7:65536"]},
        {"addrs": ["evil/../x:1"]},
        {"addrs": ["x:1\r\ny:2"]},
        {"addrs": ["x:1"] * 17},
        {"pin": None},
        {"pin": "g" * 64},
        {"relays": {}},
        {"relays": [5]},
        {"relays": [{"url": "wss://x"}]},
        {"relays": [{"url": "http://x", "pin": None, "turn": []}]},
        {"relays": [{"url": "wss://u:p@x", "pin": None, "turn": []}]},
        {"relays": [{"url": "wss://x\n", "pin": None, "turn": []}]},
        {"relays": [{"url": "wss://x", "pin": "ab", "turn": []}]},
        {"relays": [{"url": "wss://x", "pin": None, "turn": [{"urls": []}]}]},
        {"relays": [{"url": "wss://x", "pin": None, "turn": [{"urls": "stun:x", "more": 1}]}]},
        {"relays": [], "addrs": []},
        {"password": None},
        {"password": ""},
        {"secret": "s"},
        {"exp": "5"},
        {"exp": 2**53},
        {"uses": 0},
        {"uses": 257},
        {"rights": ["root"]},
        {"rights": ["room", "room"]},
    ],
)
def test_an_invite_that_cannot_be_used_names_what_is_wrong(change):
    with pytest.raises(InvalidError, match="the invite's"):
        read_invite(changed(**change))


def test_a_line_that_was_cut_anywhere_or_typed_wrong_is_damaged():
    line = INVITE.line()
    for end in range(len("comity:2:"), len(line)):
        with pytest.raises(MalformedError, match="copy"):
            read_invite(line[:end])
    for place in range(len("comity:2:") + 3, len(line) - 1, 7):
        other = "A" if line[place] != "A" else "B"
        with pytest.raises(MalformedError, match="copy"):
            read_invite(line[:place] + other + line[place + 1 :])


def test_a_line_that_inflates_to_more_than_an_invite_is_not_inflated():
    with pytest.raises(MalformedError, match="copy"):
        read_invite(line_with(b" " * (MAX_INFLATED + 1)))
    bomb = line_with(b"[" * 4_000_000)
    assert len(bomb) < 8192
    with pytest.raises(MalformedError, match="copy"):
        read_invite(bomb)
    with pytest.raises(MalformedError, match="copy"):
        read_invite("comity:2:" + "A" * 9000)


def test_what_follows_the_deflated_object_is_refused():
    body = INVITE.line().removeprefix("comity:2:")
    data = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)) + b"more"
    with pytest.raises(MalformedError, match="copy"):
        read_invite("comity:2:" + base64.urlsafe_b64encode(data).decode().rstrip("="))


@given(st.sampled_from(["comity:1:", "comity:2:"]), st.text())
def test_nothing_typed_after_the_prefix_crashes(prefix, text):
    with contextlib.suppress(ComityError):
        read_invite(prefix + text)


def test_an_invite_ends_after_its_moment():
    replace(INVITE, exp=1000).check(1000)
    with pytest.raises(
        InviteExpiredError, match="until 1970-01-01T00:00:01Z by the clock of its host, and the clock of this"
    ):
        replace(INVITE, exp=1000).check(1001)


# Version 1, which is read and no longer written.


def old_line(**change):
    members = {"host": "ws://h", "room": "r", "password": "p", "secret": "s", "exp": 5, **change}
    body = json.dumps({name: value for name, value in members.items() if value != "gone"}).encode()
    return "comity:1:" + base64.urlsafe_b64encode(body).decode().rstrip("=")


def test_an_invite_of_version_1_is_still_read():
    shown = ":".join(["AB"] * 32)
    invite = read_invite(old_line(tls_sha256=shown, ice=[{"urls": "stun:x"}], colour="blue"))
    assert (invite.room, invite.password, invite.secret, invite.exp, invite.id) == ("r", "p", "s", 5, None)
    assert invite.relays == (InviteRelay(url="ws://h", pin="ab" * 32, turn=({"urls": "stun:x"},)),)


@pytest.mark.parametrize(
    "change",
    [
        {"host": "http://h"},
        {"host": "ws://h\r\nx: y"},
        {"host": "gone"},
        {"room": "../x"},
        {"room": ""},
        {"password": None},
        {"password": True},
        {"secret": ""},
        {"secret": "x" * 1025},
        {"exp": True},
        {"exp": -1},
        {"tls_sha256": "ab"},
        {"ice": "stun:x"},
        {"ice": [{}] * 17},
    ],
)
def test_an_invite_of_version_1_that_cannot_be_used_names_what_is_wrong(change):
    with pytest.raises(InvalidError, match=f"the invite's {next(iter(change))}"):
        read_invite(old_line(**change))


@pytest.mark.parametrize(
    "line", ["", "comity:3:x", "comity:1:", "comity:1:%%%", "comity:1:WzFd", "comity:2:"]
)
def test_a_line_that_is_no_invite_is_malformed(line):
    with pytest.raises(MalformedError, match="copy"):
        read_invite(line)
