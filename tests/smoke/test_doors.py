"""Every door once, as a stranger meets it: a node and commands in processes of their own, nothing but their wire.

`make lowest` runs these with the lowest versions that `pyproject.toml` allows, so they need pytest and no more.
"""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.ports import unused_port

COMITY = [sys.executable, "-m", "comity"]
DEADLINE = 60
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "smoke", "version": "1"},
    },
}
ACTIONS = {"id": "1", "type": "list_actions"}


class Running(NamedTuple):
    url: str
    tcp: str
    token: str
    folder: Path


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    """What a person's shell would have, with a home of its own."""
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "LANG") if name in os.environ}
    return {**kept, "HOME": str(tmp_path_factory.mktemp("home")), "COLUMNS": "100"}


@pytest.fixture(scope="module")
def node(shell, tmp_path_factory):
    folder = tmp_path_factory.mktemp("node")
    tcp = unused_port()
    config = folder / "settings.toml"
    config.write_text(f"[vcp]\ntcp_port = {tcp}\n", "utf-8")
    up = ["up", "--json", "--port", "0", "--agent", "echo", "--capability", "says everything twice"]
    with (
        (folder / "stderr").open("wb") as errors,
        subprocess.Popen(
            [*COMITY, *up, "--config", str(config), "--data", str(folder / "data")],
            env=shell,
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as process,
    ):
        try:
            line = process.stdout.readline()
            assert line, (folder / "stderr").read_text("utf-8")
            token = (folder / "data" / "token").read_text("utf-8").strip()
            yield Running(json.loads(line)["url"], f"tcp://127.0.0.1:{tcp}", token, folder / "data")
        finally:
            process.terminate()
            process.wait(DEADLINE)
    assert process.returncode == 0
    assert b"Traceback" not in (folder / "stderr").read_bytes()


@pytest.fixture
def comity(shell):
    """Run a command to its end."""

    def run(*arguments, said=""):
        ended = subprocess.run(
            [*COMITY, *map(str, arguments)],
            env=shell,
            input=said,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        assert "Traceback" not in ended.stderr
        return ended.stdout

    return run


def ask(node, path, body=None, **headers):
    given = {"Authorization": f"Bearer {node.token}", "Content-Type": "application/json", **headers}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(node.url + path, data, given)
    with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
        return answer.status, answer.read()


def test_http_is_healthy_ready_and_answers_the_owner(node):
    assert ask(node, "/healthz") == (200, b'{"ok":true}')
    assert ask(node, "/readyz")[0] == 200
    assert json.loads(ask(node, "/v1/ping", {"nonce": "n"})[1])["pong"] == "n"
    assert b"comity_build" in ask(node, "/metrics")[1]
    assert b"<html" in ask(node, "/")[1].lower()


def test_a_signed_call_is_answered_with_a_signed_reply(node, comity, tmp_path):
    for text in ("hello", "again"):
        assert text in comity("call", node.url, text, "--data", tmp_path / "caller")


def test_a_card_is_published_found_and_read(node, comity):
    comity("card", "publish", "--data", node.folder)
    assert "says everything twice" in comity(
        "search", "everything", "--directory", node.url, "--data", node.folder
    )


def test_vcp_is_spoken_over_websocket_and_tcp(node, comity, tmp_path):
    for url in (node.url, node.tcp):
        told = json.loads(comity("hello", url, "--json", "--data", tmp_path / "host"))
        assert "3.1" in json.dumps(told)


def test_mcp_is_served_over_http(node):
    accept = "application/json, text/event-stream"
    status, answer = ask(node, "/mcp", INITIALIZE, Accept=accept)
    assert status == 200
    assert b'"serverInfo"' in answer


def test_mcp_is_served_over_stdio(comity, tmp_path):
    messages = [
        INITIALIZE,
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    said = "".join(json.dumps(message) + "\n" for message in messages)
    answers = [json.loads(line) for line in comity("mcp", "--data", tmp_path / "mcp", said=said).splitlines()]
    by_id = {answer.get("id"): answer for answer in answers}
    assert by_id[1]["result"]["serverInfo"]["name"]
    assert by_id[2]["result"]["tools"]


def test_actions_are_served_in_lines_and_over_http(node, comity):
    (line,) = comity("actions", said=json.dumps(ACTIONS) + "\n").splitlines()
    assert json.loads(line)["ok"]
    page = "<html><style>p { color: #999 }</style><p>text</p><img src=x></html>"
    given = json.dumps({"pages": [{"url": "https://page.example/", "html": page}]})
    assert "1.1.1" in comity("actions", "run", "accessibility_audit", "--input", given, "--json")
    assert b"accessibility_audit" in ask(node, "/v1/actions")[1]


@pytest.mark.parametrize(
    "command",
    ["up", "state", "doctor", "mcp", "call", "search", "hello", "card", "actions", "id", "chain", "audit"],
)
def test_every_command_explains_itself(command, comity):
    assert f"Usage: comity {command}" in comity(command, "--help")


def test_what_was_recorded_verifies(node, comity, tmp_path):
    comity("call", node.url, "for the record", "--data", tmp_path / "caller")
    assert comity("audit", "verify", "--data", tmp_path / "caller")
    assert comity("version")
