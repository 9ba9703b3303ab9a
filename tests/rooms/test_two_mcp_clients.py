"""Two strangers with the official MCP client, connected by nothing but one invite line."""

import asyncio
import contextlib
import json
import os
import sys

import httpx
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from comity.mcp.protocol.fence import NOT_FROM_USER, read_fence
from comity.testing import bearer, running_node

PATIENCE = 60


@contextlib.asynccontextmanager
async def client(data, folder, profile):
    """`comity mcp` with the flags of a secure preset, each with a secret of its own."""
    folder.mkdir()
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "comity", "mcp", "--tool-profile", profile, "--enforce-join-token", "true"],
        env={
            "PATH": os.environ["PATH"],
            "COMITY_DATA": str(data),
            "VDON_MCP_JOIN_TOKEN_SECRET": f"secret of {folder.name}",
            "VDON_MCP_REQUIRE_SESSION_MAC": "true",
        },
        cwd=folder,
    )
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        yield session


async def call(session, name, **arguments):
    result = await session.call_tool(name, arguments)
    payload = result.structured_content
    assert not result.is_error, payload
    return payload


async def event(session, session_id, kind, **members):
    while True:
        outcome = await call(session, "vdo_receive", session_id=session_id, wait_ms=5000, max_events=500)
        for one in outcome["events"]:
            if one["type"] == kind and members.items() <= one.items():
                return {**one, "fenced": outcome.get("fenced")}


@pytest.mark.parametrize("joined", [True, False], ids=["of a node", "by itself"])
async def test_one_line_connects_them(tmp_path, joined):
    async with asyncio.timeout(PATIENCE), running_node(tmp_path / "anna") as node:
        async with httpx.AsyncClient(headers=bearer(node)) as owner:
            rooms = f"{node.url}/v1/rooms"
            outcome = await owner.post(
                rooms, json={"tool": "invite", "arguments": {"room": "lab", "uses": 2}}
            )
            if not joined:  # who invites has to be there to let them in
                body = {"tool": "vdo_connect", "arguments": {"room": "lab", "stream_id": "host"}}
                assert (await owner.post(rooms, json=body)).status_code == 200
        line = outcome.json()["invite"]
        data = node.settings.data if joined else tmp_path / "alone"
        async with (
            client(data, tmp_path / "left", "full") as left,
            client(tmp_path / "bert", tmp_path / "right", "extended") as right,
        ):
            here = (await call(left, "vdo_connect", room=line, stream_id="anna"))["session_id"]
            there = (await call(right, "vdo_connect", room=line, stream_id="bert"))["session_id"]
            await event(left, here, "sync_peer_updated", stream_id="bert")
            await event(right, there, "sync_peer_updated", stream_id="anna")
            waiting = asyncio.create_task(event(right, there, "data_received"))
            assert (await call(left, "vdo_send", session_id=here, data={"n": 1}))["ok"]
            message = await waiting
            assert message["data"] == {"n": 1}
            assert json.loads(read_fence(message["fenced"])) == {"n": 1}
            assert NOT_FROM_USER in message["fenced"]
            assert f'From: "anna", id "{message["vacant_id"]}"\nVerified: yes' in message["fenced"]
            assert f'Delivery: "{message["message_id"]}"' in message["fenced"]
            (tmp_path / "left" / "doc.txt").write_text("the document")
            sent = await call(left, "vdo_file_send_path", session_id=here, file_path="doc.txt", target="bert")
            saved = await call(
                right,
                "vdo_file_save",
                session_id=there,
                transfer_id=sent["transfer"]["transfer_id"],
                output_path="got/doc.txt",
            )
            assert saved["bytes_written"] == 12
            assert (tmp_path / "right" / "got" / "doc.txt").read_text() == "the document"
            listed = await right.list_tools()
            assert "vdo_request" in {tool.name for tool in listed.tools}
