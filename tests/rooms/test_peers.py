"""The part of the peers: the relay of every node, what is loaded when, what an operator is told."""

import json
import subprocess
import sys

import httpx
import pytest
from websockets.asyncio.client import connect

from comity.rooms.part import Peers, PeersSettings, check_relay, check_webrtc
from comity.runtime.settings import Settings
from comity.testing import bearer, running_node
from tests.rooms.scene import Client


async def test_every_node_is_a_relay_and_counts_its_peers():
    async with running_node() as node:
        async with connect(node.url.replace("http", "ws", 1) + "/signal", proxy=None) as socket:
            await socket.send(json.dumps({"request": "joinroom", "roomid": "lab"}))
            assert json.loads(await socket.recv())["request"] == "listing"
            async with httpx.AsyncClient(headers=bearer(node)) as owner:
                figures = (await owner.get(f"{node.url}/metrics")).text
        assert "comity_relay_peers 1.0" in figures
        assert "comity_room_sessions 0.0" in figures


async def test_rooms_are_served_to_strangers_only_where_this_node_is_in_or_has_invited_to():
    async with running_node() as node:
        part = node.runtime.find(Peers)
        assert not part._serves("anything")
        await part.invite({"room": "lab"})
        await Client(node).join("hall")
        rooms = (await part.open_tools()).rooms
        assert rooms.serves("anything") is False
        ids = {hosted.room_id for hosted, _ in rooms.hosting.open_invites()}
        from comity.rooms.sessions import room_id_of

        ids |= {room_id_of(room.session.options) for room in rooms}
        assert len(ids) == 2
        assert all(map(part._serves, ids))


async def test_the_command_line_gets_refusals_as_sentences():
    async with running_node() as node, httpx.AsyncClient(headers=bearer(node)) as owner:
        for body, words in (
            ({"tool": "vdo_status", "arguments": {"session_id": "x"}}, "unknown session_id: x"),
            ({"tool": "nothing"}, "unknown tool: nothing"),
            ({"tool": "vdo_send", "arguments": {"bad": 1}}, "unsupported fields: bad"),
            ({"tool": "invite", "arguments": {"room": "__"}}, "needs a name"),
            ({"tool": "invite", "arguments": {"room": "x", "seconds": -1}}, "an invite is valid for"),
            ({"other": 1}, "cannot be read"),
        ):
            answer = await owner.post(f"{node.url}/v1/rooms", json=body)
            assert answer.status_code == 400
            assert words in answer.json()["detail"]
        async with httpx.AsyncClient() as stranger:
            assert (await stranger.post(f"{node.url}/v1/rooms", json={})).status_code == 401


NOT_YET = (
    "aiortc",
    "webrtc",
    "comity.rooms.links.webrtc",
    "comity.rooms.links.websocket",
    "comity.rooms.storage",
    "comity.rooms.live",
    "comity.rooms.sessions",
    "comity.rooms.tool_handlers",
)


def test_a_node_that_opens_no_room_loads_none_of_it(tmp_path):
    code = f"""
import asyncio, sys
from pathlib import Path
from comity.runtime.settings import Settings
from comity.node.node import Node
async def run():
    node = Node(Settings(data=Path({str(tmp_path)!r}), port=0, environment="test"))
    await node.start()
    await node.stop()
asyncio.run(run())
print([name for name in {NOT_YET} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_doctor_names_the_command_that_adds_the_missing_library(monkeypatch):
    assert check_webrtc().mark == "ok"
    monkeypatch.setattr("comity.rooms.links.webrtc.available_libraries", tuple)
    missing = check_webrtc()
    assert missing.mark == "warn"
    assert missing.remedy.startswith("run: ")
    assert sys.executable in missing.remedy


def test_the_doctor_says_who_can_use_the_relay(tmp_path):
    own = check_relay(Settings(data=tmp_path))
    assert "this machine only" in own.finding
    named = Settings(data=tmp_path, parts={"peers": PeersSettings(relay="wss://r.example/signal?token=x")})
    assert check_relay(named).finding == "wss://r.example/signal"


@pytest.mark.parametrize("profile", ["core", "file", "state", "full", "extended"])
async def test_a_profile_lists_exactly_its_tools(profile):
    from comity.mcp.protocol.catalog import Selection
    from comity.node.mcp_server import Mcp
    from comity.rooms.protocol.tool_table import TOOLS_OF

    async with running_node() as node:
        catalog = node.runtime.find(Mcp).node_mcp.catalog
        view = catalog.view(Selection(frozenset({"vdo"}), profile), frozenset())
        names = [name for name in view.tools if name.startswith("vdo_")]
        assert names == list(TOOLS_OF[profile])
        assert ("signed" in view.tools["vdo_send"].input_schema["properties"]) is (profile == "extended")
