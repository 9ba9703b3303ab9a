"""Limits of connections, which never displace an active client, and the core features that run."""

import asyncio

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from comity.store.vault import Vault
from comity.testing import SimulatedClock
from comity.vcp.sessions import ConnectionLimits, OpenConnections, RunningFeatures
from comity.wire.errors import OverloadedError
from tests.requests.pipelines import simulated
from tests.vcp.runtime import VAULT_KEY

PEERS = ("own", "a", "b")
LIMITS = ConnectionLimits(connections=6, half_open=3, per_address=2)


class Comings(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.crowd = OpenConnections(LIMITS, has_share=lambda peer: peer != "own")
        self.silent = {}
        self.talking = {}

    @rule(peer=st.sampled_from(PEERS))
    def come(self, peer):
        result = []
        before = list(self.silent)
        held = [*self.silent.values(), *self.talking.values()].count(peer)
        try:
            number = self.crowd.enter(peer, lambda: result.append(True))
        except OverloadedError:
            assert (peer != "own" and held >= 2) or len(self.talking) == 6
            return
        assert not result
        self.silent = {known: self.silent[known] for known in before if known not in self.displaced}
        self.displaced.clear()
        self.silent[number] = peer
        self.crowd._silent[number] = lambda: self.displaced.append(number)

    @rule(choice=st.integers(0, 10))
    def speak(self, choice):
        if self.silent:
            number = list(self.silent)[choice % len(self.silent)]
            self.crowd.touch(number)
            self.talking[number] = self.silent.pop(number)

    @rule(choice=st.integers(0, 10))
    def go(self, choice):
        everybody = {**self.silent, **self.talking}
        if everybody:
            number = list(everybody)[choice % len(everybody)]
            self.crowd.gone(number)
            self.silent.pop(number, None)
            self.talking.pop(number, None)

    @invariant()
    def the_books_balance(self):
        assert len(self.crowd) == len(self.silent) + len(self.talking) <= 6
        assert self.crowd.half_open == len(self.silent) <= 3

    @property
    def displaced(self):
        return self.__dict__.setdefault("_displaced", [])


TestComings = Comings.TestCase


def test_one_who_leaves_twice_counts_once():
    crowd = OpenConnections(LIMITS, has_share=lambda _peer: True)
    numbers = [crowd.enter("a", lambda: None) for _ in range(2)]
    crowd.gone(numbers[0])
    crowd.gone(numbers[0])
    crowd.enter("a", lambda: None)
    with pytest.raises(OverloadedError, match="this address"):
        crowd.enter("a", lambda: None)


def test_the_first_to_be_silent_is_the_first_to_go():
    gone = []
    crowd = OpenConnections(LIMITS, has_share=lambda _peer: False)
    for name in range(5):
        crowd.enter("own", lambda name=name: gone.append(name))
    assert gone == [0, 1]


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
