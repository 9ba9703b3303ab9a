"""Which transactions share a commit, and that nobody is forgotten."""

import asyncio
import threading

import pytest

from comity.store.group_commit import BATCH_OPERATIONS, GroupCommit
from comity.store.interface import Put

PUT = Put(space="s", key="k", value=b"v")
PATIENCE = 5.0


class Disk:
    """Writes nothing, and nothing gets past it before it is let go."""

    def __init__(self):
        self.begun = threading.Event()
        self.let_go = threading.Event()
        self.batches = []
        self.given = []

    def write(self, batch, ready):
        self.begun.set()
        assert self.let_go.wait(PATIENCE)
        self.batches.append(len(batch))
        self.given.append(ready)
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
    shown = await asyncio.wait_for(asyncio.gather(first, *others), PATIENCE)
    assert shown == [(1,), (2,), (2,), (2,)]
    assert disk.batches == [1, 3]
    await commits.close()


async def test_a_batch_that_is_too_large_for_one_commit_is_told_in_parts_and_the_next_one_follows(disk):
    commits = GroupCommit(disk.write, name="test")
    commits.submit([PUT], [])
    await disk.busy()
    works = [commits.submit([PUT], []) for _ in range(BATCH_OPERATIONS + 1)]
    disk.let_go.set()
    assert await asyncio.wait_for(works[-1], PATIENCE) == (3,)
    assert await asyncio.wait_for(commits.submit([PUT], []), PATIENCE) == (4,)
    assert disk.batches == [1, BATCH_OPERATIONS, 1, 1]
    await commits.close()


@pytest.fixture
def every_iteration_is_long(monkeypatch):
    monkeypatch.setattr("comity.store.group_commit.LONG", 0.0)


@pytest.mark.usefixtures("every_iteration_is_long")
async def test_a_writer_that_has_nothing_to_do_does_not_wait_for_the_end_of_a_long_iteration(disk):
    prepared = []
    commits = GroupCommit(disk.write, name="test", prepare=lambda batch: prepared.append(len(batch)))
    first = commits.submit([PUT], [])
    assert prepared == []
    works = [first, *(commits.submit([PUT], []) for _ in range(4))]
    assert prepared == [2]
    disk.let_go.set()
    assert await asyncio.wait_for(asyncio.gather(*works), PATIENCE) == [(1,), (1,), (2,), (2,), (2,)]
    assert disk.batches == prepared == [2, 3]
    await commits.close()


async def test_what_a_short_iteration_submits_is_one_batch(disk, monkeypatch):
    monkeypatch.setattr("comity.store.group_commit.LONG", PATIENCE)
    commits = GroupCommit(disk.write, name="test")
    disk.let_go.set()
    await asyncio.wait_for(asyncio.gather(*(commits.submit([PUT], []) for _ in range(100))), PATIENCE)
    assert disk.batches == [100]
    await commits.close()


@pytest.mark.usefixtures("every_iteration_is_long")
async def test_a_batch_that_was_told_late_hands_over_nothing_while_the_next_one_is_written(disk):
    prepared, written = [], threading.Event()
    commits = GroupCommit(
        disk.write, name="test", prepare=lambda batch: prepared.append(len(batch)), afterwards=written.set
    )
    disk.let_go.set()
    works = [commits.submit([PUT], [])]
    await asyncio.sleep(0)
    assert written.wait(PATIENCE)  # meanwhile the loop stands still, so nobody is told
    disk.let_go.clear()
    works += [commits.submit([PUT], []) for _ in range(2)]
    await works[0]
    works.append(commits.submit([PUT], []))
    for _ in range(4):
        await asyncio.sleep(0)
    assert prepared == [1, 2]
    disk.let_go.set()
    assert await asyncio.wait_for(works[-1], PATIENCE) == (3,)
    assert prepared == [1, 2, 1]
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


async def test_a_batch_is_made_ready_by_the_loop_and_never_while_another_one_is_written(disk):
    here, prepared_by = threading.get_ident(), []

    def prepare(batch):
        prepared_by.append(threading.get_ident())
        return f"ready for {len(batch)}"

    commits = GroupCommit(disk.write, name="test", prepare=prepare)
    first = commits.submit([PUT], [])
    await disk.busy()
    assert prepared_by == [here]
    others = [commits.submit([PUT], []) for _ in range(2)]
    await asyncio.sleep(0.01)
    assert len(prepared_by) == 1
    disk.let_go.set()
    await asyncio.wait_for(asyncio.gather(first, *others), PATIENCE)
    await commits.close()
    assert disk.given == ["ready for 1", "ready for 2"]
    assert set(prepared_by) == {here}


async def test_nothing_is_made_ready_by_another_loop_meanwhile(disk):
    commits = GroupCommit(disk.write, name="test", prepare=len)
    first = commits.submit([PUT], [])
    await disk.busy()

    async def elsewhere():
        return await commits.submit([PUT], [])

    other = asyncio.create_task(asyncio.to_thread(asyncio.run, elsewhere()))
    while commits._handed < 2:  # noqa: ASYNC110 - another thread sets it
        await asyncio.sleep(0.001)
    disk.let_go.set()
    assert await asyncio.wait_for(asyncio.gather(first, other), PATIENCE) == [(1,), (2,)]
    assert disk.given == [1, None]
    await commits.close()


async def test_a_fault_while_a_batch_is_made_ready_costs_nobody_his_transaction(disk, caplog):
    def prepare(_batch):
        raise KeyError("a fault of ours")

    disk.let_go.set()
    commits = GroupCommit(disk.write, name="test", prepare=prepare)
    assert await asyncio.wait_for(commits.submit([PUT], []), PATIENCE) == (1,)
    assert disk.given == [None]
    assert "could not be made ready" in caplog.text
    await commits.close()


async def test_a_fault_afterwards_is_for_the_log_and_the_next_one_is_written(disk, caplog):
    def fail():
        raise MemoryError("no room")

    disk.let_go.set()
    commits = GroupCommit(disk.write, name="test", afterwards=fail)
    for number in (1, 2, 3):
        assert await asyncio.wait_for(commits.submit([PUT], []), PATIENCE) == (number,)
    assert "no room" in caplog.text
    await commits.close()


async def test_what_comes_afterwards_finds_the_batch_written(disk):
    afterwards = []
    disk.let_go.set()
    commits = GroupCommit(disk.write, name="test", afterwards=lambda: afterwards.append(list(disk.batches)))
    await asyncio.wait_for(commits.submit([PUT], []), PATIENCE)
    await commits.close()
    assert afterwards == [[1]]
