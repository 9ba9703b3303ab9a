"""Modern requests over HTTP: each stands alone, and its headers repeat what its body says."""

import asyncio
import base64
import json

import httpx
import pytest

from tests.mcp import garbage
from tests.mcp.conversing import call, initialize, modern, notify, request, said_by
from tests.mcp.http_talk import Http, events, next_event, posted, repeated
from tests.mcp.workshop import PERSONAL, over_http
from tests.waiting import eventually

MISMATCH, CAPABILITY = -32020, -32021
META = "io.modelcontextprotocol"


@pytest.fixture
async def shop():
    async with over_http() as shop:
        yield shop


@pytest.fixture
async def http(shop):
    async with Http(shop.url) as http:
        yield http


def tool(id_, name, meta=None, **arguments):
    return modern(id_, "tools/call", {"name": name, "arguments": arguments}, **(meta or {}))


async def answered(http, message, **headers):
    answer = await http.post(message, **repeated(message, **headers))
    error = answer.json().get("error", {})
    return answer.status_code, error.get("code")


async def test_a_request_stands_alone(http, shop):
    discover = modern(1, "server/discover")
    found = (await http.post(discover, **repeated(discover))).json()["result"]
    assert found["supportedVersions"] == ["2026-07-28"]
    assert {"resultType", "ttlMs", "cacheScope", "capabilities"} <= found.keys()
    assert found["_meta"][f"{META}/serverInfo"]["name"] == "workshop"
    answer = await http.post(tool("x", "echo", text="hi"), **repeated(tool("x", "echo", text="hi")))
    assert answer.json()["result"]["resultType"] == "complete"
    assert said_by(answer.json()) == "hi"
    assert "Mcp-Session-Id" not in answer.headers
    assert len(shop.sessions) == 0


async def test_headers_must_say_what_the_body_says(http):
    echo = tool(1, "echo", text="x")
    assert await answered(http, echo, mcp_method=None) == (400, MISMATCH)
    assert await answered(http, echo, mcp_method="tools/list") == (400, MISMATCH)
    assert await answered(http, echo, mcp_method="TOOLS/CALL") == (400, MISMATCH)
    assert await answered(http, echo, mcp_name=None) == (400, MISMATCH)
    assert await answered(http, echo, mcp_name="wait") == (400, MISMATCH)
    assert await answered(http, echo, mcp_protocol_version="2025-11-25") == (400, MISMATCH)
    assert await answered(http, echo, mcp_protocol_version=None) == (400, MISMATCH)
    assert await answered(http, echo, mcp_name="=?base64?!!!?=") == (400, MISMATCH)
    spelled = f"=?base64?{base64.b64encode(b'echo').decode()}?="
    assert await answered(http, echo, mcp_name=spelled) == (200, None)
    read = modern(2, "resources/read", {"uri": "shop://shelf/grün"})
    spelled = f"=?base64?{base64.b64encode('shop://shelf/grün'.encode()).decode()}?="
    assert await answered(http, read, mcp_name=spelled) == (200, None)


async def test_a_header_that_comes_twice_is_refused(http):
    echo = tool(1, "echo", text="x")
    request_ = posted(echo, repeated(echo))
    headers = [*request_["headers"].items(), ("Mcp-Name", "echo")]
    async with httpx.AsyncClient() as client:
        answer = await client.post(http.url, content=request_["content"], headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, MISMATCH)


async def test_arguments_that_a_tool_wants_repeated_are_checked(http):
    near = tool(1, "mirrored", region="süd")
    spelled = f"=?base64?{base64.b64encode('süd'.encode()).decode()}?="
    assert await answered(http, near) == (400, MISMATCH)
    assert await answered(http, near, mcp_param_region="nord") == (400, MISMATCH)
    assert await answered(http, near, mcp_param_region=spelled) == (200, None)


