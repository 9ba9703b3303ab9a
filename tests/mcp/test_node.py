"""The endpoint of a real node: who may come, what survives a restart, how it stops."""

import asyncio
import json
import time
from collections import Counter

import pytest

from comity.mcp.protocol.catalog import Selection
from comity.node.mcp_server import Mcp
from comity.runtime.settings import McpSettings, VcpSettings
from comity.testing import VirtualClock
from comity.testing.nodes import bearer, running_node
from comity.vcp.part import Vcp
from tests.mcp.conversing import call, initialize, modern, request
from tests.mcp.http_talk import Http, events, next_event, repeated

HELLO = {"type": "vcp-hello", "version": "3.1", "extensions": ["VCP-X-Personal", "VCP-X-Nothing"]}


def client(node, **headers):
    return Http(f"{node.url}/mcp", **{**bearer(node), **headers})


@pytest.fixture
async def node():
    async with running_node() as node:
        yield node


async def test_nobody_comes_in_without_the_token(node):
    async with Http(f"{node.url}/mcp") as stranger:
        for message in (initialize(), modern(1, "server/discover"), b"garbage"):
            refused = await stranger.post(message)
            assert refused.status_code == 401
            assert refused.headers["WWW-Authenticate"].startswith("Bearer")
        for wrong in ("Bearer", "Bearer x", "Basic eDp5", f"{bearer(node)['Authorization']}x"):
            assert (await stranger.post(initialize(), authorization=wrong)).status_code == 401
        assert (await stranger.send("GET", mcp_session_id="x")).status_code == 401
        assert (await stranger.send("DELETE", mcp_session_id="x")).status_code == 401
        stranger.url += f"?token={bearer(node)['Authorization'].partition(' ')[2]}"
        assert (await stranger.post(initialize())).status_code == 401


async def test_a_page_of_somebody_else_is_kept_out(node):
    async with client(node) as http:
        assert (await http.post(initialize(), host="evil.example.com")).status_code == 403
        for origin in (
            "https://evil.example.com",
            "null",
            f"{node.url}.evil.example.com",
            "http://localhost:1",
        ):
            assert (await http.post(initialize(), origin=origin)).status_code == 403
        assert (await http.post(initialize(), origin=node.url)).status_code == 200
        assert (
            await http.post(initialize(), host=f"localhost:{node.url.rpartition(':')[2]}")
        ).status_code == 200


async def test_a_body_that_is_too_large_is_refused_before_it_is_read(node):
    async with client(node) as http:
        assert (await http.post(b" " * (node.settings.http.body_limit + 1))).status_code == 413


async def test_a_session_survives_the_node_that_began_it(tmp_path):
    async with running_node(tmp_path) as node, client(node) as http:
        session = await http.begin("2025-06-18", vcp=HELLO)
        gone = await http.begin()
        await http.post(request(1, "logging/setLevel", {"level": "error"}), **session)
        subscribed = await http.post(
            request(2, "resources/subscribe", {"uri": "vcp://capabilities"}), **session
        )
        assert subscribed.json()["result"] == {}
        await http.send("DELETE", **gone)
    async with running_node(tmp_path) as node, client(node) as http:
        status = await http.post(call(3, "vcp_status"), **session)
        assert status.json()["result"]["structuredContent"]["negotiated"] is True
        assert (await http.post(request(4, "ping"), **gone)).status_code == 404
        async with http.streaming(None, **session) as general:
            node.runtime.find(Mcp).node_mcp.changes.resource_updated("vcp://capabilities")
            result = await next_event(events(general))
        assert result.message["params"]["uri"] == "vcp://capabilities"


async def test_no_id_that_was_made_up_is_a_session(tmp_path):
    async with running_node(tmp_path) as node, client(node) as http:
        await http.begin()
        for made_up in (
            "x",
            "x" * 4000,
            "../../token",
            "%00",
            "=?base64?AA==?=",
            "*",
            "' or 1=1 --",
            b"\xff\xfe",
        ):
            for answer in (
                await http.post(request(1, "ping"), mcp_session_id=made_up),
                await http.send("GET", accept="text/event-stream", mcp_session_id=made_up),
                await http.send("DELETE", mcp_session_id=made_up),
            ):
                assert answer.status_code == 404
                assert "error" in answer.json()


async def test_a_session_that_was_stored_by_another_release_is_gone(tmp_path):
    async with running_node(tmp_path) as node, client(node) as http:
        session = await http.begin()
    async with running_node(tmp_path) as node, client(node) as http:
        from comity.store.interface import Put

        await node.store.commit(Put(space="mcp:session", key=session["mcp_session_id"], value=b'{"x":1}'))
        assert (await http.post(request(1, "ping"), **session)).status_code == 404


