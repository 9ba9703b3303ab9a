"""The flags of the recorded servers: substrings, in the order of their lists (actions 2.2).

They fire inside other words (`nut` in `minute`); the count is part of the wire, so they stay as they are in
the modes that speak it. What is done about a text never depends on them.
"""

import re
from collections.abc import Iterator
from typing import Final

from comity_skills.skill import Mode

Patterns = tuple[str, ...]

_SINCE_0_1: Final[tuple[tuple[str, Patterns], ...]] = (
    (
        "Shame/blame language detected",
        ("you failed", "you must", "you should have", "try harder", "your fault"),
    ),
    ("Urgency pressure detected", ("last chance", "act now", "don't miss out", "limited time")),
    (
        "High cognitive load pattern detected",
        ("please complete all", "required steps", "do not proceed unless"),
    ),
)
_SINCE_1_0: Final[tuple[tuple[str, Patterns], ...]] = (
    *_SINCE_0_1,
    (
        "Stigmatizing language detected",
        ("crazy", "insane", "psycho", "nut", "loony", "weak", "weak minded", "weakness"),
    ),
    (
        "Potential medical claim detected",
        (
            "cure",
            "diagnos(?:is|ed|ing)",
            "prescri(?:be|ption|bed)",
            "medication without doctor",
            "home remedy",
            "guaranteed to treat",
        ),
    ),
    (
        "Minimizing/invalidating language detected",
        (
            "just get over it",
            "snap out of it",
            "it's all in your head",
            "just think positive",
            "make up your mind",
            "pull yourself together",
            "cheer up",
            "stop feeling sorry",
        ),
    ),
    (
        "Judgmental language detected",
        ("poor compliance", "non-compliant", "non compliant", "not trying", "lazy"),
    ),
    (
        "Stigmatizing framing detected",
        ("suffering from", "afflicted with", "victim of", "depressive person"),
    ),
    ("Crisis language framing detected", ("committed suicide",)),
)


def recorded_flags(text: str, mode: Mode) -> list[str]:
    return list(_flags(text, _SINCE_0_1 if mode == "strict" else _SINCE_1_0))


def _flags(text: str, lists: tuple[tuple[str, Patterns], ...]) -> Iterator[str]:
    for label, patterns in lists:
        for pattern in patterns:
            match = re.search(pattern, text, re.IGNORECASE)
            if match:
                yield f'{label}: "{match.group().lower()}"'
