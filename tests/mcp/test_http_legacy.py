"""Legacy sessions over HTTP, as they look on the wire."""

import asyncio

import httpx
import pytest

from comity.mcp.streams import EventStream
from comity.testing import VirtualClock
from tests.mcp import garbage
from tests.mcp.conversing import SECONDS, call, initialize, notify, request, said_by
from tests.mcp.http_talk import Http, events, next_event
from tests.mcp.workshop import PERSONAL, over_http
from tests.waiting import eventually


@pytest.fixture
async def shop():
    async with over_http() as shop:
        yield shop


@pytest.fixture
async def http(shop):
    async with Http(shop.url) as http:
        yield http


async def test_a_session_lives_from_initialize_to_delete(http, shop):
    answer = await http.post(initialize())
    session = {"mcp_session_id": answer.headers["Mcp-Session-Id"]}
    assert len(session["mcp_session_id"]) >= 22
    assert answer.headers["Content-Type"] == "application/json"
    accepted = await http.post(notify("notifications/initialized"), **session)
    assert (accepted.status_code, accepted.content) == (202, b"")
    assert said_by((await http.post(call(1, "echo", text="x"), **session)).json()) == "x"
    assert (await http.send("DELETE", **session)).status_code == 200
    assert (await http.post(request(2, "ping"), **session)).status_code == 404
    assert (await http.send("DELETE", **session)).status_code == 404
    assert len(shop.sessions) == 0


async def test_no_session_is_400_and_an_unknown_one_404(http):
    for message in (request(1, "ping"), notify("notifications/initialized"), call(1, "echo", text="x")):
        refused = await http.post(message)
        assert refused.status_code == 400
        assert refused.json()["error"]["code"] == garbage.INVALID
        assert (await http.post(message, mcp_session_id="unknown")).status_code == 404
    assert (await http.post(initialize(), mcp_session_id="unknown")).status_code == 400


async def test_what_has_no_answer_is_accepted(http):
    session = await http.begin()
    for message in (
        notify("notifications/burn"),
        notify("notifications/cancelled", requestId=[]),
        {"jsonrpc": "2.0", "id": 9, "result": {}},
        {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "x"}},
    ):
        accepted = await http.post(message, **session)
        assert (accepted.status_code, accepted.content) == (202, b"")


async def test_garbage_is_always_answered_with_an_error_of_json_rpc(http):
    session = await http.begin()
    wrong = []
    pieces = [*garbage.pieces(), garbage.Piece("nothing", b"", garbage.PARSE)]
    for name, body, outcome in pieces:
        if name == "a second initialize":
            outcome = garbage.INVALID  # noqa: PLW2901 - the same, as an answer to a POST with a session
        answer = await http.post(body, **session)
        if outcome is garbage.SILENCE:
            good = (answer.status_code, answer.content) == (202, b"")
        elif answer.headers["Content-Type"].startswith("text/event-stream"):
            good = outcome is garbage.RESULT and '"result"' in answer.text
        elif outcome is garbage.RESULT:
            good = answer.status_code == 200 and "result" in answer.json()
        else:
            good = answer.status_code in (200, 400) and answer.json()["error"]["code"] == outcome
        if not good:
            wrong.append((name, outcome, answer.status_code, answer.text[:200]))
    assert wrong == []
    assert (await http.post(request(1, "ping"), **session)).json()["result"] == {}


async def test_other_kinds_of_bodies_answers_and_methods_are_refused(http):
    session = await http.begin()
    ping = request(1, "ping")
    for kind in (None, "text/plain", "application/jsonp", "application/json-seq"):
        assert (await http.post(ping, **{**session, "content_type": kind})).status_code == 415
    assert (
        await http.post(ping, content_type="Application/JSON; charset=utf-8", **session)
    ).status_code == 200
    for accept in ("application/json", "text/event-stream", "text/html"):
        assert (await http.post(ping, accept=accept, **session)).status_code == 406
    for accept in ("*/*", "Application/JSON, TEXT/event-stream;q=0.5", "application/*, text/*;q=0.1"):
        assert (await http.post(ping, accept=accept, **session)).status_code == 200
    assert (await http.post(ping, accept="*/*, text/event-stream;q=0", **session)).status_code == 406
    assert (await http.send("GET", accept="application/json", **session)).status_code == 406
    too_large = await http.post(b" " * (1 << 20) + b"{}", **session)
    assert too_large.status_code == 413
    assert too_large.json()["error"]["code"] == garbage.INVALID
    for method in ("PUT", "PATCH", "OPTIONS"):
        refused = await http.send(method)
        assert refused.status_code == 405
        assert refused.headers["Allow"] == "POST, GET, DELETE"
    assert (await http.send("GET")).status_code == 405
    assert (await http.send("DELETE")).status_code == 405