async def test_what_a_request_must_say_about_itself_is_demanded(http):
    for key in ("protocolVersion", "clientCapabilities"):
        message = modern(1, "tools/list")
        del message["params"]["_meta"][f"{META}/{key}"]
        assert await answered(http, message) == (400, garbage.PARAMS)
    assert await answered(http, request(1, "tools/list")) == (400, garbage.PARAMS)
    later = modern(1, "tools/list", **{f"{META}/protocolVersion": "2031-01-01"})
    answer = await http.post(later, **repeated(later, mcp_protocol_version="2031-01-01"))
    assert answer.status_code == 400
    assert answer.json()["error"]["data"] == {"supported": ["2026-07-28"], "requested": "2031-01-01"}
    for odd in (
        {"params": []},
        {"params": {"_meta": []}},
        {"params": {"_meta": {f"{META}/protocolVersion": 5}}},
    ):
        status, code = await answered(http, {**request(1, "tools/list"), **odd})
        assert (status, code in (garbage.PARAMS, MISMATCH)) == (400, True)


async def test_methods_of_the_other_era_are_not_found(http):
    for method in ("initialize", "ping", "logging/setLevel", "resources/subscribe", "shutdown", "burn"):
        assert await answered(http, modern(1, method, {"uri": "shop://sign"})) == (404, garbage.NO_METHOD)


async def test_wrong_questions_are_400(http):
    for message in (
        tool(1, "burn"),
        modern(1, "resources/read", {"uri": "shop://attic"}),
        modern(1, "prompts/get", {"name": "burn"}),
        modern(1, "tools/call", {"name": 5}),
    ):
        headers = repeated(message)
        headers["mcp_name"] = str(headers["mcp_name"])
        answer = await http.post(message, **headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, garbage.PARAMS)


async def test_only_requests_have_answers_and_only_one_comes_at_a_time(http):
    accepted = await http.post(notify("notifications/x"), mcp_protocol_version="2026-07-28")
    assert (accepted.status_code, accepted.content) == (202, b"")
    for body in ([modern(1, "tools/list")], {"jsonrpc": "2.0", "id": 1, "result": {}}):
        refused = await http.post(body, mcp_protocol_version="2026-07-28")
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, garbage.INVALID)
    for method in ("GET", "DELETE"):
        gone = await http.send(method, mcp_protocol_version="2026-07-28", mcp_session_id="x")
        assert gone.status_code == 405


async def test_unreadable_bodies_are_always_answered(http):
    bodies = {**garbage.unreadable(), **garbage.misshapen()}
    wrong = {}
    for name, body in bodies.items():
        answer = await http.post(body, mcp_protocol_version="2026-07-28", mcp_method="ping")
        if answer.status_code not in (400, 404) or "error" not in answer.json():
            wrong[name] = answer.text
    assert wrong == {}


async def test_an_answer_becomes_a_stream_only_when_there_is_more_to_say(http):
    quiet = tool(1, "steps")
    answer = await http.post(quiet, **repeated(quiet))
    assert answer.headers["Content-Type"] == "application/json"
    loud = tool(2, "steps", meta={"progressToken": "p", f"{META}/logLevel": "debug"})
    answer = await http.post(loud, **repeated(loud))
    assert answer.headers["Content-Type"] == "text/event-stream"
    assert answer.headers["X-Accel-Buffering"] == "no"
    assert answer.text.count("notifications/progress") == 3
    assert answer.text.count("notifications/message") == 3
    assert "\nid:" not in answer.text


async def test_who_closes_the_response_cancels_the_call(http, shop):
    message = tool(1, "wait")
    running = asyncio.create_task(http.post(message, **repeated(message)))
    await eventually(lambda: shop.workshop.called)
    running.cancel()
    await eventually(lambda: shop.workshop.cancelled == ["wait"])


async def test_who_closes_a_stream_cancels_the_call(http, shop):
    message = tool(1, "slowly", meta={"progressToken": 1})
    async with http.streaming(message, **repeated(message)) as response:
        await next_event(events(response))
    await eventually(lambda: ("slowly", "local", "cancelled") in shop.workshop.audited)


