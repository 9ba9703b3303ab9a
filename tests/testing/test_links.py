"""Simulated links: each fault alone, counted, and the same for the same seed."""

import asyncio

import pytest

from comity.testing.links import Faults, Randomness, simulated_pair
from comity.testing.loop import SimulatedClock, VirtualClock, run_simulated
from comity.wire.errors import InvalidError
from comity.wire.link import LinkClosed

MESSAGES = [b"%d" % number for number in range(200)]


def exchange(faults, seed=1, messages=MESSAGES):
    """Send all messages; return what arrived, when, and the sender's counts."""

    async def simulation():
        clock = SimulatedClock()
        left, right = simulated_pair(clock=clock, randomness=Randomness(seed), faults=faults, capacity=1000)
        arrived = []

        async def reader():
            while True:
                message = await right.receive()
                arrived.append((message, clock.monotonic()))

        reading = asyncio.create_task(reader())
        for message in messages:
            await left.send(message)
        await clock.sleep(60)
        reading.cancel()
        await left.close()
        await right.close()
        return arrived, left.counts

    return run_simulated(simulation, seed)


def test_without_faults_all_arrives_in_order_after_a_delay():
    arrived, counts = exchange(Faults(min_delay=0.5, max_delay=1.0))
    assert [message for message, _ in arrived] == MESSAGES
    assert 0.5 <= arrived[0][1] <= arrived[-1][1] <= 1.0
    assert (counts.sent, counts.delivered, counts.lost) == (200, 200, 0)


def test_lost_messages_are_counted_and_the_rest_keeps_its_order():
    arrived, counts = exchange(Faults(loss=0.3))
    got = [int(message) for message, _ in arrived]
    assert got == sorted(got)
    assert counts.lost == 200 - len(got) == 200 - counts.delivered
    assert 30 < counts.lost < 90


def test_doubled_messages_arrive_twice():
    arrived, counts = exchange(Faults(duplication=0.25))
    got = [message for message, _ in arrived]
    assert set(got) == set(MESSAGES)
    assert len(got) == 200 + counts.duplicated == counts.delivered
    assert counts.duplicated > 20


def test_reordered_messages_all_arrive():
    arrived, counts = exchange(Faults(reordering=0.5))
    got = [message for message, _ in arrived]
    assert sorted(got, key=int) == MESSAGES != got
    assert counts.reordered > 50


def test_a_cut_ends_both_sides():
    async def simulation():
        left, right = simulated_pair(clock=SimulatedClock(), randomness=Randomness(1), faults=Faults(cut=1))
        await left.send(b"last")
        with pytest.raises(LinkClosed, match="cut"):
            await right.receive()
        with pytest.raises(LinkClosed, match="cut"):
            await left.send(b"more")
        assert left.counts.cuts == 1

    run_simulated(simulation)


def test_a_partition_can_be_made_and_healed():
    async def simulation():
        clock = SimulatedClock()
        left, right = simulated_pair(clock=clock, randomness=Randomness(1))
        left.faults = Faults(loss=1)
        await left.send(b"lost")
        left.faults = Faults()
        await left.send(b"kept")
        assert await right.receive() == b"kept"
        await left.close()

    run_simulated(simulation)


def test_a_sender_waits_while_too_much_is_on_its_way():
    async def simulation():
        clock = SimulatedClock()
        faults = Faults(min_delay=5, max_delay=5)
        left, right = simulated_pair(clock=clock, randomness=Randomness(1), faults=faults, capacity=2)
        for number in range(3):
            await left.send(b"%d" % number)
        assert clock.monotonic() == 5.0
        await left.close()
        await right.close()

    run_simulated(simulation)


def test_what_is_lost_makes_room():
    async def simulation():
        faults = Faults(loss=1)
        left, _ = simulated_pair(clock=SimulatedClock(), randomness=Randomness(1), faults=faults, capacity=2)
        for message in MESSAGES:
            await left.send(message)
        assert left.counts.lost == len(MESSAGES)

    run_simulated(simulation)


def test_what_is_on_its_way_is_lost_with_the_link():
    async def simulation():
        left, right = simulated_pair(clock=SimulatedClock(), randomness=Randomness(1))
        await left.send(b"on its way")
        await left.close("enough")
        with pytest.raises(LinkClosed, match="enough"):
            await right.receive()

    run_simulated(simulation)


def test_the_same_seed_treats_the_same_traffic_in_the_same_way():
    faults = Faults(loss=0.1, duplication=0.1, reordering=0.3)
    assert exchange(faults, seed=4) == exchange(faults, seed=4)
    assert exchange(faults, seed=4) != exchange(faults, seed=5)


async def test_it_runs_on_a_virtual_clock_too():
    clock = VirtualClock()
    left, right = simulated_pair(clock=clock, randomness=Randomness(1))
    await left.send(b"hello")
    reading = asyncio.create_task(right.receive())
    await asyncio.sleep(0)
    assert not reading.done()
    await clock.advance(0.01)
    assert await reading == b"hello"
    await left.close()


@pytest.mark.parametrize(
    "wrong", [{"loss": 1.5}, {"cut": -0.1}, {"min_delay": 2, "max_delay": 1}, {"min_delay": -1}]
)
def test_impossible_faults_are_refused(wrong):
    with pytest.raises(InvalidError, match=next(iter(wrong))):
        Faults(**wrong)
