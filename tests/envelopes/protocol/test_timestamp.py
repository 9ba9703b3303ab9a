from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone, tzinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.envelopes.protocol import message
from comity.envelopes.protocol.errors import EnvelopeFormatError
from tests.envelopes.protocol.envelope_samples import moments


@given(moments)
def test_a_moment_is_written_as_python_writes_it_in_utc(moment):
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    assert message.utc_iso(moment) == aware.astimezone(UTC).isoformat()


@given(moments)
def test_what_is_written_is_read_as_the_same_moment(moment):
    assert message.read_time(message.utc_iso(moment)) == message.utc(moment)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2026-05-06T00:00:00+00:00", "2026-05-06T00:00:00+00:00"),
        ("2026-05-06T00:00:00Z", "2026-05-06T00:00:00+00:00"),
        ("2026-05-06T08:00:00+08:00", "2026-05-06T00:00:00+00:00"),
        ("2026-05-05T18:30:00-05:30", "2026-05-06T00:00:00+00:00"),
        ("2026-05-06T00:00:00", "2026-05-06T00:00:00+00:00"),
        ("2026-05-06", "2026-05-06T00:00:00+00:00"),
        ("2026-05-06T00:00:00.000000+00:00", "2026-05-06T00:00:00+00:00"),
        ("2026-05-06T00:00:00.5Z", "2026-05-06T00:00:00.500000+00:00"),
        ("2026-05-06T00:00:00.120000", "2026-05-06T00:00:00.120000+00:00"),
        ("0001-01-01T00:00:00", "0001-01-01T00:00:00+00:00"),
        ("9999-12-31T23:59:59.999999+00:00", "9999-12-31T23:59:59.999999+00:00"),
    ],
)
def test_every_accepted_form_becomes_the_signed_one(text, written):
    moment = message.read_time(text)
    assert moment.tzinfo is UTC
    assert message.utc_iso(moment) == written


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-13-01",
        "2026-05-06T25:00:00",
        "\ud800",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        None,
        1746489600,
        1.5,
        True,
        [],
        {},
    ],
)
def test_anything_else_is_refused_by_name(text):
    with pytest.raises(EnvelopeFormatError, match="timestamp"):
        message.read_time(text)


@given(st.text() | st.text("0123456789-:+TZW. ", max_size=30))
def test_no_text_raises_anything_else(text):
    with suppress(EnvelopeFormatError):
        message.read_time(text)


class Stubborn(datetime):
    def isoformat(self, *args, **kwargs):
        return "my own way"


class Nowhere(tzinfo):
    def utcoffset(self, moment):
        return None


@pytest.mark.parametrize(
    "moment",
    [
        Stubborn(2026, 5, 6, 12, tzinfo=UTC),
        Stubborn(2026, 5, 6, 12),
        Stubborn(2026, 5, 6, 14, tzinfo=timezone(timedelta(hours=2))),
        datetime(2026, 5, 6, 12, tzinfo=Nowhere()),
    ],
)
def test_a_moment_of_another_make_is_written_like_all_others(moment):
    assert message.utc_iso(moment) == "2026-05-06T12:00:00+00:00"
