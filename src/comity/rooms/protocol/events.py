"""The events of a session for its owner (peers 6): one table of event types, one bounded log, one cursor per reader.

- An event has `type`, `ts` and the members that the table names for its type, in that order, and no others: no
  SDP, no candidates, no keys can slip in.
- The log holds so many events and so many bytes; the oldest go first. A reader that lost some gets
  `events_dropped` with their number before the rest (ruling 61).
- A message that was receipted is promised: it is not dropped before somebody has read it.
- Readers do not take events from each other. Readers that nobody asked for in a long time are forgotten first.
- A reader can also peek: then its cursor stays until it acknowledges what it has used.
"""

import itertools
from bisect import bisect_left
from collections import OrderedDict
from datetime import UTC, datetime
from typing import Any, Final

from comity.rooms.protocol.loose_values import printable
from comity.wire import strict_json
from comity.wire.errors import InvalidError

MAX_EVENTS: Final = 2000
MAX_BYTES: Final = 8 * 1024 * 1024
MAX_READERS: Final = 64
_SMALL: Final = 512

_MEMBERS: Final = {
    "connected": "",
    "disconnected": "",
    "stopped": "",
    "ready": "room streamID targetStreamID host forceTURN",
    "connect_error": "message",
    "sdk_error": "detail",
    "connection_failed": "detail",
    "reconnect_scheduled": "reason inMs",
    "peer_connected": "uuid detail",
    "peer_disconnected": "uuid detail",
    "data_channel_open": "detail",
    "data_channel_close": "detail",
    "data_received": "uuid streamID fallback data binaryBase64",
    "send_rejected": "reason target",
    "send_error": "message",
    "heartbeat_sent": "ok",
    "sync_hello_sent": "ok target_uuid",
    "sync_peer_updated": "uuid stream_id handshake_state auth_ok shared_key_ready",
    "sync_peer_rejected": "uuid stream_id reason",
    "protocol_auth_failed": "kind uuid stream_id",
    "protocol_unknown": "kind uuid stream_id",
    "file_offer_received": "transfer_id from_uuid from_stream_id total_bytes total_chunks next_seq name mime",
    "file_offer_rejected": "transfer_id reason",
    "file_chunk_received": "transfer_id seq next_seq received_bytes total_bytes",
    "file_chunk_rejected": "transfer_id seq reason",
    "file_received": "transfer_id from_uuid from_stream_id name mime total_bytes file_hash spooled spool_path",
    "file_transfer_complete": "transfer_id target_uuid total_bytes total_chunks retries_total file_hash",
    "file_transfer_cancelled": "transfer_id from_uuid",
    "file_protocol_error": "reason kind from_uuid",
    "file_protocol_unhandled": "transfer_id kind",
    "state_updated": "source key actor clock value",
    "state_snapshot_merged": "from_uuid from_stream_id applied offered",
    "state_protocol_unhandled": "kind uuid stream_id",
    # ours, beyond the contract's list
    "events_dropped": "count",
    "protocol_error": "reason uuid stream_id",
    "duplicate_stream_id": "uuid stream_id other_uuid",
    "peer_stale": "uuid stream_id last_seen_at",
    "file_ack_rejected": "transfer_id seq reason",
    "file_transfer_failed": "transfer_id direction reason",
    "state_patch_rejected": "uuid stream_id key reason",
    "message_status": "message_id status reason",
    "message_rejected": "message_id uuid stream_id reason",
    "room_members_changed": "reason names",
}
EVENT_MEMBERS: Final = {kind: tuple(members.split()) for kind, members in _MEMBERS.items()}
_MAY_BE_ABSENT: Final = {
    "data_received": ("message_id", "re", "vacant_id", "signed"),
    "protocol_auth_failed": ("reason",),
    "sync_peer_rejected": ("by_peer",),
    "state_updated": ("deleted",),
}
_WORDS: Final = frozenset(("kind", "message", "reason"))
"""Members that may hold words of a peer or a relay."""

_ORDER: Final = {kind: (*names, *_MAY_BE_ABSENT.get(kind, ())) for kind, names in EVENT_MEMBERS.items()}


