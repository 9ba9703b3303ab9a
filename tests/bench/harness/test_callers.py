"""Many callers at once."""

import asyncio

import pytest

from bench.harness.callers import answers_per_second


async def test_callers_ask_side_by_side_until_the_time_is_over(patience):
    now = 0.0
    asked = []
    waiting = []

    def caller(name):
        async def ask():
            """Nobody is answered before all have asked; then time passes."""
            nonlocal now
            asked.append(name)
            waiting.append(asyncio.Event())
            mine = waiting[-1]
            if len(waiting) == 3:
                now += 0.75
                for event in waiting:
                    event.set()
                waiting.clear()
            await mine.wait()

        return ask

    rate = await answers_per_second([caller(name) for name in "abc"], 2.0, timer=lambda: now)

    # the third time begins at 1.5 s, in time, and ends at 2.25 s
    assert sorted(asked) == list("aaabbbccc")
    assert rate == 9 / 2.25


async def test_a_caller_that_is_refused_ends_the_measurement():
    async def ask():
        raise ConnectionError("refused")

    with pytest.raises(ConnectionError, match="refused"):
        await answers_per_second([ask], 1.0)
