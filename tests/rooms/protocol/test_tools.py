"""The contract of the `vdo_*` tools: defaults, caps, refusals in its own words, answers with its members."""

import base64
import inspect
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.mcp.protocol.catalog import Selection
from comity.rooms.protocol import hello
from comity.rooms.protocol.invite import Invite, InviteRelay
from comity.rooms.protocol.tool_answers import (
    ConnectDefaults,
    connect_options,
    effective_config,
    failed_payload,
    send_options,
)
from comity.rooms.protocol.tool_arguments import (
    VdoToolError,
    fault_type,
    file_bytes,
    optional_text,
    required_text,
    target,
)
from comity.rooms.protocol.tool_table import TOOLS, TOOLS_OF, VDO_TOOLS, Demands, allowed_profiles
from comity.rooms.tool_handlers import RoomTools
from comity.wire.json_schema import complainer
from tests.rooms.protocol.simulated_tools import SimulatedTools
from tests.simulation.rooms import World

DEFAULTS = ConnectDefaults(host="ws://127.0.0.1:1", stream_suffix="0011aabb")
NOW = 1_794_722_172_217.0
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def read_connect(arguments, defaults, now_ms):
    return connect_options(TOOLS["vdo_connect"].read(arguments), defaults, now_ms)


def connect(**arguments):
    return read_connect({"room": "lab", **arguments}, DEFAULTS, NOW)[0]


def fault(act, *args, **more):
    with pytest.raises(VdoToolError) as refused:
        act(*args, **more)
    return refused.value.message


def test_the_defaults_are_those_of_the_contract():
    assert effective_config(connect()) == {
        "host": "ws://127.0.0.1:1",
        "room": "lab",
        "stream_id": "mcp_bridge_0011aabb",
        "target_stream_id": None,
        "force_turn": False,
        "heartbeat_ms": 15000,
        "reconnect_ms": 3000,
        "max_reconnect_ms": 30000,
        "enforce_join_token": False,
        "allow_peer_stream_ids": [],
        "file_chunk_bytes": 65536,
        "file_max_bytes": 67108864,
        "file_ack_timeout_ms": 1200,
        "file_max_retries": 6,
        "require_session_mac": False,
        "file_spool_threshold_bytes": 4194304,
        "keep_spool_files": False,
        "state_max_keys": 2048,
        "state_max_snapshot_entries": 4096,
    }


@pytest.mark.parametrize(
    ("name", "default", "most"),
    [
        ("heartbeat_ms", 15000, 120000),
        ("reconnect_ms", 3000, 30000),
        ("max_reconnect_ms", 30000, 120000),
        ("file_max_bytes", 67108864, 268435456),
        ("file_ack_timeout_ms", 1200, 30000),
        ("file_spool_threshold_bytes", 4194304, 536870912),
        ("state_max_keys", 2048, 50000),
        ("state_max_snapshot_entries", 4096, 100000),
        ("file_chunk_bytes", 65536, 262144),
    ],
)
def test_integers_are_read_leniently_and_capped(name, default, most):
    def read(value):
        return effective_config(connect(**{name: value}))[name]

    for value in (None, 0, -5, "x", [], True, "NaN"):
        assert read(value) == default
    assert read(10**12) == most
    assert read("2000") == read(2000) == read(2000.9) == read("2000ms") == 2000


def test_retries_of_zero_are_zero():
    assert connect(file_max_retries=0).files.max_retries == 0
    assert connect(file_max_retries=-1).files.max_retries == 6
    assert connect(file_chunk_bytes=5).files.chunk_bytes == 1024


def test_words_for_booleans_are_understood():
    assert connect(force_turn="yes").force_turn is True
    assert connect(force_turn="off").force_turn is False
    assert connect(force_turn="perhaps").force_turn is False


@pytest.mark.parametrize(
    ("given", "read"),
    [(None, None), ("", None), (True, None), ("true", None), (False, False), ("false", False), ("pw", "pw")],
)
def test_a_password_is_a_text_the_default_or_none(given, read):
    assert connect(password=given).password is read or connect(password=given).password == read


def test_names_are_sanitised():
    options = connect(room=" My Room!! ", stream_id="a b", target_stream_id="__x__")
    assert (options.room, options.stream_id, options.target_stream_id) == ("My_Room", "a_b", "x")
    assert connect(stream_id="me", target_stream_id="me").target_stream_id is None
    assert connect(allow_peer_stream_ids="a, b c").demands.allow_peer_stream_ids == ("a", "b_c")
    assert connect(allow_peer_stream_ids=["x y"]).demands.allow_peer_stream_ids == ("x_y",)
    assert connect(allow_peer_stream_ids=[]).demands.allow_peer_stream_ids == ()


