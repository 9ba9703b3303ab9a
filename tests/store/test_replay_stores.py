"""The chain rule on both replay stores."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comity.envelopes.protocol.chain import PairKey, ReplayState
from comity.envelopes.protocol.envelope import EMPTY_PREV_HASH
from comity.envelopes.protocol.errors import ChainForkError, ReplayDetectedError
from comity.envelopes.replay_stores import InMemoryReplayStore, SqliteReplayStore, check_envelope
from comity.runtime.system_clock import SystemClock
from comity.store.sqlite import SqliteStore
from tests.envelopes.peers import SERVER, Caller

PAIR = PairKey(Caller().key.vacant_id, SERVER.vacant_id)


@pytest.fixture(params=["memory", "path", "store"])
async def replay(request, tmp_path):
    if request.param == "memory":
        yield InMemoryReplayStore()
    elif request.param == "path":
        replay = SqliteReplayStore(str(tmp_path / "replay.db"))
        await replay.init_schema()
        yield replay
        await replay.close()
    else:
        store = await SqliteStore.open(tmp_path / "comity.db", SystemClock())
        yield SqliteReplayStore(store)
        await store.close()


async def test_an_unknown_pair_is_at_its_beginning(replay):
    assert await replay.get(PAIR) == ReplayState(0, EMPTY_PREV_HASH)


async def test_a_clean_chain_is_accepted_and_remembered(replay):
    caller = Caller()
    for _ in range(5):
        envelope = caller.next()
        await check_envelope(replay, envelope)
        assert await replay.get(PAIR) == ReplayState(envelope.sequence_no, envelope.compute_hash())


async def test_duplicate_gap_reorder_and_fork_are_refused_and_change_nothing(replay):
    caller = Caller()
    first = caller.next()
    await replay.check_and_advance(first)
    state = await replay.get(PAIR)
    for wrong, error in (
        (first, ReplayDetectedError),
        (Caller().next("other"), ReplayDetectedError),
        (Caller().next(sequence_no=3), ReplayDetectedError),
        (caller.next(prev_envelope_hash=b"x" * 32), ChainForkError),
    ):
        with pytest.raises(error):
            await replay.check_and_advance(wrong)
        assert await replay.get(PAIR) == state


async def test_both_directions_are_their_own(replay):
    back = Caller("server", to_vid=Caller().key.vacant_id)
    await replay.check_and_advance(Caller().next())
    await replay.check_and_advance(back.next())


async def test_of_many_for_one_number_one_is_accepted(replay):
    rivals = [Caller().next(str(n)) for n in range(12)]
    outcomes = await asyncio.gather(
        *(replay.check_and_advance(rival) for rival in rivals), return_exceptions=True
    )
    assert sum(outcome is None for outcome in outcomes) == 1
    assert all(isinstance(outcome, ReplayDetectedError) for outcome in outcomes if outcome)


async def test_a_seeded_pair_goes_on_from_there_and_can_be_seeded_over():
    replay = InMemoryReplayStore()
    replay.seed(PAIR, ReplayState(7, b"7" * 32))
    await replay.check_and_advance(Caller().next(sequence_no=8, prev_envelope_hash=b"7" * 32))
    replay.seed(PAIR, ReplayState(1, b"1" * 32))
    assert await replay.get(PAIR) == ReplayState(1, b"1" * 32)


async def test_a_file_remembers_after_it_is_opened_again(tmp_path):
    envelope = Caller().next()
    first = SqliteReplayStore(tmp_path / "replay.db")
    await first.check_and_advance(envelope)
    await first.close()
    again = SqliteReplayStore(tmp_path / "replay.db")
    with pytest.raises(ReplayDetectedError, match="seq 1 <= last_seen 1"):
        await again.check_and_advance(envelope)
    await again.close()


@settings(max_examples=40, deadline=None)
@given(length=st.integers(2, 8), data=st.data())
async def test_any_swap_or_repetition_in_a_chain_is_refused(length, data):
    caller = Caller()
    envelopes = [caller.next(str(n)) for n in range(length)]
    at = data.draw(st.integers(0, length - 2))
    replay = InMemoryReplayStore()
    for envelope in envelopes[:at]:
        await replay.check_and_advance(envelope)
    with pytest.raises((ReplayDetectedError, ChainForkError)):
        await replay.check_and_advance(envelopes[at + 1])
    if at:
        with pytest.raises(ReplayDetectedError):
            await replay.check_and_advance(envelopes[data.draw(st.integers(0, at - 1))])
    for envelope in envelopes[at:]:
        await replay.check_and_advance(envelope)
