"""The audit as 0.1.1 and 1.0.8 answer it: the same thresholds, and so the same number of lines.

The word lists of those versions match inside words. The number of lines is kept; what a line names is the
whole word that stands in the text (`wherein`, not `herein`). White space is what JavaScript takes for it.
"""

import re
from math import floor
from typing import Final

from comity_skills.skill import SkillOutcome
from comity_skills.words.fields import SPACE, trimmed

_LEGAL: Final = ("pursuant", "notwithstanding", "thereto", "heretofore", "aforementioned", "herein")
_WORD: Final = re.compile(r"[a-z]+")
_ENDS: Final = re.compile(r"[.!?]+")
_TOKEN: Final = re.compile(rf"[^{SPACE}]+")
_NUMBERED: Final = re.compile(rf"[0-9]\.[{SPACE}]")
_LONG_SENTENCE: Final = 20
_LONG_TEXT: Final = 150
_NEEDS_STEPS: Final = 50
_MOST_NAMED: Final = 10


def audit(content: str, context: str) -> SkillOutcome:
    words = sum(1 for _ in _TOKEN.finditer(content))
    sentences = sum(bool(trimmed(piece)) for piece in _ENDS.split(content))
    average = floor(words / max(sentences, 1) + 0.5)
    findings: list[str] = []
    advice: list[str] = []
    if average > _LONG_SENTENCE:
        findings.append(f"Sentences are long: {average} words on average, above {_LONG_SENTENCE}.")
        advice.append("Split long sentences; one idea in each, at most 20 words.")
    if words > _LONG_TEXT:
        findings.append(f"There is a lot to read at once: {words} words.")
        advice.append("Break the text into short sections with headings that say what is in them.")
    legal = [
        word for word in dict.fromkeys(_WORD.findall(content.lower())) if any(term in word for term in _LEGAL)
    ]
    if legal:
        findings.append(f"Legal or formal wording: {', '.join(word[:40] for word in legal[:_MOST_NAMED])}.")
        advice.append("Put everyday words in the place of legal or formal ones.")
    if words > _NEEDS_STEPS and not _NUMBERED.search(content):
        advice.append("Where people have to do things in order, number the steps.")
    return SkillOutcome(
        uncertainty="medium",
        assumptions=[
            f"Context: {context}",
            f"Words counted: {words}",
            f"Sentences counted: {sentences}",
            "Word and sentence counts stand in for a test with readers; they do not replace one.",
        ],
        output={
            "findings": findings or ["No barrier was found by counting words and sentences."],
            "recommendations": [
                *advice,
                "Try the content with people of different reading habits and cognitive needs.",
                "Begin with a short summary of what matters most.",
            ],
        },
    )
