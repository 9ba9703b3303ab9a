"""Parts that the setting `off` names: the rest of the node works, and nothing of them is loaded."""

import asyncio
import os
import subprocess
import sys

import httpx
import jsonschema
import pytest

from comity.extensions.part import Extensions
from comity.node.mcp_server import Mcp
from comity.rooms.part import Peers
from comity.runtime.lazy import load_parts
from comity.runtime.settings import SWITCHED_PARTS, AgentSettings, DirectorySettings
from comity.runtime.settings_file import load_settings
from comity.testing import bearer, running_node
from comity.vcp.protocol.registry import HANDSHAKE_SCHEMA
from comity.wire.errors import ConfigError, NotFoundError
from tests.mcp.conversing import initialize, request
from tests.mcp.http_talk import Http

TELLING = """
import atexit, sys
from comity.cli.app import run
atexit.register(lambda: print("\\n".join(sorted(sys.modules)), file=sys.stderr))
sys.exit(run(sys.argv[1:]))
"""
EVERYTHING = {"COMITY_DIRECTORY_PUBLISH": "true", "COMITY_DIRECTORY_URL": "http://127.0.0.1:9"}
"""With it the part `publishing` is opened too; nobody answers there."""
LOADED = {
    "actions": {
        "comity.actions.protocol.calls",
        "comity.actions.protocol.action",
        "comity.actions.doors",
        "comity.actions.library",
        "comity.actions.handler",
        "comity.actions.runner",
    },
    "calling": {"comity.agents.calling", "comity.directory.finding"},
    "deliberations": {
        "comity.votes.client",
        "comity.votes.host",
        "comity.votes.party",
        "comity.votes.logs",
    },
    "directory": {"comity.directory.doors", "comity.directory.publish"},
    "extensions": {
        "comity.extensions.handler",
        "comity.extensions.service",
        "comity.extensions.state",
    },
    "mcp": {
        "comity.mcp.http",
        "comity.mcp.oauth",
        "comity.mcp.server",
        "comity.mcp.socket",
        "comity.mcp.calls",
        "comity.mcp.sessions",
        "comity.mcp.tasks",
    },
    "outside": {"comity.outside.door"},
    "peers": {"comity.rooms.protocol.relay", "comity.rooms.doors"},
    "publishing": {"comity.directory.publishing"},
    "watching": {
        "comity.node.commands.event_output",
        "comity.node.event_stream",
        "comity.node.page",
        "comity.requests.events",
    },
    "vcp": {
        "comity.identity.protocol.revocation",
        "comity.vcp.doors",
        "comity.extensions.service",
        "comity.vcp.identity",
        "comity.vcp.service",
        "comity.vcp.sessions",
    },
    "witness": {"comity.envelopes.witness", "comity.envelopes.protocol.witness"},
}
"""Modules that a node loads for a part alone."""
PATHS = {
    "/a2a/witness": "witness",
    "/v1/actions": "actions",
    "/v1/actions/supportive_reply": "actions",
    "/v1/deliberations": "deliberations",
    "/mcp": "mcp",
    "/v1/outside": "outside",
    "/v1/rooms": "peers",
    "/signal": "peers",
    "/vcp": "vcp",
    "/v1/revocations/somebody": "vcp",
    "/": "watching",
    "/enter/ticket": "watching",
    "/assets/page.js": "watching",
    "/v1/events": "watching",
    "/v1/views": "watching",
    "/v1/views/audit": "watching",
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


def sentence(part):
    how = f"take `{part}` out of the setting `off`"
    return f"the part {part} is switched off on this node; to switch it on, {how} and start the node again"


def modules_of_a_node(data, off, **env):
    """What a node has loaded from its start to its end."""
    command = [sys.executable, "-c", TELLING, "up", "--json", "--agent", "echo", "--port", "0"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("COMITY_")}
    node = subprocess.Popen(
        [*command, "--data", str(data)],
        env={**plain, **EVERYTHING, "COMITY_OFF": off, "COMITY_LOG_LEVEL": "error", **env},
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


def test_a_directory_that_is_not_served_is_not_loaded(tmp_path):
    not_served = modules_of_a_node(tmp_path / "data", "", COMITY_DIRECTORY_SERVE="false")
    assert LOADED["directory"] & not_served == set()


def test_a_node_with_all_of_them_off_starts_and_loads_none(tmp_path):
    loaded = modules_of_a_node(tmp_path / "data", ",".join(SWITCHED_PARTS))
    assert set().union(*(LOADED[part] for part in SWITCHED_PARTS)) & loaded == set()


@pytest.mark.parametrize("part", SWITCHED_PARTS)
async def test_the_rest_of_the_node_works_without_it(part):
    agent = AgentSettings(behaviour="echo")
    async with (
        running_node(off=(part,), agent=agent) as node,
        httpx.AsyncClient(base_url=node.url, headers=bearer(node)) as owner,
    ):
        for path in ("/readyz", "/metrics", "/v1/status", "/card"):
            assert (await owner.get(path)).status_code == 200, path
        assert (await owner.get("/v1/status")).json()["off"] == [part]
        for view in (await owner.get("/v1/views")).json().get("views", []):
            assert (await owner.get(f"/v1/views/{view['name']}")).status_code == 200, view
        for path, whose in PATHS.items():
            async with owner.stream("GET", path) as answer:
                result = (await answer.aread()).decode() if answer.status_code != 200 else ""
            is_off = (answer.status_code, sentence(whose) in result) == (404, True)
            assert is_off == (whose == part), (path, result)


async def test_strangers_are_told_only_where_they_would_be_answered():
    async with (
        running_node(off=SWITCHED_PARTS) as node,
        httpx.AsyncClient(base_url=node.url) as stranger,
    ):
        result = {path: (await stranger.get(path)).status_code for path in PATHS}
    private = {"/v1/actions", "/v1/actions/supportive_reply", "/mcp", "/v1/rooms"}
    private |= {"/v1/outside", "/v1/events", "/v1/views", "/v1/views/audit"}
    assert result == {path: 401 if path in private else 404 for path in PATHS}


async def test_a_directory_that_is_not_served_says_so():
    directory = DirectorySettings(serve=False)
    async with running_node(directory=directory) as node, httpx.AsyncClient(base_url=node.url) as stranger:
        result = (await stranger.post("/v1/query_capability", json={})).json()
    assert result["code"] == "not_found"
    assert result["detail"].startswith(
        "the part directory is switched off on this node; to switch it on, set `dir"
    )


async def test_every_path_of_a_part_is_known_also_where_it_is_switched_off(tmp_path):
    async with running_node(tmp_path, agent=AgentSettings(behaviour="echo")) as node:
        for part in node.runtime.parts:
            if part.name not in {*SWITCHED_PARTS, "directory"}:
                continue
            served = {*(route.path for route in part.routes), *part.hot, *part.sockets}
            for path in served:
                kept = [one for one in (*part.paths, *part.open_paths) if f"{path}/".startswith(f"{one}/")]
                assert kept, (part.name, path)
            public = {*part.public, *part.public_prefixes}
            assert all(any(f"{path}/".startswith(f"{one}/") for one in part.open_paths) for path in public)


@pytest.mark.parametrize("part", [part for part in SWITCHED_PARTS if part != "mcp"])
async def test_models_are_told_of_no_tool_of_it(part):
    async with running_node(off=(part,)) as node, Http(f"{node.url}/mcp", **bearer(node)) as client:
        begun = (await client.post(initialize())).json()["result"]
        session = await client.begin()
        listed = (await client.post(request(1, "tools/list"), **session)).json()["result"]["tools"]
        assert bool(node.runtime.find(Mcp).node_mcp.server.handshake.settings) == (part != "vcp")
    names = {tool["name"] for tool in listed}
    assert {name for name, tool in TOOLS.items() if tool not in names} == {part} & TOOLS.keys()
    assert {name for name, words in WORDS.items() if words not in begun["instructions"]} == {
        part
    } & WORDS.keys()


async def test_without_watching_no_event_is_kept_and_nobody_is_led_to_the_page():
    async with (
        running_node(off=("watching",)) as node,
        httpx.AsyncClient(base_url=node.url, headers=bearer(node)) as owner,
    ):
        link = await owner.post("/v1/link", json={})
        assert (node.runtime.events, node.entry_link) == (None, "")
    assert (link.status_code, link.json()["detail"]) == (404, sentence("watching"))


async def test_without_extensions_vcp_goes_on_and_offers_none():
    hello = {"type": "vcp-hello", "version": "3.1", "extensions": ["VCP-X-Torch"]}
    async with running_node(off=("extensions",)) as node, Http(f"{node.url}/mcp", **bearer(node)) as client:
        answer = await client.post(initialize(vcp=hello))
    ack = answer.json()["result"]["_meta"]["space.creed/vcp-ack"]
    assert (ack["type"], ack["supported"], ack["unsupported"]) == ("vcp-ack", [], ["VCP-X-Torch"])


async def test_a_hello_inside_mcp_is_told_that_vcp_is_off_and_mcp_goes_on():
    hello = {"type": "vcp-hello", "vcp_version": "3.1", "extensions": ["VCP-X-Torch"]}
    async with running_node(off=("vcp",)) as node, Http(f"{node.url}/mcp", **bearer(node)) as client:
        answer = await client.post(initialize(vcp=hello))
    result = answer.json()["result"]
    assert result["serverInfo"]["name"] == "comity"
    ack = result["_meta"]["space.creed/vcp-ack"]
    assert ack == {
        "type": "vcp-error",
        "code": "VERSION_UNSUPPORTED",
        "message": sentence("vcp") + "; this connection goes on without VCP",
        "supported_versions": ["1.0"],
        "retry_after": None,
    }
    jsonschema.validate(ack, HANDSHAKE_SCHEMA)


async def test_without_deliberations_consensus_is_not_offered():
    async with running_node(off=("deliberations",)) as node:
        offered = {one.id for one in node.runtime.find(Extensions).service.registrations()}
    async with running_node() as node:
        everything = {one.id for one in node.runtime.find(Extensions).service.registrations()}
    assert everything - offered == {"VCP-X-Consensus"}


async def test_who_asks_for_a_part_that_is_off_is_told_so():
    async with running_node(off=("peers",)) as node:
        with pytest.raises(NotFoundError, match=sentence("peers")):
            node.runtime.find(Peers)


def test_only_parts_that_can_be_spared_are_switched_off(tmp_path):
    for name in ("audit", "limits", "operating", "page", "agent"):
        with pytest.raises(ConfigError, match=r"COMITY_OFF must be .*actions, calling, .* or witness"):
            load_settings({"data": tmp_path}, {"COMITY_OFF": name})
    all_off = load_settings({"data": tmp_path}, {"COMITY_OFF": ",".join(SWITCHED_PARTS)}).settings
    assert {part.name for part in load_parts() if not part.is_wanted(all_off)} == {*SWITCHED_PARTS}


def test_doctor_does_not_look_at_it_and_says_that_it_is_off(comity, monkeypatch):
    relay = '"check":"relay"'
    assert relay in comity("doctor", "--json").out
    assert "none is switched off" in comity("doctor").out
    monkeypatch.setenv("COMITY_OFF", "peers,watching")
    assert relay not in comity("doctor", "--json").out
    assert "switched off by the setting `off`: peers, watching; take one out" in comity("doctor").out


@pytest.mark.parametrize(
    ("part", "command"),
    [
        ("watching", ["watch"]),
        ("watching", ["open"]),
        ("peers", ["room", "peers"]),
        ("peers", ["room", "invite", "lab"]),
        ("peers", ["room", "join", "lab"]),
        ("mcp", ["mcp"]),
        ("deliberations", ["vote", "list"]),
        ("extensions", ["torch", "show"]),
    ],
)
async def test_a_command_that_needs_it_says_how_to_switch_it_on(tmp_path, part, command):
    async with running_node(tmp_path / "data", off=(part,)) as node:
        plain = {name: value for name, value in os.environ.items() if not name.startswith("COMITY_")}
        result = await asyncio.create_subprocess_exec(
            *[sys.executable, "-m", "comity", *command, "--data", str(node.settings.data)],
            env={**plain, "COMITY_OFF": part},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        said, error = await result.communicate()
    assert result.returncode != 0, said
    assert f"the part {part} is switched off on this node; to switch it on, take `{part}`" in error.decode()
