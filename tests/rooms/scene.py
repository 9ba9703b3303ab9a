"""Nodes with rooms, and clients that call the `vdo_*` tools of a node as MCP and the command line do."""

import asyncio
import contextlib

import pytest

from comity.requests.caller import OWN_PROCESS
from comity.rooms.part import Peers, PeersSettings
from comity.rooms.protocol.tool_arguments import VdoToolError
from comity.rooms.protocol.tool_table import TOOLS, Demands
from comity.rooms.tool_handlers import ToolContext
from comity.testing import running_node

PATIENCE = 30


class Client:
    """One connection to a node: its own cursor, demands and folder."""

    def __init__(self, node, name="client", **more):
        self.node = node
        self.context = ToolContext(
            client=name,
            caller=more.pop("caller", OWN_PROCESS),
            demands=more.pop("demands", Demands()),
            profile=more.pop("profile", "extended"),
            **more,
        )
        self.session_id = None

    @property
    def part(self):
        return self.node.runtime.find(Peers)

    async def call(self, tool, **arguments):
        if self.session_id is not None and TOOLS[tool].in_session:
            arguments = {"session_id": self.session_id, **arguments}
        return await (await self.part.open_tools()).call(tool, arguments, self.context)

    async def by_owner(self, tool, **arguments):
        asked = arguments if tool == "join" else {"session_id": self.session_id, **arguments}
        tools = await self.part.open_tools()
        return await tools.call_by_owner(
            tool, asked, client=self.context.client, caller=self.context.caller, folder=None
        )

    async def peek(self, **arguments):
        """Messages of others with their places; none of them is taken."""
        answer = await self.by_owner("peek", only_messages=True, **arguments)
        return list(zip(answer["places"], answer["events"], strict=True))

    async def acknowledge(self, place):
        return (await self.by_owner("acknowledge", through=place))["acknowledged"]

    async def join(self, room, **arguments):
        answer = await self.call("vdo_connect", room=room, **arguments)
        self.session_id = answer["session_id"]
        return answer

    async def live(self):
        return (await self.part.open_tools()).rooms.find(self.session_id, Demands())

    async def events(self, kind, count=1):
        """So many events of a kind; those before them are read as well."""
        found = []
        async with asyncio.timeout(PATIENCE):
            while len(found) < count:
                answer = await self.call("vdo_receive", wait_ms=1000)
                found += [event for event in answer["events"] if event["type"] == kind]
        return found

    async def wait_peer(self, name=None):
        async with asyncio.timeout(PATIENCE):
            while True:
                for peer in (await self.call("vdo_sync_peers"))["peers"]:
                    if (
                        peer["handshake_state"] == "ready"
                        and peer["connected"]
                        and name in (None, peer["stream_id"])
                    ):
                        return peer
                await (await self.live()).wait_change(1.0)


@contextlib.asynccontextmanager
async def rooms_node(data=None, **peers):
    async with running_node(data, parts={"peers": PeersSettings(**peers)}) as node:
        yield node


async def meet(left, right, **arguments):
    """Two clients of two nodes in one room, by an invite of the first."""
    line = (await left.part.invite({"room": "lab"}))["invite"]
    await left.join("lab", stream_id="anna", **arguments)
    await right.join(line, stream_id="bert", **arguments)
    await left.wait_peer("bert")
    await right.wait_peer("anna")
    return line


async def refusal(call):
    with pytest.raises(VdoToolError) as refused:
        await call
    return refused.value.message
