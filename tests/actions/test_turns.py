import asyncio

import pytest

from comity.actions.workers import ActionQueue
from comity.wire.errors import OverloadedError


class Crowd:
    """Callers at one queue. Who got a turn is written down, in order."""

    def __init__(self, turns):
        self.turns = turns
        self.served = []
        self.working = {}

    def ask(self, caller, weight=1.0, *, long=False):
        done = asyncio.Event()

        async def work():
            async with self.turns.turn(caller, weight, long=long):
                self.served.append(caller)
                await done.wait()

        task = asyncio.ensure_future(work())
        self.working[task] = done
        return task

    async def finish(self, task):
        self.working.pop(task).set()
        await task
        await self.pause()

    async def finish_all(self):
        while self.working:
            for task, done in tuple(self.working.items()):
                done.set()
                if task.done():
                    self.working.pop(task)
            await self.pause()

    async def pause(self):
        for _ in range(5):
            await asyncio.sleep(0)


async def test_one_caller_never_holds_all_places():
    crowd = Crowd(ActionQueue(2))
    for _ in range(5):
        crowd.ask("greedy")
    await crowd.pause()
    assert crowd.served == ["greedy"]
    crowd.ask("other")
    await crowd.pause()
    assert crowd.served == ["greedy", "other"]
    await crowd.finish_all()


async def test_long_work_of_all_callers_together_leaves_a_place():
    crowd = Crowd(ActionQueue(2))
    for name in ("a", "b", "c"):
        crowd.ask(name, long=True)
    await crowd.pause()
    assert crowd.served == ["a"]
    crowd.ask("d", weight=1000)
    await crowd.pause()
    assert crowd.served == ["a", "d"]
    await crowd.finish_all()
    assert crowd.served == ["a", "d", "b", "c"]


async def test_callers_take_turns_however_many_calls_each_has_waiting():
    crowd = Crowd(ActionQueue(1))
    for _ in range(4):
        crowd.ask("a")
    await crowd.pause()
    for _ in range(3):
        crowd.ask("b")
    await crowd.pause()
    await crowd.finish_all()
    assert crowd.served == ["a", "b", "a", "b", "a", "b", "a"]


async def test_a_small_call_does_not_wait_for_large_ones_of_new_names():
    crowd = Crowd(ActionQueue(1))
    for number in range(8):
        crowd.ask(f"new {number}", weight=60_000)
    await crowd.pause()
    crowd.ask("honest", weight=5_000)
    await crowd.pause()
    await crowd.finish_all()
    assert crowd.served[:2] == ["new 0", "honest"]


async def test_a_large_call_is_not_put_off_for_ever_by_small_ones():
    crowd = Crowd(ActionQueue(1))
    first = crowd.ask("first")
    await crowd.pause()
    crowd.ask("large", weight=10)
    small = [crowd.ask(f"small {number}") for number in range(3)]
    await crowd.pause()
    await crowd.finish(first)
    for number in range(3, 40):
        await crowd.finish(small.pop(0))
        small.append(crowd.ask(f"small {number}"))
        await crowd.pause()
        if "large" in crowd.served:
            break
    assert "large" in crowd.served
    await crowd.finish_all()


async def test_one_caller_may_have_only_so_many_waiting_and_learns_when_to_come_back():
    crowd = Crowd(ActionQueue(1, per_caller=2))
    for _ in range(3):
        crowd.ask("a")
    await crowd.pause()
    with pytest.raises(OverloadedError, match=r"2 calls of yours .* try again in \d+ seconds") as refused:
        await crowd.ask("a")
    assert refused.value.retry_after >= 1
    other = crowd.ask("b")
    await crowd.pause()
    assert not other.done()
    crowd.working = {task: done for task, done in crowd.working.items() if not task.done()}
    await crowd.finish_all()
    assert crowd.served == ["a", "b", "a", "a"]


async def test_in_a_full_queue_the_one_that_would_be_last_makes_room():
    crowd = Crowd(ActionQueue(1, total=2))
    crowd.ask("a")
    await crowd.pause()
    crowd.ask("b", weight=10)
    large = crowd.ask("c", weight=100)
    await crowd.pause()
    with pytest.raises(OverloadedError, match="2 calls are waiting here"):
        await crowd.ask("d", weight=1000)
    crowd.ask("e", weight=1)
    with pytest.raises(OverloadedError, match="try again in"):
        await large
    crowd.working = {task: done for task, done in crowd.working.items() if not task.done()}
    await crowd.finish_all()
    assert crowd.served == ["a", "e", "b"]


async def test_who_stops_waiting_leaves_the_queue_and_passes_a_turn_on():
    turns = ActionQueue(1)
    crowd = Crowd(turns)
    first, second, third = (crowd.ask(name) for name in "abc")
    await crowd.pause()
    second.cancel()
    await crowd.pause()
    crowd.working[first].set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # the third has its turn and does not know yet
    third.cancel()
    await asyncio.wait([first, second, third])
    async with asyncio.timeout(5), turns.turn("d", 1):
        pass
    assert crowd.served[0] == "a"


async def test_a_turn_is_not_given_to_who_was_cancelled_in_the_same_moment():
    turns = ActionQueue(1)
    crowd = Crowd(turns)
    first, second, third = (crowd.ask(name) for name in "abc")
    await crowd.pause()
    crowd.working[first].set()
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait([second])
    await crowd.pause()
    assert crowd.served == ["a", "c"]
    crowd.working[third].set()
    await third


async def test_all_who_wait_may_be_cancelled_at_once():
    turns = ActionQueue(1)
    crowd = Crowd(turns)
    tasks = [crowd.ask(name) for name in "abc"]
    await crowd.pause()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert all(task.cancelled() for task in tasks)
    async with asyncio.timeout(5), turns.turn("d", 1):
        pass


async def test_what_a_caller_used_long_ago_is_forgotten():
    turns = ActionQueue(1)
    async with turns.turn("a", 1_000_000):
        pass
    crowd = Crowd(turns)
    blocking = crowd.ask("b")
    await crowd.pause()
    crowd.ask("c", weight=2)
    crowd.ask("a")
    await crowd.pause()
    await crowd.finish(blocking)
    await crowd.finish_all()
    assert crowd.served == ["b", "a", "c"]
