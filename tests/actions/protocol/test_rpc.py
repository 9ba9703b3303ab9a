import json

import pytest

from comity.actions.protocol.machine import RpcMachine
from comity.wire.errors import rpc_code
from tests.actions.protocol.driving import calls, drive


def ask(*messages, framed=False, **given):
    machine = RpcMachine(calls(**given), rpc_code)
    bodies = [m if isinstance(m, bytes) else json.dumps(m).encode() for m in messages]
    if framed:
        data = b"".join(b"Content-Length: %d\r\n\r\n%b" % (len(body), body) for body in bodies)
    else:
        data = b"".join(body + b"\n" for body in bodies)
    return drive(machine.receive(data)) + drive(machine.end())


def answers(*messages, **given):
    return [json.loads(line) for line in ask(*messages, **given).splitlines()]


def call(method, params=None, id_=1):
    request = {"jsonrpc": "2.0", "id": id_, "method": method}
    return request if params is None else {**request, "params": params}


def invoke(name, given=None, id_=1):
    return call("invoke", {"action": name, "input": given or {}}, id_)


def test_an_action_is_invoked():
    (answer,) = answers(invoke("echo_text", {"text": "t"}, "x"))
    assert answer["id"] == "x"
    assert answer["result"]["output"] == {"said": "t", "mode": "enhanced"}


def test_an_action_is_described():
    (answer,) = answers(call("describe_action", {"action": "echo_text"}))
    assert answer["result"]["inputSchema"]["type"] == "object"


def test_work_is_settled_in_its_place():
    replies = answers(invoke("break_down", id_=1), invoke("take_long", id_=2), invoke("need_pages", id_=3))
    assert [reply["id"] for reply in replies] == [1, 2, 3]
    assert "result" in replies[1]
    assert "result" in replies[2]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"{", -32700),
        ([], -32600),
        (5, -32600),
        ({"jsonrpc": "2.0", "id": None, "method": "invoke"}, -32600),
        (call("tools/list"), -32601),
        (call("invoke"), -32602),
        (call("invoke", ["echo_text", {}]), -32602),
        (call("invoke", {"action": "", "input": {}}), -32602),
        (call("describe_action", {}), -32602),
        (call("describe_action", {"action": "x"}), -32602),
        (invoke("x"), -32602),
        (invoke("refuse_all"), -32602),
        (invoke("break_down"), -32603),
        (invoke("say_nonsense"), -32603),
        (invoke("say_unspeakable"), -32603),
    ],
)
def test_each_refusal_has_its_code(message, code):
    (answer,) = answers(message)
    assert answer["error"]["code"] == code
    assert "secret" not in json.dumps(answer)


def test_issues_stand_under_data():
    (answer,) = answers(call("invoke", {"action": "x"}))
    assert answer["error"]["message"] == "Invalid invoke payload"
    assert answer["error"]["data"]["issues"][0]["path"] == ["input"]


def test_notifications_and_responses_get_no_answer():
    notification = {"jsonrpc": "2.0", "method": "invoke", "params": {"action": "echo_text", "input": {}}}
    assert ask(notification, {"jsonrpc": "2.0", "id": 1, "result": 1}, [notification]) == b""


def test_a_batch_is_one_answer_and_waits_for_its_work():
    ((first, second, third),) = answers(
        [invoke("take_long", {"text": "t"}, 1), 7, invoke("echo_text", id_=3)]
    )
    assert first["result"]["output"]["said"] == "t"
    assert second["error"]["code"] == -32600
    assert third["id"] == 3


def test_frames_are_answered_in_frames():
    said = ask(invoke("echo_text"), call("nothing"), framed=True)
    head, _, rest = said.partition(b"\r\n\r\n")
    size = int(head.removeprefix(b"Content-Length: "))
    assert json.loads(rest[:size])["result"]["action"] == "echo_text"
    assert rest[size:].startswith(b"Content-Length: ")


def test_too_long_a_message_is_one_error_and_the_stream_goes_on():
    replies = answers(b'"' + b"x" * 600_000 + b'"', invoke("echo_text", id_=2))
    assert replies[0]["error"]["code"] == -32600
    assert replies[1]["id"] == 2


def test_a_client_that_speaks_mcp_here_learns_where_mcp_is_spoken():
    for method in ("tools/list", "initialize"):
        assert "comity mcp --rooms actions" in answers(call(method))[0]["error"]["data"]["message"]
    assert "comity mcp" not in answers(call("nonsense"))[0]["error"]["data"]["message"]