async def test_a_body_without_a_length_is_cut_off_at_the_limit(http):
    async def endless():
        for _ in range(20):
            yield b" " * 100_000

    headers = {"Content-Type": "application/json", "Accept": "*/*"}
    async with httpx.AsyncClient() as client:
        refused = await client.post(http.url, content=endless(), headers=headers)
    assert refused.status_code == 413
    assert refused.json()["error"]["code"] == garbage.INVALID


async def test_a_question_travels_in_the_stream_of_its_call(http):
    session = await http.begin(capabilities={"elicitation": {}})
    async with http.streaming(call(1, "ask"), **session) as response:
        coming = events(response)
        await next_event(coming)
        asked = (await next_event(coming)).message
        answer = {"action": "decline"}
        accepted = await http.post({"jsonrpc": "2.0", "id": asked["id"], "result": answer}, **session)
        assert accepted.status_code == 202
        assert (await next_event(coming)).message["result"]["structuredContent"] == {"answer": answer}


async def test_there_is_one_standing_stream_and_it_tells_of_changes(http):
    session = await http.begin()
    async with http.streaming(None, **session) as first:
        coming = events(first)
        assert first.status_code == 200
        assert first.headers["X-Accel-Buffering"] == "no"
        priming = await next_event(coming)
        assert (priming.data, priming.retry) == ("", "1000")
        assert priming.id
        second = await http.send("GET", accept="text/event-stream", **session)
        assert second.status_code == 409
        assert second.json()["error"]["code"] == garbage.INVALID
        await http.post(call(1, "add"), **session)
        result = await next_event(coming)
        assert result.message["method"] == "notifications/tools/list_changed"
        await http.post(request(2, "resources/subscribe", {"uri": "shop://sign"}), **session)


async def test_a_subscription_is_told_of_its_resource_until_it_ends(http, shop):
    session = await http.begin("2025-06-18")
    async with http.streaming(None, **session) as general:
        coming = events(general)
        for method in ("resources/subscribe", "resources/unsubscribe", "resources/subscribe"):
            answer = await http.post(request(1, method, {"uri": "shop://sign"}), **session)
            assert answer.json()["result"] == {}
            shop.workshop.changes.resource_updated("shop://sign")
            shop.workshop.changes.resource_updated("shop://shelf/1")
        for _ in range(2):
            result = await next_event(coming)
            assert result.message["params"] == {"uri": "shop://sign"}


async def test_who_goes_away_leaves_the_standing_stream_to_the_next_and_misses_nothing(http, shop):
    session = await http.begin()
    async with http.streaming(None, **session) as first:
        last = (await next_event(events(first))).id
    shop.workshop.changes.list_changed("prompts")
    async with http.streaming(None, last_event_id=last, **session) as again:
        coming = events(again)
        while not (result := await next_event(coming)).data:
            pass
    assert result.message["method"] == "notifications/prompts/list_changed"


async def test_who_comes_back_takes_over_although_the_former_connection_still_seems_to_be_open(http, shop):
    session = await http.begin()
    async with http.streaming(None, **session) as first:
        coming = events(first)
        last = (await next_event(coming)).id
        async with http.streaming(None, last_event_id=last, **session) as again:
            assert [event async for event in coming] == []
            shop.workshop.changes.list_changed("prompts")
            taken_over = events(again)
            while not (result := await next_event(taken_over)).data:
                pass
    assert result.message["method"] == "notifications/prompts/list_changed"


async def test_a_new_reader_waits_a_moment_for_the_former_one_to_leave(http, monkeypatch):
    asked, wait = asyncio.Event(), EventStream.wait_for_leaving

    async def noted(stream, seconds):
        if stream.followed:
            asked.set()
        await wait(stream, seconds)

    async def opened():
        async with http.streaming(None, **session) as stream:
            return stream.status_code

    monkeypatch.setattr(EventStream, "wait_for_leaving", noted)
    session = await http.begin("2025-06-18")
    async with http.streaming(None, **session):
        again = asyncio.ensure_future(opened())
        async with asyncio.timeout(SECONDS):
            await asked.wait()
    assert await again == 200


