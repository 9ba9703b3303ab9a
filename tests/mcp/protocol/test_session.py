"""A legacy session: what it keeps, what it hands on to another process, and what a client may be asked for."""

import msgspec
import pytest

from comity.mcp.protocol.context import LEVELS, HandshakeResult, McpClient
from comity.mcp.protocol.results import InputRequest, McpError
from comity.mcp.protocol.session import (
    MAX_INTRODUCTION,
    MAX_SUBSCRIBED,
    MAX_URI_LENGTH,
    McpSession,
    Remembered,
    check_introduction,
    demand,
    introduced,
    notification,
    question,
    without_handshake,
)
from comity.vcp.protocol.mcp_places import VcpHandshake
from comity.wire import strict_json
from comity.wire.jsonrpc import RpcRequest
from tests.callers import visitor
from tests.mcp.protocol.talk import AGREED, PERSONAL

URL = InputRequest("elicitation/create", {"mode": "url", "url": "https://x"})
FORM = InputRequest("elicitation/create", {"message": "?"})
SAMPLE = InputRequest("sampling/createMessage", {"messages": []})
WITH_TOOLS = InputRequest("sampling/createMessage", {"messages": [], "tools": []})
ROOTS = InputRequest("roots/list")


def a_session():
    return McpSession(without_handshake(visitor("ann")))


def able(**capabilities):
    return McpClient(version="2025-11-25", modern=False, capabilities=capabilities)


def test_subscriptions_are_kept_once_and_taken_back():
    session = a_session()
    for method in ("resources/subscribe", "resources/subscribe"):
        assert session.apply_setting(RpcRequest(1, method, {"uri": "x://a"}))
    assert list(session.subscribed) == ["x://a"]
    assert session.apply_setting(RpcRequest(2, "resources/unsubscribe", {"uri": "x://a"}))
    assert session.apply_setting(RpcRequest(3, "resources/unsubscribe", {"uri": "x://never"}))
    assert not session.subscribed
    assert not session.apply_setting(RpcRequest(4, "tools/list", {}))


def test_subscriptions_are_bounded():
    session = a_session()
    for number in range(MAX_SUBSCRIBED):
        session.apply_setting(RpcRequest(1, "resources/subscribe", {"uri": f"x://{number}"}))
    session.apply_setting(RpcRequest(1, "resources/subscribe", {"uri": "x://0"}))
    with pytest.raises(McpError, match=str(MAX_SUBSCRIBED)):
        session.apply_setting(RpcRequest(1, "resources/subscribe", {"uri": "x://more"}))


def test_a_session_logs_from_its_level_on():
    session = a_session()
    assert [level for level in LEVELS if session.logs(level)] == list(LEVELS[1:])
    session.apply_setting(RpcRequest(1, "logging/setLevel", {"level": "critical"}))
    assert [level for level in LEVELS if session.logs(level)] == ["critical", "alert", "emergency"]


def test_a_session_goes_on_elsewhere_with_all_but_the_state_of_its_handlers():
    session = McpSession(
        introduced({"protocolVersion": "2025-03-26", "capabilities": {"n": 10**30}}, visitor("ann"), AGREED)
    )
    session.apply_setting(RpcRequest(1, "logging/setLevel", {"level": "debug"}))
    session.apply_setting(RpcRequest(1, "resources/subscribe", {"uri": "x://a"}))
    session.state["secret"] = 1
    stored = msgspec.json.encode(session.remembered())
    assert b"secret" not in stored
    again = McpSession.recalled(msgspec.json.decode(stored, type=Remembered), VcpHandshake())
    assert again.client == session.client
    assert again.client.attached == AGREED.attached
    assert again.client.active == frozenset({PERSONAL})
    assert (again.log_level, list(again.subscribed), again.state) == ("debug", ["x://a"], {})


def test_what_a_hello_agreed_on_is_stored_under_the_name_of_earlier_releases():
    stored = msgspec.to_builtins(McpSession(AGREED.agreed(able(sampling={}))).remembered())
    assert stored["asker"]["vcp"] == msgspec.to_builtins(AGREED.attached)
    assert "attached" not in stored["asker"]


