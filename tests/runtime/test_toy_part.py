"""A new part needs one file and one line of the list `PARTS`: everything it says is seen on a real node."""

import json
import sys

import httpx
import pytest

from comity.runtime.lazy import PARTS, load_parts
from comity.runtime.part import CheckResult, Part
from comity.runtime.settings_file import load_settings, read_settings, values_of
from comity.store.audit_log import tail
from comity.testing import VirtualClock, bearer, running_node
from comity.wire.errors import ConfigError, NotFoundError
from tests.mcp.conversing import call, initialize, request
from tests.mcp.http_talk import Http
from tests.mcp.processes import started
from tests.node.toy import Toy, ToySettings

WITH_TOY = """
import sys
from comity.runtime.lazy import PARTS
PARTS["toy"] = "tests.node.toy:Toy"
from comity.cli.app import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setitem(PARTS, "toy", f"{Toy.__module__}:Toy")
    return Toy


@pytest.fixture
async def node(toy):
    async with running_node(clock=VirtualClock(), parts={"toy": ToySettings(greeting="moin")}) as node:
        yield node


def test_its_settings_come_from_the_file_the_environment_and_are_refused_by_name(data, toy):
    assert load_settings({"data": data}, {}).settings.of(ToySettings) == ToySettings()
    data.mkdir()
    (data / "config.toml").write_text('[toy]\ngreeting = "ahoy"\n')
    loaded = load_settings({"data": data}, {})
    assert loaded.settings.of(ToySettings).greeting == "ahoy"
    assert loaded.sources["toy.greeting"] == str(data / "config.toml")
    assert values_of(loaded.settings)["toy.enabled"] is True
    loaded = load_settings({"data": data}, {"COMITY_TOY_GREETING": "salve"})
    assert loaded.settings.of(ToySettings).greeting == "salve"
    assert loaded.sources["toy.greeting"] == "COMITY_TOY_GREETING"
    with pytest.raises(ConfigError, match="COMITY_TOY_GREETING must be a text of 1 to 40 letters, not '1'"):
        load_settings({"data": data}, {"COMITY_TOY_GREETING": "1"})
    with pytest.raises(ConfigError, match=r"did you mean COMITY_TOY_GREETING\?"):
        load_settings({"data": data}, {"COMITY_TOY_GREETINGS": "salve"})
    with pytest.raises(ConfigError, match=r"the section \[toy\] is unknown"):
        read_settings({"data": data}, {})


def test_its_settings_and_checks_are_shown_by_the_command_line(comity, toy, monkeypatch):
    monkeypatch.setenv("COMITY_TOY_GREETING", "HEY")
    shown = json.loads(comity("config", "show", "--json").out)["settings"]
    assert shown["toy.greeting"] == {"value": "HEY", "source": "COMITY_TOY_GREETING"}
    checks = json.loads(comity("doctor", "--json").out)["checks"]
    assert {
        "check": "toy",
        "mark": "warn",
        "finding": "HEY is loud",
        "remedy": "set toy.greeting to lower case",
    } in checks


def test_a_check_that_breaks_is_a_finding_and_the_others_go_on(comity, toy, monkeypatch):
    monkeypatch.setattr(Toy, "checks", classmethod(lambda cls, settings: 1 / 0))
    outcome = comity("doctor", "--json")
    assert outcome.code == 1
    checks = {check["check"]: check for check in json.loads(outcome.out)["checks"]}
    assert checks["toy"]["finding"] == "the check itself failed: division by zero"
    assert "port" in checks


async def test_its_paths_are_served_and_only_those_it_calls_public_need_no_token(node):
    async with httpx.AsyncClient(base_url=node.url) as stranger:
        assert (await stranger.get("/toy/show")).text == "moin"
        assert (await stranger.get("/toy/red/colour")).text == "moin"
        assert (await stranger.get("/toy/blue/colour")).status_code == 401
        assert (await stranger.post("/v1/toy", json={})).status_code == 401
        answer = await stranger.post("/v1/toy", json={"whom": "Ann"}, headers=bearer(node))
        assert answer.json() == {"greeting": "moin Ann"}
    node.runtime.record.flush()
    await node.store.commit()
    assert "TOY_OK" in [entry.verification_result async for entry in tail(node.store, "main", 10)]


async def test_its_tool_metric_panel_and_chore_work(node):
    async with (
        Http(f"{node.url}/mcp", **bearer(node)) as client,
        httpx.AsyncClient(base_url=node.url, headers=bearer(node)) as owner,
    ):
        session = await client.begin()
        listed = (await client.post(request(1, "tools/list"), **session)).json()["result"]["tools"]
        assert "toy_greet" in [tool["name"] for tool in listed]
        answer = (await client.post(call(2, "toy_greet", whom="Bo"), **session)).json()
        assert answer["result"]["content"] == [{"type": "text", "text": "moin Bo"}]
        assert "\ncomity_toy_greetings_total 1.0\n" in (await owner.get("/metrics")).text
        await node.runtime.clock.advance(30)
        status = (await owner.get("/v1/status")).json()
        assert status["panels"]["toy"] == {"title": "Toys", "rows": [["greetings", "1"], ["wound up", "1"]]}
        assert {"name": "toy", "title": "Toys", "kind": ""} in (await owner.get("/v1/views")).json()["views"]
        shown = (await owner.get("/v1/views/toy")).json()
        assert shown == {"facts": [{"label": "greetings", "value": "1"}]}


async def test_a_panel_that_fails_leaves_the_page_as_it_is(node, monkeypatch, caplog):
    async def fail(self):
        raise RuntimeError("no toys")

    monkeypatch.setattr(Toy, "panel", fail)
    async with httpx.AsyncClient(base_url=node.url, headers=bearer(node)) as owner:
        assert "toy" not in (await owner.get("/v1/status")).json()["panels"]
    assert "the panel of the part toy failed" in caplog.text


async def test_it_is_closed_with_the_node(toy):
    async with running_node() as node:
        found = node.runtime.find(Toy)
        assert not found.closed
    assert found.closed


async def test_a_part_that_is_switched_off_is_not_opened_and_offers_nothing(toy):
    async with running_node(parts={"toy": ToySettings(enabled=False)}) as node:
        assert Toy in node.runtime.kinds_off
        with pytest.raises(NotFoundError, match="the part toy is switched off on this node"):
            node.runtime.find(Toy)
        async with httpx.AsyncClient(base_url=node.url, headers=bearer(node)) as owner:
            assert (await owner.post("/v1/toy", json={})).status_code == 404
        async with Http(f"{node.url}/mcp", **bearer(node)) as client:
            session = await client.begin()
            listed = (await client.post(request(1, "tools/list"), **session)).json()["result"]["tools"]
            assert "toy_greet" not in [tool["name"] for tool in listed]


async def test_a_part_that_cannot_open_ends_the_start_and_what_was_open_is_closed(toy, data, monkeypatch):
    async def fail(self, runtime):
        raise ConfigError("there is no toy")

    with monkeypatch.context() as patched:
        patched.setattr(Toy, "open", fail)
        with pytest.raises(ConfigError, match="there is no toy"):
            async with running_node(data):
                raise AssertionError("it started")
    async with running_node(data) as node:
        assert node.runtime.find(Toy)


async def test_a_client_that_starts_comity_mcp_has_its_tool_and_can_choose_its_room(data):
    program = [sys.executable, "-c", WITH_TOY, "mcp", "--data", str(data)]
    async with started(*program, "--rooms", "toy", env={"COMITY_TOY_GREETING": "ola"}) as client:
        await client.ask(initialize())
        listed = (await client.ask(request(1, "tools/list")))["result"]["tools"]
        assert [tool["name"] for tool in listed if not tool["name"].startswith("vcp_")] == ["toy_greet"]
        answer = await client.ask(call(2, "toy_greet"))
        assert answer["result"]["content"] == [{"type": "text", "text": "ola you"}]


def test_every_part_says_who_it_is_and_has_plain_results():
    for part in load_parts():
        assert issubclass(part, Part)
        for found in part.checks(load_settings({"data": "/nowhere"}, {}).settings):
            assert isinstance(found, CheckResult)
