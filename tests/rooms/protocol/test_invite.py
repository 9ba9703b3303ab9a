"""The invite: one line there and back, and nothing of it in a print."""

import base64
import contextlib
import hashlib
import hmac
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from comity.rooms.protocol.invite import Invite, InviteExpiredError, invite_secret, is_invite, read_invite
from comity.wire.errors import ComityError, InvalidError, MalformedError

INVITE = Invite(
    host="wss://a.example/signal", room="blue_1", password="pw ö", secret="s" * 64, exp=1_794_722_172_217
)
INVITES = st.builds(
    Invite,
    host=st.from_regex(r"\Awss?://[a-z]{1,9}(:[0-9]{1,5})?(/[a-z]*)?\Z"),
    room=st.from_regex(r"\A[A-Za-z0-9]{1,30}\Z"),
    password=st.just(False) | st.text(min_size=1, max_size=20),
    secret=st.text(min_size=1, max_size=80),
    exp=st.integers(1, 2**53 - 1),
    tls_sha256=st.none() | st.binary(min_size=32, max_size=32).map(bytes.hex),
    ice=st.none() | st.lists(st.just({"urls": "stun:x"}), max_size=3).map(tuple),
)


@given(INVITES)
def test_an_invite_reads_back(invite):
    line = invite.line()
    assert "\n" not in line
    assert is_invite(f"  {line}\n")
    assert read_invite(f"  {line}\n") == invite


def test_an_invite_never_prints_its_secrets():
    for shown in (repr(INVITE), str(INVITE), f"{INVITE}"):
        assert "ssss" not in shown
        assert "pw" not in shown


def test_the_secret_is_made_for_one_room_and_one_moment():
    expected = hmac.new(b"node", b"blue_1\n17", hashlib.sha256).hexdigest()
    assert invite_secret(b"node", "blue_1", 17) == expected
    assert invite_secret(b"node", "blue_1", 18) != expected != invite_secret(b"node", "blue_2", 17)


def line_of(**changed):
    members = {"host": "ws://h", "room": "r", "password": "p", "secret": "s", "exp": 5, **changed}
    body = json.dumps({name: value for name, value in members.items() if value != "gone"}).encode()
    return "comity:1:" + base64.urlsafe_b64encode(body).decode().rstrip("=")


@pytest.mark.parametrize(
    "changed",
    [
        {"host": "http://h"},
        {"host": "ws://h\r\nx: y"},
        {"host": "gone"},
        {"room": "../x"},
        {"room": ""},
        {"room": 5},
        {"password": None},
        {"password": True},
        {"secret": ""},
        {"secret": "x" * 1025},
        {"exp": "5"},
        {"exp": 2**53},
        {"exp": True},
        {"exp": -1},
        {"tls_sha256": "ab"},
        {"tls_sha256": "g" * 64},
        {"ice": "stun:x"},
        {"ice": [5]},
        {"ice": [{}] * 17},
    ],
)
def test_an_invite_that_cannot_be_used_names_what_is_wrong(changed):
    with pytest.raises(InvalidError, match=f"the invite's {next(iter(changed))}"):
        read_invite(line_of(**changed))


@pytest.mark.parametrize(
    "line", ["", "comity:2:x", "comity:1:", "comity:1:%%%", "comity:1:" + "A" * 9000, "comity:1:WzFd"]
)
def test_a_line_that_was_not_copied_whole_is_malformed(line):
    with pytest.raises(MalformedError, match="copy"):
        read_invite(line)


@given(st.text())
def test_nothing_typed_after_the_prefix_crashes(text):
    with contextlib.suppress(ComityError):
        read_invite("comity:1:" + text)


def test_a_fingerprint_is_read_with_colons_and_upper_case():
    shown = ":".join(["AB"] * 32)
    assert read_invite(line_of(tls_sha256=shown)).tls_sha256 == "ab" * 32


def test_an_invite_ends_after_its_moment():
    replace(INVITE, exp=1000).check(1000)
    with pytest.raises(
        InviteExpiredError, match="until 1970-01-01T00:00:01Z by the clock of its host, and the clock of this"
    ):
        replace(INVITE, exp=1000).check(1001)


def test_members_of_later_releases_are_overlooked():
    assert read_invite(line_of(colour="blue")).room == "r"
