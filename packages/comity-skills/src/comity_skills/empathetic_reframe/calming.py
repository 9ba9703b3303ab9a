"""A raised voice in writing: one word in capitals among small letters becomes small.

- Only words that are no name and no abbreviation, and that bind nobody by being read at a glance: `NOT`, `NEVER` and
  `ONLY` keep their capitals, and so does every word of a sentence about safety.
- A sentence that is all in capitals is flagged and left: which of its words are names is not to be seen.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from comity_skills.editing.passage import Passage
from comity_skills.editing.rules import FINDINGS_PER_RULE, Finding

CATEGORY: Final = "shouting"
REASON: Final = "Capitals read as shouting."

_WORD: Final = re.compile(
    r"(?<![A-Z] )(?<![\w'.-])(?:RIGHT NOW|NOW|AGAIN|STILL|IMMEDIATELY|TODAY|TOMORROW|ALL|EVERY|VERY|REALLY|WHY|WHAT|HOW|WHEN"
    r"|WHERE|YOU|YOUR|MUST|NEED|HAVE|PLEASE|EVER|STOP)(?![\w'-]|\.\w)(?! [A-Z]{2})"
)
_ALL: Final = re.compile(r"(?<![\w'])[A-Z][A-Z']{0,20}(?:,? [A-Z][A-Z']{0,20}){2,60}(?![\w'])")
_TO_SOMEBODY: Final = re.compile(r"\b(?:YOU|YOUR|ME|MY|US|WE|I)\b")
_SAFETY: Final = re.compile(
    r"\b(?:tablets?|pills?|dos(?:e|es|age)|medic\w{1,8}|mg|ml|fire|danger\w{0,4}|warning|poison\w{0,4}|voltage|electric\w{0,4}"
    r"|gas|emergency|ambulance|allerg\w{1,4}|evacuat\w{1,4}|exit|button|key|click|press|type|select)\b",
    re.IGNORECASE,
)


def calmed(passage: Passage) -> Iterator[Finding]:
    for match in islice(_WORD.finditer(passage.text), FINDINGS_PER_RULE):
        first, last = passage.sentence_at(match.start())
        said = passage.text[max(first, match.start() - 300) : min(last, match.end() + 300)]
        if passage.is_quoted(*match.span()) or _SAFETY.search(said) or not any(map(str.islower, said)):
            continue
        small = match.group().lower()
        yield _finding(match, small.capitalize() if match.start() == first else small)
    for match in islice(_ALL.finditer(passage.text), FINDINGS_PER_RULE):
        if _TO_SOMEBODY.search(match.group()) and not passage.is_quoted(*match.span()):
            yield _finding(match, None)


def _finding(match: re.Match[str], small: str | None) -> Finding:
    return Finding(
        rule="capitals",
        category=CATEGORY,
        severity="low",
        start=match.start(),
        end=match.end(),
        text=match.group(),
        reason=REASON,
        replacement=small,
        alternative="(the same in small letters)",
    )
