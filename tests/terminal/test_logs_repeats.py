"""A failure that comes again is told once and counted."""

import io
import logging

import pytest

from comity.terminal.logs import SparingHandler

log = logging.getLogger("tests.sparing")


class Timer:
    """Rings when it is told to."""

    def __init__(self):
        self.calls = []

    def __call__(self, _seconds, call):
        self.calls.append(call)
        return self

    def cancel(self):
        self.calls.clear()

    def minute(self):
        calls, self.calls = self.calls, []
        for call in calls:
            call()


@pytest.fixture
def timer():
    return Timer()


@pytest.fixture
def lines(timer):
    """What was written, once for each look."""
    handler = SparingHandler(timer)
    handler.stream = io.StringIO()
    log.addHandler(handler)
    log.propagate = False

    def look():
        written = handler.stream.getvalue().splitlines()
        handler.stream.seek(0)
        handler.stream.truncate()
        return written

    look.handler = handler
    yield look
    log.removeHandler(handler)
    log.propagate = True


def fail(peer, reason=ValueError):
    try:
        raise reason(peer)  # noqa: TRY301 - to be told in the log
    except reason:
        log.exception("the call of %s failed", peer)


def test_the_first_is_told_in_full_and_the_others_are_summed_up_each_minute(lines, timer):
    for number in range(1000):
        fail(f"peer {number}")
    first, *traceback = lines()
    assert first == "the call of peer 0 failed"
    assert traceback[-1] == "ValueError: peer 0"
    timer.minute()
    assert lines() == ["the call of peer 999 failed (this came 999 times more in the last minute)"]
    fail("peer 1000")
    timer.minute()
    assert lines() == ["the call of peer 1000 failed (this came once more in the last minute)"]


def test_after_a_minute_without_one_it_is_told_in_full_again(lines, timer):
    fail("a")
    timer.minute()
    assert timer.calls == []
    lines()
    fail("b")
    assert lines()[0] == "the call of b failed"


def test_another_failure_is_told_whatever_is_being_counted(lines):
    fail("a")
    lines()
    fail("b", KeyError)
    assert lines()[-1] == "KeyError: 'b'"
    log.error("an entry could not be written: %s", ValueError("x"))
    log.error("an entry could not be written: %s", KeyError("x"))
    log.warning("something else")
    log.error("an entry could not be written: %s", ValueError("y"))
    assert len(lines()) == 3


def test_what_is_no_failure_is_always_told(lines):
    log.setLevel(logging.INFO)
    for _ in range(3):
        log.info("served")
    assert lines() == ["served"] * 3


def test_what_was_counted_is_told_when_the_program_ends(lines, timer):
    fail("a")
    fail("b")
    lines()
    lines.handler.close()
    assert lines() == ["the call of b failed (this came once more in the last minute)"]
    assert timer.calls == []
