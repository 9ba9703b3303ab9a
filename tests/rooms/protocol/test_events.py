"""The events of a session: what is told, to whom, and what is said of what was lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from comity.rooms.protocol.events import MAX_READERS, EventLog, iso_moment, session_event
from comity.testing.vectors import vector_file
from comity.wire.errors import InvalidError


def numbered(number):
    return session_event("heartbeat_sent", 0, ok=number)


def test_a_moment_is_written_as_javascript_does():
    assert iso_moment(1_794_722_067.283) == "2026-11-15T05:54:27.283Z"
    assert iso_moment(0) == "1970-01-01T00:00:00.000Z"


def test_an_event_holds_the_members_of_its_type_and_no_others():
    event = session_event("sync_hello_sent", 0, target_uuid="u", ok=True)
    assert list(event) == ["type", "ts", "ok", "target_uuid"]
    with pytest.raises(InvalidError, match="sdp"):
        session_event("peer_connected", 0, uuid="u", detail={}, sdp="v=0")


def recorded_events():
    for stem in ("mcp_stdio_a", "mcp_stdio_b"):
        for line in vector_file("peers", stem):
            yield from line["msg"].get("result", {}).get("structuredContent", {}).get("events", ())


def test_every_recorded_event_can_be_made_with_the_same_members_in_the_same_order():
    seen = set()
    for event in recorded_events():
        members = {name: value for name, value in event.items() if name not in {"type", "ts"}}
        assert list(session_event(event["type"], 0, **members)) == list(event)
        seen.add(event["type"])
    assert len(seen) > 10


def test_falsy_data_is_an_event_like_any_other():
    for value in (0, False, "", None):
        event = session_event("data_received", 0, data=value, uuid="u")
        assert event["data"] is value


def test_readers_do_not_take_events_from_each_other():
    log = EventLog()
    for number in range(3):
        log.append(numbered(number))
    assert [event["ok"] for event in log.read("one", 2, 0)] == [0, 1]
    assert [event["ok"] for event in log.read("two", 50, 0)] == [0, 1, 2]
    assert [event["ok"] for event in log.read("one", 50, 0)] == [2]
    assert log.read("one", 50, 0) == []


def test_a_reader_gets_what_fits_and_at_least_one_event():
    log = EventLog()
    for size in (10, 400, 400, 2000, 10):
        log.append(session_event("data_received", 0, data="x" * size))
    sizes = []
    while found := log.read("me", 50, 0, 1000):
        sizes.append([len(event["data"]) for event in found])
    assert sizes == [[10, 400], [400], [2000], [10]]


def test_a_reader_is_told_how_many_events_it_lost():
    log = EventLog(most_events=3)
    log.append(numbered(0))
    log.read("slow", 1, 0)
    for number in range(1, 6):
        log.append(numbered(number))
    assert log.waiting_for("slow") == 4
    result = log.read("slow", 50, 0)
    assert result[0] == {"type": "events_dropped", "ts": iso_moment(0), "count": 2}
    assert [event["ok"] for event in result[1:]] == [3, 4, 5]
    assert log.waiting_for("slow") == 0


def test_large_events_push_out_others_by_their_bytes():
    log = EventLog(most_bytes=10_000)
    for number in range(10):
        log.append(numbered(number), size=3000)
    assert len(log) == 2
    log.append(numbered(10), size=1_000_000)
    assert len(log) == 1
    assert log.bytes_held < 1_001_000


def test_what_was_promised_is_not_dropped_before_it_was_read():
    log = EventLog(most_events=5)
    log.read("slow", 1, 0)
    for number in range(3):
        log.append(numbered(f"promised {number}"), promised=True)
        log.append(numbered("other"))
    for number in range(100):
        log.append(numbered(number))
    result = log.read("slow", 50, 0)
    assert result[0]["count"] == 101
    assert [event["ok"] for event in result[1:]] == ["promised 0", "promised 1", "promised 2", 98, 99]
    for number in range(5):
        log.append(numbered(number))
    assert [event["ok"] for event in log.read("other", 50, 0)] == [0, 1, 2, 3, 4]


def test_lost_events_are_counted_once_however_little_is_read_at_a_time():
    log = EventLog(most_events=6)
    log.append(numbered("first"))
    log.read("slow", 1, 0)
    for number in range(20):
        log.append(numbered(number), promised=number % 5 == 0)
    result = []
    while log.waiting_for("slow"):
        result += log.read("slow", 2, 0)
    kept = [event["ok"] for event in result if event["type"] != "events_dropped"]
    assert kept == [0, 5, 10, 15, 18, 19]
    assert sum(event["count"] for event in result if event["type"] == "events_dropped") == 14


@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_reader_of_few_events_at_a_time_gets_past_those_that_were_lost(most):
    log = EventLog(most_events=4)
    for number in range(40):
        log.append(numbered(number), promised=number in (0, 7, 21))
    result = []
    while log.waiting_for("slow"):
        found = log.read("slow", most, 0)
        assert 0 < len(found) <= most
        result += found
    assert [event["ok"] for event in result if event["type"] != "events_dropped"] == [0, 7, 21, 39]
    assert sum(event["count"] for event in result if event["type"] == "events_dropped") == 36


def message(data):
    return session_event("data_received", 0, data=data, uuid="u")


def test_what_is_peeked_at_comes_again_until_it_is_acknowledged():
    log = EventLog()
    for number in range(4):
        log.append(numbered(number))
    first = log.peek("one", 2, 0)
    assert [event["ok"] for _, event in first] == [0, 1]
    assert log.peek("one", 2, 0) == first
    assert [event["ok"] for _, event in log.peek("one", 50, 0, after=first[-1][0])] == [2, 3]
    assert [event["ok"] for event in log.acknowledge("one", first[0][0])] == [0]
    assert [event["ok"] for _, event in log.peek("one", 50, 0)] == [1, 2, 3]
    assert log.acknowledge("one", first[0][0]) == []
    assert [event["ok"] for event in log.acknowledge("one", 1_000)] == [1, 2, 3]
    assert log.peek("one", 50, 0) == log.read("one", 50, 0) == []
    log.append(numbered(4))
    assert [event["ok"] for _, event in log.peek("one", 50, 0)] == [4]
    assert len(log.peek("two", 50, 0)) == 5


def test_only_messages_are_peeked_at_where_only_they_are_wanted():
    log = EventLog()
    for number in range(3):
        log.append(numbered(number))
        log.append(message(f"m{number}"))
    (place, event), _ = log.peek_messages("one", 2)
    assert event["data"] == "m0"
    assert [event["data"] for _, event in log.peek_messages("one", 9, place)] == ["m1", "m2"]
    assert [event["type"] for event in log.acknowledge("one", place)] == ["heartbeat_sent", "data_received"]
    assert [event["data"] for _, event in log.peek_messages("one", 9)] == ["m1", "m2"]


def test_a_peek_does_not_keep_a_promise_and_an_acknowledgement_does():
    log = EventLog(most_events=3)
    log.append(message("promised"), promised=True)
    for number in range(10):
        assert log.peek_messages("one", 1)[0][1]["data"] == "promised"
        log.append(numbered(number))
    ((place, _),) = log.peek_messages("one", 1)
    log.acknowledge("one", place)
    for number in range(10):
        log.append(numbered(number))
    assert log.peek_messages("two", 1) == []


def test_who_peeks_is_told_of_lost_events_too():
    log = EventLog(most_events=3)
    for number in range(6):
        log.append(numbered(number))
        if not number:
            log.acknowledge("slow", 0)
    (dropped, lost), *rest = log.peek("slow", 50, 0)
    assert (lost["type"], lost["count"]) == ("events_dropped", 2)
    assert [event["ok"] for _, event in rest] == [3, 4, 5]
    assert [event["ok"] for _, event in log.peek("slow", 50, 0, after=dropped)] == [3, 4, 5]
    log.acknowledge("slow", rest[0][0])
    assert [event["ok"] for _, event in log.peek("slow", 50, 0)] == [4, 5]


def test_readers_beyond_the_limit_are_forgotten_the_idlest_first():
    log = EventLog()
    log.append(numbered(0))
    for number in range(MAX_READERS + 1):
        log.read(f"reader {number}", 50, 0)
    assert log.waiting_for("reader 0") == 1
    assert log.waiting_for("reader 1") == 0


class ReadersOfALog(RuleBasedStateMachine):
    """Each reader gets every event once, in order, or is told how many it lost."""

    def __init__(self):
        super().__init__()
        self.log = EventLog(most_events=5)
        self.written = 0
        self.next = {"a": None, "b": None}

    @rule(count=st.integers(1, 8))
    def write(self, count):
        for _ in range(count):
            self.log.append(numbered(self.written))
            self.written += 1

    @rule(reader=st.sampled_from(["a", "b"]), most=st.integers(1, 7))
    def read(self, reader, most):
        waiting = self.log.waiting_for(reader)
        found = self.log.read(reader, most, 0)
        assert len(found) == min(most, waiting)
        expected = self.next[reader]
        for event in found:
            if event["type"] == "events_dropped":
                expected += event["count"]
                continue
            if expected is not None:
                assert event["ok"] == expected
            expected = event["ok"] + 1
        self.next[reader] = expected if expected is not None else max(0, self.written - 5)

    @precondition(lambda self: self.written)
    @invariant()
    def the_log_is_bounded(self):
        assert len(self.log) <= 5


TestReadersOfALog = ReadersOfALog.TestCase


@given(st.integers(1, 20), st.integers(1, 20))
def test_what_is_waiting_is_what_is_read(written, most):
    log = EventLog(most_events=10)
    for number in range(written):
        log.append(numbered(number))
    assert log.waiting_for("x") == len(log.read("x", 100, 0))
