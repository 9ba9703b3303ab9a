"""Chores: each in its own rhythm, none kept from its next time by a failure."""

import asyncio

import pytest

from comity.runtime.node_runtime import run_chores
from comity.runtime.part import Chore
from comity.testing import SimulatedClock, VirtualClock
from comity.wire.errors import StoreFullError
from tests.requests.pipelines import simulated


@simulated
async def test_each_chore_is_done_soon_and_then_in_its_own_rhythm():
    clock = SimulatedClock()
    done = []

    def chore(name):
        async def do():
            done.append((name, round(clock.monotonic())))

        return do

    keeping = asyncio.create_task(run_chores(clock, [Chore(60, chore("sweep")), Chore(150, chore("air"))]))
    await clock.sleep(301)
    assert done == [
        ("sweep", 60),
        ("air", 60),
        ("sweep", 120),
        ("sweep", 180),
        ("air", 210),
        ("sweep", 240),
        ("sweep", 300),
    ]
    keeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await keeping


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        (
            StoreFullError("no space is left"),
            "a periodic task failed and will be tried again: no space is left",
        ),
        (KeyError("bug"), "a periodic task failed and will be tried again"),
    ],
)
@simulated
async def test_a_chore_that_fails_is_tried_again_and_holds_up_no_other(failure, line, caplog):
    clock = SimulatedClock()
    done = []

    async def fail():
        done.append("tried")
        raise failure

    async def work():
        done.append("worked")

    keeping = asyncio.create_task(run_chores(clock, [Chore(60, fail), Chore(60, work)]))
    await clock.sleep(121)
    keeping.cancel()
    assert done == ["tried", "worked"] * 2
    assert [record.getMessage() for record in caplog.records] == [line] * 2


@simulated
async def test_a_chore_that_takes_long_is_not_made_up_for():
    clock = SimulatedClock()
    done = []

    async def dawdle():
        done.append(clock.monotonic())
        await clock.sleep(200)

    keeping = asyncio.create_task(run_chores(clock, [Chore(60, dawdle)]))
    await clock.sleep(600)
    keeping.cancel()
    assert [round(at) for at in done] == [60, 260, 460]


async def test_a_machine_that_slept_does_each_chore_once_and_not_for_every_time_it_missed():
    clock = VirtualClock()
    done = []

    async def work():
        done.append(clock.monotonic())

    keeping = asyncio.create_task(run_chores(clock, [Chore(60, work)]))
    await clock.advance(0)
    clock.jump(10 * 3600)
    await clock.advance(0)
    assert done == [36_000]
    await clock.advance(60)
    assert done == [36_000, 36_060]
    keeping.cancel()
