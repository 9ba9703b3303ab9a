"""The life cycle of a vacant (envelope 3): six states, seven events, and a table of all transitions.

A transition that is not in the table is refused, and the state does not change. No event leads into ACTIVE from LOCAL
(publishing does that), nor into HIBERNATING, STALE or SUNK: those come with time or from outside.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from comity.envelopes.protocol.card_errors import InvalidEventError
from comity.envelopes.protocol.members import utc_iso

DAY = 86_400.0


class RuntimeState(StrEnum):
    LOCAL = "LOCAL"
    ACTIVE = "ACTIVE"
    HIBERNATING = "HIBERNATING"
    STALE = "STALE"
    SUNK = "SUNK"
    ARCHIVED = "ARCHIVED"


VacantState = RuntimeState
"""The contract's other name for it."""


class LifecycleEvent(StrEnum):
    TICK = "TICK"
    HEARTBEAT = "HEARTBEAT"
    CALL_RECEIVED = "CALL_RECEIVED"
    REVIEW_RECEIVED = "REVIEW_RECEIVED"
    REVIVE_REQUESTED = "REVIVE_REQUESTED"
    ARCHIVE_REQUESTED = "ARCHIVE_REQUESTED"
    SPAWN_REQUESTED = "SPAWN_REQUESTED"


class Visibility(StrEnum):
    NONE = "NONE"
    RESTRICTED = "RESTRICTED"
    PUBLIC = "PUBLIC"


class Heartbeat(Struct, frozen=True):
    """What a living vacant writes into its logbook, and after how many seconds again."""

    kind: str
    payload: dict[str, Any]
    every: float


_S, _E = RuntimeState, LifecycleEvent

_CALLABLE = frozenset((_S.LOCAL, _S.ACTIVE))
_AWAKE = (_E.TICK, _E.HEARTBEAT, _E.CALL_RECEIVED, _E.REVIEW_RECEIVED, _E.SPAWN_REQUESTED)
_ASLEEP = (_E.TICK, _E.HEARTBEAT, _E.REVIEW_RECEIVED)

TRANSITIONS: Mapping[tuple[RuntimeState, LifecycleEvent], RuntimeState] = MappingProxyType(
    {(state, event): state for state in (_S.LOCAL, _S.ACTIVE) for event in _AWAKE}
    | {(state, event): state for state in (_S.HIBERNATING, _S.STALE, _S.SUNK) for event in _ASLEEP}
    | {
        (_S.HIBERNATING, _E.REVIVE_REQUESTED): _S.ACTIVE,
        (_S.STALE, _E.REVIVE_REQUESTED): _S.ACTIVE,
        (_S.SUNK, _E.ARCHIVE_REQUESTED): _S.ARCHIVED,
        (_S.ARCHIVED, _E.TICK): _S.ARCHIVED,
    }
)

# What time alone does: the state that another one turns into, and after how many seconds.
_TURNS = {
    _S.HIBERNATING: (_S.STALE, 30 * DAY),
    _S.SUNK: (_S.ARCHIVED, 180 * DAY),
}


def transition(state: RuntimeState, event: LifecycleEvent) -> RuntimeState:
    """The state after `event`."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise InvalidEventError(f"event {event} is not valid in state {state}") from None


def aged(state: RuntimeState, seconds: float) -> RuntimeState:
    """The state of a vacant that has been in `state` for so many seconds."""
    older, limit = _TURNS.get(state, (state, 0.0))
    return older if seconds >= limit else state


def can_be_called(state: str) -> bool:
    return state in _CALLABLE


def is_runnable(state: RuntimeState) -> bool:
    return can_be_called(state)


def is_gone(state: str) -> bool:
    """Whether calls are refused for good, and not only for now."""
    return state in {_S.SUNK, _S.ARCHIVED}


def can_review(state: RuntimeState) -> bool:
    return state in {_S.LOCAL, _S.ACTIVE, _S.HIBERNATING}


def requires_revive(state: RuntimeState) -> bool:
    return state is _S.STALE


def effective_visibility(state: RuntimeState, stored: Visibility) -> Visibility:
    """A local vacant is never discoverable, whatever is stored for it."""
    return Visibility.NONE if state is _S.LOCAL else stored


def heartbeat(state: RuntimeState, *, last_active: datetime) -> Heartbeat | None:
    """What is due in `state`; nothing once a vacant is archived."""
    match state:
        case _S.LOCAL | _S.ACTIVE:
            return Heartbeat("HEARTBEAT", {"liveness": True}, 60.0)
        case _S.HIBERNATING:
            dormant = {"liveness": "dormant", "last_active": utc_iso(last_active)}
            return Heartbeat("HEARTBEAT", dormant, DAY)
        case _S.STALE:
            return Heartbeat("HEARTBEAT", {"liveness": False, "awaiting_revive": True}, DAY)
        case _S.SUNK:
            return Heartbeat("HEARTBEAT_SUNK", {"liveness": False, "key_in_custody": True}, 600.0)
        case _S.ARCHIVED:
            return None