@pytest.mark.parametrize("last", ["x", "0.99", "77.1", "0.-1", "", ".", "0.1e3"])
async def test_an_event_that_never_was_is_refused(http, last):
    session = await http.begin()
    refused = await http.send("GET", accept="text/event-stream", last_event_id=last, **session)
    assert refused.status_code in (400, 404)
    assert "error" in refused.json()


async def taken_up(http, last, session):
    """A stream that ends, from an event on, at once: that its first reader has gone need not be noticed before."""
    again = await http.send("GET", accept="text/event-stream", last_event_id=last, **session)
    assert again.status_code == 200
    return again


async def test_a_call_goes_on_when_its_connection_breaks_and_its_answer_waits(http, shop):
    session = await http.begin()
    async with http.streaming(call(1, "slowly", meta={"progressToken": "t"}), **session) as response:
        coming = events(response)
        priming, progress = await next_event(coming), await next_event(coming)
        assert (priming.data, progress.message["params"]["progress"]) == ("", 1)
    shop.workshop.gate.set()
    await eventually(lambda: "slowly" in shop.workshop.called)
    again = await taken_up(http, progress.id, session)
    assert '"progress":1' not in again.text
    assert '"progress":2' in again.text
    assert '"slow and done"' in again.text
    whole = await taken_up(http, priming.id, session)
    assert whole.text.index('"progress":1') < whole.text.index('"slow and done"')
    assert shop.workshop.cancelled == []


async def test_an_answer_is_json_unless_there_is_more_to_say(http):
    session = await http.begin()
    quiet = await http.post(call(1, "steps"), **session)
    assert quiet.headers["Content-Type"] == "text/event-stream"  # it logs
    await http.post(request(2, "logging/setLevel", {"level": "error"}), **session)
    quiet = await http.post(call(3, "steps"), **session)
    assert quiet.headers["Content-Type"] == "application/json"
    loud = await http.post(call(4, "steps", meta={"progressToken": 4}), **session)
    assert loud.headers["Content-Type"] == "text/event-stream"
    assert loud.text.count("notifications/progress") == 3
    assert loud.text.index("notifications/progress") < loud.text.index("three steps")


async def test_a_call_that_says_nothing_for_long_becomes_a_stream_with_signs_of_life(http, shop, monkeypatch):
    monkeypatch.setattr("comity.mcp.http.SILENCE", 0.01)
    monkeypatch.setattr("comity.mcp.streams.KEEPALIVE_SECONDS", 0.01)
    session = await http.begin("2025-06-18")
    async with http.streaming(call(1, "wait"), **session) as response:
        assert response.headers["Content-Type"] == "text/event-stream"
        lines = response.aiter_lines()
        assert (await anext(lines)).startswith(":")
        shop.workshop.gate.set()
        rest = "".join([line async for line in lines])
    assert '"done"' in rest


@pytest.mark.parametrize(("version", "primed"), [("2025-11-25", True), ("2025-06-18", False)])
async def test_streams_begin_with_a_bare_id_since_the_revision_that_has_it(http, version, primed):
    session = await http.begin(version)
    async with http.streaming(call(1, "steps"), **session) as response:
        first = await next_event(events(response))
    assert (first.data == "") is primed


async def test_a_cancelled_call_ends_without_a_result(http, shop):
    session = await http.begin()
    running = asyncio.create_task(http.post(call(1, "wait"), **session))
    await eventually(lambda: shop.workshop.called)
    again = await http.post(call(1, "wait"), **session)
    assert again.json()["error"]["code"] == garbage.INVALID
    await http.post(notify("notifications/cancelled", requestId=1), **session)
    assert (await running).content == b""
    assert shop.workshop.cancelled == ["wait"]
    assert said_by((await http.post(call(1, "echo", text="free"), **session)).json()) == "free"


async def test_the_end_of_a_session_ends_its_streams_and_calls(http, shop):
    session = await http.begin()
    async with http.streaming(None, **session) as general:
        coming = events(general)
        await next_event(coming)
        running = asyncio.create_task(http.post(call(1, "wait"), **session))
        await eventually(lambda: shop.workshop.called)
        await http.send("DELETE", **session)
        with pytest.raises(StopAsyncIteration):
            await next_event(coming)
    await running
    assert shop.workshop.cancelled == ["wait"]


