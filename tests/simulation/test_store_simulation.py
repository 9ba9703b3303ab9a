"""Stores that crash under writers that insist: 200 stories, each told by its seed.

`COMITY_SIM_SEEDS` sets how many; `COMITY_SEED` tells one of them again.
"""

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter

import pytest

from comity.store.group_commit import PendingTransaction
from comity.store.interface import Acquire, Advance, Fence, KeepReply, Lease, Put, Tip
from comity.store.memory import MemoryDisk, MemoryStore
from comity.wire.errors import ComityError
from tests.places import ROOT
from tests.simulation.world import CrashingStore, simulate

BATCH = 20


def batches():
    if "COMITY_SEED" in os.environ:
        seed = int(os.environ["COMITY_SEED"])
        return [range(seed, seed + 1)]
    seeds = int(os.environ.get("COMITY_SIM_SEEDS", "200"))
    return [range(first, min(first + BATCH, seeds)) for first in range(0, seeds, BATCH)]


@pytest.mark.parametrize("seeds", batches(), ids=lambda seeds: f"seeds {seeds[0]} to {seeds[-1]}")
def test_what_was_acknowledged_is_kept_once_and_in_one_line(seeds):
    for seed in seeds:
        simulate(seed)


def test_the_same_seed_tells_the_same_story():
    assert simulate(3).trace == simulate(3).trace
    assert simulate(3).trace != simulate(4).trace


def test_the_story_is_the_same_in_another_process():
    program = (
        "import hashlib; from tests.simulation.world import simulate\n"
        "print(hashlib.sha256(simulate(5).trace).hexdigest())"
    )
    told = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "12345"},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert told.stdout.strip() == hashlib.sha256(simulate(5).trace).hexdigest()


def test_the_world_is_as_bad_as_it_claims():
    happened: Counter[str] = Counter()
    for seed in range(20):
        world = simulate(seed)
        happened += world.happened
        for link in world.links:
            happened += Counter(vars(link.counts))
    crashes = ["crashes-moment", "crashes-before", "crashes-after"]
    for event in [*crashes, "repeats", "ignores", "lost", "duplicated", "reordered", "cuts"]:
        assert happened[event] >= 10, f"{event} happens only {happened[event]} times"


class AcknowledgesBeforeTheCommit(CrashingStore):
    """Says yes to what will be committed, a moment before it is."""

    def submit(self, operations, audit=()):
        committing = super().submit(operations, audit)
        disk = MemoryDisk()
        for name, table in vars(self._disk).items():
            setattr(disk, name, dict(table))
        outcome = MemoryStore(self._clock, disk)._run(
            PendingTransaction(operations, (), committing.get_loop())
        )
        if isinstance(outcome, Exception):
            return committing
        committing.add_done_callback(lambda done: done.exception())
        told = committing.get_loop().create_future()
        told.set_result(outcome)
        return told


class LeavesHalfOfWhatItRefuses(CrashingStore):
    def _run(self, work):
        results = ()
        for operation in work.operations:
            outcome = super()._run(PendingTransaction([operation], (), work.future.get_loop()))
            if isinstance(outcome, Exception):
                return outcome
            results += outcome
        super()._run(PendingTransaction((), work.audit, work.future.get_loop()))
        return results


class AuditsWhatItRefuses(CrashingStore):
    def _run(self, work):
        outcome = super()._run(PendingTransaction(work.operations, (), work.future.get_loop()))
        super()._run(PendingTransaction((), work.audit, work.future.get_loop()))
        return outcome


class ForgetsToAudit(CrashingStore):
    def _run(self, work):
        drafts = () if len(self._disk.tips) == 2 else work.audit
        return super()._run(PendingTransaction(work.operations, drafts, work.future.get_loop()))


class ForgetsRepliesWhenItStarts(CrashingStore):
    def __init__(self, clock, disk, trail, **settings):
        disk.replies.clear()
        super().__init__(clock, disk, trail, **settings)


class Rewriting(CrashingStore):
    """A store that does something else than it was asked."""

    def rewrite(self, operation):
        raise NotImplementedError

    def _run(self, work):
        operations = [kept for kept in map(self.rewrite, work.operations) if kept is not None]
        outcome = super()._run(PendingTransaction(operations, work.audit, work.future.get_loop()))
        return outcome if isinstance(outcome, Exception) else (*outcome, None)[: len(work.operations)]


class AdvancesWhateverWasExpected(Rewriting):
    def rewrite(self, operation):
        if isinstance(operation, Advance):
            current = self._disk.tips.get(operation.chain, Tip())
            return Advance(chain=operation.chain, expected=current, to=operation.to)
        return operation


class KeepsNoReplies(Rewriting):
    def rewrite(self, operation):
        return None if isinstance(operation, KeepReply) else operation


class PutsWhateverWasExpected(Rewriting):
    def rewrite(self, operation):
        if isinstance(operation, Put):
            return Put(space=operation.space, key=operation.key, value=operation.value)
        return operation


class IgnoresTheFence(Rewriting):
    def rewrite(self, operation):
        return None if isinstance(operation, Fence) else operation


class LendsTwiceUnderOneToken(Rewriting):
    def rewrite(self, operation):
        held = self._disk.leases.get(operation.name) if isinstance(operation, Acquire) else None
        if held is not None:
            self._disk.leases[held.name] = Lease(held.name, operation.holder, held.token, held.expires_at)
        return operation


class LendsBeforeTheEnd(Rewriting):
    def rewrite(self, operation):
        held = self._disk.leases.get(operation.name) if isinstance(operation, Acquire) else None
        if held is not None and held.holder != operation.holder:
            self._disk.leases[held.name] = Lease(held.name, held.holder, held.token, 0.0)
        return operation


class StartsTokensAgain(Rewriting):
    def rewrite(self, operation):
        held = self._disk.leases.get(operation.name) if isinstance(operation, Acquire) else None
        if held is not None and held.expires_at <= self._clock.now():
            del self._disk.leases[held.name]
        return operation


@pytest.mark.parametrize(
    ("engine", "finding"),
    [
        (AcknowledgesBeforeTheCommit, "acknowledged"),
        (LeavesHalfOfWhatItRefuses, "does not follow|tip of|audit log"),
        (AuditsWhatItRefuses, "audit log"),
        (ForgetsToAudit, "audit log"),
        (ForgetsRepliesWhenItStarts, "kept|acknowledged"),
        (AdvancesWhateverWasExpected, "does not follow|two winners|tip of"),
        (KeepsNoReplies, "kept|acknowledged"),
        (PutsWhateverWasExpected, "acknowledged|written twice"),
        (IgnoresTheFence, "a fence did not hold"),
        (LendsTwiceUnderOneToken, "is held by"),
        (LendsBeforeTheEnd, "at once"),
        (StartsTokensAgain, "is held by|at once"),
    ],
)
def test_a_broken_store_is_found_out(engine, finding):
    def search():
        for seed in range(100):
            simulate(seed, engine)

    with pytest.raises((AssertionError, ComityError)) as caught:
        search()
    assert re.search(finding, str(caught.value)), caught.value
    assert caught.value.__notes__[0].startswith("seed: ")
