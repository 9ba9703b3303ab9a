"""Clients of MCP and the sessions of a node: who sees the tools, what ends with a client, what a stop waits for."""

import asyncio
import json

import httpx
import pytest

from comity.mcp.protocol.catalog import Selection
from comity.mcp.protocol.context import McpClient as ClientFacts
from comity.mcp.protocol.results import META_CAPABILITIES, META_CLIENT, META_VERSION, MODERN, TASKS
from comity.node.mcp_server import Mcp
from comity.requests.caller import Caller
from comity.rooms.part import Peers
from comity.store.interface import Put
from comity.testing import bearer
from tests.rooms.scene import PATIENCE, Client, meet, rooms_node
from tests.rooms.test_recorded_calls import McpClient


async def test_a_client_that_says_exit_ends_its_sessions_and_one_that_goes_away_does_not(tmp_path):
    async with rooms_node() as node:
        first, second = McpClient(node, tmp_path), McpClient(node, tmp_path)
        for client, room in ((first, "one"), (second, "two")):
            assert not (await client.call("vdo_connect", {"room": room}))["result"]["isError"]
        await second.stream.close()
        first.stream.receive(b'{"jsonrpc":"2.0","method":"exit"}\n')
        assert first.stream.exit_asked.is_set()
        await first.stream.close()
        left = (await Client(node).call("vdo_list_sessions"))["sessions"]
        assert [session["room"] for session in left] == ["two"]


async def test_a_client_is_told_how_far_a_file_is_or_gets_a_task_for_it(tmp_path):
    async with rooms_node() as here, rooms_node() as there:
        anna, bert = Client(here), Client(there)
        await meet(anna, bert)
        client = McpClient(here, tmp_path)
        (tmp_path / "a.bin").write_bytes(bytes(3_000_000))
        sending = {"session_id": anna.session_id, "file_path": "a.bin"}
        answer = await client.call("vdo_file_send_path", sending, _meta={"progressToken": "p"})
        assert answer["result"]["structuredContent"]["transfer"]["status"] == "completed"
        result = [one["params"] for one in client.notified if one["method"] == "notifications/progress"]
        assert (result[-1]["progress"], result[-1]["total"]) == (3_000_000, 3_000_000)
        modern = {
            META_VERSION: MODERN[0],
            META_CLIENT: {"name": "test", "version": "1"},
            META_CAPABILITIES: {"extensions": {TASKS: {}}},
        }
        task = (await client.call("vdo_file_send_path", sending, _meta=modern))["result"]
        assert task["resultType"] == "task"
        async with asyncio.timeout(PATIENCE):
            while task["status"] == "working":
                task = (await client.ask("tasks/get", taskId=task["taskId"], _meta=modern))["result"]
        assert task["result"]["structuredContent"]["transfer"]["status"] == "completed"
        await client.stream.close()


async def test_a_visitor_has_no_tools_of_rooms(tmp_path):
    async with rooms_node() as node:
        side = node.runtime.find(Mcp).node_mcp
        for kind, seen in (("model", True), ("oauth", False)):
            client = ClientFacts(version="2025-06-18", modern=False, caller=Caller(kind=kind, id="x"))
            view = side.server.view(Selection(), client)
            assert any(name.startswith("vdo_") for name in view.tools) is seen
            assert ("tool_profile" in json.dumps(view.tools_json(modern=False).get("_meta", {}))) is seen
            refused = view.namespace_of("vdo_connect").refuse("vdo_connect", view.selection)
            assert refused.is_error