async def test_an_idle_session_takes_what_it_negotiated_with_it():
    clock = VirtualClock()
    async with running_node(clock=clock, mcp=McpSettings(idle_seconds=100)) as node, client(node) as http:
        session = await http.begin(vcp=HELLO)
        assert len(node.runtime.find(Vcp).service.sessions) == 1
        await clock.advance(90)
        assert (await http.post(request(1, "ping"), **session)).status_code == 200
        await clock.advance(90)
        assert len(node.runtime.find(Vcp).service.sessions) == 1
        await clock.advance(90)
        async with asyncio.timeout(5):
            while len(node.runtime.find(Vcp).service.sessions):  # noqa: ASYNC110 - housekeeping tells nobody
                await asyncio.sleep(0.002)
        assert (await http.post(request(2, "ping"), **session)).status_code == 404


async def test_the_settings_limit_the_sessions():
    async with running_node(mcp=McpSettings(sessions=1)) as node, client(node) as http:
        session = await http.begin()
        async with http.streaming(None, **session) as general:
            await next_event(events(general))
            refused = await http.post(initialize(vcp=HELLO))
            assert (refused.status_code, "Retry-After" in refused.headers) == (503, True)
            assert len(node.runtime.find(Vcp).service.sessions) == 0


async def test_a_session_that_makes_room_takes_what_it_negotiated_with_it():
    async with running_node(mcp=McpSettings(sessions=1)) as node, client(node) as http:
        first = await http.begin(vcp=HELLO)
        assert len(node.runtime.find(Vcp).service.sessions) == 1
        await http.begin()
        assert len(node.runtime.find(Vcp).service.sessions) == 0
        assert (await http.post(request(1, "ping"), **first)).status_code == 404


