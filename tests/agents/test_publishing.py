"""A node that publishes its agent in the directory of another one."""

import httpx

from comity.agents.part import Publishing
from comity.runtime.settings import AgentSettings, DirectorySettings
from comity.store.audit_log import tail
from comity.testing import bearer, running_node
from tests.waiting import eventually

SINGER = AgentSettings(behaviour="echo", capability="sings songs")


async def found(node):
    async with httpx.AsyncClient(base_url=node.url) as reader:
        answer = await reader.post("/v1/query_capability", params={"capability": "songs"})
        return [match["vacant_id"] for match in answer.json()["matches"]]


async def until(expected, node):
    """Ask until the directory says so."""

    async def found_as_expected():
        return await found(node) == expected

    await eventually(found_as_expected, interval=0.02)


async def test_it_is_found_there_and_follows_the_state_that_its_owner_sets(patience):
    async with running_node() as directory:
        settings = DirectorySettings(url=directory.url + "/", publish=True)
        async with (
            running_node(agent=SINGER, directory=settings) as node,
            httpx.AsyncClient(base_url=node.url, headers=bearer(node)) as owner,
        ):
            await node.runtime.find(Publishing).kept.attempted.wait()
            assert await found(directory) == [node.vacant_id.hex()]
            assert (await owner.get("/health")).json()["state"] == "ACTIVE"
            panel = (await owner.get("/v1/status")).json()["panels"]["publishing"]
            assert panel["rows"] == [["directory", directory.url], ["published", "event 1, PUBLIC, ACTIVE"]]
            await owner.post("/v1/state", json={"state": "SUNK"})
            await until([], directory)
            await owner.post("/v1/state", json={"state": "ACTIVE"})
            await until([node.vacant_id.hex()], directory)
            await node.store.commit()
            written = [entry.verification_result async for entry in tail(node.store, "main", 50)]
            assert written.count("CARD_PUBLISHED") >= 1


async def test_without_being_asked_a_node_publishes_nothing(patience):
    async with running_node() as directory:
        async with running_node(agent=SINGER, directory=DirectorySettings(url=directory.url)) as node:
            assert not any(isinstance(part, Publishing) for part in node.runtime.parts)
        assert await found(directory) == []
