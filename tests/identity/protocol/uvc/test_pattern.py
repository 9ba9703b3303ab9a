import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.identity.protocol.uvc import matches, parse_uvc
from comity.wire.errors import MalformedError
from tests.identity.protocol.uvc.tokens import tokens


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("family.*.guide", "family.safe.guide", True),
        ("family.*.policy", "family.safe.guide", False),
        ("family.*", "family.safe.guide", False),
        ("*.*.*", "family.safe.guide", True),
        ("*.*.*.*", "family.safe.guide", False),
        ("company.**", "company.acme.legal.compliance", True),
        ("**", "family.safe.guide", True),
        ("family.safe.guide.**", "family.safe.guide", True),
        ("**.guide", "family.safe.guide", True),
        ("**.safe.**", "family.safe.guide", True),
        ("**.**", "family.safe.guide", True),
        ("family.**.safe", "family.safe.guide", False),
        ("a.**.b.*", "a.b.b.c", True),
        ("a.**.b", "a.b.b.c", False),
        ("family.safe.guide", "family.safe.guide@1.0.0:SEC", True),
        ("family.safe", "family.safe.guide", False),
    ],
)
def test_a_star_is_one_segment_and_two_are_any_number(pattern, text, expected):
    assert matches(pattern, parse_uvc(text)) is expected


@given(tokens, st.data())
def test_a_token_matches_every_loosening_of_itself(token, data):
    parts = [data.draw(st.sampled_from([segment, "*", "**"])) for segment in token.segments]
    assert matches(token.dotted, token)
    assert len(".".join(parts)) > 256 or matches(".".join(parts), token)


@pytest.mark.parametrize(
    "pattern", ["", ".", "family.", "fam*.safe.guide", "***", "Family.*", "a.b.c@1.0.0", "a." * 128 + "*"]
)
def test_what_is_no_pattern_is_refused(pattern):
    with pytest.raises(MalformedError):
        matches(pattern, parse_uvc("family.safe.guide"))


def test_the_longest_pattern_is_still_read():
    assert not matches("a." * 127 + "**", parse_uvc("family.safe.guide"))
