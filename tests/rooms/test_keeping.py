"""What a session keeps of its messages, and in how many commits."""

import asyncio
from itertools import count

import pytest
from cryptography.fernet import Fernet

from comity.requests.caller import OWN_PROCESS
from comity.requests.record import Recorder
from comity.rooms.protocol.messages import KeepMessage
from comity.rooms.storage import RoomStore
from comity.runtime.system_clock import SystemClock
from comity.store.group_commit import GroupCommit
from comity.store.memory import MemoryStore
from comity.store.vault import Vault

NODE = "ab" * 32
CAME = KeepMessage("in", NODE, "m1", {"node": NODE, "id": "m1", "re": None, "size": 2, "data": 1})
ANSWER = KeepMessage("out", NODE, "m2", {"node": NODE, "payload": {"id": "m2", "data": 2}, "queued_at": 0.0})


@pytest.fixture
async def disk():
    """What is kept, and the results of each durable commit."""
    batches = []

    def write(batch, _ready):
        batches.append([draft.verification_result for work in batch for draft in work.audit])
        return [(None,) * len(work.operations) for work in batch]

    clock, commits = SystemClock(), GroupCommit(write, name="disk of a test")
    vault = Vault([Fernet.generate_key()])
    yield RoomStore(MemoryStore(clock), Recorder(commits, clock), clock, lambda: vault, "here"), batches
    await commits.close()


async def test_a_message_and_the_answer_to_it_are_one_commit(disk):
    keeping, batches = disk
    came = asyncio.create_task(keeping.keep_in("vdo_1", CAME, OWN_PROCESS))
    await asyncio.sleep(0)
    await keeping.keep_out("vdo_1", ANSWER, OWN_PROCESS)
    await came
    assert [sorted(batch) for batch in batches] == [["ROOM_MESSAGE_SENT", "ROOM_MESSAGE_STORED"]]


async def test_a_message_that_nobody_answers_is_kept_all_the_same(disk):
    keeping, batches = disk
    await keeping.keep_in("vdo_1", CAME, OWN_PROCESS)
    assert batches == [["ROOM_MESSAGE_STORED"]]


async def test_a_session_that_closes_keeps_what_it_has_shown(disk):
    keeping, batches = disk
    came = asyncio.create_task(keeping.keep_in("vdo_1", CAME, OWN_PROCESS))
    await asyncio.sleep(0)
    came.cancel()
    await asyncio.gather(came, return_exceptions=True)
    assert batches == [["ROOM_MESSAGE_STORED"]]


class CountingClock(SystemClock):
    """Each look at it is later than the one before."""

    def __init__(self):
        self._seconds = count(1)

    def now(self):
        return float(next(self._seconds))


async def test_messages_are_restored_in_the_order_in_which_they_came_and_were_sent():
    clock = CountingClock()
    store = MemoryStore(clock)
    vault = Vault([Fernet.generate_key()])
    record = Recorder(store, clock, audited=False)
    keeping = RoomStore(store, record, clock, lambda: vault, "here")
    names = [f"m{number}" for number in range(20)]
    for name in names:
        came = {"node": NODE, "id": name, "re": None, "size": 2, "data": 1}
        await keeping.keep_in("vdo_1", KeepMessage("in", NODE, name, came), OWN_PROCESS)
        left = {"node": NODE, "payload": {"id": name, "data": 2}, "queued_at": clock.now()}
        await keeping.keep_out("vdo_1", KeepMessage("out", NODE, name, left), OWN_PROCESS)
    restored = await keeping.restore("vdo_1")
    assert [one["payload"]["id"] for one in restored.outbox] == names
    assert [one["id"] for one in restored.inbox] == names