async def test_a_node_that_stops_answers_whoever_waits():
    async with rooms_node() as node:
        anna = Client(node)
        # nothing happens in this session: its relay is not there, and not tried again for long
        await anna.join("lab", host="ws://127.0.0.1:1", reconnect_ms=30_000)
        async with httpx.AsyncClient(headers=bearer(node), timeout=60) as owner:
            body = {"tool": "vdo_receive", "arguments": {"session_id": anna.session_id, "wait_ms": 30_000}}
            await owner.post(f"{node.url}/v1/rooms", json=body)  # what has happened so far
            waiting = asyncio.create_task(owner.post(f"{node.url}/v1/rooms", json=body))
            live = await anna.live()
            async with asyncio.timeout(PATIENCE):
                while not live._waiters:
                    await owner.get(f"{node.url}/healthz")
            await node.stop()
            assert (await waiting).status_code == 200


@pytest.mark.parametrize("tool", ["vdo_receive", "peek"])
async def test_a_wait_ends_when_its_client_goes_away_and_takes_nothing(tool):
    async with rooms_node() as here, rooms_node() as there:
        anna, bert = Client(here), Client(there)
        await meet(anna, bert)
        live = await bert.live()
        async with httpx.AsyncClient(headers=bearer(there), timeout=60) as owner:

            async def ask(tool, **arguments):
                given = {"session_id": bert.session_id, **arguments}
                body = {"tool": tool, "arguments": given, "client": "wait"}
                return (await owner.post(f"{there.url}/v1/rooms", json=body)).json()

            seen = await ask("peek", max_events=500)
            await ask("acknowledge", through=seen["places"][-1])
            more = {"only_messages": True} if tool == "peek" else {}
            waiting = asyncio.create_task(ask(tool, wait_ms=30_000, **more))
            async with asyncio.timeout(PATIENCE):
                while not live._waiters:
                    await owner.get(f"{there.url}/healthz")
                waiting.cancel()
                while live._waiters:
                    await owner.get(f"{there.url}/healthz")
            await anna.call("vdo_send", data="still there", target="bert")
            found = await ask("peek", wait_ms=30_000, only_messages=True)
            assert [event["data"] for event in found["events"]] == ["still there"]


async def test_a_record_that_cannot_be_read_does_not_keep_a_node_from_starting(tmp_path):
    async with rooms_node(tmp_path / "data") as node:
        await Client(node).join("lab")
        sealed = node.runtime.vault.seal(b'{"session_id": 5}')
        await node.store.commit(Put(space="rooms:session", key="vdo_broken", value=sealed))
        await node.store.commit(Put(space="rooms:session", key="vdo_open", value=b"not sealed"))
    async with rooms_node(tmp_path / "data") as node:
        assert [one["room"] for one in (await Client(node).call("vdo_list_sessions"))["sessions"]] == ["lab"]


async def test_keys_that_come_and_go_do_not_fill_the_store():
    async with rooms_node() as node:
        anna = Client(node)
        await anna.join("lab", state_max_keys=8)
        for number in range(200):
            await anna.call("vdo_state_set", key=f"key {number}", value=number)
            await anna.call("vdo_state_delete", key=f"key {number}")
        kept = await node.store.scan("rooms:state", limit=1000)
        assert len(kept) < 120


async def test_what_is_kept_is_sealed():
    async with rooms_node() as here, rooms_node() as there:
        anna, bert = Client(here), Client(there)
        await meet(anna, bert)
        await anna.call("vdo_send", data="a secret word", target="bert")
        await anna.events("message_status")
        await bert.call("vdo_state_set", key="hidden", value="another word")
        for space in ("rooms:session", "rooms:inbox", "rooms:state", "rooms:more"):
            rows = await there.store.scan(space)
            assert rows, space
            for _, row in rows:
                assert row.value.startswith(b"enc:")


async def test_a_session_too_many_is_refused_and_the_others_live_on(monkeypatch):
    monkeypatch.setattr("comity.rooms.sessions.MAX_SESSIONS", 2)
    async with rooms_node() as node:
        for room in ("a", "b"):
            await Client(node).join(room)
        with pytest.raises(Exception, match="sessions are open; end one"):
            await Client(node).join("c")
        assert len((await node.runtime.find(Peers).open_tools()).rooms) == 2