async def test_a_batch_is_answered_by_an_array_where_the_revision_has_batches(http, shop):
    session = await http.begin("2025-03-26")
    batch = [request(1, "ping"), call(2, "wait"), notify("notifications/x"), call(3, "echo", text="x"), 5]
    running = asyncio.create_task(http.post(batch, **session))
    await eventually(lambda: shop.workshop.called)
    shop.workshop.gate.set()
    answers = {one["id"]: one for one in (await running).json()}
    assert answers.keys() == {1, 2, 3, None}
    assert said_by(answers[2]) == "done"
    only = await http.post([notify("notifications/x")], **session)
    assert (only.status_code, only.content) == (202, b"")
    later = await http.begin("2025-06-18")
    assert (await http.post(batch, **later)).status_code == 400


async def test_one_call_of_a_batch_can_be_cancelled(http, shop):
    session = await http.begin("2025-03-26")
    running = asyncio.create_task(http.post([call(1, "wait"), request(2, "ping")], **session))
    await eventually(lambda: shop.workshop.called)
    await http.post(notify("notifications/cancelled", requestId=1), **session)
    assert [one["id"] for one in (await running).json()] == [2]
    assert shop.workshop.cancelled == ["wait"]


async def test_too_many_sessions_are_told_when_to_come_again():
    async with over_http(most=2) as shop, Http(shop.url) as http:
        first, second = await http.begin(), await http.begin()
        async with http.streaming(None, **first) as one, http.streaming(None, **second) as other:
            await next_event(events(one))
            await next_event(events(other))
            refused = await http.post(initialize())
            assert refused.status_code == 503
            assert int(refused.headers["Retry-After"]) > 0
            assert "error" in refused.json()
        await http.send("DELETE", **first)
        await http.begin()


async def test_at_the_limit_an_idle_session_makes_room_and_its_client_begins_again():
    async with over_http(most=2) as shop, Http(shop.url) as http:
        first, second = await http.begin(), await http.begin()
        await http.begin()
        assert (await http.post(request(1, "ping"), **first)).status_code == 404
        assert (await http.post(request(1, "ping"), **second)).status_code == 200


async def test_an_idle_session_ends_and_one_that_listens_does_not():
    clock = VirtualClock()
    async with over_http(clock=clock, idle=60.0) as shop, Http(shop.url) as http:
        idle, listening = await http.begin(), await http.begin()
        async with http.streaming(None, **listening) as general:
            await next_event(events(general))
            await clock.advance(61)
            await shop.sessions.expire()
            assert len(shop.sessions) == 1
            assert (await http.post(request(1, "ping"), **idle)).status_code == 404
            assert (await http.post(request(1, "ping"), **listening)).status_code == 200
        await clock.advance(86_400)
        assert (await http.post(request(1, "ping"), **listening)).status_code == 404


async def test_an_extension_belongs_to_the_session_that_negotiated_it(http):
    hello = {"type": "vcp-hello", "version": "3.1", "extensions": [PERSONAL]}
    for more, listed in (({"vcp": hello}, True), ({}, False)):
        session = await http.begin(**more)
        tools = (await http.post(request(1, "tools/list"), **session)).json()["result"]["tools"]
        assert ("feel" in [tool["name"] for tool in tools]) is listed


async def test_a_room_that_breaks_is_an_error_of_ours(http):
    session = await http.begin()
    for message in (call(1, "odd"), request(1, "resources/read", {"uri": "shop://odd"})):
        answer = await http.post(message, **session)
        assert (answer.json()["error"]["code"], answer.json()["id"]) == (-32603, 1)
        assert "42" not in answer.text
    assert answer.status_code == 500


async def test_a_refusal_carries_the_id_of_what_is_refused(http):
    for headers in ({}, {"mcp_session_id": "unknown"}, {"accept": "text/html"}):
        assert (await http.post(request("mine", "ping"), **headers)).json()["id"] == "mine"


async def test_initialize_with_a_list_is_refused(http, shop):
    refused = await http.post(request(1, "initialize", []))
    assert refused.json()["error"]["code"] == garbage.PARAMS
    assert len(shop.sessions) == 0


async def test_a_client_that_says_too_much_of_itself_begins_no_session(http, shop):
    message = initialize()
    message["params"]["clientInfo"] = {"name": "x" * 20_000}
    answer = await http.post(message)
    assert "clientInfo exceed 16,384 bytes" in answer.json()["error"]["message"]
    assert len(shop.sessions) == 0
