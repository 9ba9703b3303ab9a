import pytest

from comity.identity.protocol.uvc import RESERVED_WORDS, TIER_OF, check_governance
from comity.wire.errors import InvalidError


def checked(text):
    check_governance(text, text.partition("@")[0].split("."))


@pytest.mark.parametrize("first", TIER_OF)
def test_every_known_first_segment_is_allowed(first):
    checked(f"{first}.safe.guide")


def test_the_limits_themselves_are_allowed():
    checked("family.b.c.d.e.f.g.h")
    longest = "family.safe.guide@1.0.0-"
    checked(longest + "x" * (128 - len(longest)))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("family.b.c.d.e.f.g.h.i", "8 segments"),
        ("family.safe.guide@1.0.0-" + "x" * 105, "128 characters"),
        ("family.safe-.guide", "hyphen"),
        ("family.sa--fe.guide", "hyphen"),
        ("elsewhere.safe.guide", "elsewhere is not a known first segment"),
        *((f"family.{word}.guide", "reserved") for word in sorted(RESERVED_WORDS)),
        ("family.safe.root", "reserved"),
    ],
)
def test_what_is_not_registered_is_told_why(text, complaint):
    with pytest.raises(InvalidError, match=complaint):
        checked(text)
