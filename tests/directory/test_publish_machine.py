"""A directory against a model of it: whatever is published, again, too early or too late, in any order."""

import asyncio

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from comity.directory.events import DirectoryEvent, check_events
from comity.envelopes.protocol.errors import IdempotencyConflict, SequenceMonotonicityError
from comity.identity.protocol.keys import SigningKey
from comity.store.audit_trail import AuditTrail
from comity.store.memory import MemoryDisk, MemoryStore
from comity.testing import VirtualClock
from tests.directory.publications import Directory, agent, publication
from tests.store.samples import KEY

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
                told = self.run(self.directory.ask("event_log", key, reader=key))
                events = msgspec.convert(told, list[DirectoryEvent])
                check_events(key.vacant_id, events)
                assert [event.idempotency_key for event in events] == [entry[2] for entry in log]
                assert [event.seq for event in events] == [self.numbers[key, entry] for entry in log]


TestPublishing = Publishing.TestCase
TestPublishing.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
