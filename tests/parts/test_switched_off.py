"""Parts that the setting `off` names: the rest of the node works, and nothing of them is loaded."""

import os
import subprocess
import sys

import httpx
import pytest

from comity.config import SWITCHED_PARTS, AgentSettings
from comity.core.errors import ConfigError, NotFoundError
from comity.node import PARTS, load_settings, wanted_parts
from comity.parts.extensions import Extensions
from comity.parts.mcp import Mcp
from comity.parts.peers import Peers
from comity.testing import bearer, running_node
from tests.cli.conftest import comity, environ  # noqa: F401 - fixtures
from tests.doors.mcp.conversing import initialize, request
from tests.doors.mcp.http_talk import Http

TELLING = """
import atexit, sys
from comity.cli.app import run
atexit.register(lambda: print("\\n".join(sorted(sys.modules)), file=sys.stderr))
sys.exit(run(sys.argv[1:]))
"""
LOADED = {
    "actions": {"comity.core.actions", "comity.doors.actions", "comity.pipeline.actions"},
    "calling": {"comity.clients.agent_desk", "comity.clients.finding", "comity.pipeline.calling.room"},
    "deliberations": {
        "comity.clients.deliberations",
        "comity.doors.deliberations",
        "comity.pipeline.deliberations",
    },
    "mcp": {"comity.doors.mcp", "comity.pipeline.mcp"},
    "peers": {"comity.core.peering.signalling_relay", "comity.doors.rooms", "comity.doors.signalling"},
    "vcp": {
        "comity.core.revocation",
        "comity.doors.vcp",
        "comity.pipeline.extensions",
        "comity.pipeline.vcp",
    },
}
PATHS = {
    "/v1/actions": "actions",
    "/v1/deliberations": "deliberations",
    "/mcp": "mcp",
    "/v1/rooms": "peers",
    "/v1/revocations/somebody": "vcp",
}
TOOLS = {
    "actions": "supportive_reply",
    "calling": "find_agents",
    "peers": "vdo_connect",
    "vcp": "vcp_status",
}
WORDS = {"actions": "actions", "calling": "find_agents", "peers": "vdo_*", "vcp": "vcp_*"}


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


def modules_of_a_node(data, off):
    """What a node has loaded from its start to its end."""
    command = [sys.executable, "-c", TELLING, "up", "--json", "--agent", "echo", "--port", "0"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("COMITY_")}
    node = subprocess.Popen(
        [*command, "--data", str(data)],
        env={**plain, "COMITY_OFF": off, "COMITY_LOG_LEVEL": "warning"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert '"ready"' in node.stdout.readline(), node.communicate()[1]
    node.terminate()
    _, said = node.communicate()
    assert node.returncode == 0, said
    return set(said.split())


def test_a_node_with_everything_on_loads_them_all(tmp_path):
    assert set().union(*LOADED.values()) <= modules_of_a_node(tmp_path / "data", "")


@pytest.mark.parametrize("part", SWITCHED_PARTS)
def test_nothing_of_a_part_that_is_off_is_loaded(tmp_path, part):
    assert modules_of_a_node(tmp_path / "data", part) & LOADED[part] == set()


def test_a_node_with_all_of_them_off_starts_and_loads_none(tmp_path):
    loaded = modules_of_a_node(tmp_path / "data", ",".join(SWITCHED_PARTS))
    assert set().union(*LOADED.values()) & loaded == set()


@pytest.mark.parametrize("part", SWITCHED_PARTS)
async def test_the_rest_of_the_node_works_without_it(part):
    agent = AgentSettings(behaviour="echo")
    async with (
        running_node(off=(part,), agent=agent) as node,
        httpx.AsyncClient(base_url=node.url, headers=bearer(node)) as owner,
    ):
        for path in ("/readyz", "/metrics", "/", "/v1/status", "/card"):
            assert (await owner.get(path)).status_code == 200, path
        for view in (await owner.get("/v1/views")).json()["views"]:
            assert (await owner.get(f"/v1/views/{view['name']}")).status_code == 200, view
        for path, whose in PATHS.items():
            answer = await owner.get(path)
            assert ("there is nothing at this path" in answer.text) == (whose == part), path


@pytest.mark.parametrize("part", [part for part in SWITCHED_PARTS if part != "mcp"])
async def test_models_are_told_of_no_tool_of_it(part):
    async with running_node(off=(part,)) as node, Http(f"{node.url}/mcp", **bearer(node)) as client:
        begun = (await client.post(initialize())).json()["result"]
        session = await client.begin()
        listed = (await client.post(request(1, "tools/list"), **session)).json()["result"]["tools"]
        assert bool(node.house.find(Mcp).side.server.extensions) == (part != "vcp")
    names = {tool["name"] for tool in listed}
    assert {name for name, tool in TOOLS.items() if tool not in names} == {part} & TOOLS.keys()
    assert {name for name, words in WORDS.items() if words not in begun["instructions"]} == {
        part
    } & WORDS.keys()


async def test_a_hello_inside_mcp_is_told_that_vcp_is_off_and_mcp_goes_on():
    hello = {"type": "vcp-hello", "vcp_version": "3.1", "extensions": ["VCP-X-Torch"]}
    async with running_node(off=("vcp",)) as node, Http(f"{node.url}/mcp", **bearer(node)) as client:
        answer = await client.post(initialize(vcp=hello))
    result = answer.json()["result"]
    assert result["serverInfo"]["name"] == "comity"
    ack = result["_meta"]["space.creed/vcp-ack"]
    assert (ack["type"], ack["message"]) == (
        "vcp-error",
        "the part vcp is not open on this node; the settings switch it off",
    )


async def test_without_deliberations_consensus_is_not_offered():
    async with running_node(off=("deliberations",)) as node:
        offered = {one.id for one in node.house.find(Extensions).service.registrations()}
    async with running_node() as node:
        everything = {one.id for one in node.house.find(Extensions).service.registrations()}
    assert everything - offered == {"VCP-X-Consensus"}


async def test_who_asks_for_a_part_that_is_off_is_told_so():
    async with running_node(off=("peers",)) as node:
        with pytest.raises(
            NotFoundError, match="the part peers is not open on this node; the settings switch it off"
        ):
            node.house.find(Peers)


def test_only_parts_that_can_be_spared_are_switched_off(tmp_path):
    for name in ("audit", "limits", "page", "agent"):
        with pytest.raises(ConfigError, match=r"COMITY_OFF must be .*actions, calling, .* or vcp"):
            load_settings({"data": tmp_path}, {"COMITY_OFF": name})
    all_off = load_settings({"data": tmp_path}, {"COMITY_OFF": ",".join(SWITCHED_PARTS)}).settings
    left = {part.name for part in PARTS} - {part.name for part in wanted_parts(all_off)}
    assert left == {*SWITCHED_PARTS, "extensions", "publishing"}


def test_doctor_does_not_look_at_it(comity, monkeypatch):  # noqa: F811
    relay = '"check":"relay"'
    assert relay in comity("doctor", "--json").out
    monkeypatch.setenv("COMITY_OFF", "peers")
    assert relay not in comity("doctor", "--json").out
