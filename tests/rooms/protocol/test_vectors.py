"""Known answers of the reference: what it signs, admits, merges, lists, answers and says on the wire."""

import base64
import json

import pytest

from comity.mcp.protocol.catalog import Selection
from comity.rooms.protocol import hello
from comity.rooms.protocol.channel import BridgeEnvelope, read_text_message, write_envelope
from comity.rooms.protocol.effects import ChannelOpened, SendText, TextArrived
from comity.rooms.protocol.events import EVENT_MEMBERS
from comity.rooms.protocol.hello import JoinTokenError, SessionKeys
from comity.rooms.protocol.loose_values import sanitize_id
from comity.rooms.protocol.shared_data import SharedState
from comity.rooms.protocol.tool_table import TOOLS, TOOLS_OF, VDO_TOOLS
from comity.testing.vectors import format_runner, known_keys, vector_file
from comity.wire import strict_json
from tests.rooms.protocol.simulated_tools import SimulatedTools
from tests.simulation.rooms import Host, World

PRIVATE_PREFIX = "302e020100300506032b656e04220420"


def crypto_cases(content):
    mac = content["mac"]
    yield (
        "mac-secret",
        {"part": "secret", **{name: value for name, value in mac.items() if name != "envelopes"}},
    )
    for at, envelope in enumerate(mac["envelopes"]):
        yield f"mac-{at}", {"part": "mac", "key": mac["shared_secret_hex"], **envelope}
    tokens = content["join_tokens"]
    given = {name: tokens[name] for name in ("secret", "local_room", "peer_stream_id")}
    for at, case in enumerate(tokens["cases"]):
        yield f"token-{at}", {"part": "token", "given": given, **case}
    for at, case in enumerate(content["sdk"]):
        yield f"sdk-{at}", {"part": "sdk", **case}
    for case in content["sanitize_id"]:
        yield f"sanitize-{case['in']!r}", {"part": "sanitize", **case}
    yield "state_merge", {"part": "merge", **content["state_merge"]}


def ours(case):
    return case["part"] != "sdk"


@format_runner("peers", "crypto_vectors", cases=crypto_cases, takes=ours)
def test_vector_peers_crypto(case):
    JUDGES[case["part"]](case)


def judge_secret(case):
    known_keys(
        case,
        "part",
        "alice_public_spki_b64",
        "alice_private_pkcs8_b64",
        "bob_public_spki_b64",
        "bob_private_pkcs8_b64",
        "shared_secret_hex",
    )
    keys = {}
    for name in ("alice", "bob"):
        private = base64.b64decode(case[f"{name}_private_pkcs8_b64"])
        assert private[:16].hex() == PRIVATE_PREFIX
        keys[name] = SessionKeys(private[16:])
        assert keys[name].public_key == case[f"{name}_public_spki_b64"]
    assert keys["alice"].shared_with(case["bob_public_spki_b64"]).hex() == case["shared_secret_hex"]
    assert keys["bob"].shared_with(case["alice_public_spki_b64"]).hex() == case["shared_secret_hex"]


def judge_mac(case):
    known_keys(case, "part", "key", "wire", "signed_string", "mac", "verifies_at_receiver")
    key = bytes.fromhex(case["key"])
    wire = case["wire"].encode()
    envelope = read_text_message(wire)
    assert envelope.signed_bytes().decode() == case["signed_string"]
    assert envelope.mac == case["mac"]
    assert envelope.is_sealed_by(key) is case["verifies_at_receiver"]
    assert write_envelope(envelope, key) == wire


def judge_token(case):
    known_keys(case, "part", "given", "payload", "token", "validate")
    given, expected = case["given"], case["validate"]
    if isinstance(case.get("payload", {}).get("exp"), str):
        return  # ruling 38
    asked = {"room": given["local_room"], "stream_id": given["peer_stream_id"], "now_ms": 1_794_722_172_217}
    if expected["ok"]:
        claims = hello.admit(case["token"], given["secret"], **asked)
        assert expected == {"ok": True, "payload": claims}
    else:
        with pytest.raises(JoinTokenError) as refused:
            hello.admit(case["token"], given["secret"], **asked)
        assert refused.value.message == expected["error"]
    payload = case.get("payload", {})
    if set(payload) == {"room", "stream_id", "exp", "nonce"}:
        assert hello.mint(given["secret"], **payload) == case["token"]


def judge_sanitize(case):
    known_keys(case, "part", "in", "out_null_fallback")
    assert sanitize_id(case["in"]) == case["out_null_fallback"]


