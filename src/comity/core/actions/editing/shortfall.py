"""`You failed ...`: the same fact, without the finger pointing.

- `You failed the test.` becomes `Your attempt at the test was unsuccessful.`, `You failed to pay your bill.`
  becomes `Your bill was left unpaid.`: the fact, the time and the number of the verb stay.
- It is reworded only where the clause is plain: a known kind of thing, and nothing after it. People, places
  and reasons after the verb (`You failed the team`, `... because you were late`) are flagged and left alone.
"""

import re
from collections.abc import Iterator
from itertools import islice

from comity.core.actions.editing.edits import match_case
from comity.core.actions.editing.passage import Passage
from comity.core.actions.editing.rules import FINDINGS_PER_RULE, Finding
from comity.core.actions.words.tokens import word_set

CATEGORY = "shame_blame"
REASON = "Says who is to blame where saying what happened is enough."

_ENDS = r"(?=\s*(?:[.!?;]|$|[\r\n])|,?\s+(?:so|but|and)\s+(?:you|we|please)\b|,\s+(?:you|we|please)\b)"
_NOUNS = r"(the|your|our|this|that|these|those|an?)\s+([a-z][a-z-]{0,24}(?:\s[a-z][a-z-]{0,24}){0,3})"
_FAILED = re.compile(
    r"\byou(\s+have|'ve)?\s+failed\b(?:\s+to\s+([a-z]{3,10})\s+"
    + _NOUNS
    + _ENDS
    + r"|\s+"
    + _NOUNS
    + _ENDS
    + ")?",
    re.IGNORECASE,
)
_ENDED = re.compile(_ENDS, re.IGNORECASE)
_ASKED = re.compile(r"\b(?:have|had|has|did|do|of|all|both)\s+$", re.IGNORECASE)

# things that one attempts, and things that come out one way or the other
_ATTEMPTED = word_set(
    "test tests exam exams examination quiz course class challenge task module lesson level assignment training "
    "certification audition round"
)
_DECIDED = word_set(
    "check inspection audit verification interview evaluation assessment screening review payment login upload"
)
_LEFT = {
    "complete": "left incomplete",
    "finish": "left incomplete",
    "pay": "left unpaid",
    "sign": "left unsigned",
    "answer": "left unanswered",
    "confirm": "left unconfirmed",
    **dict.fromkeys(
        ("submit", "provide", "send", "upload", "supply", "include", "attach", "enter"), "missing"
    ),
}
_NO_NOUN = word_set(
    "again twice once yesterday today tonight now late early badly miserably completely and or but because since "
    "when while if as at by for from in into of on out over to under until up with without within before after "
    "we you they he she it is are was were that which who me him her them us not never all any each"
)


def shortfalls(passage: Passage) -> Iterator[Finding]:
    """Every `you failed`, with a replacement where the clause allows one."""
    for match in islice(_FAILED.finditer(passage.folded), FINDINGS_PER_RULE):
        start, end = match.span()
        quoted = passage.is_quoted(start, end)
        asked = _ASKED.search(passage.folded, max(0, start - 12), start)
        words = None if quoted or asked else _reworded(match)
        text = passage.text[start:end]
        yield Finding(
            rule="you_failed",
            category=CATEGORY,
            severity="low" if quoted else "high",
            start=start,
            end=end,
            text=text,
            reason=REASON,
            quoted=quoted,
            replacement=None if words is None else match_case(text, words),
        )


def _reworded(match: re.Match[str]) -> str | None:
    perfect, verb, object_article, object_noun, article, noun = match.groups()
    if verb:
        return _left(verb.lower(), object_article, object_noun, perfect=bool(perfect))
    if article:
        was = "has been" if perfect else "was"
        words = noun.lower().split()
        if _NO_NOUN.intersection(words) or article.lower() in {"these", "those"}:
            return None
        if words[-1] in _ATTEMPTED:
            return f"your attempt at {article.lower()} {noun} {was} unsuccessful"
        if words[-1] in _DECIDED:
            return f"{article.lower()} {noun} {was} unsuccessful"
        return None
    if not _ENDED.match(match.string, match.end()):
        return None
    return f"your attempt {'has been' if perfect else 'was'} unsuccessful"


def _left(verb: str, article: str, noun: str, *, perfect: bool) -> str | None:
    state = _LEFT.get(verb)
    words = noun.lower().split()
    if state is None or _NO_NOUN.intersection(words):
        return None
    plural = article.lower() in {"these", "those"} or (
        words[-1].endswith("s") and not words[-1].endswith(("ss", "us", "is"))
    )
    be = {(False, False): "was", (False, True): "were", (True, False): "has been", (True, True): "have been"}
    return f"{article.lower()} {noun} {be[perfect, plural]} {state}"
