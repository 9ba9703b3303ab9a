import asyncio
import json

import pytest

from comity.mcp.protocol.catalog import Selection
from tests.mcp import garbage
from tests.mcp.conversing import (
    SECONDS,
    Talk,
    call,
    decoded,
    frame,
    initialize,
    line,
    modern,
    notify,
    request,
    said_by,
)
from tests.mcp.workshop import PERSONAL, Workshop, negotiate
from tests.waiting import eventually


@pytest.fixture
async def shop():
    workshop = Workshop()
    yield workshop
    workshop.gate.set()


@pytest.fixture
async def talk(shop):
    talk = Talk(shop)
    yield talk
    await talk.stream.close(0.0)


def judged(outcome, heard):
    """Whether what was heard is the answer that the piece deserves."""
    if outcome is garbage.SILENCE:
        return heard == []
    if len(heard) != 1:
        return False
    (answer,) = heard
    if outcome is garbage.RESULT:
        return "result" in answer
    return answer["error"]["code"] == outcome and answer["id"] in (7, None)


async def wrongly_answered(shop, pieces, wrap):
    wrong = []
    for name, body, outcome in pieces:
        talk = Talk(shop)
        talk.say(initialize())
        before = len(talk.heard)
        talk.say(wrap(body))
        after = await talk.ask(call("after", "echo", text="still here"))
        await talk.stream.close()
        heard = [one for one in talk.heard[before:] if one is not after and one.get("id") != "after"]
        heard = [one for one in heard if one.get("method") != "notifications/message"]
        if not judged(outcome, heard) or said_by(after) != "still here":
            wrong.append((name, outcome, heard))
    return wrong


async def test_whatever_comes_on_a_line_is_answered_and_the_next_request_is_served(shop):
    assert await wrongly_answered(shop, garbage.pieces(), lambda body: body + b"\n") == []


async def test_whatever_comes_in_a_frame_is_answered_and_the_next_request_is_served(shop):
    pieces = [*garbage.pieces(), garbage.Piece("nothing", b"", garbage.PARSE)]
    assert len(pieces) > 90
    assert await wrongly_answered(shop, pieces, frame) == []


async def test_odd_modern_requests_are_answered_on_a_stream(shop):
    pieces = [
        (name, json.dumps(body).encode(), out) for name, body, out in garbage.mistaken_in_the_modern_era()
    ]
    assert await wrongly_answered(shop, pieces, lambda body: body + b"\n") == []


@pytest.mark.parametrize(
    "params",
    [
        {"protocolVersion": 5, "capabilities": [], "clientInfo": None},
        {"protocolVersion": [], "capabilities": "all", "clientInfo": []},
        {"capabilities": {"extensions": [], "experimental": 5}, "_meta": 7, "initializationOptions": "x"},
        {"capabilities": {"extensions": {"space.creed/vcp": 5}}, "_meta": {"space.creed/vcp-hello": None}},
        {},
        None,
    ],
)
async def test_an_initialize_of_odd_types_is_taken_for_what_it_says(talk, params):
    answer = await talk.ask(request(1, "initialize", params))
    assert answer["result"]["protocolVersion"] == "2025-11-25"
    assert "vcp" not in answer["result"]


async def test_an_initialize_with_a_list_is_refused_and_another_one_taken(talk):
    assert (await talk.ask(request(1, "initialize", [])))["error"]["code"] == garbage.PARAMS
    assert "result" in await talk.ask(initialize(2))


