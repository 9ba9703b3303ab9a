"""The recorded calls of the reference, answered in shape by the real tools of two nodes, through MCP."""

import asyncio
import json
from pathlib import Path

import pytest

from comity.mcp.protocol.catalog import Selection
from comity.node.mcp_server import Mcp
from comity.rooms.protocol.events import EVENT_MEMBERS
from comity.rooms.protocol.tool_table import Demands
from comity.testing.vectors import vector_file
from tests.rooms.protocol.test_vectors import all_calls, same_shape
from tests.rooms.scene import rooms_node

READY = ("vdo_sync_peers", 6)
"""From here on the two sides of the record are connected."""


class McpClient:
    """A client on a stream of a node, line by line."""

    def __init__(self, node, folder):
        self.waiting = {}
        self.notified = []
        selection = Selection(None, "full", Demands(), str(folder))
        self.stream = node.runtime.find(Mcp).node_mcp.open_stream(selection, 1 << 20, self._heard)
        self._count = 0

    def _heard(self, data):
        for line in data.splitlines():
            message = json.loads(line)
            if "id" in message:
                self.waiting.pop(message["id"]).set_result(message)
            else:
                self.notified.append(message)

    async def call(self, name, arguments, **more):
        return await self.ask("tools/call", name=name, arguments=arguments, **more)

    async def ask(self, method, **params):
        self._count += 1
        answer = self.waiting[self._count] = asyncio.get_running_loop().create_future()
        request = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}
        self.stream.receive(json.dumps(request).encode() + b"\n")
        async with asyncio.timeout(60):
            return await answer


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    return asyncio.run(replayed(tmp_path_factory.mktemp("work")))


async def replayed(folder):
    async with rooms_node() as left, rooms_node() as right:
        clients = {"a": McpClient(left, folder), "b": McpClient(right, folder)}
        relay = left.url.replace("http", "ws", 1) + "/signal"
        ids, outcome = {}, {}
        for _, side, number, params, recorded in all_calls():
            arguments = fitted(params["arguments"], ids, relay, folder)
            if (params["name"], number) == READY:
                await connected(clients[side], arguments)
            answer = await clients[side].call(params["name"], arguments)
            outcome[side, number] = answer
            if params["name"] == "vdo_connect" and not recorded["isError"]:
                ids[recorded["structuredContent"]["session_id"]] = answer["result"]["structuredContent"][
                    "session_id"
                ]
        for client in clients.values():
            await client.stream.close()
        return outcome


def fitted(given, ids, relay, folder):
    """The same call here: with our session, our relay and a folder that is allowed."""
    arguments = json.loads(json.dumps(given))
    if arguments.get("session_id") in ids:
        arguments["session_id"] = ids[arguments["session_id"]]
    if isinstance(arguments.get("host"), str):
        arguments["host"] = relay
    for name in ("output_path", "file_path"):
        if name in arguments:
            arguments[name] = str(folder / Path(arguments[name]).name)
    return arguments


async def connected(client, arguments):
    async with asyncio.timeout(30):
        while True:
            found = (await client.call("vdo_sync_peers", arguments))["result"]["structuredContent"]
            if any(peer["handshake_state"] == "ready" for peer in found["peers"]):
                return
            await asyncio.sleep(0.05)


CASES = [
    (side, number, params, recorded)
    for _, side, number, params, recorded in (all_calls() if vector_file("peers", "mcp_stdio_a") else ())
]


@pytest.mark.parametrize(
    ("side", "number", "params", "recorded"),
    [pytest.param(*case, id=f"{case[0]}{case[1]}-{case[2]['name']}") for case in CASES],
)
def test_a_recorded_call_is_answered_in_shape(side, number, params, recorded, answers):
    answer = answers[side, number]
    if not params["name"].startswith("vdo_"):
        assert answer["error"]["code"] == -32602  # ruling 27
        return
    result, theirs = answer["result"], recorded["structuredContent"]
    ours = result["structuredContent"]
    assert result["isError"] is recorded["isError"]
    assert json.loads(result["content"][0]["text"]) == ours
    if recorded["isError"]:
        assert ours["error"]["type"] == theirs["error"]["type"]
        assert words(ours["error"]["message"]) == words(theirs["error"]["message"])
        assert ours["error"]["tool"] == params["name"]
        return
    assert ours["ok"] is theirs["ok"]
    for added in ("fenced", "notice", "reason", "status"):
        if added not in theirs:
            ours.pop(added, None)
    for peer in ours.get("sync_peers", ours.get("peers", ())):
        if isinstance(peer, dict):
            peer["capabilities"].pop("comity_v1", None)  # ours, as in ruling 64
    if params["name"] == "vdo_receive" and ours["events"]:
        ours.pop("fenced", None)  # ours: the words of peers once more, in a block that says whose they are
    same_shape(ours, theirs)
    for event in ours.get("events", ()):
        allowed = ["type", "ts", *EVENT_MEMBERS[event["type"]]]
        assert [name for name in event if name in allowed] == [name for name in allowed if name in event]


def words(message):
    """Without the folder of a path, which is another one here."""
    return " ".join(Path(word.strip("'")).name if "/" in word else word for word in message.split())


def test_what_was_said_arrived_on_both_sides(answers):
    events = [
        event
        for answer in answers.values()
        for event in answer.get("result", {}).get("structuredContent", {}).get("events", ())
    ]
    data = [event["data"] for event in events if event["type"] == "data_received"]
    for value in ("plain string", [1, 2, {"x": None}], 0, False, "", None, {"type": "request", "x": 1}):
        assert value in data
