"""Calls of extensions on the server's machine: answered by their ids, in any order, beside context requests."""

import json

import pytest

from comity.vcp.protocol.extension_calls import ExtensionError
from comity.vcp.protocol.negotiation import ExchangeContext, Happened, RunOperation, SessionEndedError
from comity.vcp.protocol.server import ServerMachine
from comity.wire.errors import StoreError
from comity.wire.machine import Answered, Ask, Close, Received, Refused, Send, Started
from comity.wire.rate_limit import RateLimiter
from tests.vcp.protocol.negotiation_samples import encoded, hello_object, policy
from tests.vcp.protocol.test_server import CONTEXT


class Server:
    def __init__(self, greeted=True):
        limiter = RateLimiter(1e9, 1)
        self.machine = ServerMachine(policy(), peer="p", session_id="ses_1", limiter=limiter)
        self.take(Started())
        if greeted:
            self.take(Received(encoded(hello_object())))

    def take(self, event):
        """What was said, and what was asked for."""
        effects = self.machine.receive(event, 0.0)
        asked = [
            one
            for one in effects
            if isinstance(one, Ask) and isinstance(one.request, RunOperation | ExchangeContext)
        ]
        self.closed = any(isinstance(one, Close) for one in effects)
        self.happened = [
            one.request.what for one in effects if isinstance(one, Ask) and isinstance(one.request, Happened)
        ]
        return [json.loads(one.message) for one in effects if isinstance(one, Send)], asked

    def call(self, id_, op="personal.get", **args):
        said, asked = self.take(Received(encoded({"type": "vcp-call", "id": id_, "op": op, "args": args})))
        assert said == []
        return asked[0]


def test_answers_bear_the_id_of_their_call_in_whatever_order_they_come():
    server = Server()
    first, second = server.call("a"), server.call("b", "torch.generate", to=None)
    assert second.request.call.op == "torch.generate"
    assert server.take(Answered(second.tag, {"x": 1})) == (
        [{"type": "vcp-result", "id": "b", "ok": True, "result": {"x": 1}}],
        [],
    )
    [answer], _ = server.take(Answered(first.tag, {}))
    assert answer["id"] == "a"


def test_two_calls_may_have_one_id():
    server = Server()
    tags = {server.call("a").tag, server.call("a").tag}
    assert [server.take(Answered(tag, {}))[0][0]["id"] for tag in tags] == ["a", "a"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            ExtensionError("STALE", "too old", "torch"),
            {"code": "STALE", "message": "too old", "field": "torch"},
        ),
        (ExtensionError("CONFLICT", "again"), {"code": "CONFLICT", "message": "again"}),
        (
            StoreError("/var/secret"),
            {"code": "CONFLICT", "message": "the operation could not be run; try again later"},
        ),
    ],
)
def test_a_refusal_is_told_and_nothing_from_inside(error, told):
    server = Server()
    [answer], _ = server.take(Refused(server.call("a").tag, error))
    assert answer == {"type": "vcp-result", "id": "a", "ok": False, "error": told}


def test_a_call_waits_for_the_context_request_before_it_and_not_for_those_behind_it():
    server = Server()
    running = server.call("a")
    _, [exchange] = server.take(Received(encoded(CONTEXT)))
    assert server.take(Received(encoded({"type": "vcp-call", "id": "b", "op": "personal.get"}))) == ([], [])
    [answer], _ = server.take(Answered(running.tag, {}))  # it ran already, and is answered meanwhile
    assert answer["id"] == "a"
    said, asked = server.take(Refused(exchange.tag, StoreError("x")))
    assert len(said) == 1
    assert asked[0].request.call.id == "b"


def test_a_session_that_has_to_end_ends_with_the_call_that_finds_out():
    server = Server()
    said, _ = server.take(Refused(server.call("a").tag, SessionEndedError("IDENTITY_INVALID", "revoked")))
    assert (said[0]["type"], said[0]["code"], server.closed) == ("vcp-error", "IDENTITY_INVALID", True)


def test_a_wrong_call_is_answered_and_on_record():
    server = Server()
    [answer], asked = server.take(Received(encoded({"type": "vcp-call", "id": "a", "op": "x", "args": 7})))
    assert (answer["id"], answer["error"]["field"], asked) == ("a", "args", [])
    assert server.happened == ["CALL_REFUSED"]


def test_a_call_as_the_first_message_is_run_in_a_session_of_vcp_1_0():
    server = Server(greeted=False)
    asked = server.call("a")
    assert asked.request.session.extensions == ()


def test_an_answer_after_the_end_is_nobodys():
    server = Server()
    first, second = server.call("a"), server.call("b")
    server.take(Refused(first.tag, SessionEndedError("IDENTITY_INVALID", "revoked")))
    assert server.take(Answered(second.tag, {})) == ([], [])
