"""Nodes for tests: they answer, they are apart, and they leave nothing behind."""

import asyncio

import httpx
import pytest

from comity.runtime.settings import HttpSettings, StoreSettings
from comity.testing import EPOCH, VirtualClock, bearer, node_pair, running_node

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