@pytest.mark.parametrize("size", [1, 2, 7, 64])
async def test_however_the_bytes_are_cut_the_answers_are_the_same(shop, size):
    transcript = b"".join(
        [
            b"\r\n\n",
            line(initialize()),
            line(request(1, "ping")).replace(b"\n", b"\r\n"),
            b"garbage\n",
            frame(request(2, "ping")),
            frame(request(3, "ping"), end=b"\n"),
            line(request(4, "ping")),
            b"Content-Type: application/json\r\nContent-Length: 40\r\n\r\n",
            b'{"jsonrpc":"2.0","id":5,"method":"ping"}',
            b"Content-Length: -5\r\n\r\n",
            line(request("grün", "ping")),
        ]
    )
    talk = Talk(shop)
    for at in range(0, len(transcript), size):
        talk.stream.receive(transcript[at : at + size])
    result = [
        (framed, one.get("id"), one.get("error", {}).get("code"))
        for framed, one in decoded(b"".join(talk.writes))
    ]
    assert result == [
        (False, 0, None),
        (False, 1, None),
        (False, None, garbage.PARSE),
        (True, 2, None),
        (True, 3, None),
        (True, 4, None),
        (True, 5, None),
        (True, None, garbage.INVALID),
        (True, "grün", None),
    ]  # fmt: skip


async def test_the_last_line_needs_no_end(talk):
    talk.stream.receive(json.dumps(request(1, "ping")).encode())
    assert talk.heard == []
    talk.stream.end()
    assert talk.heard[0]["id"] == 1


async def test_a_frame_that_is_cut_off_is_reported(talk):
    talk.stream.receive(b'Content-Length: 50\r\n\r\n{"jsonrpc"')
    talk.stream.end()
    assert talk.heard[0]["error"]["code"] == garbage.PARSE


@pytest.mark.parametrize("wrap", [lambda body: body + b"\n", frame])
async def test_what_is_too_long_is_told_once_and_skipped_whole(shop, wrap):
    talk = Talk(shop, limit=1000)
    inside = json.dumps(request("inside", "ping")).encode()
    talk.say(wrap(b" " * 1001 + b"".join([inside] * 40)), request(1, "ping"))
    assert [one.get("id") for one in talk.heard] == [None, 1]
    error = talk.heard[0]["error"]
    assert (error["code"], error["data"]["code"]) == (garbage.INVALID, "message_too_large")
    assert "1000" in error["data"]["message"]


async def test_what_has_come_waits_until_the_client_reads(talk):
    unread = True
    talk.stream.clogged = lambda: unread
    talk.say(request(1, "ping"))
    talk.stream.receive(json.dumps(request(2, "ping")).encode())
    talk.stream.end()
    assert talk.stream.waits
    assert talk.heard == []
    unread = False
    talk.stream.proceed()
    assert [one["id"] for one in talk.heard] == [1, 2]
    assert not talk.stream.waits


async def test_large_answers_are_written_before_the_rest_of_a_read_is_looked_at(talk):
    talk.stream.clogged = lambda: sum(map(len, talk.writes)) > 1_000_000
    talk.say(*[call(number, "repeat", times=400_000) for number in range(10)])
    assert [one["id"] for one in talk.heard] == [0, 1, 2]


async def test_what_one_read_brought_is_answered_in_one_write(talk):
    talk.say(initialize(), *[call(number, "echo", text="x") for number in range(1, 50)])
    assert len(talk.writes) == 1
    assert len(talk.heard) == 50


async def test_answers_that_are_ready_together_leave_together(shop, talk):
    talk.say(initialize(), *[call(number, "wait") for number in range(1, 20)])
    await eventually(lambda: len(shop.called) == 19)
    before = len(talk.writes)
    shop.gate.set()
    await talk.answer(19)
    assert len(talk.heard) == 20
    assert len(talk.writes) - before <= 2


async def test_a_slow_tool_keeps_nobody_waiting(shop, talk):
    talk.say(initialize(), call(1, "wait"), call(2, "echo", text="quick"), request(3, "ping"))
    assert [one["id"] for one in talk.heard] == [0, 2, 3]
    shop.gate.set()
    assert said_by(await talk.answer(1)) == "done"


async def test_a_cancelled_call_is_never_answered(shop, talk):
    talk.say(initialize(), call(1, "wait"))
    await eventually(lambda: shop.called)
    talk.say(notify("notifications/cancelled", requestId=1, reason="enough"))
    await eventually(lambda: shop.cancelled)
    shop.gate.set()
    assert "result" in await talk.ask(call(1, "echo", text="the id is free again"))
    assert [one["id"] for one in talk.heard] == [0, 1]