def judge_merge(case):
    known_keys(case, "part", "local_stream_id", "steps", "final", "local_clock_after", "actor_clock")
    state = SharedState(case["local_stream_id"])
    for step in case["steps"]:
        known_keys(step, "patch", "result")
        merge = state.merge(step["patch"], default_actor=case["local_stream_id"], updated_at="<ts>")
        outcome = {"applied": merge.applied}
        if merge.applied:
            outcome["entry"] = merge.entry.to_json()
        else:
            outcome["reason"] = merge.reason
            if merge.entry is not None:
                outcome["current"] = merge.entry.to_json()
        assert outcome == step["result"]
    assert {entry.key: entry.to_json() for entry in state.entries()} == case["final"]
    assert state.actor_clock == case["actor_clock"]


JUDGES = {
    "secret": judge_secret,
    "mac": judge_mac,
    "token": judge_token,
    "sanitize": judge_sanitize,
    "merge": judge_merge,
}


def schema_cases(content):
    yield "meta", {"meta": content["_meta"], "order": [tool["name"] for tool in content["tools"]]}
    for tool in content["tools"]:
        yield tool["name"], tool


def without_words(schema):
    if isinstance(schema, dict):
        return {name: without_words(value) for name, value in schema.items() if name != "description"}
    return [without_words(one) for one in schema] if isinstance(schema, list) else schema


@format_runner("peers", "tools_list_schema", cases=schema_cases)
def test_vector_peers_tools_are_listed_with_their_schemas(case):
    if "meta" in case:
        assert case["order"] == list(TOOLS_OF["full"])
        meta = VDO_TOOLS.list_meta(Selection(profile=case["meta"]["tool_profile"]))
        assert list(meta) == list(case["meta"])
        assert meta["allowed_tool_profiles"] == case["meta"]["allowed_tool_profiles"]
        return
    known_keys(case, "name", "inputSchema")
    assert without_words(TOOLS[case["name"]].schema("full")) == case["inputSchema"]


# The recorded tool calls, in the order in which they happened on both sides.


def calls_of(content):
    """Pairs of a call and its answer, by the time of the call."""
    asked = {}
    for line in content:
        message = line["msg"]
        if message.get("method") == "tools/call":
            asked[message["id"]] = (line["t_ms"], message["params"])
        elif message.get("id") in asked and "result" in message:
            at, params = asked.pop(message["id"])
            yield at, message["id"], params, message["result"]


def all_calls():
    calls = []
    for side in ("a", "b"):
        calls += [(at, side, *rest) for at, *rest in calls_of(vector_file("peers", f"mcp_stdio_{side}"))]
    return sorted(calls, key=lambda call: (call[0], call[1], call[2]))


def replayed():
    """What we answer to every recorded call, by side and id."""
    world = World()
    clients = {"a": SimulatedTools(world), "b": SimulatedTools(world)}
    ids = {}
    outcome = {}
    for _, side, number, params, recorded in all_calls():
        arguments = json.loads(json.dumps(params["arguments"]))
        if arguments.get("session_id") in ids:
            arguments["session_id"] = ids[arguments["session_id"]]
        outcome[side, number] = clients[side].call(params["name"], arguments)
        if params["name"] == "vdo_connect" and recorded["structuredContent"]["ok"]:
            ids[recorded["structuredContent"]["session_id"]] = outcome[side, number]["session_id"]
    return outcome


@pytest.fixture(scope="module")
def answers():
    return replayed()


def call_cases(content):
    for _, number, params, result in calls_of(content):
        case = {"name": params["name"], "id": number, "arguments": params["arguments"], "result": result}
        yield f"{number}-{params['name']}", case


def same_shape(ours_, theirs, path=""):
    if theirs is None or ours_ is None or path.endswith((".value", ".events", ".data_json")):
        return
    if isinstance(theirs, dict):
        assert isinstance(ours_, dict), path
        assert list(ours_) == list(theirs), path
        for name, value in theirs.items():
            same_shape(ours_[name], value, f"{path}.{name}")
    elif isinstance(theirs, list):
        assert isinstance(ours_, list), path
        for one, other in zip(ours_, theirs, strict=False):
            same_shape(one, other, f"{path}[]")
    else:
        assert type(ours_) is type(theirs), path


