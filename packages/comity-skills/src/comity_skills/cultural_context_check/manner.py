"""How a message treats its readers: orders and refusals, a superior who is asked first, stereotypes, adverts that shut people out.

The patterns are data. One is left alone where its sentence holds the words of `unless` (`please`, `unfortunately`).
Orders, refusals and superiors count only where people expect them softened; stereotypes count everywhere.
What no pattern knows is read by `editing.tone`, sentence by sentence.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from comity_skills.cultural_context_check.knowledge import Finding, Knowledge, Manner, Setting
from comity_skills.editing.passage import read
from comity_skills.editing.tone import Tone

_SENTENCE: Final = 120  # characters that are looked at on each side
# Reasons to flag a sentence that hold everywhere, and those that hold where people expect softness.
_EVERYWHERE: Final = {
    "contempt": "contempt",
    "belittling": "belittling",
    "shaming": "shaming",
    "stigma": "words about illness",
}
_SOFTENED: Final = {
    "reproach": "reproach",
    "fed_up": "anger",
    "brush_off": "turning away",
    "pressure": "pressure",
}
# What says enough of a sentence; one with an idiom is not to be taken at its word.
_TOLD: Final = frozenset({"direct", "exposure", "assimilation", "tone", "gesture", "custom", "idiom"})
_PRAISE: Final = re.compile(
    r"\b(?:congratulations|thank(?:s| you)|welcome|well done|nailed it|awesome|amazing|brilliant|excellent|proud of"
    r"|(?:great|good) (?:job|work|news))\b",
    re.IGNORECASE,
)
# Beside these words contempt is unlikely.
_KIND: Final = re.compile(r"\b(?:please|happy to|glad|sorry|condolences|wish(?:es)?)\b", re.IGNORECASE)
_END: Final = re.compile(r"[.!?](?=\s)|\n")


class Manners:
    def __init__(self, known: Knowledge, peoples: Iterable[str]) -> None:
        """`peoples` are the names of the people of all countries, one word each; `polish` in small letters is none."""
        names = f"(?-i:{'|'.join(sorted(re.escape(name.capitalize()) for name in peoples))})"
        self._group = known.care_about_group
        self._direct = known.care_about_directness
        self._cues = {kind: re.compile(cue, re.IGNORECASE) for kind, cue in known.cues.items()}
        self._manners: list[tuple[re.Pattern[str], re.Pattern[str] | None, Manner]] = [
            (
                re.compile(manner.pattern.replace("{peoples}", names), re.IGNORECASE),
                re.compile(manner.unless, re.IGNORECASE) if manner.unless else None,
                manner,
            )
            for manner in known.manners
        ]

    def find(self, message: str, setting: Setting) -> Iterator[Finding]:
        for pattern, unless, manner in self._manners:
            for match in pattern.finditer(message) if self._counts(manner, message, setting) else ():
                if unless is None or not unless.search(_sentence(message, *match.span())):
                    yield Finding(manner.issue, *match.span(), manner.why, manner.instead, manner.about)

    def _counts(self, manner: Manner, message: str, setting: Setting) -> bool:
        if manner.group and self.softened(setting):
            return True
        if not manner.to or (manner.group and self._is_direct(setting)):
            return not manner.group
        cue = self._cues.get(manner.to)
        return manner.to in setting.readers or (cue is not None and cue.search(message) is not None)

    def hurting(
        self, message: str, setting: Setting, tone: Tone, found: Sequence[Finding]
    ) -> Iterator[Finding]:
        """Sentences that may hurt, where nothing was found that says so already."""
        wanted = _EVERYWHERE | (_SOFTENED if self.softened(setting) else {})
        said = [finding for finding in found if finding.issue in _TOLD]
        for flag in tone.flagged(read(message), ()):
            kind = flag.category
            if kind not in wanted or any(one.start < flag.end and flag.start < one.end for one in said):
                continue
            if _PRAISE.search(flag.text) or (kind in _EVERYWHERE and _KIND.search(flag.text)):
                continue
            advice = (flag.alternative or "").strip("()")
            yield Finding(
                "tone",
                flag.start,
                flag.end,
                flag.reason.rstrip("."),
                f"{advice[:1].upper()}{advice[1:]}",
                wanted[kind],
            )

    def softened(self, setting: Setting) -> bool:
        """Whether the readers expect criticism, orders and refusals to be softened."""
        return bool(setting.areas & self._group) and not self._is_direct(setting)

    def _is_direct(self, setting: Setting) -> bool:
        return bool(setting.countries) and setting.countries.keys() <= self._direct


def _sentence(message: str, start: int, end: int) -> str:
    before = message[max(start - _SENTENCE, 0) : start]
    after = message[end : end + _SENTENCE]
    cuts = [match.end() for match in _END.finditer(before)]
    ending = _END.search(after)
    return (
        (before[cuts[-1] :] if cuts else before)
        + message[start:end]
        + (after[: ending.start()] if ending else after)
    )
