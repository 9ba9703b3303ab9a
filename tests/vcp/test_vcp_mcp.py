"""The client through the `initialize` of MCP servers: our own over HTTP and stdio, and others that answer as they like."""

import json
import os
import shlex
import sys

import httpx
import pytest

from comity.identity.secrets import TOKEN_FILE, read_token
from comity.testing.nodes import running_node
from comity.testing.vectors import format_runner
from comity.vcp.client import VcpClient
from comity.vcp.client_session import VcpRefusedError
from comity.vcp.client_targets import McpTarget, read_target
from comity.vcp.protocol.mcp_places import hello_for_initialize, hello_in_initialize
from comity.vcp.protocol.messages import PERSONAL
from comity.wire.errors import NoAnswerError, TargetRefusedError, UnreachableError
from tests.vcp.protocol.known_answers import seed_messages
from tests.vcp.protocol.negotiation_samples import WIRE

pytestmark = pytest.mark.usefixtures("patience")

ACK = {
    "type": "vcp-ack",
    "version": "3.1",
    "supported": [],
    "unsupported": [],
    "capabilities": {},
    "core_features": {"encryption": True},
}
SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") != "initialize":
        continue
    print("this is no message", flush=True)
    print(json.dumps({"jsonrpc": "2.0", "id": "p", "method": "ping"}), flush=True)
    answer = json.loads(sys.argv[1])
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""


def answering(tmp_path, **answer):
    """The address of a server that gives this answer to `initialize`."""
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    return "mcp:" + shlex.join([sys.executable, str(script), json.dumps(answer)])


async def test_a_node_is_negotiated_with_at_its_mcp_address():
    async with running_node() as node:
        bearer = read_token(node.settings.data / TOKEN_FILE)
        for url in (f"{node.url}/mcp", f"mcp:{node.url}/mcp"):
            async with VcpClient.connect(
                url, extensions=[PERSONAL], bearer=bearer, remember=False
            ) as session:
                assert (session.version, session.extensions) == ("3.1", (PERSONAL,))
                answer = await session.send_context(
                    {"categorical": {"wire": WIRE}, "generation_preferences": {"depth": 4}}
                )
                assert answer.message["accepted"] == ["categorical", "generation_preferences"]
        with pytest.raises(VcpRefusedError, match=r"MCP_REFUSED.*401"):
            await VcpClient.connect(f"{node.url}/mcp", remember=False).__aenter__()
        with pytest.raises(VcpRefusedError, match="VERSION_UNSUPPORTED"):
            await VcpClient.connect(
                f"{node.url}/mcp", version="9.0", min_version="9.0", bearer=bearer, remember=False
            ).__aenter__()


async def test_its_session_ends_with_the_block():
    async with running_node() as node:
        bearer = read_token(node.settings.data / TOKEN_FILE)
        async with VcpClient.connect(f"{node.url}/mcp", bearer=bearer, remember=False):
            pass
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {bearer}"}) as owner:
            rows = (await owner.get(f"{node.url}/v1/status")).json()["panels"]["vcp"]["rows"]
        assert ["open sessions", "0"] in rows


async def test_a_command_is_started_and_ended(tmp_path):
    command = shlex.join([sys.executable, "-m", "comity", "mcp", "--data", str(tmp_path / "data")])
    async with VcpClient.connect(f"mcp:{command}", extensions=[PERSONAL], remember=False) as session:
        assert (session.version, session.extensions) == ("3.1", (PERSONAL,))
        answer = await session.send_context({"categorical": {"wire": WIRE}})
        assert answer.message["accepted"] == ["categorical"]


@pytest.mark.parametrize(
    "result",
    [
        {"vcp": ACK},
        {"serverInfo": {"name": "x", "version": "1", "metadata": {"vcp": ACK}}},
        {"capabilities": {"extensions": {"space.creed/vcp": {"ack": ACK}}}},
        {"_meta": {"space.creed/vcp-ack": ACK}},
        {"_meta": {"space.creed.vcp/ack": ACK}},
    ],
)
async def test_the_ack_is_read_from_every_place(tmp_path, result):
    async with VcpClient.connect(answering(tmp_path, result=result), remember=False) as session:
        assert session.core_features["encryption"] is True


