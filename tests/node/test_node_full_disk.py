"""A node whose disk takes nothing more: it says so, in few words, and goes on when there is room again."""

import json
import os
import subprocess
import sys

import httpx
import pytest

from tests.waiting import wait_until

resource = pytest.importorskip("resource")
pytestmark = pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the limit is set from outside")

PATIENCE = 40.0
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}},
}


@pytest.fixture
def node(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "comity", "up", "--port", "0", "--json", "--data", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COMITY_LOG_LEVEL": "warning"},
    )
    yield process
    process.kill()
    process.communicate()


def test_a_full_disk_is_told_in_few_lines_and_the_node_comes_back(node, tmp_path):
    url = json.loads(node.stdout.readline())["url"]
    token = (tmp_path / "token").read_text().strip()
    with httpx.Client(base_url=url, headers={"authorization": f"Bearer {token}"}) as client:
        assert client.post("/mcp", json=INITIALIZE).status_code == 200
        assert client.get("/readyz").status_code == 200

        # no file of this process is written to beyond its first page, so that no commit can be made
        resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        for _ in range(200):
            refused = client.post("/mcp", json=INITIALIZE)
            assert refused.status_code in (503, 507)
            assert str(tmp_path) not in refused.text
            assert client.post("/v1/ping", json={}).status_code == 200
        unready = client.get("/readyz")
        assert unready.status_code == 503
        assert unready.json()["ready"] is False
        assert unready.json()["reason"]
        assert client.get("/healthz").status_code == 200

        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(node.pid, resource.RLIMIT_FSIZE, unlimited)
        wait_until(lambda: client.get("/readyz").status_code == 200, PATIENCE, 0.1)
        assert client.post("/mcp", json=INITIALIZE).status_code == 200

    node.terminate()
    _, result = node.communicate(timeout=PATIENCE)
    assert node.returncode == 0
    assert "the store cannot be written to" in result
    assert "times more in the last minute" in result
    assert len(result.splitlines()) <= 12, result
    assert "Traceback" not in result