def iso_moment(seconds: float) -> str:
    """Return a moment as JavaScript writes it: UTC, milliseconds, `Z`."""
    moment = datetime.fromtimestamp(round(seconds * 1000) / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment_or_none(seconds: float | None) -> str | None:
    return None if seconds is None else iso_moment(seconds)


def session_event(kind: str, seconds: float, /, **members: Any) -> dict[str, Any]:
    """Return an event with exactly the members of its type; `seconds` is wall time."""
    event: dict[str, Any] = {"type": kind, "ts": iso_moment(seconds)}
    for name in _ORDER[kind]:
        if name in members:
            value = members.pop(name)
            event[name] = printable(value) if name in _WORDS and isinstance(value, str) else value
    if members:
        raise InvalidError(f"the event {kind} has no member {', '.join(members)}")
    return event


class EventLog:
    def __init__(self, most_events: int = MAX_EVENTS, most_bytes: int = MAX_BYTES) -> None:
        self._most_events = most_events
        self._most_bytes = most_bytes
        self._numbers: list[int] = []
        self._events: dict[int, tuple[dict[str, Any], int]] = {}
        self._promised: set[int] = set()
        self._next = 0
        self._bytes = 0
        self._cursors: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def bytes_held(self) -> int:
        return self._bytes

    def append(self, event: dict[str, Any], size: int = 0, *, promised: bool = False) -> None:
        """`size` is the size of its data in bytes. A `promised` event is not dropped before it was read; the caller must
        limit their number.
        """
        self._numbers.append(self._next)
        self._events[self._next] = (event, _SMALL + size)
        if promised:
            self._promised.add(self._next)
        self._next += 1
        self._bytes += _SMALL + size
        while len(self._numbers) > self._most_events or self._bytes > self._most_bytes:
            at = next((at for at, number in enumerate(self._numbers) if number not in self._promised), None)
            if at is None or len(self._numbers) == 1:
                break
            self._bytes -= self._events.pop(self._numbers.pop(at))[1]

    def waiting_for(self, reader: str) -> int:
        """Return how many events `read` would give, the notice of lost ones included."""
        cursor = self._cursor(reader)
        kept = len(self._numbers) - bisect_left(self._numbers, cursor)
        return kept + (self._next - cursor > kept)

    def read(
        self, reader: str, most: int, seconds: float, most_bytes: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the oldest events that this reader has not had. A new reader starts with the oldest one kept. They are as
        many as fit into `most_bytes` of JSON, but at least one.
        """
        cursor = self._cursor(reader)
        if most_bytes is not None:
            most = self._fitting(cursor, most, most_bytes)
        chosen, lost, end = self._from(cursor, most)
        found = [session_event("events_dropped", seconds, count=lost)] if lost else []
        found += [self._events[number][0] for number in chosen]
        self._promised.difference_update(chosen)
        self._move(reader, end if most > 0 else cursor)
        return found

    def peek(
        self, reader: str, most: int, seconds: float, after: int | None = None
    ) -> list[tuple[int, dict[str, Any]]]:
        """Return what `read` would, each event with its number, and change nothing. `after`: those behind this number,
        and not behind the cursor of the reader.
        """
        cursor = self._cursor(reader) if after is None else after + 1
        chosen, lost, end = self._from(cursor, most)
        found = [(number, self._events[number][0]) for number in chosen]
        if lost:
            first = chosen[0] if chosen else end
            found.insert(0, (first - 1, session_event("events_dropped", seconds, count=lost)))
        return found

    def peek_messages(
        self, reader: str, most: int, after: int | None = None
    ) -> list[tuple[int, dict[str, Any]]]:
        """Return messages of others with their numbers, without moving the cursor of the reader."""
        start = bisect_left(self._numbers, self._cursor(reader) if after is None else after + 1)
        all_numbers = itertools.islice(self._numbers, start, None)
        messages = (number for number in all_numbers if self._events[number][0]["type"] == "data_received")
        return [(number, self._events[number][0]) for number in itertools.islice(messages, most)]

    def acknowledge(self, reader: str, through: int) -> list[dict[str, Any]]:
        """Move the cursor of the reader behind the event with this number. Return the events that it has passed."""
        cursor = self._cursor(reader)
        through = min(through, self._next - 1)
        if through < cursor:
            return []
        passed = self._numbers[bisect_left(self._numbers, cursor) : bisect_left(self._numbers, through + 1)]
        self._promised.difference_update(passed)
        self._move(reader, through + 1)
        return [self._events[number][0] for number in passed]

    def _from(self, cursor: int, most: int) -> tuple[list[int], int, int]:
        """Return the events at a cursor, how many were lost among them, and where a reader stands that has had these."""
        start = bisect_left(self._numbers, cursor)
        chosen = self._numbers[start : start + max(0, most)]
        lost = self._end_of(chosen, start) - cursor - len(chosen)
        if lost and len(chosen) == most:  # the notice takes the place of one
            chosen = chosen[:-1]
            lost = self._end_of(chosen, start) - cursor - len(chosen)
        return chosen, lost, self._end_of(chosen, start)

    def _fitting(self, cursor: int, most: int, most_bytes: int) -> int:
        """Return how many of the next events fit into so many bytes of JSON; of those that are there at least one."""
        start = bisect_left(self._numbers, cursor)
        size = 0
        for count, number in enumerate(self._numbers[start : start + max(0, most)]):
            size += len(strict_json.dumps(self._events[number][0]))
            if size > most_bytes and count:
                return count
        return most

    def _move(self, reader: str, cursor: int) -> None:
        self._cursors[reader] = cursor
        self._cursors.move_to_end(reader)
        if len(self._cursors) > MAX_READERS:
            self._cursors.popitem(last=False)

    def _cursor(self, reader: str) -> int:
        return self._cursors.get(reader, self._numbers[0] if self._numbers else self._next)

    def _end_of(self, chosen: list[int], start: int) -> int:
        """Return where a reader stands that has had these: behind the last, or before the next one that is kept."""
        if chosen:
            return chosen[-1] + 1
        return self._numbers[start] if start < len(self._numbers) else self._next
