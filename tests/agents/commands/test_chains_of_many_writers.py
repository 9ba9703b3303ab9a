"""`comity chain verify` over calls that several programs made in turn, and at once, from one data folder."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

import comity as api
from tests.mcp.test_agents import Model


@pytest.fixture
def node(neighbourhood, tmp_path):
    return neighbourhood.node(tmp_path / "there")


def calls_of_a_client(node, data, texts):
    async def call():
        async with api.Client(data=data) as client:
            for text in texts:
                await client.call(node.url, text)

    asyncio.run(call())


def verified(comity, *calls):
    outcome = comity("chain", "verify", "--json")
    report = json.loads(outcome.out)
    assert (outcome.code, report["ok"]) == (0, True), outcome.out
    assert sorted(peer["calls"] for peer in report["peers"]) == sorted(calls)
    assert json.loads(comity("audit", "verify", "--json").out)["ok"]


def test_calls_of_a_program_and_then_of_the_command_line_are_sound(comity, node, data):
    calls_of_a_client(node, data, ["one", "two"])
    assert comity("call", node.url, "three").code == 0
    verified(comity, 3)
    calls_of_a_client(node, data, ["four"])
    verified(comity, 4)


def test_four_calls_at_once_from_four_processes_are_sound(program, comity, node, identity):
    with ThreadPoolExecutor(4) as shells:
        outcomes = list(shells.map(lambda number: program("call", node.url, f"hello {number}"), range(4)))
    assert [outcome.err for outcome in outcomes if outcome.code] == []
    verified(comity, 4)


def test_node_models_programs_commands_and_callers_write_one_sound_record_over_a_rotation_and_a_restore(
    comity, node, neighbourhood, data, tmp_path, monkeypatch
):
    own = neighbourhood.node(data)

    async def by_a_model():
        async with Model(own) as model:
            result = await model.use("call_agent", agent=node.url, message="from a model")
            assert not result["isError"], result

    async def of_a_stranger():
        async with api.Client(data=tmp_path / "stranger") as stranger:
            for _ in range(3):
                await stranger.call(own.url, "from outside")

    neighbourhood.run(by_a_model())
    neighbourhood.run(of_a_stranger())
    calls_of_a_client(node, data, ["from a program"])
    assert comity("call", node.url, "from a command").code == 0
    assert comity("vault", "rotate").code == 0
    neighbourhood.run(by_a_model())
    verified(comity, 3, 4)
    secret = tmp_path / "pass.txt"
    secret.write_text("a passphrase of some length")
    secret.chmod(0o600)
    assert comity("backup", tmp_path / "backup", "--passphrase-file", secret).code == 0
    calls_of_a_client(node, data, ["after the backup"])
    verified(comity, 3, 5)
    monkeypatch.setenv("COMITY_DATA", str(tmp_path / "restored"))
    assert comity("restore", tmp_path / "backup", "--passphrase-file", secret).code == 0
    verified(comity, 3, 4)
    assert comity("call", node.url, "after the restore").code == 0  # it is told where its chain stands
    verified(comity, 3, 5)


def test_chains_of_a_key_that_was_replaced_stay_sound_beside_those_of_the_new_one(comity, node, data):
    for text in ("one", "two"):
        assert comity("call", node.url, text).code == 0
    calls_of_a_client(node, data, ["three"])
    assert comity("id", "replace", "--yes").code == 0
    verified(comity, 3)
    assert comity("call", node.url, "by the new key").code == 0
    verified(comity, 4)
