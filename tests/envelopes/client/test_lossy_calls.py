"""Calls through bad weather: lost requests, lost replies, doubled requests, crashes on both sides.

`COMITY_SIM_SEEDS` sets how many stories are told; `COMITY_SEED` tells one of them again.
"""

import asyncio
import os

import pytest

from comity.testing.links import Randomness
from comity.testing.loop import SimulatedClock, run_simulated
from tests.envelopes.client.lossy_world import CalledNode, Caller, Network
from tests.envelopes.client.model_target import text_of

BATCH = 10
CHAOS_SECONDS = 20.0
PATIENCE_SECONDS = 3600.0


def batches():
    if "COMITY_SEED" in os.environ:
        seed = int(os.environ["COMITY_SEED"])
        return [range(seed, seed + 1)]
    seeds = int(os.environ.get("COMITY_SIM_SEEDS", "200")) // 5
    return [range(first, min(first + BATCH, seeds)) for first in range(0, seeds, BATCH)]


def world(seed, *, callers, caller_crashing=0.0):
    clock, randomness = SimulatedClock(), Randomness(seed)
    node = CalledNode(clock, randomness.branch("node"), crashing=0.04)
    network = Network(clock, randomness.branch("network"), node, loss=0.15)
    people = [
        Caller(number, clock, randomness.branch(f"caller {number}"), network, crashing=caller_crashing)
        for number in range(1, callers + 1)
    ]
    loop = asyncio.get_running_loop()
    for calmed in (node, network, *people):
        loop.call_later(CHAOS_SECONDS, calmed.calm)
    return node, network, people


async def parallel_callers(seed):
    """Several callers, each of which calls from several places at once."""
    node, network, people = world(seed, callers=3)

    async def talk(caller, place):
        for number in range(4):
            text = f"{caller.name}.{place}.{number}"
            result = await caller.call(node.card, text)
            assert text_of(result.response_envelope) == f"echo {text}"
            assert result.request_envelope.payload.parts[0].text == text

    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.gather(*(talk(caller, place) for caller in people for place in range(2)))
    for caller in people:
        assert caller.agrees_with(node)
        assert caller.accepted_by(node) == 8
    return node, network, people


async def crashing_callers(seed):
    """Callers that die in the middle of their calls, and make each again until it is answered."""
    node, network, people = world(seed, callers=3, caller_crashing=0.1)
    answered = []

    async def talk(caller):
        for number in range(6):
            text = f"{caller.name}.{number}"
            result = await caller.call_until_answered(node.card, text)
            assert text_of(result.response_envelope) == f"echo {text}"
            answered.append(result.request_envelope.compute_hash())

    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.gather(*(talk(caller) for caller in people))
    assert len(set(answered)) == 18
    for caller in people:
        assert caller.agrees_with(node)
        assert caller.accepted_by(node) == 6
    return node, network, people


@pytest.mark.parametrize("seeds", batches(), ids=lambda seeds: f"seeds {seeds[0]} to {seeds[-1]}")
@pytest.mark.parametrize("story", [parallel_callers, crashing_callers])
def test_every_call_is_answered_once_and_both_sides_agree(story, seeds):
    for seed in seeds:
        run_simulated(lambda seed=seed: story(seed), seed)


def test_the_weather_is_bad_enough_to_mean_something():
    lost = node_crashes = caller_crashes = runs = 0
    for seed in range(5):
        node, network, people = run_simulated(lambda seed=seed: crashing_callers(seed), seed)
        lost += network.lost
        node_crashes += node.crashes
        caller_crashes += sum(caller.crashes for caller in people)
        runs += len(node.runs)
    assert lost > 20
    assert node_crashes > 5
    assert caller_crashes > 10
    assert runs > 5 * 18  # crashes before the commit make the same call run again
