"""Dates as a person writes them, from Thursday 2026-11-19, 18:00 in Berlin."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from comity.votes.commands.moments import length_text, moment_text, read_until
from comity.wire.errors import ConfigError

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 19, 18, tzinfo=BERLIN).timestamp()


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("today", "2026-11-19T23:59:00+01:00"),
        ("Tomorrow", "2026-11-20T23:59:00+01:00"),
        ("friday", "2026-11-20T23:59:00+01:00"),
        ("FRI", "2026-11-20T23:59:00+01:00"),
        ("thursday", "2026-11-19T23:59:00+01:00"),
        ("wednesday", "2026-11-25T23:59:00+01:00"),
        ("friday 18:00", "2026-11-20T18:00:00+01:00"),
        ("  saturday   9:05 ", "2026-11-21T09:05:00+01:00"),
        ("tomorrow 00:00", "2026-11-20T00:00:00+01:00"),
        ("19:30", "2026-11-19T19:30:00+01:00"),
        ("2026-12-01", "2026-12-01T23:59:00+01:00"),
        ("2026-12-01 08:00", "2026-12-01T08:00:00+01:00"),
        ("2026-12-01T08:00", "2026-12-01T08:00:00+01:00"),
        ("2026-12-01T08:00:00Z", "2026-12-01T08:00:00+00:00"),
        ("2027-07-01", "2027-07-01T23:59:00+02:00"),
        ("3d", "2026-11-22T18:00:00+01:00"),
        ("in 3 days", "2026-11-22T18:00:00+01:00"),
        ("12h", "2026-11-20T06:00:00+01:00"),
        ("90 min", "2026-11-19T19:30:00+01:00"),
        ("2w", "2026-12-03T18:00:00+01:00"),
    ],
)
def test_are_understood(text, moment):
    assert read_until(text, NOW, BERLIN).isoformat() == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "3",
        "d",
        "3 fortnights",
        "2026-13-01",
        "friday 25:00",
        "25:00 friday",
        "999999w",
        "2026-02-30",
        "\u0661d",
    ],
)
def test_that_are_none_are_refused_with_examples(text):
    with pytest.raises(ConfigError, match="is no time; write today, tomorrow, a weekday, 2026-12-01"):
        read_until(text, NOW, BERLIN)


@pytest.mark.parametrize("text", ["2026-11-18", "17:00", "today 17:59", "0d", "2020-01-01T00:00:00Z"])
def test_that_are_past_are_refused_with_the_moment_that_was_understood(text):
    with pytest.raises(
        ConfigError, match=r"is \w{3} 20\d\d-\d\d-\d\d \d\d:\d\d \w+, which is past; give a later time"
    ):
        read_until(text, NOW, BERLIN)


def test_that_are_long_are_not_repeated_whole():
    with pytest.raises(ConfigError) as refused:
        read_until("x" * 10_000, NOW, BERLIN)
    assert len(str(refused.value)) < 200


def test_are_those_of_this_machine_when_no_zone_is_given():
    here = datetime.fromtimestamp(NOW).astimezone().replace(hour=23, minute=59, second=0, microsecond=0)
    assert read_until("today", NOW) == here


def test_are_shown_with_their_zone():
    assert moment_text(datetime(2026, 11, 20, 23, 59, tzinfo=BERLIN)) == "Fri 2026-11-20 23:59 CET"
    assert moment_text(datetime(2026, 11, 20, 23, 59, tzinfo=UTC)) == "Fri 2026-11-20 23:59 UTC"
    ahead = timezone(timedelta(hours=5, minutes=30))
    assert moment_text(datetime(2026, 11, 20, 23, 59, tzinfo=ahead)) == "Fri 2026-11-20 23:59 UTC+05:30"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (5, "1 minute"),
        (3600, "1 hour"),
        (86_400 * 2 + 3 * 3600 + 60, "2 days 3 hours"),
        (7 * 86_400, "7 days"),
        (5400, "1 hour 30 minutes"),
    ],
)
def test_lengths_are_shown_by_their_two_largest_units(seconds, text):
    assert length_text(seconds) == text