async def test_an_id_in_use_is_refused_and_its_call_goes_on(shop, talk):
    talk.say(initialize(), call(1, "wait"), call(1, "wait"))
    assert talk.heard[1]["error"]["code"] == garbage.INVALID
    shop.gate.set()
    await talk.until(lambda heard: [one for one in heard if "content" in one.get("result", {})])


async def test_calls_that_run_at_the_end_get_a_moment(shop, talk):
    talk.say(initialize(), call(1, "wait"))
    closing = asyncio.create_task(talk.stream.close())
    await eventually(lambda: shop.called)
    shop.gate.set()
    await closing
    assert said_by(talk.heard[1]) == "done"


async def test_calls_that_wait_for_a_negotiation_at_the_end_are_answered(shop):
    negotiating, agreed = asyncio.Event(), asyncio.Event()

    async def slowly(hello, client):
        negotiating.set()
        await agreed.wait()
        return await negotiate(hello, client)

    talk = Talk(shop, negotiate=slowly)
    hello = {"type": "vcp-hello", "version": "3.1", "extensions": []}
    capabilities = {"extensions": {"space.creed/vcp": hello}}
    brief = {"name": "brief", "arguments": {}}
    talk.say(
        initialize(vcp=hello),
        call(1, "brief"),
        call(2, "wait"),
        request(3, "ping"),
        modern(4, "tools/call", brief, capabilities=capabilities),
    )
    closing = asyncio.create_task(talk.stream.close(SECONDS))
    await negotiating.wait()
    agreed.set()
    await eventually(lambda: "wait" in shop.called)
    shop.gate.set()
    await closing
    assert sorted(one["id"] for one in talk.heard) == [0, 1, 2, 3, 4]
    assert said_by(next(one for one in talk.heard if one["id"] == 2)) == "done"


async def test_a_question_that_comes_up_after_the_end_is_refused_at_once(shop):
    async def agree(hello, client):
        await asyncio.sleep(0)
        return await negotiate(hello, client)

    talk = Talk(shop, negotiate=agree)
    hello = {"type": "vcp-hello", "version": "3.1", "extensions": []}
    talk.say(initialize(capabilities={"elicitation": {}}, vcp=hello), call(1, "ask"))
    async with asyncio.timeout(SECONDS):
        await talk.stream.close(2 * SECONDS)
    assert talk.heard[1]["result"]["isError"]


async def test_calls_that_do_not_end_are_cancelled_without_an_answer(shop, talk):
    talk.say(initialize(), call(1, "wait"))
    await eventually(lambda: shop.called)
    await talk.stream.close(0.01)
    assert shop.cancelled == ["wait"]
    assert len(talk.heard) == 1


async def test_a_question_is_answered_while_its_call_waits(talk):
    talk.say(initialize(capabilities={"elicitation": {}}), call(1, "ask"))
    (asked,) = await talk.until(lambda heard: [one for one in heard if "method" in one])
    assert asked["method"] == "elicitation/create"
    answer = {"action": "accept", "content": {"name": "Ada"}}
    talk.say({"jsonrpc": "2.0", "id": "somebody else's", "result": {}})
    talk.say({"jsonrpc": "2.0", "id": asked["id"], "result": answer})
    assert (await talk.answer(1))["result"]["structuredContent"] == {"answer": answer}
    talk.say({"jsonrpc": "2.0", "id": asked["id"], "result": answer})
    assert (await talk.ask(request(2, "ping")))["result"] == {}


@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"code": -1, "message": "no"}},
        {"error": 5},
        {"result": None},
        {"result": []},
        {"result": "x"},
    ],
)
async def test_a_question_that_is_not_answered_well_is_an_error_of_the_tool(talk, answer):
    talk.say(initialize(capabilities={"elicitation": {}}), call(1, "ask"))
    (asked,) = await talk.until(lambda heard: [one for one in heard if "method" in one])
    talk.say({"jsonrpc": "2.0", "id": asked["id"], **answer})
    assert (await talk.answer(1))["result"]["isError"]


