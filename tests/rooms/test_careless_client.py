"""`comity mcp` that was started in a folder that holds more than its work, with the official MCP client."""

import os
import sys

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from comity.testing import running_node


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "people" / "me"
    (folder / ".ssh").mkdir(parents=True)
    (folder / ".ssh" / "id_test").write_text("secret")
    return folder


@pytest.mark.parametrize("by_itself", [False, True], ids=["of a node", "by itself"])
@pytest.mark.parametrize(
    ("start", "path"),
    [("..", "me/.ssh/id_test"), (".", ".ssh/id_test"), (".ssh", "id_test"), ("/etc", "passwd")],
)
async def test_its_folder_allows_nothing(tmp_path, home, monkeypatch, start, path, by_itself):
    monkeypatch.setenv("HOME", str(home))
    folder = (home / start).resolve()
    async with running_node(tmp_path / "data") as node:
        data = tmp_path / "alone" if by_itself else node.settings.data
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "comity", "mcp"],
            env={"PATH": os.environ["PATH"], "HOME": str(home), "COMITY_DATA": str(data)},
            cwd=folder,
        )
        async with stdio_client(server) as streams, ClientSession(*streams) as session:
            await session.initialize()
            connecting = {"room": "lab", "host": node.url.replace("http", "ws", 1) + "/signal"}
            connected = (await session.call_tool("vdo_connect", connecting)).structured_content
            sending = {"session_id": connected["session_id"], "file_path": str(folder / path)}
            refused = await session.call_tool("vdo_file_send_path", sending)
            assert refused.is_error
            assert "not allowed" in refused.structured_content["error"]["message"]
            assert "peers.shared" in refused.structured_content["error"]["message"]
            refused = await session.call_tool(
                "vdo_connect", {**connecting, "file_spool_dir": str(folder / "x")}
            )
            assert "not allowed" in refused.structured_content["error"]["message"]