@pytest.mark.parametrize(
    ("arguments", "message", "kind"),
    [
        ({"room": ""}, "room is required", "validation_error"),
        ({"room": "!!!"}, "room is required", "validation_error"),
        ({"room": None}, "room is required", "validation_error"),
        ({"host": 5}, "host must be a string", "tool_error"),
        ({"host": "http://x"}, "invalid host: it must be a ws:// or wss:// address", "validation_error"),
        ({"password": 5}, "invalid password: it must be a string or false", "validation_error"),
        (
            {"enforce_join_token": True},
            "join_token_secret is required to enforce join tokens",
            "validation_error",
        ),
        (
            {"join_token": "a.b", "join_token_secret": "s"},
            "invalid join_token: invalid token signature",
            "validation_error",
        ),
        (
            {"allow_peer_stream_ids": 5},
            "invalid allow_peer_stream_ids: it must be a list of stream ids",
            "validation_error",
        ),
        (
            {"allow_peer_stream_ids": ["!"]},
            "invalid allow_peer_stream_ids: none of them is a stream id",
            "validation_error",
        ),
        (
            {"room": "comity:1:xx"},
            "invalid invite: the invite is damaged; copy the whole line again",
            "validation_error",
        ),
    ],
)
def test_a_connection_that_cannot_be_made_says_why(arguments, message, kind):
    assert fault(connect, **arguments) == message
    assert fault_type(message) == kind


def test_a_call_can_only_tighten_what_the_connection_demands():
    strict = ConnectDefaults(
        host="ws://x",
        stream_suffix="0",
        demands=Demands(
            join_token_secret="s",
            enforce_join_token=True,
            require_session_mac=True,
            allow_peer_stream_ids=("a", "b"),
        ),
    )
    options, _ = read_connect(
        {
            "room": "r",
            "enforce_join_token": False,
            "require_session_mac": False,
            "allow_peer_stream_ids": ["b", "c"],
        },
        strict,
        NOW,
    )
    assert options.demands == Demands(
        join_token_secret="s", enforce_join_token=True, require_session_mac=True, allow_peer_stream_ids=("b",)
    )
    assert "another secret" in fault(read_connect, {"room": "r", "join_token_secret": "t"}, strict, NOW)
    assert "no peer is allowed" in fault(
        read_connect, {"room": "r", "allow_peer_stream_ids": ["z"]}, strict, NOW
    )


INVITE = Invite(
    relays=(InviteRelay(url="wss://h/signal"),),
    room="blue",
    n=2,
    id="1d" * 32,
    password="pw",
    secret="5e" * 32,
    exp=int(NOW) + 1000,
)


def old_line(exp):
    """Of version 1, which others may still have."""
    members = {"host": "ws://h", "room": "blue", "password": "pw", "secret": "k" * 64, "exp": exp}
    return "comity:1:" + base64.urlsafe_b64encode(json.dumps(members).encode()).decode().rstrip("=")


def test_an_invite_in_place_of_a_room_brings_all_that_is_needed():
    options, invite = read_connect({"room": INVITE.line()}, DEFAULTS, NOW)
    assert invite == INVITE
    assert (options.host, options.room, options.password) == ("wss://h/signal", "blue", "pw")
    assert options.demands.enforce_join_token
    assert options.demands.require_session_mac
    assert options.demands.join_token_secret == INVITE.secret
    assert options.latest_exp is None
    assert (options.membership.host, options.membership.n) == (INVITE.id, 2)
    assert INVITE.secret not in json.dumps(effective_config(options))
    configured = ConnectDefaults(host="x", stream_suffix="0", demands=Demands(join_token_secret="node's own"))
    assert (
        read_connect({"room": INVITE.line()}, configured, NOW)[0].demands.join_token_secret == INVITE.secret
    )


def test_an_invite_that_is_over_says_so():
    message = fault(read_connect, {"room": INVITE.line()}, DEFAULTS, NOW + 2000)
    assert message.startswith("invalid invite: the invite has expired: it lasted until ")
    assert message.endswith("; set the wrong one, or ask for a new invite")


