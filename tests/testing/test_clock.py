"""The virtual clock."""

import asyncio

import pytest

from comity.testing.loop import EPOCH, VirtualClock
from comity.wire.errors import InvalidError


async def test_it_stands_still_until_it_is_moved():
    clock = VirtualClock()
    await asyncio.sleep(0)
    assert (clock.now(), clock.monotonic()) == (EPOCH, 0.0)
    await clock.advance(2.5)
    assert (clock.now(), clock.monotonic()) == (EPOCH + 2.5, 2.5)
    clock.jump(0.5)
    assert (clock.now(), clock.monotonic()) == (EPOCH + 3.0, 3.0)


async def test_sleepers_wake_in_the_order_of_their_deadlines_each_at_its_own_moment():
    clock = VirtualClock()
    woken = []

    async def sleeper(seconds):
        await clock.sleep(seconds)
        woken.append((seconds, clock.monotonic()))

    async with asyncio.TaskGroup() as group:
        for seconds in (3, 1, 4, 2):
            group.create_task(sleeper(seconds))
        await clock.advance(3.5)
        assert woken == [(1, 1.0), (2, 2.0), (3, 3.0)]
        assert clock.sleepers == 1
        await clock.advance(0.5)
    assert woken[-1] == (4, 4.0)


async def test_a_sleeper_that_sleeps_again_is_woken_within_the_same_advance():
    clock = VirtualClock()
    ticks = []

    async def ticker():
        for _ in range(3):
            await clock.sleep(0.1)
            ticks.append(clock.monotonic())

    task = asyncio.create_task(ticker())
    await clock.advance(0.3)
    assert ticks == [0.1, 0.2, 0.3]
    await task


async def test_what_a_sleeper_hands_over_happens_before_time_goes_on():
    clock = VirtualClock()
    queue: asyncio.Queue[float] = asyncio.Queue()
    seen = []

    async def producer():
        await clock.sleep(1)
        await queue.put(clock.monotonic())

    async def consumer():
        await queue.get()
        seen.append(clock.monotonic())

    async with asyncio.TaskGroup() as group:
        group.create_task(producer())
        group.create_task(consumer())
        await clock.advance(10)
    assert seen == [1.0]


async def test_a_jump_wakes_all_who_are_due_at_the_same_late_moment():
    clock = VirtualClock()
    woken = []

    async def sleeper(seconds):
        await clock.sleep(seconds)
        woken.append(clock.monotonic())

    async with asyncio.TaskGroup() as group:
        group.create_task(sleeper(1))
        group.create_task(sleeper(2))
        await asyncio.sleep(0)
        clock.jump(5)
    assert woken == [5.0, 5.0]


async def test_a_cancelled_sleeper_is_forgotten():
    clock = VirtualClock()
    task = asyncio.create_task(clock.sleep(1))
    await asyncio.sleep(0)
    assert clock.sleepers == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert clock.sleepers == 0
    await clock.advance(2)


@pytest.mark.parametrize("seconds", [0, -1, 1e-12])
async def test_a_sleep_of_no_length_only_lets_others_go_first(seconds):
    clock = VirtualClock()
    async with asyncio.timeout(5):
        await clock.sleep(seconds)


async def test_time_never_goes_back():
    clock = VirtualClock()
    with pytest.raises(InvalidError, match="go back"):
        await clock.advance(-1)
    with pytest.raises(InvalidError, match="go back"):
        clock.jump(-1)
