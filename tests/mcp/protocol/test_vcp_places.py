"""Where a hello is found in an MCP message, which one counts, and where its answer stands."""

import pytest

from comity.mcp.protocol.catalog import Selection
from comity.mcp.protocol.context import McpClient
from comity.mcp.protocol.conversation import with_reply
from comity.mcp.protocol.results import META_CAPABILITIES
from comity.vcp.protocol import mcp_places as vcp_places
from comity.vcp.protocol.mcp_places import EXTENSION, differing_places, hello_in_initialize, hello_in_request
from comity.wire import strict_json
from tests.callers import visitor
from tests.mcp.protocol.talk import (
    ACK,
    AGREED,
    HELLO,
    PERSONAL,
    REFUSED,
    Talk,
    a_server,
    meta,
    only,
    with_hello,
)

SPELLINGS = ("space.creed/vcp-hello", "space.creed.vcp/capabilities")


def said(place):
    return {**HELLO, "client_id": place}


PLACES = {
    "options": lambda hello: {"initializationOptions": {"vcp": hello}},
    "params": lambda hello: {"vcp": hello},
    "extension": lambda hello: {"capabilities": {"extensions": {EXTENSION: hello}}},
    "experimental": lambda hello: {"capabilities": {"experimental": {EXTENSION: hello}}},
    "meta": lambda hello: {"_meta": {SPELLINGS[0]: hello}},
    "other meta": lambda hello: {"_meta": {SPELLINGS[1]: hello}},
}
ACKS = ("space.creed/vcp-ack", "space.creed.vcp/ack")


@pytest.mark.parametrize("place", PLACES)
def test_every_place_of_initialize_is_read(place):
    assert hello_in_initialize(PLACES[place](HELLO)) == HELLO


@pytest.mark.parametrize("kind", ["extensions", "experimental"])
def test_a_declared_extension_may_hold_its_hello_by_name(kind):
    assert hello_in_initialize({"capabilities": {kind: {EXTENSION: {"hello": HELLO}}}}) == HELLO


def test_the_first_place_counts():
    def merged(*names):
        params = {}
        for name in names:
            for key, value in PLACES[name](said(name)).items():
                params[key] = {**params.get(key, {}), **value}
        return params

    order = list(PLACES)
    for first in range(len(order)):
        assert hello_in_initialize(merged(*order[first:]))["client_id"] == order[first]


def test_a_hello_counts_before_what_is_none_in_an_earlier_place():
    params = {"initializationOptions": {"vcp": "3.1"}, "vcp": HELLO}
    assert hello_in_initialize(params) == HELLO
    assert differing_places(params) == ("initializationOptions.vcp",)
    assert hello_in_initialize({"initializationOptions": {"vcp": "3.1"}}) == "3.1"


def test_places_that_hold_another_hello_are_named():
    same = {"initializationOptions": {"vcp": HELLO}, "vcp": dict(HELLO)}
    assert differing_places(same) == ()
    assert differing_places({}) == ()
    other = {**same, "vcp": said("params"), "_meta": {SPELLINGS[0]: said("meta")}}
    assert differing_places(other) == ("vcp", f"_meta.{SPELLINGS[0]}")


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"vcp": None, "initializationOptions": None, "capabilities": None, "_meta": None},
        {"initializationOptions": [], "capabilities": 7, "_meta": "x"},
        {"capabilities": {"extensions": {EXTENSION: {}}}},
        {"capabilities": {"extensions": {EXTENSION: {"versions": ["3.1"]}}}},
        {"capabilities": {"extensions": {EXTENSION: "x"}, "experimental": []}},
        {"_meta": {SPELLINGS[0]: None}},
    ],
)
def test_without_a_hello_there_is_none(params):
    assert hello_in_initialize(params) is None


def test_a_modern_request_is_read_in_its_extension_and_both_spellings():
    assert hello_in_request(meta({"extensions": {EXTENSION: {"hello": HELLO}}})) == HELLO
    for spelling in SPELLINGS:
        assert hello_in_request(meta(**{spelling: HELLO})) == HELLO
    both = {**with_hello(said("extension")), SPELLINGS[0]: said("meta")}
    assert hello_in_request(both)["client_id"] == "extension"
    assert hello_in_request(meta()) is None
    assert hello_in_request({META_CAPABILITIES: 7}) is None


