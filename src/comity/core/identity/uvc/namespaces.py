"""Who may name things: the tiers of first segments, and the words that nobody may use.

The tier decides how much of a token is its namespace: core names belong to everybody and are one
segment long; elsewhere the second segment says whose they are (`company.acme`).
"""

from enum import StrEnum
from typing import Final


class Tier(StrEnum):
    CORE = "core"
    ORGANISATION = "org"
    COMMUNITY = "community"
    PERSONAL = "personal"


FIRST_SEGMENTS: Final = {
    Tier.CORE: (
        *("family", "work", "secure", "creative", "reality"),
        *("education", "health", "finance", "legal"),
    ),
    Tier.ORGANISATION: ("company", "school", "ngo", "org"),
    Tier.COMMUNITY: ("religion", "culture", "community"),
    Tier.PERSONAL: ("user",),
}

TIER_OF: Final = {segment: tier for tier, segments in FIRST_SEGMENTS.items() for segment in segments}

RESERVED_WORDS: Final = frozenset(
    {
        *("system", "admin", "root", "null", "undefined", "true", "false", "none", "void", "default"),
        *("api", "internal", "private", "public", "test", "debug", "staging", "production"),
        *("vcp", "uvc", "csm", "bundle", "manifest", "creed", "official", "verified", "authentic", "real"),
    }
)
