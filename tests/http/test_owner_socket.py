"""The owner's socket: who is let in there, and that nothing but the way in differs from the port."""

import asyncio
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx
import pytest

from comity.http import owner_socket
from comity.http.owner_socket import OWNER_SOCKET_FILE, socket_path
from comity.testing import running_node

NOBODY = 65_534
CONNECT = """
import socket, sys
connected = socket.socket(socket.AF_UNIX)
connected.connect(sys.argv[1])
try:
    connected.sendall(b"GET /v1/status HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
    print(len(connected.recv(100)))
except ConnectionError:
    print(0)
"""


def through(path, **headers):
    transport = httpx.AsyncHTTPTransport(uds=str(path))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers)


async def test_a_command_of_this_user_needs_no_token_there():
    async with running_node() as node:
        path = socket_path(node.settings.data)
        assert path == node.settings.data / OWNER_SOCKET_FILE
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        async with through(path) as command:
            assert (await command.get("/v1/status")).json()["ready"] is True
            pong = (await command.post("/v1/ping", json={"nonce": "x"})).json()
            assert (pong["pong"], pong["principal"]) == ("x", "local")
        async with httpx.AsyncClient(base_url=node.url) as anybody:
            assert (await anybody.get("/v1/status")).status_code == 401
    assert not path.exists()


async def test_another_user_is_disconnected(monkeypatch):
    async with running_node() as node:
        monkeypatch.setattr(owner_socket, "_user_of", lambda _connected: NOBODY)
        async with through(socket_path(node.settings.data)) as command:
            with pytest.raises(httpx.TransportError):
                await command.get("/v1/status")


async def test_a_user_whom_the_system_does_not_tell_is_disconnected(monkeypatch):
    async with running_node() as node:
        monkeypatch.setattr(owner_socket, "_user_of", lambda _connected: None)
        async with through(socket_path(node.settings.data)) as command:
            with pytest.raises(httpx.TransportError):
                await command.get("/v1/status")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can become another user")
async def test_the_system_tells_who_connects_whatever_the_modes_of_the_files():
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)  # noqa: PTH101 - Path.chmod is said to block
        async with running_node(Path(folder) / "data") as node:
            path = socket_path(node.settings.data)
            path.parent.chmod(0o755)
            path.chmod(0o666)
            command = [sys.executable, "-c", CONNECT, str(path)]
            async with through(path) as own:
                assert (await own.get("/healthz")).status_code == 200
            process = await _run(command, user=NOBODY)
            assert process == (0, b"0\n")


async def _run(command, **how):
    process = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how
    )
    out, errors = await process.communicate()
    return process.returncode, out or errors


async def test_a_page_gets_nothing_there_and_limits_hold():
    async with running_node() as node, through(socket_path(node.settings.data)) as command:
        refused = await command.get("/v1/status", headers={"origin": "http://localhost"})
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        huge = await command.post("/v1/ping", content=b"x" * (node.settings.http.body_limit + 1))
        assert huge.status_code == 413


async def test_a_folder_with_a_long_name_has_its_socket_elsewhere(tmp_path):
    data = tmp_path / ("long" * 30)
    async with running_node(data) as node:
        path = socket_path(data)
        assert not path.is_relative_to(data)
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        async with through(path) as command:
            assert (await command.get("/v1/status")).json()["url"] == node.url


async def test_a_socket_that_a_killed_node_left_is_replaced(tmp_path):
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    stale = owner_socket.bind_private(socket_path(data))
    stale.close()
    async with running_node(data), through(socket_path(data)) as command:
        assert (await command.get("/healthz")).status_code == 200
