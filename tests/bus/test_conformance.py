"""What every Bus does, whatever carries it."""

import asyncio

import pytest

from comity.bus.in_process import InProcessBus
from comity.wire.errors import InvalidError

pytestmark = pytest.mark.usefixtures("patience")


async def heard(listener):
    return [hint async for hint in listener]


async def test_a_hint_reaches_every_listener_of_its_subject_in_order(bus):
    async with bus.listen("pair") as first, bus.listen("pair") as second, bus.listen("other") as other:
        await bus.publish("pair", b"1")
        await bus.publish("pair", b"2")
        await bus.publish("other", b"3")
        for listener in (first, second):
            assert [await anext(listener), await anext(listener)] == [b"1", b"2"]
        assert await anext(other) == b"3"


async def test_a_hint_that_nobody_listens_for_is_gone(bus):
    await bus.publish("pair", b"early")
    async with bus.listen("pair") as listener:
        await bus.publish("pair", b"now")
        assert await anext(listener) == b"now"


async def test_a_listener_waits_for_its_hint(bus):
    async with bus.listen("pair") as listener:
        waiting = asyncio.create_task(anext(listener))
        await asyncio.sleep(0)
        assert not waiting.done()
        await bus.publish("pair", b"hint")
        assert await waiting == b"hint"
        waiting = asyncio.create_task(anext(listener))
        await asyncio.sleep(0)
        await bus.publish("pair", b"another")
        assert await waiting == b"another"


async def test_a_slow_listener_loses_its_oldest_hints_and_nobody_elses(bus):
    async with bus.listen("pair") as slow, bus.listen("pair") as quick:
        for number in range(10):
            await bus.publish("pair", b"%d" % number)
            assert await anext(quick) == b"%d" % number
        await bus.close()
        got = await heard(slow)
        assert got == [b"%d" % number for number in range(10)][-len(got) :]
        assert 0 < len(got) < 10


async def test_closing_ends_a_waiting_listener(bus):
    async with bus.listen("pair") as listener:
        waiting = asyncio.create_task(heard(listener))
        await asyncio.sleep(0)
        await bus.close()
        assert await waiting == []


async def test_closing_again_changes_nothing(bus):
    await bus.close()
    await bus.close()


async def test_on_a_closed_bus_a_hint_goes_nowhere_and_a_listener_ends(bus):
    await bus.close()
    await bus.publish("pair", b"hint")
    async with bus.listen("pair") as listener:
        await bus.publish("pair", b"hint")
        assert await heard(listener) == []


async def test_a_listener_ends_with_its_context(bus):
    async with bus.listen("pair") as listener:
        await bus.publish("pair", b"unread")
    assert await heard(listener) == []


async def test_a_listener_may_leave_while_others_stay(bus):
    async with bus.listen("pair") as staying:
        async with bus.listen("pair"):
            pass
        await bus.publish("pair", b"hint")
        assert await anext(staying) == b"hint"


# What the bus within one process promises beyond every Bus.


async def test_a_listener_keeps_as_many_hints_as_the_capacity():
    bus = InProcessBus(capacity=2)
    async with bus.listen("pair") as first, bus.listen("pair") as second:
        for number in range(3):
            await bus.publish("pair", b"%d" % number)
        assert await anext(second) == b"1"
        await bus.publish("pair", b"3")
        assert [await anext(first), await anext(first)] == [b"2", b"3"]
        assert [await anext(second), await anext(second)] == [b"2", b"3"]


async def test_hints_published_before_the_end_are_still_heard():
    bus = InProcessBus()
    async with bus.listen("pair") as listener:
        await bus.publish("pair", b"last")
        await bus.close()
        assert [hint async for hint in listener] == [b"last"]


def test_a_bus_that_could_hear_nothing_is_refused():
    with pytest.raises(InvalidError, match="capacity of 0"):
        InProcessBus(capacity=0)