def test_a_stored_session_goes_on_without_what_nobody_can_read():
    client = able(sampling={})
    kept = msgspec.json.encode(McpSession(AGREED.agreed(client)).remembered())
    assert McpSession.recalled(msgspec.json.decode(kept, type=Remembered), None).client == client


def test_what_was_attached_is_refused_when_it_has_another_shape():
    kept = McpSession(HandshakeResult(reply={}, attached={"id": 7}).agreed(able(sampling={}))).remembered()
    with pytest.raises(msgspec.ValidationError, match="id"):
        McpSession.recalled(kept, VcpHandshake())


@pytest.mark.parametrize("odd", [None, 7, "x", []])
def test_what_a_client_says_of_itself_may_be_nonsense(odd):
    client = introduced(
        {"capabilities": odd, "clientInfo": odd, "protocolVersion": odd}, visitor("ann"), None
    )
    assert (client.capabilities, client.info, client.version) == ({}, {}, "2025-11-25")
    assert not client.can("sampling")


def test_a_capability_is_looked_up_by_its_path():
    client = able(elicitation={"url": {}}, sampling=None, roots=7)
    assert client.can("elicitation")
    assert client.can("elicitation", "url")
    assert not client.can("elicitation", "url", "more")
    assert not client.can("sampling")
    assert not client.can("roots", "x")


@pytest.mark.parametrize(
    ("request_", "capabilities"),
    [
        (FORM, {"elicitation": {}}),
        (URL, {"elicitation": {"url": {}}}),
        (SAMPLE, {"sampling": {}}),
        (WITH_TOOLS, {"sampling": {"tools": {}}}),
        (ROOTS, {"roots": {"listChanged": True}}),
    ],
)
def test_a_client_is_asked_what_it_declared(request_, capabilities):
    demand(able(**capabilities), request_)


@pytest.mark.parametrize(
    ("request_", "capabilities", "required"),
    [
        (FORM, {}, {"elicitation": {}}),
        (URL, {"elicitation": {}}, {"elicitation": {"url": {}}}),
        (SAMPLE, {"elicitation": {}}, {"sampling": {}}),
        (WITH_TOOLS, {"sampling": {}}, {"sampling": {"tools": {}}}),
        (ROOTS, {"roots": None}, {"roots": {}}),
    ],
)
def test_a_client_is_not_asked_what_it_did_not_declare(request_, capabilities, required):
    with pytest.raises(McpError) as caught:
        demand(able(**capabilities), request_)
    assert caught.value.rpc.code == -32021
    assert caught.value.rpc.data == {"requiredCapabilities": required}


def test_a_server_cannot_ask_for_anything_else():
    with pytest.raises(TypeError, match="tools/call"):
        demand(able(), InputRequest("tools/call"))


def test_messages_of_ours():
    assert strict_json.loads(notification("notifications/x")) == {
        "jsonrpc": "2.0",
        "method": "notifications/x",
    }
    assert strict_json.loads(notification("n", {"a": 1}))["params"] == {"a": 1}
    assert strict_json.loads(question("c-1", ROOTS)) == {
        "jsonrpc": "2.0",
        "id": "c-1",
        "method": "roots/list",
    }
    assert strict_json.loads(question("c-2", SAMPLE))["params"] == {"messages": []}
    assert strict_json.loads(question("c-3", InputRequest("elicitation/create")))["params"] == {}


def test_what_is_stored_of_a_session_has_a_size():
    session = McpSession(without_handshake(visitor("ann", "")))
    subscribe = RpcRequest(1, "resources/subscribe", {"uri": "x" * MAX_URI_LENGTH})
    assert session.apply_setting(subscribe)
    with pytest.raises(McpError, match=str(MAX_URI_LENGTH)):
        session.apply_setting(RpcRequest(1, "resources/subscribe", {"uri": "x" * (MAX_URI_LENGTH + 1)}))
    assert list(session.subscribed) == ["x" * MAX_URI_LENGTH]
    check_introduction({"capabilities": {}, "clientInfo": {"name": "x" * 1000}, "other": "x" * 10**6})
    for member in ("capabilities", "clientInfo"):
        with pytest.raises(McpError, match="capabilities and clientInfo exceed 16,384 bytes"):
            check_introduction({member: {"x": "y" * MAX_INTRODUCTION}})
