"""Quotas: what strangers may make the node store, and what they hear when there is no more room."""

import asyncio

import pytest

from comity.requests.budget import Quota
from comity.store.interface import Hold
from comity.store.memory import MemoryStore
from comity.testing import VirtualClock
from comity.wire.errors import StorageFullError

TOTAL = 3200
SHARE = 100


class NodeRuntime:
    def __init__(self):
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        self.quota = Quota(
            self.store, self.clock, name="things", total=TOTAL, has_share=lambda address: address != "own"
        )
        self.items = 0

    async def put(self, address, size, *, known=False):
        holder = self.quota.holder_of(address)
        await self.quota.reserve(holder, size, known=known)
        self.items += 1
        await self.store.commit(Hold(quota="things", item=str(self.items), holder=holder, bytes=size))
        self.quota.end_reservation(holder, size, stored=True)

    async def forget(self, item):
        await self.store.commit(Hold(quota="things", item=str(item), holder="", bytes=0))


@pytest.fixture
def runtime():
    return NodeRuntime()


async def test_one_address_holds_a_32nd_and_no_more(runtime):
    await runtime.put("192.0.2.1", 60)
    await runtime.put("192.0.2.1", 40)
    with pytest.raises(StorageFullError, match="would exceed its 100 bytes of things"):
        await runtime.put("192.0.2.1", 1)
    await runtime.put("192.0.2.2", SHARE)
    assert runtime.quota.held == 200


async def test_the_last_quarter_is_for_those_who_are_known(runtime):
    await runtime.put("own", TOTAL * 3 // 4)
    with pytest.raises(StorageFullError, match="no room for 1 more bytes of things"):
        await runtime.put("192.0.2.1", 1)
    with pytest.raises(StorageFullError):
        await runtime.put("own", 1)
    await runtime.put("192.0.2.1", 50, known=True)
    await runtime.put("own", TOTAL // 4 - 50, known=True)
    with pytest.raises(StorageFullError):
        await runtime.put("192.0.2.1", 1, known=True)
    assert await runtime.store.held("things") == TOTAL


async def test_what_was_forgotten_makes_room_a_second_later(runtime):
    await runtime.put("192.0.2.1", SHARE)
    with pytest.raises(StorageFullError):
        await runtime.put("192.0.2.1", 10)
    await runtime.forget(1)
    await runtime.clock.advance(1)
    await runtime.put("192.0.2.1", 10)
    assert await runtime.store.held("things") == 10


async def test_a_restart_forgets_nothing(runtime):
    await runtime.put("192.0.2.1", 90)
    runtime.quota = Quota(runtime.store, runtime.clock, name="things", total=TOTAL, has_share=lambda _: True)
    await runtime.quota.refresh()
    assert runtime.quota.held == 90
    with pytest.raises(StorageFullError):
        await runtime.put("192.0.2.1", 11)
    await runtime.put("192.0.2.1", 10)


async def test_bytes_that_are_set_aside_count_until_they_are_given_back(runtime):
    holder = runtime.quota.holder_of("192.0.2.1")
    await runtime.quota.reserve(holder, 80, known=False)
    with pytest.raises(StorageFullError):
        await runtime.put("192.0.2.1", 30)
    runtime.quota.end_reservation(holder, 80, stored=False)
    await runtime.put("192.0.2.1", 30)
    assert runtime.quota.held == 30


async def test_those_who_come_first_at_the_same_time_are_all_let_in(runtime):
    await asyncio.gather(*(runtime.put("192.0.2.1", 10) for _ in range(10)))
    with pytest.raises(StorageFullError):
        await runtime.put("192.0.2.1", 1)


async def test_of_many_at_once_no_more_get_in_than_there_is_room_for(runtime):
    outcomes = await asyncio.gather(
        *(runtime.put("192.0.2.1", 30) for _ in range(10)), return_exceptions=True
    )
    assert sum(outcome is None for outcome in outcomes) == 3
    assert all(isinstance(outcome, StorageFullError) for outcome in outcomes if outcome is not None)
    assert await runtime.store.held("things") == 90


def test_an_address_is_not_stored(runtime):
    holder = runtime.quota.holder_of("192.0.2.1")
    assert "192.0.2.1" not in holder
    assert holder == runtime.quota.holder_of("192.0.2.1") != runtime.quota.holder_of("192.0.2.2")
    assert runtime.quota.holder_of("own") == ""
