"""A directory against a model of it: whatever is published, again, too early or too late, in any order."""

import asyncio

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from comity.directory.events import DIRECTORY_LOG, FIRST_PREVIOUS, DirectoryEvent, check_events, event_at
from comity.envelopes.protocol.errors import IdempotencyConflict, SequenceMonotonicityError
from comity.identity.protocol.keys import SigningKey
from comity.store.audit_trail import AuditTrail
from comity.store.memory import MemoryDisk, MemoryStore
from comity.store.sqlite import SqliteStore
from comity.testing import VirtualClock
from comity.wire.errors import http_status
from tests.directory.publications import Directory, agent, publication
from tests.store.samples import KEY, trail_at

AGENTS = [agent(n) for n in range(3)]

who = st.sampled_from(AGENTS)
texts = st.sampled_from(["translate", "paint", "count"])
keys = st.sampled_from(["k1", "k2", "k3", "k4", "k5", "k6"])
visibilities = st.sampled_from(["PUBLIC", "RESTRICTED", "NONE"])


class Publishing(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.disk = MemoryDisk()
        self.open()
        self.accepted: dict[SigningKey, list[tuple]] = {key: [] for key in AGENTS}
        self.numbers: dict[tuple, int] = {}

    def open(self):
        clock = VirtualClock()
        self.directory = Directory(MemoryStore(clock, self.disk, AuditTrail("main", KEY)), clock)

    def run(self, step):
        return self.loop.run_until_complete(step)

    def teardown(self):
        self.run(self.directory.store.close())
        self.loop.close()

    def publish(self, key, text, visibility, idem, seq):
        body = publication(key, text, seq=seq, visibility=visibility, event_idempotency_key=idem)
        return self.run(self.directory.publish(body))

    @rule(key=who, text=texts, visibility=visibilities, idem=keys, ahead=st.integers(-2, 2))
    def somebody_publishes(self, key, text, visibility, idem, ahead):
        log = self.accepted[key]
        seq = max(1, len(log) + 1 + ahead)
        asked = (text, visibility, idem, seq)
        used = {entry[2]: entry for entry in log}
        if idem in used and used[idem] != asked:
            with pytest.raises(IdempotencyConflict):
                self.publish(key, *asked)
        elif idem in used:
            assert self.publish(key, *asked)["event_seq"] == self.numbers[key, asked]
        elif seq != len(log) + 1:
            with pytest.raises(SequenceMonotonicityError, match=f"must be {len(log) + 1}, got {seq}"):
                self.publish(key, *asked)
        else:
            reply = self.publish(key, *asked)
            self.numbers[key, asked] = len(self.numbers) + 1
            assert (reply["event_seq"], reply["visibility"]) == (len(self.numbers), visibility)
            log.append(asked)

    @rule(key=who, index=st.integers(0, 10))
    def somebody_sends_an_accepted_request_again(self, key, index):
        log = self.accepted[key]
        if log:
            asked = log[index % len(log)]
            assert self.publish(key, *asked)["event_seq"] == self.numbers[key, asked]

    @rule()
    def the_node_is_killed_and_started_again(self):
        self.directory.store.crash()
        self.open()

    @invariant()
    def the_search_finds_what_was_published_last_and_is_public(self):
        for text in ("translate", "paint", "count"):
            public = {
                key.vacant_id.hex()
                for key, log in self.accepted.items()
                if log and log[-1][:2] == (text, "PUBLIC")
            }
            assert set(self.run(self.directory.found(text))) == public

    @invariant()
    def every_log_is_whole_and_signed(self):
        for key, log in self.accepted.items():
            if log:
                shown = self.run(self.directory.ask("event_log", key, reader=key))
                events = msgspec.convert(shown, list[DirectoryEvent])
                check_events(key.vacant_id, events)
                assert [event.idempotency_key for event in events] == [entry[2] for entry in log]
                assert [event.seq for event in events] == [self.numbers[key, entry] for entry in log]


TestPublishing = Publishing.TestCase
TestPublishing.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)


# Two workers over one database.

ALICE = agent("alice")


@pytest.fixture
async def workers(tmp_path, clock):
    stores = [
        await SqliteStore.open(tmp_path / "comity.db", clock, trail_at(tmp_path, chain))
        for chain in ("one", "other")
    ]
    yield [Directory(store, clock) for store in stores]
    for store in stores:
        await store.close()


async def race(workers, bodies):
    pairs = zip(workers, bodies, strict=True)
    return await asyncio.gather(*(worker.publish(body) for worker, body in pairs), return_exceptions=True)


async def test_of_two_publishers_racing_for_a_number_one_wins_and_the_other_is_told_409(workers):
    for seq in range(1, 11):
        bodies = [
            publication(ALICE, f"{name} {seq}", seq=seq, event_idempotency_key=f"{name}:{seq}")
            for name in ("one", "other")
        ]
        outcomes = await race(workers, bodies)
        (won,) = (outcome for outcome in outcomes if isinstance(outcome, dict))
        (lost,) = (outcome for outcome in outcomes if isinstance(outcome, SequenceMonotonicityError))
        assert http_status(lost) == 409
        for worker in workers:
            shown = await worker.ask("card", ALICE)
            assert shown["capability_card_hash_hex"] == won["capability_card_hash_hex"]
            assert await worker.store.end(DIRECTORY_LOG) == seq


async def test_the_same_request_to_both_has_one_effect_and_one_answer(workers):
    for seq in range(1, 6):
        one, other = await race(workers, [publication(ALICE, f"text {seq}", seq=seq)] * 2)
        assert one == other
        assert one["event_seq"] == await workers[0].store.end(DIRECTORY_LOG) == seq


async def test_publishers_of_different_agents_all_get_through_and_their_events_are_one_chain(workers):
    keys = [agent(number) for number in range(24)]
    replies = await asyncio.gather(
        *(workers[number % 2].publish(publication(key)) for number, key in enumerate(keys))
    )
    assert sorted(reply["event_seq"] for reply in replies) == list(range(1, 25))
    previous = FIRST_PREVIOUS.hex()
    for seq in range(1, 25):
        event = await event_at(workers[0].store, seq)
        assert (event.seq, event.prev_event_hash_hex) == (seq, previous)
        previous = event.event_hash_hex


async def test_two_requests_under_one_key_have_one_winner(workers):
    outcomes = await race(workers, [publication(ALICE, text, event_idempotency_key="k") for text in "ab"])
    assert sum(isinstance(outcome, dict) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, IdempotencyConflict) for outcome in outcomes) == 1
