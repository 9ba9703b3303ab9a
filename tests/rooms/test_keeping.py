"""What a session keeps of its messages, and in how many commits."""

import asyncio
from datetime import UTC, datetime
from itertools import count

import pytest
from cryptography.fernet import Fernet

from comity.envelopes.protocol.envelope import EMPTY_PREV_HASH, signed_envelope, to_a2a_message
from comity.envelopes.protocol.message import A2AMessage, A2APart
from comity.identity.protocol.keys import SigningKey
from comity.requests.caller import OWN_PROCESS
from comity.requests.record import Recorder
from comity.rooms.protocol.messages import KeepMessage, MessageKept, MessageNotKept
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


ALICE, BOB = (SigningKey.from_seed(letter * 32) for letter in (b"a", b"b"))


def signed(number, after=None):
    """The envelope of Alice to Bob with this number, and what a session wants kept of it."""
    envelope = signed_envelope(
        from_vid=ALICE.vacant_id,
        to_vid=BOB.vacant_id,
        payload=A2AMessage(parts=(A2APart(text=str(number)),)),
        sequence_no=number,
        prev_envelope_hash=EMPTY_PREV_HASH if after is None else after.compute_hash(),
        idempotency_key=f"m{number}",
        timestamp=datetime(2026, 3, 1, tzinfo=UTC),
        signing_key=ALICE,
    )
    node = ALICE.vacant_id.hex()
    record = {"node": node, "id": f"m{number}", "envelope": to_a2a_message(envelope)}
    return envelope, KeepMessage("in", node, f"m{number}", record)


def room_store(restored_at=None):
    clock, vault = SystemClock(), Vault([Fernet.generate_key()])
    store = MemoryStore(clock)
    record = Recorder(store, clock, audited=False)
    return RoomStore(store, record, clock, lambda: vault, "here", restored_at), store


async def test_a_signed_message_before_its_predecessor_may_come_again_and_is_then_kept():
    keeping, _ = room_store()
    one, first = signed(1)
    _, second = signed(2, one)
    refused = await keeping.keep_in("vdo_1", second, OWN_PROCESS)
    assert isinstance(refused, MessageNotKept)
    assert (refused.node, refused.message_id, refused.final) == (first.node, "m2", False)
    assert refused.reason == "non-monotonic sequence_no: expected 1, got 2"
    for message in (first, second):
        kept = await keeping.keep_in("vdo_1", message, OWN_PROCESS)
        assert kept == MessageKept(message.node, message.message_id)


async def test_a_signed_message_that_never_fits_its_chain_is_refused_for_good():
    keeping, _ = room_store()
    _, first = signed(1)
    await keeping.keep_in("vdo_1", first, OWN_PROCESS)
    for again, why in ((first, "replay/out-of-order"), (signed(2)[1], "prev_envelope_hash mismatch")):
        refused = await keeping.keep_in("vdo_1", again, OWN_PROCESS)
        assert refused.reason.startswith(why)
        assert refused.final


async def test_a_signed_message_from_before_a_backup_was_restored_is_refused_for_good():
    keeping, _ = room_store(restored_at=datetime(2026, 3, 2, tzinfo=UTC).timestamp())
    refused = await keeping.keep_in("vdo_1", signed(1)[1], OWN_PROCESS)
    assert (refused.reason.startswith("timestamp"), refused.final) == (True, True)


async def test_a_signed_message_that_the_disk_does_not_take_may_come_again():
    keeping, store = room_store()
    await store.close()
    refused = await keeping.keep_in("vdo_1", signed(1)[1], OWN_PROCESS)
    assert (type(refused), refused.final) == (MessageNotKept, False)