async def test_a_subscription_is_a_stream_that_is_acknowledged_first(http, shop):
    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["shop://sign"], "burn": True}
    message = modern("sub", "subscriptions/listen", {"notifications": wanted})
    async with http.streaming(message, **repeated(message)) as response:
        coming = events(response)
        first = (await next_event(coming)).message
        assert first["method"] == "notifications/subscriptions/acknowledged"
        assert first["params"]["notifications"] == {
            "toolsListChanged": True,
            "resourceSubscriptions": ["shop://sign"],
        }
        shop.workshop.changes.list_changed("prompts")
        shop.workshop.changes.resource_updated("shop://shelf/1")
        shop.workshop.changes.resource_updated("shop://sign")
        shop.workshop.changes.list_changed("tools")
        for method in ("notifications/resources/updated", "notifications/tools/list_changed"):
            heard = (await next_event(coming)).message
            assert heard["method"] == method
            assert heard["params"]["_meta"][f"{META}/subscriptionId"] == "sub"
        shop.workshop.changes.closing.set()
        last = (await next_event(coming)).message
        assert (last["id"], last["result"]["resultType"]) == ("sub", "complete")
        with pytest.raises(StopAsyncIteration):
            await next_event(coming)


async def test_a_question_is_the_result_and_the_request_is_repeated_with_the_answer(http):
    plain = tool(1, "ask")
    answer = await http.post(plain, **repeated(plain))
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, CAPABILITY)
    assert answer.json()["error"]["data"]["requiredCapabilities"] == {"elicitation": {}}

    def asking(id_, **more):
        params = {"name": "ask", "arguments": {}, **more}
        return modern(id_, "tools/call", params, {"elicitation": {}})

    first = asking(2)
    asked = (await http.post(first, **repeated(first))).json()["result"]
    assert asked["resultType"] == "input_required"
    assert asked["inputRequests"]["who"]["method"] == "elicitation/create"
    given = {"who": {"action": "accept", "content": {"name": "Ada"}}}
    again = asking(3, inputResponses=given, requestState=asked["requestState"])
    done = (await http.post(again, **repeated(again))).json()["result"]
    assert done["structuredContent"]["answer"] == given["who"]
    forged = asking(4, inputResponses=given, requestState=asked["requestState"][:-8] + "AAAAAAA=")
    assert await answered(http, forged) == (400, garbage.PARAMS)


async def test_a_hello_is_good_for_its_own_request(http):
    hello = {"type": "vcp-hello", "version": "3.1", "extensions": [PERSONAL]}
    declared = {"extensions": {"space.creed/vcp": {"hello": hello}}}
    seen = []
    for capabilities in (declared, None):
        message = modern(1, "tools/list", capabilities=capabilities)
        result = (await http.post(message, **repeated(message))).json()["result"]
        seen.append(("feel" in [tool["name"] for tool in result["tools"]], result["cacheScope"]))
        acked = {"space.creed/vcp-ack", "space.creed.vcp/ack"} <= result["_meta"].keys()
        assert acked is (capabilities is not None)
    assert seen == [(True, "private"), (False, "public")]


async def test_the_era_of_a_request_is_its_own(http):
    """Legacy sessions and modern requests at one address, in any order."""
    session = await http.begin()
    for _ in range(2):
        legacy = await http.post(call(1, "echo", text="old"), **session)
        assert "resultType" not in legacy.json()["result"]
        new = tool(1, "echo", text="new")
        answer = await http.post(new, **repeated(new, mcp_session_id=session["mcp_session_id"]))
        assert answer.json()["result"]["resultType"] == "complete"
    assert json.loads((await http.post(request(2, "ping"), **session)).content)["result"] == {}


@pytest.mark.parametrize("version", ["1999-01-01", "2031-01-01", "nonsense"])
async def test_a_revision_that_nobody_speaks_is_refused_whatever_is_sent_in_it(http, version):
    session = await http.begin()
    session["mcp_protocol_version"] = version
    messages = (
        request(1, "tools/list"),
        initialize(1),
        modern(1, "tools/list"),
        notify("notifications/initialized"),
    )
    for message in messages:
        for headers in (session, {"mcp_protocol_version": version}):
            answer = await http.post(message, **headers)
            assert answer.status_code == 400
            error = answer.json()["error"]
            assert error["code"] == -32022
            assert error["data"] == {"supported": ["2026-07-28"], "requested": version}
            assert answer.json()["id"] == message.get("id")
