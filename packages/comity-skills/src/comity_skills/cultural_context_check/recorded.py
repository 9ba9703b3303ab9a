"""The check as 0.1.1 and 1.0.8 answer it: as many notes as they give, for the same words of region and audience.

Those versions look inside words: `Indianapolis` counts as India, `stakeholders` as older people. The number of
notes is kept; where the whole word says otherwise, the notes are general ones, not those of the wrong place.
"""

import re
from typing import Final

from msgspec import Struct

from comity_skills.cultural_context_check.adapt import adapt
from comity_skills.skill import SkillOutcome


class _Branch(Struct, frozen=True):
    inside: tuple[str, ...]
    whole: re.Pattern[str]
    notes: tuple[str, ...]


_REGIONS: Final = (
    _Branch(
        ("china", "apac", "japan", "korea"),
        re.compile(r"\b(?:china|apac|japan|japanese|koreas?|koreans?)\b"),
        (
            "Mind hierarchy, indirect feedback and the group: they often weigh more than one person's view.",
            "Say no softly, and leave everybody room to save face.",
            "Red is commonly a positive colour; white may stand for mourning.",
            "Use titles and family names until invited otherwise.",
        ),
    ),
    _Branch(
        ("middle east", "arabic", "gulf"),
        re.compile(r"\b(?:middle east|middle eastern|arabic|gulf)\b(?! (?:of|coast))"),
        (
            "Arabic runs from right to left: check the layout.",
            "Mind the religious calendar, with its fasting times and holidays.",
            "Relationship first, then business.",
        ),
    ),
    _Branch(
        ("india",),
        re.compile(r"(?<!west )(?<!american )\b(?:india|indians?)\b(?! ocean)"),
        (
            "There is great diversity of languages; English is not everybody's first.",
            "Credentials and titles carry weight.",
            "Family is often part of a decision.",
        ),
    ),
)
_AUDIENCE: Final = _Branch(
    ("elder", "senior", "older"),
    re.compile(r"\b(?:elder|elders|elderly|seniors?|older)\b"),
    (
        "Use respectful and full forms of address.",
        "Do not assume how well anybody knows technology.",
    ),
)
_GENERAL: Final = (
    "Use plain words; leave out idioms and local references.",
    "Write dates with the month in words, and amounts with their currency.",
    "Ask somebody from the audience to read the message before it is sent.",
    "Culture differs within every region: take no note here for a rule.",
)
_GENERAL_NOTES: Final = 3


def check(message: str, audience: str, region: str) -> SkillOutcome:
    notes = [note for branch in _REGIONS for note in _notes(branch, region)] + _notes(_AUDIENCE, audience)
    adapted, _ = adapt(message, neutral=False)
    return SkillOutcome(
        uncertainty="high",
        assumptions=[
            f"Audience: {audience}",
            f"Region: {region}",
            "Notes are general and hold for no single person.",
            "Nobody from the audience has reviewed the message.",
        ],
        output={
            "adapted_message": f"[Adapted for {audience} audience, {region}]: {adapted}",
            "notes": notes or list(_GENERAL[:_GENERAL_NOTES]),
            "uncertainty": "Cultural notes are generalisations; confirm them with people from the audience.",
        },
    )


def _notes(branch: _Branch, text: str) -> list[str]:
    folded = text.lower()
    if not any(term in folded for term in branch.inside):
        return []
    return list(branch.notes if branch.whole.search(folded) else _GENERAL[: len(branch.notes)])
