"""The client for programs, against real nodes."""

import asyncio
import subprocess
import sys

import pytest

import comity
from comity.identity.key_files import load_identity
from comity.runtime.settings import AgentSettings
from comity.testing import running_node
from tests.http.local_server import serving
from tests.node.commands.neighbourhood import SEND, card_of, refusing
from tests.ports import unused_port

ECHO = AgentSettings(behaviour="echo")


@pytest.fixture
async def node(tmp_path):
    async with running_node(tmp_path / "there", agent=ECHO) as started:
        yield started


@pytest.fixture
def mine(tmp_path):
    return tmp_path / "mine"


async def test_calls_are_numbered_and_go_on_after_the_client_was_closed(node, mine):
    async with comity.Client(data=mine) as client:
        first = await client.call(node.url, "one")
        second = await client.call(node.url.removeprefix("http://"), "two")
        me = client.vacant_id
    async with comity.Client(data=mine) as client:
        third = await client.call(node.url + SEND, "three")
        assert client.vacant_id == me == load_identity(mine).vacant_id
    assert [reply.number for reply in (first, second, third)] == [1, 2, 3]
    assert third.text == f"echo from {node.vacant_id.short()}: three"
    assert third.agent == node.vacant_id
    assert third.envelope.verify(node.vacant_id)
    assert third.request.from_vacant_id == me


async def test_a_call_under_the_same_key_is_the_same_call(node, mine):
    async with comity.Client(data=mine) as client:
        first = await client.call(node.url, "order 17", idempotency_key="17")
        again = await client.call(node.url, "order 17", idempotency_key="17")
        assert again == first
        assert first.idempotency_key == "17"


async def test_agents_are_found_and_called_in_the_order_of_the_directory(node, mine, tmp_path):
    there = tmp_path / "there"
    async with comity.Client(data=there, directory=node.url) as owner:
        await owner.directory().publish(card_of(there, node.url + SEND, "translates"))
    async with comity.Client(data=mine, directory=node.url) as client:
        found = await client.find("translate")
        assert [match.vacant_id for match in found] == [node.vacant_id.hex()]
        assert (await client.call(found, "hello")).agent == node.vacant_id
        assert (await client.call(node.vacant_id, "hello")).number == 2
        assert await client.find("dance") == []
        searched = await client.directory().aggregation_search(
            query="translate", include_local=False, limit=20
        )
        assert [match.vacant_id for match in searched] == [node.vacant_id.hex()]
        assert await client.reputation.score(node.vacant_id.hex(), ("factual",)) > 0
        public = await comity.directory_search(node.url)(query="translate", include_local=False, limit=20)
        assert public == searched


async def test_the_next_one_is_called_when_the_first_is_busy(node, mine, tmp_path):
    comity_card = card_of(tmp_path / "there", node.url + SEND)
    async with comity.Client(data=tmp_path / "busy") as busy, serving(refusing(503, "full")) as server:
        first = card_of(tmp_path / "busy", server.url(SEND))
        async with comity.Client(data=mine) as client:
            reply = await client.call([first, comity_card], "hello")
        assert reply.agent == node.vacant_id
        assert busy.vacant_id != node.vacant_id


async def test_many_calls_at_once_take_their_turns(node, mine):
    async with comity.Client(data=mine) as client:
        replies = await asyncio.gather(*(client.call(node.url, str(number)) for number in range(8)))
    assert sorted(reply.number for reply in replies) == list(range(1, 9))


async def test_a_silent_agent_costs_the_time_given_and_says_how_to_repeat_the_call(mine, tmp_path):
    async def silent(reader, writer):
        await reader.read()

    async with comity.Client(data=tmp_path / "other"), serving(silent) as server:
        card = card_of(tmp_path / "other", server.url(SEND))
        async with comity.Client(data=mine) as client:
            with pytest.raises(comity.ComityError, match=r"within 0\.2 seconds.*idempotency_key='k'"):
                await client.call(card, "hi", idempotency_key="k", timeout=0.2)


async def test_what_cannot_be_called_is_told(mine):
    client = comity.Client(data=mine)
    with pytest.raises(comity.ComityError, match="async with"):
        await client.call("http://127.0.0.1:9", "hi")
    async with client:
        with pytest.raises(comity.ComityError, match="could not be reached"):
            await client.call(f"http://127.0.0.1:{unused_port()}", "hi")
        with pytest.raises(comity.ComityError, match="nobody to call"):
            await client.call([], "hi")
        with pytest.raises(comity.ComityError, match="is not a contact, a URL, an id or a file"):
            await client.call("nonsense", "hi")
        with pytest.raises(comity.ComityError, match="no directory is known"):
            await client.find("translate")
        with pytest.raises(comity.ComityError, match="open already"):
            await client.__aenter__()


async def test_without_a_directory_that_of_the_node_on_the_folder_is_asked(mine):
    async with running_node(mine, agent=AgentSettings()) as own, comity.Client(data=mine) as client:
        assert client.directory_url == own.url
        assert await client.find("anything") == []


async def test_its_calls_stand_in_the_audit_of_the_folder(node, mine):
    async with comity.Client(data=mine) as client:
        await client.call(node.url, "one")
    verifying = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "comity", "audit", "verify", "--data", str(mine)), stdout=subprocess.PIPE
    )
    said, _ = await verifying.communicate()
    assert (verifying.returncode, b"client" in said) == (0, True)
