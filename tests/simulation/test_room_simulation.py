"""Peers over links that lose, double, reorder and break, between processes that die: stories told by their seeds.

`COMITY_SIM_SEEDS` sets how many; `COMITY_SEED` tells one of them again.
"""

import os
from collections import Counter

import pytest

from comity.rooms.protocol.messages import MessageKept
from comity.testing.links import seeded
from tests.simulation.room_story import Story
from tests.simulation.rooms import Host

BATCH = 10


def batches():
    if "COMITY_SEED" in os.environ:
        seed = int(os.environ["COMITY_SEED"])
        return [range(seed, seed + 1)]
    seeds = int(os.environ.get("COMITY_SIM_SEEDS", "60"))
    return [range(first, min(first + BATCH, seeds)) for first in range(0, seeds, BATCH)]


def story(seed, host_type=Host):
    with seeded(seed):
        return Story(seed, host_type).tell()


@pytest.mark.parametrize("seeds", batches(), ids=lambda seeds: f"seeds {seeds[0]} to {seeds[-1]}")
def test_files_are_exact_state_is_equal_and_every_receipt_is_true(seeds):
    for seed in seeds:
        story(seed)


def test_the_same_seed_tells_the_same_story():
    assert story(3).world.trace == story(3).world.trace
    assert story(3).world.trace != story(4).world.trace


def test_the_world_is_as_bad_as_it_claims():
    happened = Counter()
    for seed in range(8):
        happened += story(seed).world.happened
    for event in (
        "lost",
        "doubled",
        "reordered",
        "crashes",
        "cuts",
        "attacks",
        "files",
        "receipts",
        "clocks set",
    ):
        assert happened[event] >= 10, f"{event} happens only {happened[event]} times"


class ReceiptsBeforeItKeeps(Host):
    """Says that a message is kept, and forgets it with the next crash."""

    def _keep(self, effect):
        if getattr(effect, "box", "") == "in":
            self.world.later(0, self, MessageKept(effect.node, effect.message_id))
            return
        super()._keep(effect)

    _ACTS = {**Host._ACTS}  # noqa: RUF012 - a table
    for effect_type, act in Host._ACTS.items():
        if act is Host._keep:
            _ACTS[effect_type] = _keep


class LosesWhatItWrote(Host):
    """Acknowledges chunks that are gone after a crash."""

    def crash(self):
        super().crash()
        for name, file in self.disk.files.items():
            self.disk.files[name] = bytearray(len(file))


class ForgetsWhatItHadRead(Host):
    def boot(self):
        self.read_ids = []
        super().boot()


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        (ReceiptsBeforeItKeeps, "not delivered"),
        (ForgetsWhatItHadRead, "read twice|has no receipt"),
        (LosesWhatItWrote, "differs"),
    ],
)
def test_a_broken_host_is_noticed(broken, complaint):
    def tell_many():
        for seed in range(100):
            story(seed, broken)

    with pytest.raises(AssertionError, match=complaint):
        tell_many()
