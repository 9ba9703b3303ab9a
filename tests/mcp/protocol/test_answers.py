"""Answers as bytes: around their id, in the shape of the era, and with nothing of what broke inside."""

import pytest

from comity.mcp.protocol import conversation
from comity.mcp.protocol.results import META_SERVER, InputRequest, InputRequired, McpError, said
from comity.wire import strict_json
from comity.wire.errors import (
    ConflictError,
    DeadlineError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    OverloadedError,
    PeerError,
)
from tests.mcp.protocol.talk import ACK, Talk, a_server, meta

SERVER = a_server()


def a_work(*, modern):
    more = {"_meta": meta()} if modern else {}
    return Talk(SERVER).call(**more)


@pytest.mark.parametrize("id_", [0, -7, 10**30, 1.5, "a", 'q"\n', "ö"])
def test_a_result_stands_around_its_id(id_):
    assert strict_json.loads(conversation.around(id_, b'{"a":1}')) == {
        "jsonrpc": "2.0",
        "id": id_,
        "result": {"a": 1},
    }


def test_a_modern_result_says_that_it_is_complete_and_whose_it_is():
    modern = strict_json.loads(conversation.result_of(SERVER, a_work(modern=True), said("x")))
    assert (modern["resultType"], modern["_meta"]) == ("complete", {META_SERVER: SERVER.info})
    legacy = strict_json.loads(conversation.result_of(SERVER, a_work(modern=False), said("x")))
    assert legacy == {"content": [{"type": "text", "text": "x"}], "isError": False}


def test_a_question_is_a_result_with_its_state_and_the_word_on_a_hello():
    asked = InputRequired({"who": InputRequest("elicitation/create", {"message": "?"})})
    result = strict_json.loads(conversation.input_required(SERVER, a_work(modern=True), asked, "sealed", ACK))
    assert result["resultType"] == "input_required"
    assert result["inputRequests"] == {"who": {"method": "elicitation/create", "params": {"message": "?"}}}
    assert result["requestState"] == "sealed"
    assert result["_meta"]["space.creed.vcp/ack"] == ACK
    plain = strict_json.loads(conversation.input_required(SERVER, a_work(modern=True), asked, None))
    assert "requestState" not in plain


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (McpError(-32021, "lacks", {"x": 1}), -32021, "lacks"),
        (InvalidError("too blue"), -32602, "too blue"),
        (ForbiddenError("not yours"), -32602, "not yours"),
        (NotFoundError("none"), -32602, "none"),
        (ConflictError("moved on"), -32602, "moved on"),
        (DeadlineError("too slow"), -32603, "too slow"),
        (OverloadedError("too many"), -32603, "too many"),
        (PeerError("the other side"), -32603, "the other side"),
        (RuntimeError("the secret is 42"), -32603, conversation.INTERNAL.message),
    ],
)
def test_each_fault_has_its_code_and_only_ours_keep_their_words(error, code, words):
    found = conversation.refusal(a_work(modern=True), error)
    assert (found.code, found.message) == (code, words)


def test_an_error_without_an_id_says_null():
    assert strict_json.loads(conversation.refused(None, conversation.INTERNAL))["id"] is None
