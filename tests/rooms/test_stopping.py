"""SIGTERM while much is under way: everybody sees an end in order, and what can go on goes on after the next start."""

import asyncio
import contextlib
import json
import subprocess
import sys

from tests.mcp.conversing import modern
from tests.mcp.http_talk import Http, repeated
from tests.rooms.processes import DEADLINE, meet, two_nodes, wait_for
from tests.rooms.test_node_processes import MIB, made, sha256

STREAMS = 50
PATIENT = 600
"""Seconds that the node may wait for open requests: it must not need them."""
TASKS = "io.modelcontextprotocol/tasks"


class Stream:
    """One page that reads the events, until the node ends it."""

    @classmethod
    async def open(cls, node):
        self = cls()
        host, _, port = node.url.removeprefix("http://").partition(":")
        self.reader, self.writer = await asyncio.open_connection(host, int(port))
        token = node.bearer
        self.writer.write(
            f"GET /v1/events HTTP/1.1\r\nhost: {host}\r\nauthorization: {token}\r\n\r\n".encode()
        )
        assert b"200" in await self.reader.readuntil(b"retry: 1000")
        return self

    async def rest(self):
        said = await self.reader.read()
        self.writer.close()
        return said


@contextlib.asynccontextmanager
async def silent_agent():
    """Something that takes calls and never answers."""
    called = asyncio.Event()

    async def take(reader, writer):
        called.set()
        await reader.read()  # until the caller gives up
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", called
    server.close()


async def ask(node, method, **params):
    message = modern(1, method, params, {"extensions": {TASKS: {}}})
    async with Http(f"{node.url}/mcp", authorization=node.bearer) as client:
        return (await client.post(message, **repeated(message))).json()["result"]


def results_of(data):
    """What the audit says of each act; the command fails where the chain does not verify."""
    for command in ("verify", "tail"):
        more = ["-n", "1000", "--chain", "main", "--json"] if command == "tail" else []
        result = subprocess.run(
            [sys.executable, "-m", "comity", "audit", command, *more, "--data", str(data)],
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=True,
        ).stdout
    return [json.loads(line)["verification_result"] for line in result.splitlines()]


async def test_with_streams_a_transfer_and_a_task_a_node_ends_in_order_and_goes_on_after_the_next_start(
    tmp_path,
):
    total = 48 * MIB
    settings = {"peers_same_host": "false", "http_shutdown_seconds": PATIENT}
    with two_nodes(tmp_path, **settings) as (anna, bert):
        await asyncio.to_thread(meet, anna, bert)
        source = made(tmp_path / "big.bin", total)
        async with asyncio.timeout(2 * DEADLINE), silent_agent() as (agent, called):
            streams = [await Stream.open(anna) for _ in range(STREAMS)]
            task = await ask(
                anna, "tools/call", name="call_agent", arguments={"agent": agent, "message": "hello"}
            )
            assert (task["resultType"], task["status"]) == ("task", "working")
            await called.wait()
            named = {"file_path": str(source), "timeout_ms": 1, "transfer_id": "big"}
            anna.ask("vdo_file_send_path", tmp_path, **named)
            wait_for(lambda: anna.transfer("big", "outgoing")["acked_chunks"])
            assert anna.transfer("big", "outgoing")["status"] == "transferring"

            anna.process.terminate()
            ends = await asyncio.gather(*(stream.rest() for stream in streams))
            assert await asyncio.to_thread(anna.process.wait, DEADLINE) == 0
            assert all(end.endswith(b"\r\n0\r\n\r\n") for end in ends)

            anna.stop()
            results = await asyncio.to_thread(results_of, anna.data)
            assert results.count("MCP_TASK_FAILED") == 1
            assert results[-1] == "NODE_STOPPED"

            anna.start()
            assert (await ask(anna, "tasks/get", taskId=task["taskId"]))["status"] == "failed"
            await asyncio.to_thread(anna.wait_status, "big", "outgoing", "completed")
            await asyncio.to_thread(bert.wait_status, "big", "incoming", "completed")
            saved = tmp_path / "got.bin"
            bert.ask("vdo_file_save", tmp_path, transfer_id="big", output_path=str(saved))
            assert sha256(saved) == sha256(source)