def test_two_who_share_an_invite_of_version_1_are_connected_and_a_token_that_outlives_it_is_not():
    world = World()
    line = old_line(int(world.wall() * 1000) + 60_000)
    client = SimulatedTools(world, own=True)
    client.call("vdo_connect", {"room": line, "stream_id": "alice"})
    answer = client.call("vdo_connect", {"room": line, "stream_id": "bob", "target_stream_id": "alice"})
    [peer] = client.call("vdo_sync_peers", {"session_id": answer["session_id"]})["peers"]
    assert (peer["stream_id"], peer["handshake_state"]) == ("alice", "ready")
    token = hello.mint("k" * 64, room="blue", stream_id="carol", exp=10**14, nonce="join_0")
    client.call(
        "vdo_connect", {"room": line, "stream_id": "carol", "target_stream_id": "alice", "join_token": token}
    )
    result = world.hosts["alice"].events("sync_peer_rejected")
    assert result[-1]["reason"] == "join token outlives the invite"
    for payload in (answer, client.call("vdo_list_sessions", {}), world.hosts["alice"].emitted):
        assert "kkkk" not in json.dumps(payload)
        assert line not in json.dumps(payload)


def test_unknown_names_are_refused_by_every_tool():
    for name, tool in TOOLS.items():
        message = fault(tool.check, {"bogus": 1, "more": 2}, "extended")
        assert message == f"{name} received unsupported fields: bogus, more"
        assert fault_type(message) == "validation_error"
        assert fault(tool.check, [], "extended") == f"{name} arguments must be an object"
        assert tool.check(None, "extended") == {}


def test_signed_is_an_argument_of_the_extended_profile_alone():
    send = TOOLS["vdo_send"]
    assert "unsupported fields: signed" in fault(send.check, {"signed": True}, "full")
    assert send.check({"signed": True}, "extended") == {"signed": True}
    assert "signed" not in send.schema("full")["properties"]


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("room is required", "validation_error"),
        ("Unknown Session_ID: x", "validation_error"),
        ("unknown transfer_id: x", "validation_error"),
        ("ambiguous target: multiple peers connected", "validation_error"),
        ("tool 'x' is disabled by tool profile 'core'", "validation_error"),
        ("no connected peers", "tool_error"),
        ("provide target or uuid, not both", "tool_error"),
        ("unsupported encoding: hex", "tool_error"),
        ("mode must be request or send", "tool_error"),
    ],
)
def test_the_type_of_an_error_is_as_recorded(message, kind):
    assert failed_payload("t", message) == {
        "ok": False,
        "error": {"type": kind, "message": message, "tool": "t"},
    }
    assert "tool" not in failed_payload(None, message)["error"]


def test_receiving_is_limited():
    read = TOOLS["vdo_receive"].read
    assert read({}) == {"max_events": 50, "wait_ms": 0}
    assert read({"max_events": 9999, "wait_ms": 10**9}) == {"max_events": 500, "wait_ms": 30_000}
    assert read({"wait_ms": -5})["wait_ms"] == 0
    assert TOOLS["vdo_request"].read({"data": 1, "target": "x"})["timeout_ms"] == 60_000


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("AP8=", b"\x00\xff"),
        ("AP8", b"\x00\xff"),
        (" A P 8 = ", b"\x00\xff"),
        ("-_8=", b"\xfb\xff"),
        ("QUJD\nREVG", b"ABCDEF"),
    ],
)
def test_base64_is_read_as_leniently_as_the_reference_does(text, data):
    assert file_bytes({"data": text}, "data") == data


@pytest.mark.parametrize("text", ["", "!!!!", "A", "===="])
def test_base64_of_nothing_is_refused(text):
    assert fault(file_bytes, {"data_base64": text}, "data_base64") == "data_base64 decoded to empty payload"
    assert fault(file_bytes, {}, "data_base64") == "data_base64 is required"


def sending(**arguments):
    return send_options(TOOLS["vdo_file_send_path"].read({"file_path": "x", **arguments}), "file_1")


def test_sending_reads_its_options():
    options = sending(chunk_bytes="5", ack_timeout_ms=10**9, max_retries=0, name="n")
    assert (options.transfer_id, options.name, options.chunk_bytes) == ("file_1", "n", 1024)
    assert (options.ack_timeout, options.max_retries) == (30.0, 0)
    assert sending(transfer_id="mine").transfer_id == "mine"


