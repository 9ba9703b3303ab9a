"""When a text that is to be edited speaks of a crisis.

- The recorded servers look for substrings; in their modes those still count, beside a crisis that the detector
  finds.
- A mention (another person, the past, a report) brings the resources and no claim of a crisis. In the recorded
  modes it changes no count: the last of the assumptions then tells where help is to be found.
- None of these inputs has a place or a locale: the lines name what is international and two countries as
  examples, and say how to find the rest.
"""

from collections.abc import Sequence
from typing import Final

from comity_skills.crisis import CrisisReport
from comity_skills.skill import Mode

EMERGENCY: Final = "If somebody may be in immediate danger, call the local emergency number now."
NUMBERS: Final = (
    "US: call or text 988 (Suicide & Crisis Lifeline) | UK and Ireland: Samaritans 116 123 | "
    "other countries: https://findahelpline.com"
)
RESOURCES: Final = (
    EMERGENCY,
    "988 Suicide & Crisis Lifeline (US, call or text 988) | Samaritans 116 123 (UK and Ireland)",
    "Crisis Text Line: text HOME to 741741 (US)",
    "Lines by country: https://findahelpline.com and https://www.iasp.info/crisis-centres-helplines/",
)

_RECORDED_0_1: Final = ("suicid", "self-harm", "end my life", "no point")
_RECORDED_1_0: Final = (
    *_RECORDED_0_1,
    "kill myself",
    "want to die",
    "better off dead",
    "take my life",
    "hurt myself",
    "cut myself",
    "end it all",
    "make it stop",
    "life isn't worth",
    "can't go on",
    "everyone would be better",
    "no point living",
    "can't cope",
    "can't take",
    "overwhelmed",
)


def is_concerning(text: str, report: CrisisReport, mode: Mode) -> bool:
    """Whether resources are shown beside the text."""
    if report.raised or mode == "enhanced":
        return report.raised or report.mention
    lowered = text.lower()
    return any(phrase in lowered for phrase in (_RECORDED_0_1 if mode == "strict" else _RECORDED_1_0))


def told_at_the_end(assumptions: Sequence[str], report: CrisisReport, *, shown: bool) -> list[str]:
    """The assumptions, as many as they are; `shown` when the output itself tells where help is."""
    *others, last = assumptions
    unseen = (report.raised or report.mention) and not shown
    return [*others, f"{last} | {NUMBERS}" if unseen else last]
