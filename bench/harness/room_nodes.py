"""Nodes whose rooms are used through their tools, as an MCP client uses them: one here, one in another process.

The node of the other process answers each message with the same data. Everything is kept as a node keeps it by
default: in SQLite, on a disk.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from bench.harness.loops import new_loop
from comity.node.commands.up import SWITCH_SECONDS
from comity.node.node import Node
from comity.requests.caller import OWN_PROCESS
from comity.rooms.part import Peers, PeersSettings
from comity.rooms.protocol.tool_table import Demands
from comity.rooms.tool_handlers import RoomTools, ToolContext
from comity.runtime.settings import Settings

PATIENCE = 60.0
WAIT_MS = 10_000
_OTHER = "import sys; from bench.harness.room_nodes import main; main(*sys.argv[1:])"


class Member:
    """One client of one node in one room."""

    def __init__(self, tools: RoomTools, folder: Path) -> None:
        self._tools = tools
        self._context = ToolContext(
            client="bench",
            caller=OWN_PROCESS,
            demands=Demands(),
            profile="extended",
            folder=str(folder),
            typed=True,
        )
        self._session = ""

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self._tools.call(tool, {"session_id": self._session, **arguments}, self._context)

    async def join(self, room: str, name: str) -> None:
        arguments = {"room": room, "stream_id": name}
        self._session = (await self._tools.call("vdo_connect", arguments, self._context))["session_id"]

    async def wait_peer(self) -> None:
        room = self._tools.rooms.find(self._session, Demands())
        async with asyncio.timeout(PATIENCE):
            while not any(
                peer["handshake_state"] == "ready" and peer["connected"]
                for peer in (await self.call("vdo_sync_peers"))["peers"]
            ):
                await room.wait_change(1.0)

    async def messages(self) -> list[Any]:
        """What arrived; it waits for at least one."""
        async with asyncio.timeout(PATIENCE):
            while True:
                events = (await self.call("vdo_receive", wait_ms=WAIT_MS))["events"]
                found = [event["data"] for event in events if event["type"] == "data_received"]
                if found:
                    return found

    async def send_file(self, file: Path) -> None:
        """Until the other side has confirmed what it has."""
        sent = await self.call("vdo_file_send_path", file_path=str(file), timeout_ms=int(PATIENCE * 1000))
        if sent["transfer"]["status"] != "completed":
            raise RuntimeError(f"the transfer is {sent['transfer']['status']}")

    async def go_and_return(self) -> None:
        await self.call("vdo_send", data="x" * 32, target="there")
        if await self.messages() != ["x" * 32]:
            raise RuntimeError("the other side answered something else")


@contextlib.asynccontextmanager
async def node_of(kind: str, data: Path) -> AsyncIterator[Node]:
    """`kind` is the link: websocket, wrtc or aiortc. The process shares its time between threads as that of a node does."""
    if kind == "websocket":
        peers = PeersSettings(same_host=True)
    else:
        peers = PeersSettings(same_host=False, webrtc="wrtc" if kind == "wrtc" else "aiortc")
    node = Node(Settings(data=data, port=0, log_level="error", parts={"peers": peers}))
    await node.start()
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield node
    finally:
        sys.setswitchinterval(before)
        await node.stop()


@contextlib.asynccontextmanager
async def joined_member(kind: str, folder: Path) -> AsyncIterator[tuple[Member, int]]:
    """Our end, and the process that has the other one."""
    async with node_of(kind, folder / "here") as node:
        part = node.runtime.find(Peers)
        member = Member(await part.open_tools(), folder)
        line = (await part.invite({"room": "bench"}))["invite"]
        command = [sys.executable, "-c", _OTHER, kind, str(folder / "there"), line]
        process = await asyncio.to_thread(lambda: subprocess.Popen(command, stdout=subprocess.PIPE))
        try:
            await member.join("bench", "here")
            assert process.stdout is not None
            told = await asyncio.to_thread(process.stdout.readline)
            if json.loads(told or b"null") != "joined":
                raise RuntimeError("the other node did not join the room")
            await member.wait_peer()
            yield member, process.pid
        finally:
            process.kill()
            process.communicate()


async def _other(kind: str, data: Path, line: str) -> None:
    async with node_of(kind, data) as node:
        member = Member(await node.runtime.find(Peers).open_tools(), data)
        await member.join(line, "there")
        await member.wait_peer()
        print(json.dumps("joined"), flush=True)
        while True:
            with contextlib.suppress(TimeoutError):
                for value in await member.messages():
                    await member.call("vdo_send", data=value, target="here")


def main(kind: str, data: str, line: str) -> None:
    new_loop().run_until_complete(_other(kind, Path(data), line))