def judge_call(case, ours_):
    theirs = case["result"]["structuredContent"]
    if case["result"]["isError"]:
        assert ours_ == theirs
        return
    assert ours_["ok"] is theirs["ok"]
    for added in ("notice", "reason", "status"):
        if added not in theirs:
            ours_.pop(added, None)
    same_shape(ours_, theirs)
    for event in ours_.get("events", ()):
        allowed = ["type", "ts", *EVENT_MEMBERS[event["type"]]]
        assert [name for name in event if name in allowed] == [name for name in allowed if name in event]


@format_runner("peers", "mcp_stdio_a", cases=call_cases)
def test_vector_peers_calls_of_a_are_answered_in_shape(case, answers):
    judge_call(case, answers["a", case["id"]])


@format_runner("peers", "mcp_stdio_b", cases=call_cases)
def test_vector_peers_calls_of_b_are_answered_in_shape(case, answers):
    judge_call(case, answers["b", case["id"]])


def test_the_recorded_data_arrives_on_both_sides(answers):
    events = [event for payload in answers.values() for event in payload.get("events", ())]
    data = [event["data"] for event in events if event["type"] == "data_received"]
    for value in ("plain string", [1, 2, {"x": None}], 0, False, "", None, {"type": "request", "x": 1}):
        assert value in data
    types = {event["type"] for event in events}
    assert {"ready", "data_channel_open", "file_received", "file_transfer_complete", "state_updated"} <= types


# The recorded taps: what each side says on the data channel (ruling 64).

DOING = {
    "vdo_send": ("data", "target"),
    "vdo_file_send": (),
    "vdo_state_set": (),
    "vdo_state_sync": (),
    "vdo_sync_announce": (),
}


def tap_cases(content):
    for via in ("DataChannel", "WebSocket"):
        yield via, {"via": via, "lines": [line for line in content if line["via"] == via]}


def actions(side):
    for _, _, params, result in calls_of(vector_file("peers", f"mcp_stdio_{side}")):
        if params["name"] in DOING and result["structuredContent"]["ok"]:
            yield params["name"], params["arguments"]


def masked(message, path=""):
    """Type, member names and order; what differs from run to run is left out."""
    if isinstance(message, dict):
        hidden = {"mac", "comity_v1"}
        return {
            name: masked(value, name)
            for name, value in message.items()
            if name not in hidden and not (name == "value" and path != "pipe")
        }
    if isinstance(message, list):
        return [masked(one, path) for one in message]
    if path in {
        "kind",
        "__vdo_mcp",
        "room",
        "from_stream_id",
        "label",
        "transfer_id",
        "name",
        "mime",
        "total_bytes",
        "seq",
        "next_seq",
        "received_bytes",
        "total_chunks",
        "chunk_bytes",
        "data_base64",
        "key",
    }:
        return message
    return type(message).__name__ if not isinstance(message, int | float) else "number"


@pytest.mark.parametrize("own", [False, True])
@format_runner("peers", "tap_a", "tap_b", cases=tap_cases, takes=lambda case: case["via"] == "DataChannel")
def test_vector_peers_taps_are_replayed(case, own, monkeypatch):
    lines = case["lines"]
    side = "a" if lines[0]["msg"]["info"]["label"] == "mcp_bridge" else "b"
    monkeypatch.setattr(BridgeEnvelope, "is_sealed_by", lambda _self, _key: True)
    monkeypatch.setattr(SessionKeys, "shared_with", lambda _self, _public: bytes(32))
    world = World()
    said = []
    world.transmit = lambda _host, effect: said.append(effect)
    host = Host(world, f"agent_{side}", own=own, room="lab_1")
    client = SimulatedTools(world)
    client.rooms.add("s", host)
    client.tools.stop_waiting()
    doing = actions(side)
    host.handle(ChannelOpened("peer#1", "publisher" if side == "a" else "viewer", 262144, ("us", "them")))
    for at, line in enumerate(lines):
        if line["dir"] == "IN":
            host.handle(TextArrived("peer#1", strict_json.dumps(line["msg"])))
            world.run(0)
            continue
        while not said:
            name, arguments = next(doing)
            arguments = {key: value for key, value in arguments.items() if key not in {"target", "uuid"}}
            run, world.run = world.run, lambda _seconds: None
            try:
                client.call(name, {**arguments, "session_id": "s"})
            finally:
                world.run = run
            world.run(0)
        effect = said.pop(0)
        assert isinstance(effect, SendText)
        assert masked(json.loads(effect.data)) == masked(line["msg"]), f"line {at}"
    assert said == []
