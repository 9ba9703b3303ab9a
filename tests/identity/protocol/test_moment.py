import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.identity.protocol.revocation import read_moment, write_moment
from comity.wire.errors import MalformedError


@given(st.integers(0, 253_402_300_799))
def test_a_moment_reads_back_as_itself(seconds):
    assert read_moment("at", write_moment(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-01-01T00:00:00Z", 1_767_225_600),
        ("2026-01-01T00:00:00.25Z", 1_767_225_600.25),
        ("2026-01-01T01:00:00+01:00", 1_767_225_600),
        ("2025-12-31T19:00:00-05:00", 1_767_225_600),
        ("0001-01-01T00:00:00+14:00", -62_135_647_200),
    ],
)
def test_offsets_and_fractions_are_read(text, seconds):
    assert read_moment("at", text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "2026-01-01 00:00:00Z",
        "20260101T000000Z",
        "2026-13-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:00:60Z",
        "2026-01-01T00:00:00+25:00",
        "2026-01-01T00:00:00z",
        "2026-01-01T00:00:00Z\n",
        "1767225600",
        "٢026-01-01T00:00:00Z",
    ],
)
def test_anything_else_is_told_by_the_name_of_its_field(text):
    with pytest.raises(MalformedError, match="produced_at"):
        read_moment("produced_at", text)
