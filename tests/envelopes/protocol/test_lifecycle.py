from datetime import UTC, datetime
from itertools import product

import pytest

from comity.envelopes.protocol.card import (
    TRANSITIONS,
    Heartbeat,
    LifecycleEvent,
    RuntimeState,
    Visibility,
    aged,
    can_be_called,
    can_review,
    effective_visibility,
    heartbeat,
    is_gone,
    is_runnable,
    requires_revive,
    transition,
)
from comity.envelopes.protocol.errors import InvalidEventError

LOCAL, ACTIVE, HIBERNATING, STALE, SUNK, ARCHIVED = RuntimeState
DAY = 86_400

# The whole table once more, as the contract writes it: stays, moves, and a dot for what is refused.
STEPS = """
             TICK         HEARTBEAT    CALL_RECEIVED REVIEW_RECEIVED REVIVE_REQUESTED ARCHIVE_REQUESTED SPAWN_REQUESTED
LOCAL        LOCAL        LOCAL        LOCAL         LOCAL           .                .                 LOCAL
ACTIVE       ACTIVE       ACTIVE       ACTIVE        ACTIVE          .                .                 ACTIVE
HIBERNATING  HIBERNATING  HIBERNATING  .             HIBERNATING     ACTIVE           .                 .
STALE        STALE        STALE        .             STALE           ACTIVE           .                 .
SUNK         SUNK         SUNK         .             SUNK            .                ARCHIVED          .
ARCHIVED     ARCHIVED     .            .             .               .                .                 .
"""
HEADER, *ROWS = [line.split() for line in STEPS.strip("\n").splitlines()]
CELLS = [(row[0], event, after) for row in ROWS for event, after in zip(HEADER, row[1:], strict=True)]


def test_the_table_has_every_cell():
    assert len(CELLS) == 42
    assert len(TRANSITIONS) == 23
    assert {cell[:2] for cell in CELLS} == set(product(RuntimeState, LifecycleEvent))


@pytest.mark.parametrize(("state", "event", "after"), CELLS)
def test_each_step_is_taken_or_refused(state, event, after):
    state, event = RuntimeState(state), LifecycleEvent(event)
    if after != ".":
        assert transition(state, event) is RuntimeState(after)
        return
    with pytest.raises(InvalidEventError) as refusal:
        transition(state, event)
    assert refusal.value.message == f"event {event.value} is not valid in state {state.value}"


def test_the_table_cannot_be_rewritten():
    with pytest.raises(TypeError):
        TRANSITIONS[ARCHIVED, LifecycleEvent.HEARTBEAT] = ACTIVE


@pytest.mark.parametrize(
    ("predicate", "states"),
    [
        (can_be_called, {LOCAL, ACTIVE}),
        (is_runnable, {LOCAL, ACTIVE}),
        (can_review, {LOCAL, ACTIVE, HIBERNATING}),
        (requires_revive, {STALE}),
        (is_gone, {SUNK, ARCHIVED}),
    ],
)
def test_each_predicate_holds_in_its_own_states(predicate, states):
    assert {state for state in RuntimeState if predicate(state)} == states


@pytest.mark.parametrize("stored", list(Visibility))
@pytest.mark.parametrize("state", list(RuntimeState))
def test_a_local_vacant_is_never_visible_and_the_others_as_stored(state, stored):
    expected = Visibility.NONE if state is LOCAL else stored
    assert effective_visibility(state, stored) is expected


@pytest.mark.parametrize(
    ("state", "days", "after"),
    [
        (HIBERNATING, 29.99, HIBERNATING),
        (HIBERNATING, 30, STALE),
        (SUNK, 179.99, SUNK),
        (SUNK, 180, ARCHIVED),
        (LOCAL, 10_000, LOCAL),
        (ACTIVE, 10_000, ACTIVE),
        (STALE, 10_000, STALE),
        (ARCHIVED, 10_000, ARCHIVED),
    ],
)
def test_time_alone_moves_two_states(state, days, after):
    assert aged(state, days * DAY) is after


@pytest.mark.parametrize(
    ("state", "due"),
    [
        (LOCAL, Heartbeat("HEARTBEAT", {"liveness": True}, 60)),
        (ACTIVE, Heartbeat("HEARTBEAT", {"liveness": True}, 60)),
        (
            HIBERNATING,
            Heartbeat("HEARTBEAT", {"liveness": "dormant", "last_active": "2026-05-06T00:00:00+00:00"}, DAY),
        ),
        (STALE, Heartbeat("HEARTBEAT", {"liveness": False, "awaiting_revive": True}, DAY)),
        (SUNK, Heartbeat("HEARTBEAT_SUNK", {"liveness": False, "key_in_custody": True}, 600)),
        (ARCHIVED, None),
    ],
)
def test_each_state_has_a_heartbeat_of_its_own(state, due):
    assert heartbeat(state, last_active=datetime(2026, 5, 6, tzinfo=UTC)) == due


def test_states_are_spoken_by_their_names():
    assert f"vacant is {SUNK}" == "vacant is SUNK"
    assert RuntimeState("ACTIVE") is ACTIVE
