"""Which transactions share a commit, and that nobody is forgotten."""

import asyncio
import threading

import pytest

from comity.store.group_commit import BATCH_OPERATIONS, GroupCommit
from comity.store.operations import Put

PUT = Put(space="s", key="k", value=b"v")
PATIENCE = 5.0


class Disk:
    """Writes nothing, and nothing gets past it before it is let go."""

    def __init__(self):
        self.begun = threading.Event()
        self.let_go = threading.Event()
        self.batches = []

    def write(self, batch):
        self.begun.set()
        assert self.let_go.wait(PATIENCE)
        self.batches.append(len(batch))
        return [(len(self.batches),)] * len(batch)

    async def busy(self):
        assert await asyncio.to_thread(self.begun.wait, PATIENCE)


@pytest.fixture
def disk():
    return Disk()


async def test_what_comes_while_a_batch_is_written_is_the_next_one(disk):
    commits = GroupCommit(disk.write, name="test")
    first = commits.submit([PUT], [])
    await disk.busy()
    others = []
    for _ in range(3):
        others.append(commits.submit([PUT], []))
        await asyncio.sleep(0)
    assert not first.done()
    disk.let_go.set()
    told = await asyncio.wait_for(asyncio.gather(first, *others), PATIENCE)
    assert told == [(1,), (2,), (2,), (2,)]
    assert disk.batches == [1, 3]
    await commits.close()


async def test_a_batch_that_is_too_large_for_one_commit_is_told_in_parts_and_the_next_one_follows(disk):
    commits = GroupCommit(disk.write, name="test")
    disk.let_go.set()
    works = [commits.submit([PUT], []) for _ in range(BATCH_OPERATIONS + 1)]
    assert await asyncio.wait_for(works[-1], PATIENCE) == (2,)
    assert await asyncio.wait_for(commits.submit([PUT], []), PATIENCE) == (3,)
    assert disk.batches == [BATCH_OPERATIONS, 1, 1]
    await commits.close()


async def test_who_is_cancelled_while_his_transaction_is_written_hears_so_once_it_is(disk):
    commits = GroupCommit(disk.write, name="test")
    written = commits.submit([PUT], [])

    async def wait():
        await written

    waiting = asyncio.create_task(wait())
    await disk.busy()
    waiting.cancel()
    await asyncio.sleep(0)
    assert not waiting.done()
    disk.let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert written.result() == (1,)
    await commits.close()


async def test_what_still_waits_when_it_is_closed_is_written(disk):
    commits = GroupCommit(disk.write, name="test")
    first = commits.submit([PUT], [])
    await disk.busy()
    second = commits.submit([PUT], [])
    closing = asyncio.create_task(commits.close())
    await asyncio.sleep(0)
    disk.let_go.set()
    await asyncio.wait_for(closing, PATIENCE)
    assert await asyncio.gather(first, second) == [(1,), (2,)]


def test_a_loop_that_was_closed_does_not_hold_up_the_next_one(disk):
    async def leave_behind():
        commits = GroupCommit(disk.write, name="test")
        commits.submit([PUT], [])
        await disk.busy()
        return commits

    async def go_on(commits):
        work = commits.submit([PUT], [])
        disk.let_go.set()
        assert await asyncio.wait_for(work, PATIENCE) == (2,)
        await commits.close()

    asyncio.run(go_on(asyncio.run(leave_behind())))
