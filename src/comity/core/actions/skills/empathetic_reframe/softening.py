"""A refusal or bad news, told by somebody who minds: the same sentence with a few words before it.

- `We cannot refund you.` becomes `We are sorry, but we cannot refund you.`: the refusal itself is untouched.
- Only a plain statement at the start of a sentence is touched, and only when what is refused is something the
  reader may have wished for: `We cannot wait to see you` and `We don't share your data` stay.
- Once in a message is enough. A message that already says sorry gets no second one.
- Whoever speaks as `I` says it as `I`.
"""

import re
from collections.abc import Iterator
from typing import Final

from comity.core.actions.editing.passage import Passage
from comity.core.actions.editing.rules import Finding

CATEGORY: Final = "refusal"
REASON: Final = (
    "Says that the news is hard for the reader before giving it; what is refused or asked stays the same."
)

# what one cannot do may be anything the reader asked for; what one does not or will not do may be good news
_CANNOT: Final = (
    r"(?:cannot|can't|can not|could not|couldn't|(?:are|am) (?:unable|not able) to|aren't able to"
    r"|are not in a position to)"
)
_DOES_NOT: Final = r"(?:do not|don't|will not|won't)"
_NEVER_WELCOME: Final = (
    r"accommodate|compensate|deliver|exchange|extend|give you|grant|help you|make an exception|offer|provide|refund"
    r"|reimburse|repair|ship|take back|waive"
)
_SOMETIMES_WELCOME: Final = (
    r"approve your|assist|book|cancel|change|cover|find your|fulfil|fulfill|help with|honou?r|issue|make changes|process"
    r"|replace|reschedule|reserve|return|schedule|send|serve|upgrade"
)
_ASKED_BY_YOU: Final = (
    r"(?:accept|allow|permit|support) (?:your?|returns|refunds|exchanges|cancellations|changes|requests)"
)
_POLICY: Final = r"(?:(?:as per|per|under) our (?:policy|policies|terms|terms and conditions),?\s+)"
_BAD_NEWS: Final = re.compile(
    r"(?:unfortunately|regrettably),?\s+(?=(?:we|you|your|the|this|that|there|it|our|i|they|as per|(?!no|yes)(?-i:[A-Z])\w+)\b)",
    re.IGNORECASE,
)
_REFUSAL: Final = re.compile(
    rf"{_POLICY}?(?P<who>we|i)\s+(?:currently\s+)?"
    rf"(?:{_CANNOT}\s+(?:currently\s+)?(?:{_NEVER_WELCOME}|{_SOMETIMES_WELCOME}|{_ASKED_BY_YOU})"
    rf"|{_DOES_NOT}\s+(?:currently\s+)?(?:{_NEVER_WELCOME}|{_ASKED_BY_YOU}))\b",
    re.IGNORECASE,
)
_SALUTATION: Final = re.compile(r"(?:dear|hello|hi|hey)\s[^,!?\r\n]{1,40},\s+", re.IGNORECASE)
_UNDER: Final = re.compile(r"(?:as per|per|under)(?= our)", re.IGNORECASE)
_SORRY: Final = re.compile(r"\b(?:sorry|apolog\w{1,6}|regret(?:s|fully)?|afraid)\b", re.IGNORECASE)
_NO_REGRET: Final = re.compile(
    r"\?|\b(?:enough|without you|any (?:fees?|charges?|problems?|errors?|issues?|faults?|bugs?|damage|signs?)|better"
    r"|die[ds]?|dead|death|passed away|funeral|killed|suicide|cancer|abus\w{1,4}|violen\w{1,3}|harass\w{1,5})\b",
    re.IGNORECASE,
)
_WE: Final = re.compile(r"\b(?:we|our|us|we're|we've|we'll)\b", re.IGNORECASE)
_I: Final = re.compile(r"\b(?:I|I'm|I've|I'll|my|me)\b")


def softened(passage: Passage) -> Iterator[Finding]:
    """At most one finding: the first refusal or piece of bad news in the message."""
    if _SORRY.search(passage.folded):
        return
    for start, end in passage.sentences:
        if _NO_REGRET.search(passage.folded, start, min(end, start + 600)):
            continue
        salutation = _SALUTATION.match(passage.folded, start)
        if salutation:
            start = salutation.end()  # noqa: PLW2901 the statement begins after it
        news = _BAD_NEWS.match(passage.folded, start)
        refusal = _REFUSAL.match(passage.folded, news.end() if news else start)
        shouted = passage.text[start : start + 12].isupper()
        if (news or refusal) and not shouted:
            yield _finding(passage, start, news, refusal)
            return


def _finding(
    passage: Passage, start: int, news: re.Match[str] | None, refusal: re.Match[str] | None
) -> Finding:
    text = passage.text
    speaker = "I am" if (refusal and refusal["who"].lower() == "i") or _speaks_alone(passage) else "We are"
    under = _UNDER.match(passage.folded, news.end() if news else start)
    if under and (news or refusal):
        end, kept = under.end(), "under"
    elif news:
        end, kept = news.end(), ""
    else:
        end = start + len(refusal["who"]) if refusal else start
        kept = text[start:end] if text[start:end] == "I" else text[start:end].lower()
    words = f"{speaker} sorry, but {kept}"
    original = text[start:end]
    if original[0].islower() and speaker == "We are":
        words = words.replace("We", "we", 1)
    quoted = passage.is_quoted(start, end)
    return Finding(
        rule="refusal",
        category=CATEGORY,
        severity="low" if quoted else "medium",
        start=start,
        end=end,
        text=original,
        reason=REASON,
        quoted=quoted,
        replacement=None if quoted else words,
    )


def _speaks_alone(passage: Passage) -> bool:
    return not _WE.search(passage.folded) and bool(_I.search(passage.folded))
