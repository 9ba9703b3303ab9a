"""Nodes for tests: they answer, they are apart, and they leave nothing behind."""

import asyncio
import subprocess
import sys
from hashlib import blake2b

import httpx
import pytest

import comity.testing
from comity.agents.substrate import SubstrateRequest
from comity.runtime.settings import HttpSettings, StoreSettings
from comity.testing import EPOCH, VirtualClock, bearer, node_pair, running_node
from comity.testing.nodes import DeterministicSubstrate, MockSubstrate, prompt_key

pytestmark = pytest.mark.usefixtures("patience")


async def test_a_running_node_answers_and_leaves_nothing_behind():
    async with running_node() as node, httpx.AsyncClient(base_url=node.url) as client:
        folder = node.settings.data
        assert folder.is_dir()
        assert not (folder / "comity.db").exists()
        answer = await client.post("/v1/ping", json={"nonce": "hello"}, headers=bearer(node))
        assert answer.json()["pong"] == "hello"
    assert not folder.parent.exists()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", int(node.url.rpartition(":")[2]))


async def test_a_folder_that_is_given_stays_with_all_that_the_node_wrote(tmp_path):
    async with running_node(tmp_path / "data") as node:
        first = node.vacant_id
    assert (tmp_path / "data" / "comity.db").is_file()
    async with running_node(tmp_path / "data") as node:
        assert node.vacant_id == first


async def test_settings_and_clock_are_the_callers(tmp_path):
    clock = VirtualClock()
    settings = {"http": HttpSettings(body_limit=2048), "store": StoreSettings(engine="sqlite")}
    async with running_node(clock=clock, **settings) as node, httpx.AsyncClient(base_url=node.url) as client:
        assert (node.settings.data / "comity.db").is_file()
        answer = await client.post("/v1/ping", json={}, headers=bearer(node))
        assert answer.json()["at"] == EPOCH
        answer = await client.post("/v1/ping", content=b"x" * 2049, headers=bearer(node))
        assert answer.status_code == 413


async def test_a_pair_is_two_nodes_with_nothing_in_common():
    async with node_pair() as (left, right), httpx.AsyncClient() as client:
        assert left.vacant_id != right.vacant_id
        assert left.url != right.url
        assert left.settings.data != right.settings.data
        for node, other in ((left, right), (right, left)):
            ping = f"{node.url}/v1/ping"
            assert (await client.post(ping, json={}, headers=bearer(node))).status_code == 200
            assert (await client.post(ping, json={}, headers=bearer(other))).status_code == 401


async def test_a_block_that_fails_still_stops_its_node():
    with pytest.raises(ZeroDivisionError):
        async with node_pair() as (left, right):
            raise ZeroDivisionError
    for node in (left, right):
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", int(node.url.rpartition(":")[2]))


# What `comity.testing` offers, and what it costs to ask.


def test_every_name_can_be_had():
    for name in comity.testing.__all__:
        assert getattr(comity.testing, name) is not None
    assert dir(comity.testing) == sorted(comity.testing.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nothing_here"):
        comity.testing.nothing_here  # noqa: B018 - asking is the test


def test_it_works_without_pytest():
    program = (
        "import sys; sys.modules['pytest'] = None\n"
        "import comity.testing\n"
        "assert not any(name.startswith('comity.testing.') for name in sys.modules)\n"
        "from comity.testing import *\n"
        "vectors_folder(); VirtualClock(); Randomness(1)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


# Substrates for tests: what they say is known beforehand.


ASKED = SubstrateRequest(system_prompt="be kind", user_prompt="x" * 300)


async def test_the_mock_says_its_prompt_again_under_a_hash():
    answer = await MockSubstrate("seed").infer(ASKED)
    digest = blake2b(("seed\x1fbe kind\x1f" + "x" * 300).encode(), digest_size=8).hexdigest()
    assert answer.text == f"[mock-1#{digest}] " + "x" * 120
    assert answer.model_id == "mock-1"
    assert MockSubstrate().name == "mock"


async def test_another_seed_or_prompt_is_another_answer():
    texts = {
        (await MockSubstrate(seed).infer(SubstrateRequest(system_prompt=system, user_prompt="u"))).text
        for seed, system in (("a", "s"), ("b", "s"), ("a", "t"))
    }
    assert len(texts) == 3
    assert await MockSubstrate("a").infer(ASKED) == await MockSubstrate("a").infer(ASKED)


async def test_the_deterministic_one_answers_from_its_table():
    key = prompt_key("be kind", ASKED.user_prompt)
    substrate = DeterministicSubstrate({key: "as agreed"})
    assert (await substrate.infer(ASKED)).text == "as agreed"
    assert substrate.name == "deterministic"


async def test_the_deterministic_one_shows_the_key_that_it_misses():
    answer = await DeterministicSubstrate().infer(ASKED)
    assert answer.text == f"[det-1#{prompt_key('be kind', ASKED.user_prompt)}] " + "x" * 200
    assert answer.model_id == "det-1"