async def test_a_node_that_stops_ends_its_streams_in_order_and_waits_for_none(tmp_path):
    async with running_node(tmp_path) as node, client(node) as http:
        listen = modern("l", "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        session = await http.begin()
        async with (
            http.streaming(listen, **repeated(listen)) as subscription,
            http.streaming(None, **session) as general,
        ):
            heard, result = events(subscription), events(general)
            await next_event(heard)
            await next_event(result)
            began = time.monotonic()
            await node.stop()
            assert time.monotonic() - began < node.settings.http.shutdown_seconds / 2
            assert (await next_event(heard)).message["result"]["resultType"] == "complete"
            with pytest.raises(StopAsyncIteration):
                await next_event(result)


async def test_a_hello_that_cannot_be_accepted_leaves_mcp_as_it_is(node):
    async with client(node) as http:
        for hello in (
            {"type": "vcp-hello", "version": "3.1", "extensions": 5},
            5,
            [],
            "hi",
            {},
            {"type": "x" * 70_000},
        ):
            result = (await http.post(initialize(vcp=hello))).json()["result"]
            assert result["vcp"]["type"] == "vcp-error", hello
            assert result["protocolVersion"] == "2025-11-25"
            message = modern(1, "tools/list", **{"space.creed/vcp-hello": hello})
            listed = (await http.post(message, **repeated(message))).json()["result"]
            assert listed["_meta"]["space.creed.vcp/ack"]["type"] == "vcp-error"
            assert listed["tools"]
        assert len(node.runtime.find(Vcp).service.sessions) == 0


async def test_tools_of_every_room_are_listed_once_and_looking_changes_nothing(node):
    async with client(node) as http:
        session = await http.begin()
        async with http.streaming(None, **session) as general:
            coming = events(general)
            await next_event(coming)
            lists = [(await http.post(request(n, "tools/list"), **session)).json() for n in (1, 2)]
            node.runtime.find(Mcp).node_mcp.changes.list_changed("prompts")
            assert (await next_event(coming)).message["method"] == "notifications/prompts/list_changed"
        names = [tool["name"] for tool in lists[0]["result"]["tools"]]
        assert json.dumps(lists[0]["result"]) == json.dumps(lists[1]["result"])
        assert len(names) == len(set(names))
        assert {"vcp_status", "vacant_call", "vacant_describe"} <= set(names)


async def test_a_stream_is_taken_up_after_a_restart_or_the_client_is_told_that_its_call_is_lost(tmp_path):
    data = tmp_path / "data"
    async with running_node(data) as node, client(node) as http:
        session = await http.begin()
        asked = request(1, "resources/subscribe", {"uri": "vcp://capabilities"})
        assert (await http.post(asked, **session)).json()["result"] == {}
        async with http.streaming(None, **session) as stream:
            last = (await next_event(events(stream))).id
        lost = node.runtime.find(Mcp)._sessions._live[session["mcp_session_id"]].new_stream().name
    async with running_node(data) as node, client(node) as http:
        for again in (last, last.replace(".0", ".7")):
            async with http.streaming(None, last_event_id=again, **session) as stream:
                assert stream.status_code == 200
                coming = events(stream)
                await next_event(coming)
                result = [(await next_event(coming)).message for _ in range(4)]
            assert [one["method"].partition("/")[2] for one in result] == [
                "tools/list_changed",
                "resources/list_changed",
                "prompts/list_changed",
                "resources/updated",
            ]
        gone = await http.send("GET", accept="text/event-stream", last_event_id=f"{lost}.1", **session)
        assert gone.status_code == 410
        assert "the node was restarted since" in gone.json()["error"]["message"]
        assert (await http.post(request(2, "ping"), **session)).json()["result"] == {}


async def test_a_subscription_to_an_address_that_is_not_there_is_refused(node):
    async with client(node) as http:
        session = await http.begin()
        for uri in ("vcp://nonsense", "vcp://nonsense/1", "vcp://bundle/ses_of_somebody", "vcp://torch/1"):
            answer = await http.post(request(1, "resources/subscribe", {"uri": uri}), **session)
            assert answer.json()["error"]["code"] == -32002
        message = modern(
            2, "subscriptions/listen", {"notifications": {"resourceSubscriptions": ["vcp://nonsense"]}}
        )
        async with http.streaming(message, **repeated(message)) as stream:
            result = (await next_event(events(stream))).message
        assert result["params"]["notifications"] == {}


async def test_the_tools_of_a_room_fit_into_25000_characters(node):
    async with client(node) as http:
        session = await http.begin()
        listed = (await http.post(request(1, "tools/list"), **session)).json()["result"]["tools"]
    view = node.runtime.find(Mcp).node_mcp.catalog.view(Selection(), frozenset())
    sizes = Counter()
    for tool in listed:
        sizes[view.tools[tool["name"]].group] += len(json.dumps(tool, ensure_ascii=False))
    assert max(sizes.values()) < 25_000, sizes


async def test_the_key_of_the_vault_taken_away_ends_a_vcp_session_over_mcp_and_only_that(tmp_path):
    async with running_node(tmp_path / "data") as node, client(node) as http:
        session = await http.begin(vcp=HELLO)
        result = (await http.post(call(1, "vcp_status"), **session)).json()["result"]["structuredContent"]
        assert (result["negotiated"], result["session_ended"]) == (True, None)
        async with http.streaming(None, **session) as stream:
            (node.settings.data / "vault.key").unlink()
            coming = events(stream)
            heard = []
            while len(heard) < 2:
                event = await next_event(coming)
                heard += [event.message["method"]] if event.data else []
        assert heard == ["notifications/tools/list_changed", "notifications/resources/list_changed"]
        result = (await http.post(call(2, "vcp_status"), **session)).json()["result"]["structuredContent"]
        assert (result["negotiated"], result["active_extensions"], result["session_id"]) == (False, [], None)
        assert "lost encryption" in result["session_ended"]
        again = (await http.post(initialize(vcp=HELLO))).json()["result"]["vcp"]
        assert again["core_features"]["encryption"] is False


async def test_the_versions_of_the_settings_are_announced():
    async with running_node(vcp=VcpSettings(versions=("3.0", "2.0"))) as node, client(node) as http:
        message = modern(1, "server/discover")
        result = (await http.post(message, **repeated(message))).json()["result"]
        assert result["capabilities"]["extensions"]["space.creed/vcp"]["versions"] == ["2.0", "3.0"]


async def announced(**settings):
    async with running_node(**settings) as node, client(node) as http:
        message = modern(1, "server/discover")
        result = (await http.post(message, **repeated(message))).json()["result"]
        return result["capabilities"]["extensions"]["space.creed/vcp"]["extensions"]


async def test_the_extensions_that_are_served_are_announced():
    every = ["Personal", "Relational", "Consensus", "Torch", "Intent"]
    assert await announced() == [f"VCP-X-{name}" for name in every]
    assert await announced(off=("deliberations",)) == [
        f"VCP-X-{name}" for name in every if name != "Consensus"
    ]
    assert await announced(off=("extensions",)) == []


@pytest.mark.parametrize("hello", ["hello", "", ["vcp-hello"], 7])
async def test_a_hello_that_is_no_object_is_answered_with_an_error_and_mcp_goes_on(hello):
    async with running_node() as node, client(node) as http:
        result = (await http.post(initialize(vcp=hello))).json()["result"]
        assert result["vcp"]["type"] == "vcp-error"
        assert result["serverInfo"]
