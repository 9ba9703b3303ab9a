import base64
import json

import pytest

from comity.rooms.protocol.relay_line import (
    RELAY_PREFIX,
    RelayLine,
    check_relay_name,
    read_relay_line,
    split_relay_token,
)
from comity.wire.errors import ConfigError, InvalidError, MalformedError

LINE = RelayLine(
    url="wss://relay.example:8421/signal",
    name="bob",
    secret="a" * 64,
    pin="b" * 64,
    turn=("turn:relay.example:8422?transport=udp", "turn:relay.example:8422?transport=tcp"),
)


def spelled(**changes):
    members = {
        "url": LINE.url, "name": "bob", "secret": LINE.secret, "pin": LINE.pin, "turn": list(LINE.turn), **changes,
    }  # fmt: skip
    data = json.dumps({name: value for name, value in members.items() if value is not ...}).encode()
    return RELAY_PREFIX + base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def test_a_line_is_read_as_it_was_written_and_never_shows_its_secret():
    assert read_relay_line(f"  {LINE.line()}\n") == LINE
    assert read_relay_line(spelled(pin=..., turn=...)) == RelayLine(
        url=LINE.url, name="bob", secret=LINE.secret
    )
    assert LINE.secret not in repr(LINE)


def test_what_is_made_from_a_line_ends_by_itself():
    user, password = LINE.login(1000.7)
    assert user == "1000:bob"
    url, _, token = LINE.address(1000).partition("?token=")
    assert url == LINE.url
    assert split_relay_token(f"{user}:{password}") == (user, password)
    assert token.startswith("1000%3Abob%3A")
    stun, turn = LINE.ice(1000)
    assert stun == {"urls": ["stun:relay.example:8422"]}
    assert turn == {"urls": list(LINE.turn), "username": user, "credential": password}


@pytest.mark.parametrize(
    "text", ["", "comity:1:abc", RELAY_PREFIX, RELAY_PREFIX + "é", LINE.line()[:-9], LINE.line() + "x" * 5000]
)
def test_a_line_that_was_not_copied_whole_is_refused(text):
    with pytest.raises(MalformedError, match="copy the whole line"):
        read_relay_line(text)


@pytest.mark.parametrize(
    "change",
    [
        {"url": "http://relay.example"},
        {"url": "wss://user@relay.example/signal"},
        {"url": "wss://relay.example/signal?token=x"},
        {"url": 7},
        {"name": "a b"},
        {"name": "a:b"},
        {"name": ...},
        {"secret": "short"},
        {"pin": "B" * 64},
        {"turn": "turn:x"},
        {"turn": ["http://x"]},
        {"turn": ["turn:x"] * 9},
    ],
)
def test_a_line_that_names_something_else_is_refused(change):
    with pytest.raises(InvalidError, match="cannot be used"):
        read_relay_line(spelled(**change))


def test_a_name_that_no_line_can_hold_is_refused():
    assert check_relay_name("bob-2.laptop") == "bob-2.laptop"
    for name in ("", "a b", "a:b", "ä", "x" * 65):
        with pytest.raises(ConfigError, match="letters"):
            check_relay_name(name)
