"""One act, one line: what people read and what a log keeps."""

import json
import re
import time

import pytest

from comity.node.commands.event_output import json_log_line, log_line, readable, words_for
from comity.requests.events import NodeEvent

AT = 1_800_000_000.25
CALL = NodeEvent(7, AT, "envelope", "ENVELOPE_OK", "vacant:abababab", "63ae6ff9", "2e62", "00-aa")
CLOCK = time.strftime("%H:%M:%S", time.localtime(AT))


def event(kind, feature="shop", **more):
    return NodeEvent(1, AT, feature, kind, **more)


def test_a_line_says_when_where_what_who_about_what_and_which_request():
    assert readable(CALL, coloured=False).split() == [
        CLOCK,
        "envelope",
        *("signed", "call", "answered"),
        *("vacant", "abababab"),
        "63ae6ff9",
        *("request", "2e62"),
    ]


@pytest.mark.parametrize(
    ("happened", "words"),
    [
        (event("NODE_STARTED", "node"), "the node started"),
        (event("SHOP_OK"), "shop answered"),
        (event("SHOP_FAILED", failed="deadline"), "shop failed: deadline"),
        (event("MCP_ECHO_OK", "mcp", count=1000), "echo called, 1,000 times"),
        (event("MCP_ECHO_FAILED", "mcp", failed="internal"), "echo failed: internal"),
        (event("REFUSED", "http", failed="http:rate_limited", count=2), "refused: rate limited, 2 times"),
        (
            event("HANDSHAKE_ERROR", "vcp", failed="IDENTITY_INVALID"),
            "VCP handshake refused: identity invalid",
        ),
        (event("REVOCATION_GOOD", "vcp"), "revocation good"),
    ],
)
def test_what_happened_is_told_in_plain_words(happened, words):
    assert words_for(happened) == words


@pytest.mark.parametrize(
    ("who", "named"),
    [
        ("local:-", "you"),
        ("local:terminal", "you"),
        ("local:browser", "you, in a browser"),
        ("local:model", "your MCP client"),
        ("local:metrics:prometheus", "your token prometheus"),
        ("unknown:-", "anonymous"),
        ("oauth:0011aabb", "visitor 0011aabb"),
        ("vcp:0011aabb", "VCP 0011aabb"),
    ],
)
def test_callers_are_named_by_their_kind(who, named):
    assert named in readable(event("SHOP_OK", who=who), coloured=False)


def test_a_narrow_terminal_gets_less_and_never_a_broken_line():
    whole = readable(CALL, coloured=False)
    assert readable(CALL, coloured=False, width=len(whole)) == whole
    narrower = readable(CALL, coloured=False, width=len(whole) - 1)
    assert "63ae6ff9" in narrower
    assert "request" not in narrower
    assert readable(CALL, coloured=False, width=20).endswith("vacant abababab")
    plain = readable(event("SHOP_OK", who="local:-", request="r1"), coloured=False, width=60)
    assert plain.endswith("you")


def test_colours_change_nothing_but_the_look():
    coloured = readable(CALL, coloured=True)
    assert "\x1b[32m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == readable(CALL, coloured=False)
    assert "\x1b[31m" in readable(event("SHOP_FAILED", failed="internal"), coloured=True)


def test_nothing_that_others_wrote_acts_on_a_terminal_or_breaks_a_line():
    foul = "a\x1b[2J\nb\u202ec"
    bad = NodeEvent(1, AT, foul, foul, foul, foul, foul, foul, foul)
    for line in (readable(bad, coloured=False), log_line(bad).removesuffix("\n")):
        assert "\x1b" not in line
        assert "\n" not in line
        assert "\u202e" not in line
    assert json_log_line(bad).count("\n") == 1
    assert "\x1b" not in json_log_line(bad)


def test_a_log_line_looks_like_the_others_and_carries_everything():
    line = log_line(CALL)
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,250 INFO comity\.acts: ENVELOPE_OK ", line)
    assert line.endswith("room=envelope who=vacant:abababab what=63ae6ff9 request=2e62 trace=00-aa\n")
    refused = log_line(event("REFUSED", failed="shop:no", count=3))
    assert refused.endswith("REFUSED room=shop failed=shop:no count=3\n")
    assert log_line(event("SHOP_OK", what="two words")).endswith('what="two words"\n')


def test_a_json_log_line_has_the_fields_of_the_others_and_those_of_the_act():
    assert json.loads(json_log_line(CALL)) == {
        "at": "2027-01-15T08:00:00.250000+00:00",
        "level": "info",
        "logger": "comity.acts",
        "message": "ENVELOPE_OK",
        "room": "envelope",
        "kind": "ENVELOPE_OK",
        "who": "vacant:abababab",
        "what": "63ae6ff9",
        "request": "2e62",
        "trace": "00-aa",
    }