def test_targets():
    assert target({}) is None
    assert target({"uuid": "u"}) == "u"
    assert target({"target": {"streamID": "s"}}) == {"streamID": "s"}
    assert fault(target, {"target": 5}) == "invalid target: it must be a string or an object"
    assert fault(target, {"target": "a", "uuid": "b"}) == "provide target or uuid, not both"


def test_an_argument_that_must_be_a_text_is_trimmed_and_refused_by_its_name_where_it_is_none():
    assert [optional_text(given, "name") for given in ({}, {"name": None}, {"name": "  "})] == [None] * 3
    assert optional_text({"name": " a "}, "name") == "a"
    for value in (5, False, [], {}):
        assert fault(optional_text, {"name": value}, "name") == "invalid name: it must be a string"
        assert fault(required_text, {"name": value}, "name") == "name is required"


def test_every_tool_has_a_method_that_takes_what_is_read_for_it():
    for name, tool in TOOLS.items():
        read = {argument: None for argument, one in tool.arguments.items() if one.read is not None}
        before = ("tools", "room", "context") if tool.in_session else ("tools", "context")
        inspect.signature(getattr(RoomTools, name)).bind(*before, **read)


def test_every_schema_compiles():
    for tool in TOOLS.values():
        complainer(tool.schema("extended"))
        assert tool.schema("extended")["additionalProperties"] is False
    for profile, names in TOOLS_OF.items():
        tools = [TOOLS[name] for name in names]
        listed = [
            {"name": tool.name, "description": tool.description, "inputSchema": tool.schema(profile)}
            for tool in tools
        ]
        assert len(json.dumps(listed)) < 25_000


def test_the_document_s_four_profiles_are_told_unless_ours_is_chosen():
    assert allowed_profiles("full") == ("core", "file", "state", "full")
    assert allowed_profiles("extended") == ("core", "file", "state", "full", "extended")
    meta = VDO_TOOLS.list_meta(Selection(profile="extended"))
    assert meta["allowed_tool_profiles"][-1] == "extended"


@given(st.sampled_from(sorted(TOOLS_OF["extended"])), st.data())
def test_no_argument_crashes_a_tool(tool, data):
    world = World()
    client = SimulatedTools(world, "extended", own=True)
    session = client.call("vdo_connect", {"room": "r", "stream_id": "me"})["session_id"]
    names = list(TOOLS[tool].arguments)
    arguments = data.draw(st.dictionaries(st.sampled_from(names), ANYTHING)) if names else {}
    if "session_id" in names:
        arguments["session_id"] = session
    arguments.pop("timeout_ms", None)
    answer = client.call(tool, arguments)
    assert isinstance(answer["ok"], bool)
    json.dumps(answer)


class Caller:
    """A session of the client."""

    def __init__(self, client, **arguments):
        self.client = client
        self.id = client.call("vdo_connect", {"room": "r", **arguments})["session_id"]

    def call(self, tool, **arguments):
        return self.client.call(tool, {"session_id": self.id, **arguments})


def test_the_extended_tools_work_between_our_nodes():
    client = SimulatedTools(World(), "extended", own=True)
    one = Caller(client, stream_id="alice")
    two = Caller(client, stream_id="bob", target_stream_id="alice")
    assert one.call("vdo_state_cas", key="k", value=1, expected_clock=0)["entry"]["clock"] == 1
    failed = two.call("vdo_state_cas", key="k", value=2, expected_clock=0)
    assert failed["error"]["message"] == "state changed: k has clock 1, not 0"
    [change] = two.call("vdo_state_watch", prefix="k")["changes"]
    assert change["value"] == 1
    assert "value" not in two.call("vdo_state_delete", key="k")["entry"]
    assert one.call("vdo_state_get", key="k")["value"] is None
    [request] = one.call("vdo_send", data="?", target="bob")["message_ids"]
    status = one.call("vdo_message_status", message_id=request)
    assert (status["status"], status["reason"]) == ("stored", None)
    two.call("vdo_reply", request_id=request, data="!")
    events = one.call("vdo_receive")["events"]
    assert [event["re"] for event in events if event["type"] == "data_received"] == [request]
    assert one.call("vdo_message_status", message_id="x")["error"]["type"] == "validation_error"


def test_a_tool_outside_the_contract_is_not_in_its_profiles():
    assert SimulatedTools(World(), "full").call("vdo_file_cancel", {})["error"] == {
        "type": "validation_error",
        "message": "tool 'vdo_file_cancel' is disabled by tool profile 'full'",
        "tool": "vdo_file_cancel",
    }