async def test_a_question_to_who_has_left_is_not_waited_for(talk):
    talk.say(initialize(capabilities={"elicitation": {}}), call(1, "ask"))
    await talk.until(lambda heard: len(heard) == 2)
    async with asyncio.timeout(1):
        await talk.stream.close(30.0)
    assert talk.heard[2]["result"]["isError"]


async def test_a_subscription_does_not_hold_up_the_end(talk):
    talk.say(modern(1, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
    await talk.until(lambda heard: heard)
    async with asyncio.timeout(0.5):
        await talk.stream.close(30.0)


async def test_exit_is_heard_and_shutdown_ends_what_the_connection_opened(shop):
    ended = []

    async def shutdown():
        ended.append(True)

    talk = Talk(shop, shutdown=shutdown)
    talk.say(initialize(), request(1, "shutdown"))
    await eventually(lambda: ended)
    assert talk.heard[1] == {"jsonrpc": "2.0", "id": 1, "result": {}}
    talk.say(notify("exit"))
    assert talk.stream.exit_asked.is_set()
    await talk.stream.close()
    assert ended == [True, True]


async def test_in_2025_03_26_a_batch_is_answered_by_one_array(shop, talk):
    talk.say(initialize(version="2025-03-26"))
    batch = [call(1, "wait"), notify("notifications/x"), request(2, "ping"), 5, request(3, "nothing")]
    talk.say(batch)
    assert len(talk.heard) == 1
    shop.gate.set()
    (answers,) = await talk.until(lambda heard: [one for one in heard if isinstance(one, list)])
    assert {one["id"]: one.get("error", {}).get("code") for one in answers} == {
        1: None,
        2: None,
        None: garbage.INVALID,
        3: garbage.NO_METHOD,
    }


async def test_a_change_is_told_to_who_has_said_hello_and_once(talk):
    talk.say(call(1, "add"))
    assert len(talk.heard) == 1
    talk.say(initialize())
    talk.say(call(2, "add"))
    await talk.until(lambda heard: len(heard) >= 4)
    changed = [one for one in talk.heard if one.get("method") == "notifications/tools/list_changed"]
    assert changed == [{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}]


async def test_a_hello_that_breaks_the_negotiation_is_answered_all_the_same(shop):
    async def broken(_hello, _client):
        raise RuntimeError("the secret is 42")

    talk = Talk(shop, negotiate=broken)
    hello = {"type": "vcp-hello", "version": "3.1", "extensions": []}
    talk.say(initialize(vcp=hello), request(1, "ping"))
    assert (await talk.answer(1))["result"] == {}
    assert talk.heard[0]["result"]["vcp"]["type"] == "vcp-error"
    assert "42" not in json.dumps(talk.heard)
    await talk.stream.close()


@pytest.mark.parametrize("broken", [call(1, "odd"), request(1, "resources/read", {"uri": "shop://odd"})])
async def test_a_room_that_breaks_ends_neither_the_stream_nor_the_silence(talk, broken):
    answer = await talk.ask(broken)
    assert answer["error"]["code"] == -32603
    assert "42" not in json.dumps(answer)
    assert (await talk.ask(request(2, "ping")))["result"] == {}


async def test_the_rooms_of_a_selection_are_all_there_is(shop):
    talk = Talk(shop, selection=Selection(groups=frozenset({"vcp"})))
    assert (await talk.ask(request(1, "tools/list")))["result"]["tools"] == []
    assert (await talk.ask(call(2, "echo", text="x")))["error"]["code"] == garbage.PARAMS


async def test_an_extension_comes_with_the_hello_and_goes_with_the_next_request(talk):
    hello = {"type": "vcp-hello", "version": "3.1", "extensions": [PERSONAL]}
    extension = {"extensions": {"space.creed/vcp": hello}}
    for capabilities, listed in ((extension, True), (None, False)):
        answer = await talk.ask(modern("list", "tools/list", capabilities=capabilities))
        names = [tool["name"] for tool in answer["result"]["tools"]]
        assert ("feel" in names) is listed
        talk.writes.clear()
    refused = await talk.ask(modern("call", "tools/call", {"name": "feel", "arguments": {"text": "x"}}))
    assert refused["result"]["isError"]
    assert "Re-initialize" in said_by(refused)
