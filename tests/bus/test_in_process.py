"""What the bus within one process promises beyond every Bus."""

import pytest

from comity.bus.in_process import InProcessBus
from comity.wire.errors import InvalidError


async def test_a_slow_listener_loses_its_oldest_hints_and_nobody_elses():
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
