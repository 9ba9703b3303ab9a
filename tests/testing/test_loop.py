"""The simulated loop: asyncio's own tools in time that costs nothing."""

import asyncio
import time

import pytest

from comity.testing.loop import EPOCH, DeadlockError, SimulatedClock, SimulatedLoop, run_simulated
from comity.wire.errors import InvalidError


def test_a_week_passes_at_once():
    async def week():
        loop = asyncio.get_running_loop()
        await asyncio.sleep(7 * 86_400)
        return loop.time()

    start = time.monotonic()
    assert run_simulated(week) == 7 * 86_400
    assert time.monotonic() - start < 5


def test_steps_add_up_without_crumbs():
    async def steps():
        times = []
        for _ in range(3):
            await asyncio.sleep(0.1)
            times.append(asyncio.get_running_loop().time())
        return times

    assert run_simulated(steps) == [0.1, 0.2, 0.3]


def test_timeouts_events_queues_and_task_groups_work():
    async def everything():
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[int] = asyncio.Queue(1)
        opened = asyncio.Event()

        async def producer():
            for number in range(3):
                await asyncio.sleep(1)
                await queue.put(number)
            opened.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(producer())
            got = [await queue.get() for _ in range(3)]
            await opened.wait()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(queue.get(), 2)
        return got, loop.time()

    assert run_simulated(everything) == ([0, 1, 2], 10.0)


def test_callbacks_run_in_the_order_in_which_they_were_scheduled():
    async def callbacks():
        loop = asyncio.get_running_loop()
        order = []
        for number in range(20):
            loop.call_soon(order.append, number)
        await asyncio.sleep(0)
        return order

    assert run_simulated(callbacks, seed=5) == list(range(20))


async def _order_of_equal_timers():
    order = []

    async def sleeper(number):
        await asyncio.sleep(1)
        order.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(sleeper(number))
    return tuple(order)


def test_the_seed_orders_timers_of_the_same_moment():
    assert len({run_simulated(_order_of_equal_timers, seed) for seed in range(10)}) > 5
    assert run_simulated(_order_of_equal_timers, 3) == run_simulated(_order_of_equal_timers, 3)


def test_equal_moments_stay_equal_whatever_their_order():
    async def moments():
        async def sleeper():
            await asyncio.sleep(1)
            return asyncio.get_running_loop().time()

        return set(await asyncio.gather(*(sleeper() for _ in range(20))))

    assert run_simulated(moments) == {1.0}


def test_randomness_belongs_to_the_seed():
    async def draws():
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        assert loop.seed in {7, 8}
        await asyncio.sleep(1)
        return loop.random.random()

    assert run_simulated(draws, 7) == run_simulated(draws, 7)
    assert run_simulated(draws, 7) != run_simulated(draws, 8)


def test_a_deadlock_names_who_waits_and_where():
    async def waits_for_nobody():
        await asyncio.Event().wait()

    async def deadlocked():
        async with asyncio.TaskGroup() as group:
            group.create_task(waits_for_nobody(), name="patience")

    with pytest.raises(DeadlockError, match=r"at 0\.0 s \(seed 9\).*patience at .*locks\.py") as caught:
        run_simulated(deadlocked, seed=9)
    assert "seed: 9" in caught.value.__notes__


def test_whatever_fails_carries_its_seed():
    async def fails():
        await asyncio.sleep(1)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no") as caught:
        run_simulated(fails, seed=11)
    assert caught.value.__notes__ == ["seed: 11"]


def test_a_failing_callback_fails_the_simulation():
    async def calls():
        asyncio.get_running_loop().call_soon(lambda: 1 // 0)
        await asyncio.sleep(1)

    with pytest.raises(ZeroDivisionError):
        run_simulated(calls)


def test_threads_are_refused():
    async def thread():
        await asyncio.to_thread(time.sleep, 0)

    with pytest.raises(InvalidError, match="asks for a thread"):
        run_simulated(thread)


def test_what_is_left_running_is_cancelled_at_the_end():
    ended = []

    async def leaves_one_behind():
        async def endless():
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(True)

        left = asyncio.create_task(endless())
        await asyncio.sleep(3.5)
        return left

    assert run_simulated(leaves_one_behind).cancelled()
    assert ended == [True]


def test_its_clock_reads_the_time_of_the_loop():
    async def clock():
        clock = SimulatedClock()
        await clock.sleep(2)
        await asyncio.sleep(1)
        return clock.now(), clock.monotonic()

    assert run_simulated(clock) == (EPOCH + 3, 3.0)
