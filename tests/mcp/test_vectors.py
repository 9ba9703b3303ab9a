"""The recorded conversations of the peers' contract and the MCP messages of the two VCP documents, against the real
program: `comity mcp` as a process, a node over HTTP.
"""

import json
import os
import subprocess
import sys

import httpx

from comity.testing.nodes import bearer, running_node
from comity.testing.vectors import format_runner, known_keys
from comity.wire.frames import FrameDecoder

SECONDS = 30.0


def comity_mcp(data, stdin, *arguments):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VDON_")}
    return subprocess.run(
        [sys.executable, "-m", "comity", "mcp", *arguments, "--data", str(data)],
        input=stdin,
        capture_output=True,
        timeout=SECONDS,
        check=False,
        env=environment,
    )


def answers(output):
    decoder = FrameDecoder(1 << 24)
    events = decoder.feed(output)
    assert decoder.end() == []
    return [("framed" if event.framed else "line", json.loads(event.body)) for event in events]


@format_runner("peers", "stdio_framing_cases", takes=lambda case: case["needs"] != "wire")
def test_vector_peers_stdio_server_answers_as_recorded(case, tmp_path):
    known_keys(case, "args", "stdin", "stdout", "stderr", "rc", "judge", "expect", "needs")
    ended = comity_mcp(tmp_path / "data", case["stdin"].encode(), *case.get("args", []))
    expected = case["expect"]
    if case["judge"] == "refused":
        assert expected["rc"] == "not 0"
        assert ended.returncode != 0
        assert expected["stderr_names"] in ended.stderr.decode()
        assert ended.stdout == b""
        return
    assert ended.returncode == 0
    result = answers(ended.stdout)
    assert len(result) == len(expected)
    for (framing, sent), wanted in zip(result, expected, strict=True):
        assert wanted["framing"] in {framing, "any"}
        assert (sent["id"], sent.get("error", {"code": 0})["code"]) == (wanted["id"], wanted["code"])


@format_runner("peers", "http_cases")
async def test_vector_peers_http_status_is_as_judged(case):
    if case["judge"] == "informative":
        return
    assert case["judge"] in {"status", "ours"}
    expected = case["status"] if case["judge"] == "status" else case["expect_status"]
    async with running_node() as node, httpx.AsyncClient(base_url=node.url) as client:
        request = case.get("request") or oversize(node)
        headers = {"Content-Type": "application/json"}
        if request["authorization"] == "Bearer tok":
            headers |= bearer(node)
        elif request["authorization"]:
            headers["Authorization"] = request["authorization"]
        answer = await client.request(
            request["method"], request["path"], headers=headers, content=request["body"]
        )
    assert answer.status_code == expected


def oversize(node):
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"%s"}}' % (
        b"y" * node.settings.http.body_limit
    )
    return {"method": "POST", "path": "/mcp", "body": body, "authorization": "Bearer tok"}


def each_message(content):
    for document, messages in content.items():
        for name, message in messages.items():
            yield f"{document}.{name}", {"name": name, "message": message, "beside": messages}


@format_runner("vcp", "seed_messages", cases=each_message, takes=lambda case: case["name"].startswith("mcp_"))
def test_vector_vcp_initialize_of_the_documents_is_answered_in_its_place(case, tmp_path):
    initialize, path = case["beside"]["mcp_initialize"], case["beside"]["mcp_ack_path"]
    ended = comity_mcp(tmp_path / "data", json.dumps(initialize).encode() + b"\n")
    assert ended.returncode == 0
    ((_, found),) = answers(ended.stdout)
    for step in path:
        found = found[step]
    assert found["type"] == "vcp-ack"
    asked = initialize["params"].get("vcp") or initialize["params"]["initializationOptions"]["vcp"]
    assert {*found["supported"], *found["unsupported"]} == {*asked["extensions"]}


def scenarios(content):
    """Each stands for itself; the keys are those that a request may carry."""
    for case in content["cases"]:
        yield case["id"], {**case, "keys": content["keys"]}


@format_runner("vcp", "stateless_mcp", cases=scenarios)
async def test_vector_vcp_stateless_requests_stand_alone(case):
    """VEP-0005: no session is needed before, and nothing of one request is known in the next."""
    known_keys(case, "id", "keys", "requires_prior_session", "second_request_vcp")
    assert {"space.creed.vcp/capabilities", "space.creed.vcp/ack"} <= {*case["keys"]}
    hello = {"type": "vcp-hello", "version": "3.1", "extensions": []}
    async with running_node() as node, httpx.AsyncClient(base_url=node.url, headers=bearer(node)) as client:
        first = await modern(client, "vcp_status", {"space.creed.vcp/capabilities": hello})
        second = await modern(client, "vcp_status", {})
    if case["id"] == "mcp-no-handshake":
        assert case["requires_prior_session"] is False
        assert first["result"]["structuredContent"]["negotiated"] is True
    else:
        assert case["id"] == "mcp-request-meta"
        assert case["second_request_vcp"] is None
        assert first["result"]["_meta"]["space.creed.vcp/ack"]["type"] == "vcp-ack"
        assert "space.creed.vcp/ack" not in second["result"]["_meta"]
        assert second["result"]["structuredContent"]["negotiated"] is False


async def modern(client, tool, meta):
    version = "2026-07-28"
    params = {
        "name": tool,
        "arguments": {},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
            **meta,
        },
    }
    answer = await client.post(
        "/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
        headers={
            "MCP-Protocol-Version": version,
            "Mcp-Method": "tools/call",
            "Mcp-Name": tool,
            "Accept": "application/json, text/event-stream",
        },
    )
    assert answer.status_code == 200
    return answer.json()
