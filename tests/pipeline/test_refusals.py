"""Refusals of strangers: counted by the minute, never one by one."""

import pytest

from comity.core.errors import UnauthenticatedError
from comity.pipeline.budget import Budget, Figures
from comity.pipeline.refusals import RefusalTally
from comity.testing import EPOCH, SimulatedClock
from tests.pipeline.walking import ANN, House, Shop, Window, settle, simulated


def shown(drafts):
    return [(draft.failed_step, draft.checks_passed) for draft in drafts]


def test_a_minute_is_told_when_the_next_one_begins_by_room_and_reason():
    tally = RefusalTally()
    for _ in range(1000):
        assert tally.count("http", "unauthenticated", EPOCH) == []
    assert tally.count("ping", "rate_limited", EPOCH + 59.9) == []
    told = tally.count("http", "unauthenticated", EPOCH + 60)
    assert shown(told) == [("http:unauthenticated", ("count:1000",)), ("ping:rate_limited", ("count:1",))]
    assert {draft.verification_result for draft in told} == {"REFUSED"}
    assert shown(tally.count("http", "forbidden", EPOCH + 120)) == [("http:unauthenticated", ("count:1",))]


def test_a_minute_is_told_once_and_only_when_it_is_over():
    tally = RefusalTally("full")
    tally.count("http", "forbidden", EPOCH)
    assert tally.close_minute(EPOCH + 30) == []
    told = tally.close_minute(EPOCH + 60)
    assert shown(told) == [("http:forbidden", ("count:1",))]
    assert told[0].audit_level == "full"
    assert told[0].created_at == "2026-01-01T00:01:00.000000Z"
    assert told[0].duration_ms == 60_000
    assert tally.close_minute(EPOCH + 120) == []


def test_what_was_counted_so_far_can_be_told_at_once():
    tally = RefusalTally()
    tally.count("http", "forbidden", EPOCH)
    assert shown(tally.close_minute(EPOCH + 1, anyway=True)) == [("http:forbidden", ("count:1",))]
    assert tally.close_minute(EPOCH + 1, anyway=True) == []


@simulated
async def test_the_walk_writes_refused_strangers_down_once_a_minute():
    clock = SimulatedClock()
    house = House(budget=Budget(clock, Figures(requests=1, per_seconds=3600)))
    await house.take(Window(principal=ANN))
    for _ in range(3):
        with pytest.raises(Exception, match="too many requests"):
            await house.take(Window(principal=ANN))
    await settle()
    assert await house.store.results() == ["WINDOW_OK"]
    house.walk.close_minute()
    await settle()
    assert await house.store.results() == ["WINDOW_OK"]  # the minute is not over
    house.walk.flush()
    await settle()
    entry = (await house.store.entries())[-1]
    assert (entry.failed_step, entry.checks_passed) == ("window:rate_limited", ("count:3",))


@simulated
async def test_the_first_refusal_of_a_new_minute_writes_the_old_one_down():
    house = House()
    stranger = Shop(identify=UnauthenticatedError("who are you?"))
    for wait in (0, 1, 60, 1):
        await house.clock.sleep(wait)
        with pytest.raises(UnauthenticatedError):
            await house.take(stranger)
    await settle()
    assert [entry.checks_passed for entry in await house.store.entries()] == [("count:2",)]
    await house.clock.sleep(60)
    house.walk.close_minute()
    await settle()
    assert [entry.checks_passed for entry in await house.store.entries()] == [("count:2",), ("count:2",)]