async def test_a_server_without_vcp_and_one_that_refuses_are_told_apart(tmp_path):
    plain = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
    with pytest.raises(VcpRefusedError, match="NO_VCP"):
        await VcpClient.connect(answering(tmp_path, result=plain), remember=False).__aenter__()
    error = {"code": -32602, "message": "unknown member vcp"}
    with pytest.raises(VcpRefusedError, match=r"MCP_REFUSED.*unknown member vcp"):
        await VcpClient.connect(answering(tmp_path, error=error), remember=False).__aenter__()


async def test_a_busy_server_is_asked_again_with_a_new_initialize(tmp_path):
    script = tmp_path / "busy.py"
    script.write_text(
        "import json, os, sys\n"
        "asked = json.loads(sys.stdin.readline())\n"
        "seen = os.path.exists(sys.argv[1])\n"
        "open(sys.argv[1], 'w').close()\n"
        f"ack = json.loads({json.dumps(json.dumps(ACK))})\n"
        "busy = {'type': 'vcp-error', 'code': 'RATE_LIMITED', 'message': 'later', 'retry_after': 0}\n"
        "print(json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'result': {'vcp': ack if seen else busy}}), flush=True)\n"
        "sys.stdin.read()\n"
    )
    url = "mcp:" + shlex.join([sys.executable, str(script), str(tmp_path / "seen")])
    async with VcpClient.connect(url, draw=lambda: 0.0, remember=False) as session:
        assert session.version == "3.1"


async def test_a_command_that_cannot_run_or_says_nothing_is_one_sentence(tmp_path):
    with pytest.raises(UnreachableError, match="cannot be started"):
        await VcpClient.connect("mcp:/nowhere/at/all", attempts=1, remember=False).__aenter__()
    silent = shlex.join([sys.executable, "-c", "pass"])
    with pytest.raises(NoAnswerError, match="ended without an answer"):
        await VcpClient.connect(f"mcp:{silent}", attempts=1, remember=False).__aenter__()


def test_addresses_of_mcp_servers():
    assert read_target("http://127.0.0.1:8420/mcp") == McpTarget(address="http://127.0.0.1:8420/mcp")
    assert read_target("HTTPS://host.example/a/mcp/").address == "HTTPS://host.example/a/mcp/"
    assert read_target("mcp:npx 'a b'").command == ("npx", "a b")
    assert "secret" not in repr(read_target("mcp:https://host.example/x", bearer="secret"))
    for odd in ("mcp:", "mcp:'", "http://other.example/mcp", "mcp:http://other.example/"):
        with pytest.raises(TargetRefusedError):
            read_target(odd)
    for url in ("mcp:npx server", "ws://127.0.0.1:8420/vcp"):
        with pytest.raises(TargetRefusedError, match="token"):
            read_target(url, bearer="secret")
    assert read_target("http://other.example/mcp", allow_plain=True).address == "http://other.example/mcp"


def test_a_hello_of_ours_is_found_by_our_own_server():
    hello = {"type": "vcp-hello", "version": "3.1"}
    assert hello_in_initialize(hello_for_initialize(hello)) == hello


@format_runner(
    "vcp", "seed_messages", cases=seed_messages, takes=lambda case: case["name"] == "mcp_initialize_result"
)
async def test_vector_vcp_the_recorded_result_of_initialize_is_a_session(case, tmp_path):
    result = case["message"]["result"]
    extensions = result["vcp"]["supported"]
    async with VcpClient.connect(
        answering(tmp_path, result=result), extensions=extensions, remember=False
    ) as session:
        assert list(session.extensions) == extensions
        assert session.core_features["encryption"] is True
        assert session.core_features["revocation"] is False


@pytest.fixture(autouse=True)
def our_sources(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
