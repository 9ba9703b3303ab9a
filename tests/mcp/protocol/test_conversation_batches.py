"""Batches: of 2025-03-26 only, and their answers leave as one array, once the last of them is there."""

import pytest

from comity.mcp.protocol.conversation import Drop, Exit, PeerAnswered
from comity.mcp.protocol.methods import RunningRequest
from comity.wire import strict_json
from tests.mcp.protocol.talk import AGREED, Talk, meta, only, with_hello


def ping(id_):
    return {"jsonrpc": "2.0", "id": id_, "method": "ping"}


def call(id_, **more):
    params = {"name": "echo", "arguments": {"text": "hi"}, **more}
    return {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}


def cancelled(id_):
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id_}}


@pytest.fixture
def talk():
    talk = Talk()
    talk.initialize("2025-03-26")
    return talk


@pytest.mark.parametrize("version", [None, "2024-11-05", "2025-06-18", "2025-11-25"])
def test_other_revisions_have_no_batches(version):
    talk = Talk()
    if version is not None:
        talk.initialize(version)
    assert not talk.conversation.batches
    answer = only(talk.hear([ping(1)]))
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)


def test_answers_that_are_there_at_once_are_one_array_in_order(talk):
    answers = only(talk.hear([ping(1), ping("b"), {"jsonrpc": "2.0", "id": 3, "method": "no/such"}]))
    assert [one["id"] for one in answers] == [1, "b", 3]
    assert answers[2]["error"]["code"] == -32601


def test_an_empty_batch_is_one_invalid_request(talk):
    assert only(talk.hear([]))["error"]["code"] == -32600


def test_invalid_items_are_answered_in_the_array(talk):
    answers = only(talk.hear([1, ping(2), {"jsonrpc": "1.0", "id": 9, "method": "ping"}, [ping(3)]]))
    assert [one["id"] for one in answers] == [None, 2, 9, None]
    assert [one.get("error", {}).get("code") for one in answers] == [-32600, None, -32600, -32600]


def test_the_array_waits_for_the_last_answer(talk):
    first, second = talk.hear([call(1), ping(2), call(3)])
    assert isinstance(first, RunningRequest)
    assert talk.finish(second) is None
    assert [one["id"] for one in talk.finish(first)] == [2, 3, 1]
    assert talk.conversation.running == 0


def test_a_batch_of_notifications_alone_has_no_answer(talk):
    assert talk.hear([{"jsonrpc": "2.0", "method": "notifications/initialized"}]) == []
    assert talk.hear([{"jsonrpc": "2.0", "method": "exit"}]) == [Exit()]


def test_responses_in_a_batch_are_handed_on(talk):
    effects = talk.hear([{"jsonrpc": "2.0", "id": "q", "result": {}}, ping(1)])
    assert isinstance(effects[0], PeerAnswered)
    assert [one["id"] for one in only(effects[1:])] == [1]


def test_what_is_cancelled_is_missing_in_the_array(talk):
    first, second = talk.hear([call(1), call(2)])
    assert talk.finish(first) is None
    drop, answers = talk.cancel(2)
    assert drop == Drop(second)
    assert [one["id"] for one in strict_json.loads(answers)] == [1]
    assert talk.finish(second) is None


def test_a_batch_of_which_everything_is_cancelled_is_not_answered(talk):
    first, second = talk.hear([call(1), call(2)])
    assert talk.cancel(1) == [Drop(first)]
    assert talk.cancel(2) == [Drop(second)]
    assert talk.finish(first) is None


def test_a_batch_may_cancel_what_it_begins(talk):
    work, drop, answers = talk.hear([call(1), cancelled(1), ping(2)])
    assert drop == Drop(work)
    assert [one["id"] for one in strict_json.loads(answers)] == [2]
    assert talk.finish(work) is None


def test_an_id_twice_in_a_batch_is_served_once(talk):
    (work,) = talk.hear([call(1), call(1)])
    answers = talk.finish(work)
    assert sorted("error" in one for one in answers) == [False, True]


def test_a_second_initialize_in_a_batch_is_refused_in_the_array(talk):
    again = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
    assert [one["error"]["code"] for one in only(talk.hear([again]))] == [-32600]


def test_two_batches_are_answered_apart(talk):
    (first,) = talk.hear([call(1), ping(2)])
    (second,) = talk.hear([call(3), ping(4)])
    assert [one["id"] for one in talk.finish(second)] == [4, 3]
    assert [one["id"] for one in talk.finish(first)] == [2, 1]


def test_a_modern_request_in_a_batch_is_served_as_modern(talk):
    answers = only(talk.hear([{**ping(1), "method": "tools/list", "params": {"_meta": meta()}}, ping(2)]))
    assert [one["result"].get("resultType") for one in answers] == ["complete", None]


def test_a_modern_request_whose_hello_is_negotiated_holds_its_batch(talk):
    greet, *rest = talk.hear([call(1, _meta=with_hello()), ping(2)])
    assert rest == []
    (work,) = talk.conversation.greeted(greet, AGREED)
    assert [one["id"] for one in talk.finish(work)] == [2, 1]


def test_a_hello_that_is_cancelled_releases_its_batch(talk):
    greet, *_ = talk.hear([call(1, _meta=with_hello()), ping(2)])
    assert [one["id"] for one in only(talk.cancel(1))] == [2]
    assert talk.conversation.greeted(greet, AGREED) == []
