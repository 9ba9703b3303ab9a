"""Core features are what runs; a change is noticed by those who wait for one, and costs nobody else."""

import asyncio

from comity.store.vault import Vault
from comity.testing import SimulatedClock
from comity.vcp.sessions import RunningFeatures
from tests.requests.pipelines import simulated
from tests.vcp.runtime import VAULT_KEY


class World:
    def __init__(self, **named):
        self.vault = Vault([VAULT_KEY])
        self.clock = SimulatedClock()
        self.features = RunningFeatures(self.clock, vault=lambda: self.vault, **named)


@simulated
async def test_each_flag_is_what_stands_behind_it():
    assert set(World().features.running().values()) == {True}
    world = World(audited=False, revocation=False)
    world.vault = Vault([], environment="development", plaintext=True)
    off = {name for name, flag in world.features.running().items() if not flag}
    assert off == {"encryption", "revocation", "audit_chain"}


@simulated
async def test_a_change_is_noticed_at_the_next_look():
    world = World()
    waiting = asyncio.create_task(world.features.wait_for_change(world.features.running()))
    await asyncio.sleep(10)
    assert not waiting.done()
    world.vault = Vault([])
    await asyncio.sleep(1.0)
    assert (await waiting)["encryption"] is False


@simulated
async def test_what_differs_already_is_told_at_once():
    world = World()
    assert await world.features.wait_for_change({"encryption": False}) == world.features.running()


@simulated
async def test_an_entry_that_cannot_be_written_is_a_chain_that_does_not_work():
    world = World()
    waiting = asyncio.create_task(world.features.wait_for_change(world.features.running()))
    await asyncio.sleep(0)
    world.features.audit_written(False)
    assert (await waiting)["audit_chain"] is False
    world.features.audit_written(True)
    assert world.features.running()["audit_chain"] is True


@simulated
async def test_nobody_looks_when_nobody_waits():
    world = World()
    waiting = asyncio.create_task(world.features.wait_for_change(world.features.running()))
    await asyncio.sleep(0.5)
    waiting.cancel()
    await asyncio.sleep(1.0)
    assert len(asyncio.all_tasks()) == 1
    waiting = asyncio.create_task(world.features.wait_for_change(world.features.running()))
    await asyncio.sleep(0.5)
    waiting.cancel()
    await world.features.aclose()
    await asyncio.wait([waiting])
    assert len(asyncio.all_tasks()) == 1
