"""What the suite leaves out, over real HTTP: notifications about tasks, and what must hold where it cannot run."""

import asyncio
import json

import httpx
import pytest

from comity.mcp.http import MCP_PATH
from comity.mcp.protocol.results import META_CAPABILITIES, META_SUBSCRIPTION, META_VERSION, TASKS
from compliance.server import serving

MODERN = "2026-07-28"
LEGACY = "2025-11-25"


@pytest.fixture
async def client():
    async with (
        serving(0) as url,
        httpx.AsyncClient(base_url=url.removesuffix(MCP_PATH), timeout=10) as client,
    ):
        client.headers["accept"] = "application/json, text/event-stream"
        yield client


def modern(id_, method, about=None, /, **params):
    """The keywords of a modern POST."""
    declared = {"extensions": {TASKS: {}}, "elicitation": {}}
    params["_meta"] = {META_VERSION: MODERN, META_CAPABILITIES: declared}
    headers = {"mcp-protocol-version": MODERN, "mcp-method": method, **({"mcp-name": about} if about else {})}
    return {"json": {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}, "headers": headers}


async def events(response):
    """Each event of a stream: its id, and its message or None."""
    id_, data = None, ""
    async for line in response.aiter_lines():
        if line.startswith("id: "):
            id_ = line.removeprefix("id: ")
        elif line.startswith("data:"):
            data = line.removeprefix("data:").strip()
        elif not line and id_ is None and not data:
            continue
        elif not line:
            yield id_, json.loads(data) if data else None
            id_, data = None, ""


async def test_a_task_tells_of_itself_on_the_stream_of_whoever_listens(client):
    asked = modern(1, "tools/call", "confirm_delete", name="confirm_delete", arguments={"filename": "a.txt"})
    created = (await client.post(MCP_PATH, **asked)).json()["result"]
    id_ = created["taskId"]
    async with asyncio.timeout(10):
        while (
            not (await client.post(MCP_PATH, **modern(2, "tasks/get", id_, taskId=id_)))
            .json()["result"]
            .get("inputRequests")
        ):
            pass
    listening = modern("ear", "subscriptions/listen", notifications={"taskIds": [id_, "foreign"]})
    async with client.stream("POST", MCP_PATH, **listening) as stream:
        frames = events(stream)
        _, acknowledged = await anext(frames)
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert acknowledged["params"]["notifications"] == {"taskIds": [id_]}
        answer = {"confirm": {"action": "accept", "content": {"confirm": True}}}
        ack = await client.post(MCP_PATH, **modern(3, "tasks/update", id_, taskId=id_, inputResponses=answer))
        assert ack.json()["result"]["resultType"] == "complete"
        heard = []
        while not heard or heard[-1]["status"] != "completed":
            _, frame = await anext(frames)
            assert frame["method"] == "notifications/tasks"
            assert frame["params"]["_meta"][META_SUBSCRIPTION] == "ear"
            heard.append(frame["params"])
    assert {one["taskId"] for one in heard} == {id_}
    assert heard[-1]["result"]["content"][0]["text"] == "a.txt deleted"


async def test_a_stream_that_was_closed_is_taken_up_where_it_was_left(client):
    client.headers["mcp-protocol-version"] = LEGACY
    hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    begun = await client.post(
        MCP_PATH, json={"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
    )
    client.headers["mcp-session-id"] = begun.headers["mcp-session-id"]
    call = {"name": "test_reconnection", "arguments": {}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    async with client.stream("POST", MCP_PATH, json=request) as stream:
        left = [event async for event in events(stream)]
    assert [message for _, message in left] == [None], "an id to come back with, and no answer yet"
    async with client.stream("GET", MCP_PATH, headers={"last-event-id": left[0][0]}) as stream:
        rest = [event async for event in events(stream)]
    assert rest[-1][1]["id"] == 1
    assert rest[-1][1]["result"]["content"][0]["text"] == "Said after the stream was closed"


async def test_a_page_that_rebinds_its_name_is_stopped_at_the_door(client):
    for headers in ({"host": "evil.example.com"}, {"origin": "http://evil.example.com"}):
        request = modern(1, "server/discover")
        refused = await client.post(MCP_PATH, json=request["json"], headers=request["headers"] | headers)
        assert refused.status_code == 403
    assert (await client.post(MCP_PATH, **modern(1, "server/discover"))).status_code == 200