@pytest.mark.parametrize("outcome", [AGREED, REFUSED])
@pytest.mark.parametrize("place", PLACES)
def test_the_answer_to_initialize_stands_in_every_place_and_the_request_succeeds(place, outcome):
    talk = Talk()
    greet = talk.greet("initialize", {"protocolVersion": "2024-11-05", **PLACES[place](HELLO)})
    result = only(talk.conversation.greeted(greet, outcome))["result"]
    reply = outcome.reply
    assert result["protocolVersion"] == "2024-11-05"
    assert result["serverInfo"]["metadata"]["vcp"] == reply
    assert result["vcp"] == reply
    assert result["capabilities"]["extensions"][EXTENSION] == {
        "versions": ["3.1"],
        "extensions": [],
        "ack": reply,
    }
    assert [result["_meta"][spelling] for spelling in ACKS] == [reply, reply]


def test_without_a_hello_there_is_no_word_of_vcp_in_the_reply():
    (reply,) = Talk().request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {"roots": {}}})
    assert b"vcp" not in reply.lower()
    assert b"creed" not in reply


def test_a_refused_hello_leaves_the_core_and_nothing_of_the_extension():
    talk = Talk()
    only(talk.conversation.greeted(talk.greet("initialize", {"vcp": HELLO}), REFUSED))
    assert [one["name"] for one in talk.result("tools/list")["tools"]] == ["echo"]
    words = talk.result("tools/call", {"name": "feel"})["content"][0]["text"]
    assert words.startswith(f"Extension {PERSONAL} is not active.")


def test_an_accepted_hello_holds_for_the_session():
    talk = Talk()
    only(talk.conversation.greeted(talk.greet("initialize", {"vcp": HELLO}), AGREED))
    assert [one["name"] for one in talk.result("tools/list")["tools"]] == ["echo", "feel"]
    assert talk.call("feel").client.attached.id == "ses_1"
    assert b"vcp" not in talk.request("tools/list")[0]


def test_discover_with_a_hello_answers_in_the_extension_for_this_asker_only():
    talk = Talk()
    result = only(talk.conversation.greeted(talk.greet("server/discover", {"_meta": with_hello()}), AGREED))[
        "result"
    ]
    assert result["capabilities"]["extensions"][EXTENSION] == {
        "versions": ["3.1"],
        "extensions": [],
        "ack": ACK,
    }
    assert [result["_meta"][spelling] for spelling in ACKS] == [ACK, ACK]
    assert result["cacheScope"] == "private"
    plain = only(talk.modern("server/discover"))["result"]
    assert plain["capabilities"]["extensions"][EXTENSION] == {"versions": ["3.1"], "extensions": []}
    assert plain["cacheScope"] == "public"
    assert "ack" not in str(plain)


def test_a_modern_error_is_told_where_the_ack_would_be():
    talk = Talk()
    greet = talk.greet("tools/list", {"_meta": with_hello()})
    result = only(talk.conversation.greeted(greet, REFUSED))["result"]
    assert result["_meta"][ACKS[0]] == REFUSED.reply
    assert result["cacheScope"] == "private"
    assert [one["name"] for one in result["tools"]] == ["echo"]


def test_a_modern_request_without_a_hello_gets_no_word_of_vcp():
    (reply,) = Talk().modern("tools/list")
    assert b"vcp" not in reply.lower()


@pytest.mark.parametrize("place", PLACES)
def test_without_a_handshake_a_hello_gets_nothing(place):
    talk = Talk(a_server(handshake=None), Selection(vcp=(PERSONAL,)))
    (welcome,) = talk.request("initialize", {"protocolVersion": "2025-11-25", **PLACES[place](HELLO)})
    (listed,) = talk.request("tools/list", {"_meta": with_hello()})
    (discovered,) = talk.modern("server/discover")
    for answer in (welcome, listed, discovered):
        assert b"error" not in answer
        assert b"vcp" not in answer.lower()


def test_what_stands_in_a_result_already_stays():
    result = {"content": [], "_meta": {"mine": 1}}
    written = vcp_places.write_into_result(result, ACK)
    assert written["_meta"] == {"mine": 1, ACKS[0]: ACK, ACKS[1]: ACK}
    assert result["_meta"] == {"mine": 1}
    assert strict_json.loads(with_reply(a_server(), strict_json.dumps(result), ACK)) == written


def test_an_agreement_makes_the_asker_and_an_error_does_not():
    client = McpClient(version="2025-06-18", modern=False, caller=visitor("ann"))
    agreed = AGREED.agreed(client)
    assert (agreed.active, agreed.attached, agreed.owner) == (
        frozenset({PERSONAL}),
        AGREED.attached,
        "oauth:ann",
    )
    assert REFUSED.agreed(client) is client
