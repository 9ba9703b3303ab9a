"""Shared state: the same patches in any order give the same state, within limits."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec import UNSET

from comity.rooms.protocol.shared_data import (
    LAST_CLOCK,
    MAX_ACTORS,
    MAX_KEY_LENGTH,
    MAX_SHARE_BYTES,
    MAX_VALUE_BYTES,
    SharedState,
    StateEntry,
)
from comity.wire.errors import ConflictError, InvalidError

AT = "2026-01-01T00:00:00.000Z"


def state(actor="me", **limits):
    return SharedState(actor, **limits)


def merged(shared, **patch):
    return shared.merge(patch, default_actor="peer", updated_at=AT)


def shown(shared):
    return [entry.to_json() for entry in shared.entries()]


def test_a_local_write_takes_a_clock_above_all_that_was_seen():
    shared = state()
    assert shared.put("k", 1, AT).clock == 1
    merged(shared, key="other", value=1, actor="b", clock=40)
    assert shared.put("k", 2, AT).clock == 41
    merged(shared, key="other", value=1, actor="b", clock=12)
    assert shared.put("k", 2, AT).clock == 42


def test_a_stale_patch_still_raises_the_clock():
    shared = state()
    merged(shared, key="k", value=1, actor="b", clock=9)
    assert merged(shared, key="k", value=1, actor="a", clock=9).reason == "stale_patch"
    assert shared.put("k", 2, AT).clock == 10


def brought(shared, source, key, value=1, clock=1):
    patch = {"key": key, "value": value, "clock": clock}
    return shared.merge(patch, default_actor=source, updated_at=AT, source=source)


def test_one_peer_brings_half_of_the_keys_and_leaves_the_others_to_others():
    shared = state(max_keys=8)
    found = [brought(shared, "greedy", f"g{number}").reason for number in range(8)]
    assert found == [None] * 4 + ["peer_share_of_keys_reached"] * 4
    assert brought(shared, "greedy", "g0", 2, clock=9).applied
    assert brought(shared, "honest", "h").applied
    assert shared.put("mine", 1, AT)
    brought(shared, "honest", "g0", 3, clock=10)
    assert brought(shared, "greedy", "another").applied


def test_one_peer_brings_a_quarter_of_the_bytes():
    shared = state()
    text = "x" * 190_000
    found = [brought(shared, "greedy", f"g{number}", text).applied for number in range(40)]
    assert sum(found) == MAX_SHARE_BYTES // 190_010
    assert shared.bytes_held <= MAX_SHARE_BYTES
    assert brought(shared, "honest", "h", text).applied
    shared.merge({"key": "g0", "clock": 9}, default_actor="greedy", updated_at=AT, source="greedy")
    assert brought(shared, "greedy", "another", text).applied


def test_ties_are_broken_by_utf16_units_and_not_by_code_points():
    shared = state()
    merged(shared, key="k", value=1, actor="\U0001f600", clock=1)
    assert merged(shared, key="k", value=2, actor="\ufb00", clock=1).applied
    assert not merged(shared, key="k", value=3, actor="\U0001f600", clock=1).applied


@pytest.mark.parametrize("clock", [0, -1, None, "x", True, LAST_CLOCK + 1, 2**53, 1e300, [], 2**80])
def test_a_clock_that_cannot_be_used_is_refused(clock):
    shared = state()
    assert merged(shared, key="k", value=1, actor="a", clock=clock).reason == "invalid_clock"
    assert shared.put("k", 1, AT).clock == 1


def test_clocks_that_somebody_used_up_harm_that_key_alone():
    shared = state()
    merged(shared, key="poisoned", value=1, actor="evil", clock=LAST_CLOCK)
    assert shared.put("mine", 1, AT).clock == 1
    assert shared.put("mine", 2, AT).clock == 2
    with pytest.raises(InvalidError, match="the clock of poisoned is at its end"):
        shared.put("poisoned", 2, AT)


def test_proto_is_a_key_like_any_other():
    shared = state()
    shared.put("__proto__", {"x": 1}, AT)
    shared.put("constructor", 2, AT)
    assert shared.values() == {"__proto__": {"x": 1}, "constructor": 2}


def test_a_deleted_key_stays_deleted_against_older_writes():
    shared = state()
    entry = shared.put("k", 1, AT)
    gone = shared.put("k", UNSET, AT)
    assert gone.is_deleted
    assert "value" not in gone.to_json()
    assert shared.values() == {}
    assert len(shared) == 0
    assert not shared.merge(entry.to_json(), default_actor="b", updated_at=AT).applied
    assert shared.put("k", 2, AT).clock == 3
    assert shared.values() == {"k": 2}


def test_old_tombstones_go_when_there_are_too_many():
    shared = state(max_keys=8)
    for number in range(50):
        shared.put(f"k{number}", number, AT)
        shared.put(f"k{number}", UNSET, AT)
    assert len(shared.entries()) <= 8
    assert shared.entry("k49").is_deleted
    assert shared.entry("k0") is None


def test_compare_and_set_writes_only_over_what_was_seen():
    shared = state()
    assert shared.swap("k", 1, 0, AT).clock == 1
    with pytest.raises(ConflictError, match="k has clock 1, not 0"):
        shared.swap("k", 2, 0, AT)
    assert shared.swap("k", 2, 1, AT).clock == 2
    shared.put("k", UNSET, AT)
    assert shared.swap("k", 3, 0, AT).value == 3


def test_a_watcher_sees_the_last_change_of_each_key_in_order():
    shared = state()
    shared.put("a1", 1, AT)
    start = shared.revision
    shared.put("a2", 1, AT)
    shared.put("b", 1, AT)
    shared.put("a1", 2, AT)
    assert [entry.key for entry in shared.changes_since(start)] == ["a2", "b", "a1"]
    assert [entry.key for entry in shared.changes_since(start, "a")] == ["a2", "a1"]
    assert shared.changes_since(shared.revision) == []


def test_keys_beyond_the_limit_are_refused_and_existing_ones_are_not():
    shared = state(max_keys=2)
    shared.put("a", 1, AT)
    merged(shared, key="b", value=1, actor="x", clock=5)
    assert merged(shared, key="c", value=1, actor="x", clock=6).reason == "state_key_limit_reached"
    with pytest.raises(InvalidError, match="state_max_keys reached"):
        shared.put("c", 1, AT)
    assert merged(shared, key="b", value=2, actor="x", clock=7).applied


def test_bytes_beyond_the_limit_are_refused_and_freed_again():
    shared = state(max_bytes=300)
    shared.put("a", "x" * 200, AT)
    assert merged(shared, key="b", value="y" * 200, actor="z", clock=5).reason == "state_size_limit_reached"
    shared.put("a", "x", AT)
    assert merged(shared, key="b", value="y" * 200, actor="z", clock=9).applied
    assert shared.bytes_held < 300


def test_a_huge_value_or_name_is_refused():
    shared = state()
    big = "x" * MAX_VALUE_BYTES
    assert merged(shared, key="k", value=big, actor="a", clock=1).reason == "value_too_large"
    assert (
        merged(shared, key="k" * (MAX_KEY_LENGTH + 1), value=1, actor="a", clock=1).reason == "key_too_long"
    )
    assert merged(shared, key="k", value=1, actor="a" * 200, clock=1).reason == "actor_too_long"
    with pytest.raises(InvalidError, match="send it as a file"):
        shared.put("k", big, AT)
    with pytest.raises(InvalidError, match="key is required"):
        shared.put("  ", 1, AT)


def test_forged_actors_are_counted_only_so_far():
    shared = state()
    for number in range(MAX_ACTORS + 10):
        merged(shared, key="k", value=1, actor=f"a{number}", clock=number + 1)
    shared.saw_clocks({"late": 3})
    assert len(shared.actor_clock) == MAX_ACTORS


def test_values_are_kept_as_javascript_would_send_them():
    shared = state()
    assert shared.put("k", {"b": 1.0, "2": -0.0, "f": 6.977464049559903e16}, AT).value == {
        "2": 0,
        "b": 1,
        "f": 69774640495599030,
    }


@pytest.mark.parametrize("patch", [None, 5, [], "x", {}, {"key": None, "clock": 1}, {"key": [], "clock": 1}])
def test_what_is_no_patch_is_refused(patch):
    assert state().merge(patch, default_actor="a", updated_at=AT).reason == "missing_key"


def test_snapshots_are_cut_into_parts_that_fit():
    shared = state()
    assert list(shared.snapshot_parts(10, 1000)) == [[]]
    for number in range(25):
        shared.put(f"k{number:02}", "x" * 100, AT)
    parts = list(shared.snapshot_parts(10, 100_000))
    assert [len(part) for part in parts] == [10, 10, 5]
    assert list(itertools.chain(*parts)) == shown(shared)
    assert max(len(part) for part in shared.snapshot_parts(10, 500)) == 2
    assert sum(len(part) for part in shared.snapshot_parts(10, 500)) == 25


def test_a_restart_starts_above_the_clocks_used_before():
    assert state(clock_floor=1024).put("k", 1, AT).clock == 1025


PATCHES = st.lists(
    st.builds(
        lambda key, clock, actor: {
            "key": key,
            "clock": clock,
            "actor": actor,
            "value": f"{key}{clock}{actor}",
        },
        st.sampled_from(["a", "b", "c"]),
        st.integers(1, 4),
        st.sampled_from(["x", "y", "\U0001f600", "\ufb00"]),
    ),
    max_size=12,
)


@given(PATCHES, st.randoms(use_true_random=False))
def test_every_order_of_the_same_patches_gives_the_same_state(patches, random):
    one, other = state(), state()
    for patch in patches:
        one.merge(patch, default_actor="p", updated_at=AT)
    again = patches + patches[: len(patches) // 2]
    random.shuffle(again)
    for patch in again:
        other.merge(patch, default_actor="p", updated_at=AT)
    assert shown(one) == shown(other)
    assert one.highest_clock == other.highest_clock


NAMES = ["alpha", "beta", "gamma"]


class Replicas(RuleBasedStateMachine):
    """Three peers that write, hear some patches in any order and twice, and exchange snapshots at the end."""

    @initialize()
    def begin(self):
        self.replicas = {name: state(name) for name in NAMES}
        self.patches = []

    @rule(name=st.sampled_from(NAMES), key=st.sampled_from("kl"), value=st.integers(0, 9))
    def write(self, name, key, value):
        replica = self.replicas[name]
        entry = replica.put(key, value or UNSET, AT)
        assert replica.entry(key) == entry
        self.patches.append(entry)

    @rule(name=st.sampled_from(NAMES), data=st.data())
    def handle(self, name, data):
        if self.patches:
            entry = data.draw(st.sampled_from(self.patches))
            self.replicas[name].merge(entry.to_json(), default_actor="?", updated_at=AT)

    @rule(giver=st.sampled_from(NAMES), taker=st.sampled_from(NAMES))
    def sync(self, giver, taker):
        for part in self.replicas[giver].snapshot_parts(2, 10_000):
            for entry in part:
                self.replicas[taker].merge(entry, default_actor="?", updated_at=AT)

    @invariant()
    def an_own_write_is_never_lost_to_an_older_one(self):
        for replica in getattr(self, "replicas", {}).values():
            for entry in replica.entries():
                assert isinstance(entry, StateEntry)
                assert entry.clock <= replica.highest_clock

    def teardown(self):
        for giver, taker in itertools.permutations(getattr(self, "replicas", {}).values(), 2):
            for entry in giver.entries():
                taker.merge(entry.to_json(), default_actor="?", updated_at=AT)
        for giver, taker in itertools.permutations(getattr(self, "replicas", {}).values(), 2):
            for entry in giver.entries():
                taker.merge(entry.to_json(), default_actor="?", updated_at=AT)
        assert len({str(shown(replica)) for replica in getattr(self, "replicas", {}).values()}) <= 1


TestReplicas = Replicas.TestCase
TestReplicas.settings = settings(max_examples=60, stateful_step_count=25)
