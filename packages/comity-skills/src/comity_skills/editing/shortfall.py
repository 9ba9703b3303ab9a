"""`You failed ...`: the same fact, without the finger pointing.

- `You failed the test.` becomes `Your attempt at the test was unsuccessful.`, `You failed to pay your bill.`
  becomes `Your bill was left unpaid.`: the fact, the time and the number of the verb stay.
- It is reworded only where the clause is plain: a known kind of thing, nothing after it, and before it nothing that
  makes `you` part of another phrase. People, places and reasons (`You failed the team`, `... because you were late`),
  a shared subject (`Anna and you failed ...`) and a relative clause (`the exam you failed`) are flagged and left alone.
- With `since`, `You forgot to sign the form.` is read in the same way, and `You did not send the report.` becomes
  `The report was not sent.`: the negation stays, the person goes. `You forgot your password` is nobody's blame.
- A system fails over and a plan fails safe: that is nobody's blame, and no finding.
"""

import re
from collections.abc import Iterator
from itertools import islice

from comity_skills.editing.edits import Severity, match_case
from comity_skills.editing.passage import Passage
from comity_skills.editing.rules import FINDINGS_PER_RULE, Finding
from comity_skills.words.tokens import word_set

CATEGORY = "shame_blame"
_BY_HAND = "This is what happened: …"
REASON = "Says who is to blame where saying what happened is enough."

_ENDS = r"(?=\s*(?:[.!?;]|$|[\r\n])|,?\s+(?:so|but|and)\s+(?:you|we|please)\b|,\s+(?:you|we|please)\b)"
_NOUNS = r"(the|your|our|this|that|these|those|an?)\s+([a-z][a-z-]{0,24}(?:\s[a-z][a-z-]{0,24}){0,3})"
_FAILED = re.compile(
    r"\byou(\s+have|'ve)?\s+failed\b(?![\s-]+(?:over|fast|safe|safely|forward|back(?!\s+then)|open|closed)\b)"
    r"(?:\s+to\s+([a-z]{3,10})\s+" + _NOUNS + _ENDS + r"|\s+" + _NOUNS + _ENDS + ")?",
    re.IGNORECASE,
)
_FORGOT = re.compile(
    r"\byou(\s+have|'ve)?\s+(?:forgot(?:ten)?|neglected)\s+to\s+([a-z]{3,10})\s+" + _NOUNS + _ENDS,
    re.IGNORECASE,
)
_LEFT_OUT = re.compile(
    r"\byou(?:\s+have|'ve)?\s+(?:forgot|forgotten|left\s+out)\s+(the)\s+"
    r"(appendix|attachments?|conclusion|copy|documents?|examples?|figures|files?|forms?|introduction|invoice|legend|numbers"
    r"|receipts?|report|signature|slides|sources|summary|table|title)\b",
    re.IGNORECASE,
)
_ENDED = re.compile(_ENDS, re.IGNORECASE)
# what may stand before `you` when it is the whole subject of a clause of its own
_OPENING = (
    r"(?:^(?:,?\s+and)?|[^\w\s'\"&/+-]|[\r\n]|(?:^|\s)-|,\s+(?:but|so)"
    r"|\b(?:afraid|although|because|if|means|once|regret|since|sorry|then|though|unfortunately|unless|when|whenever|while"
)
_OPENS_BARE = re.compile(_OPENING + r"))\s*$", re.IGNORECASE)
# these may open a relative clause, and do not when the thing that was failed follows
_OPENS = re.compile(
    _OPENING
    + r"|after|appears|as|before|believe|doubt|hear|heard|how|know|noticed?|only|sadly|said|says?|see|seems|shows?|that|think"
    r"|thought|where|why))\s*$",
    re.IGNORECASE,
)
_BEFORE = 24

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
# for whoever rewords by hand, where what is said above does not fit the thing
_DONE = {
    "answer": "answered", "attach": "attached", "attend": "attended", "complete": "completed", "confirm": "confirmed",
    "enter": "entered", "finish": "finished", "include": "included", "meet": "met", "pay": "paid", "provide": "provided",
    "reach": "reached", "return": "returned", "send": "sent", "sign": "signed", "submit": "submitted", "supply": "supplied",
    "upload": "uploaded",
}  # fmt: skip
# what can be said of the thing alone: nobody attends a meeting for all others
_PASSIVE = {
    **{verb: done for verb, done in _DONE.items() if verb != "attend"},
    "deliver": "delivered", "fill in": "filled in", "fill out": "filled out", "follow": "followed", "hand in": "handed in",
    "reply to": "answered", "respond to": "answered",
}  # fmt: skip
_PERFECT = {
    **{done: done for done in _PASSIVE.values()},
    "replied to": "answered",
    "responded to": "answered",
}
# what may follow the verb as well as its object
_WHEN = r"\s+(?:on time|in time|by|before|within|yesterday|today|last (?:week|month|night)|this (?:week|month)|as (?:agreed|promised))\b"
_UNDONE = re.compile(
    r"\byou(\s+still)?\s+(?:(?:did not|didn't)\s+(" + "|".join(_PASSIVE) + r")|(?:have not|haven't)\s+("
    + "|".join(sorted(_PERFECT)) + r"))(\s+(?:us|me))?\s+(my|the|your|our|this|these|those)\s+"
    + r"([a-z][a-z-]{0,24}(?:\s[a-z][a-z-]{0,24}){0,3}?)(?:" + _ENDS + r"(?!\s*\?)|(?=" + _WHEN + r"))",
    re.IGNORECASE,
)  # fmt: skip
_VERB = re.compile(r"\s+to\s+([a-z]{3,10})\b", re.IGNORECASE)
# what is said of the thing in the end has to fit it: a form is missing, a building is not
_PAPERS = word_set(
    "address amount application applications assignment assignments attachment attachments certificate certificates claim "
    "claims code consent contract copies copy cv date details document documents essay evidence explanation "
    "feedback file files form forms homework id identification image images information invoice invoices name number "
    "numbers paper papers paperwork password passport payslip payslips permit phone photo photos picture pin plan proof "
    "questionnaire receipt receipts record records reference references registration report reports request résumé "
    "resume return screenshot screenshots signature statement statements summary survey thesis timesheet username visa"
)
_WORK = word_set(
    "application applications assignment assignments challenge checklist checkout course enrolment exercise exercises "
    "form forms homework installation lesson lessons level module modules order payment payments process profile project "
    "purchase questionnaire registration report reports section sections setup step steps survey task tasks training "
    "transaction upload verification"
)
_ASKED = word_set(
    "call calls email emails inquiry invitation letter letters mail message messages query question questions "
    "questionnaire quiz request requests survey text texts"
)
_SETTLED = word_set(
    "account address agreement appointment attendance availability booking choice date details email identity "
    "order participation payment phone place receipt request reservation subscription visit"
)
# of something that may have been given, and wrong
_RIGHT = word_set("correct right proper accurate")
_FITS = {
    "left incomplete": _WORK,
    "left unanswered": _ASKED,
    "left unconfirmed": _SETTLED,
    "missing": _PAPERS,
}
_NO_NOUN = word_set(
    "again twice once yesterday today tonight now late early badly miserably completely and or but because since "
    "when while if as at by for from in into of on out over to under until up with without within before after "
    "we you they he she it is are was were that which who me him her them us not never all any each"
)

_NO_OBJECT = _NO_NOUN | word_set(
    "a an the my your our his their this last next anymore either too there here home right first alone yourself soon "
    "enough much well yet only even just instead"
)
_OWN_WORK = _WORK | word_set("check-in diary journal log")
# where another may have done it, or where the word has another sense: a race is finished by those who finish it
_FITS_DONE = {
    "answered": _ASKED,
    "completed": _OWN_WORK,
    "confirmed": _SETTLED,
    "entered": _PAPERS,
    "finished": _OWN_WORK,
    "followed": word_set("agreement guidelines instructions procedure rule rules steps"),
    "met": word_set(
        "condition conditions criteria deadline deadlines goal quota requirements target targets"
    ),
    "reached": word_set("goal goals level target targets"),
}
_COUNTED = re.compile(r"\s+(\d{1,4} (?:of|out of) \d{1,4} [a-z]{3,14})\b", re.IGNORECASE)


def shortfalls(passage: Passage, *, since: bool = False) -> Iterator[Finding]:
    """Every `you failed`, with a replacement where the clause allows one. `since` knows more than that."""
    done = 0
    for match in islice(_FAILED.finditer(passage.folded), FINDINGS_PER_RULE):
        before = passage.folded[max(done, match.start() - _BEFORE) : match.start()]
        yield _found(passage, match, _reworded(match, before), _by_hand(match), "high")
        done = match.end()
    if since:
        yield from _others(passage)


def _others(passage: Passage) -> Iterator[Finding]:
    for match in islice(_FORGOT.finditer(passage.folded), FINDINGS_PER_RULE):
        perfect, verb, article, noun = match.groups()
        if verb.lower() in _DONE:
            words = (
                _left(verb.lower(), article, noun, perfect=bool(perfect)) if _stands_alone(match) else None
            )
            yield _found(passage, match, words, _not_done(article, noun, _DONE[verb.lower()]), "medium")
    for match in islice(_LEFT_OUT.finditer(passage.folded), FINDINGS_PER_RULE):
        be = "are" if _is_plural(*match.groups()) else "is"
        yield _found(passage, match, None, f"{match[1].capitalize()} {match[2]} {be} missing.", "medium")
    for match in islice(_UNDONE.finditer(passage.folded), FINDINGS_PER_RULE):
        words = _undone(match)
        if words:
            alone = _stands_alone(match)
            yield _found(
                passage, match, words if alone else None, f"{words[0].upper()}{words[1:]}.", "medium"
            )


def _found(
    passage: Passage, match: re.Match[str], words: str | None, by_hand: str, severity: Severity
) -> Finding:
    start, end = match.span()
    quoted = passage.is_quoted(start, end)
    text = passage.text[start:end]
    return Finding(
        rule="you_failed",
        category=CATEGORY,
        severity="low" if quoted else severity,
        start=start,
        end=end,
        text=text,
        reason=REASON,
        quoted=quoted,
        replacement=None if quoted or words is None else match_case(text, words),
        alternative=by_hand,
    )


def _stands_alone(match: re.Match[str]) -> bool:
    return _OPENS.search(match.string[max(0, match.start() - _BEFORE) : match.start()]) is not None


def _undone(match: re.Match[str]) -> str | None:
    """`the report has still not been sent yet`, or nothing where a word of the object may belong to the verb."""
    still, base, participle, to_whom, article, noun = match.groups()
    words = noun.lower().split()
    yet = " yet" if words[-1] == "yet" else ""
    if yet:
        words.pop()
        noun = noun[: -len("yet")].rstrip()
    if not words or _NO_OBJECT.intersection(words) or _is_adverb(words[-1]):
        return None
    plural = _is_plural(article, noun)
    done = _PASSIVE[base.lower()] if base else _PERFECT[participle.lower()]
    fits = _FITS_DONE.get(done)
    if (fits and words[-1] not in fits) or (to_whom and done != "sent"):
        return None
    have = "have" if plural else "has"
    be = (
        f"{'were' if plural else 'was'}{' still' if still else ''} not"
        if base
        else f"{have}{' still' if still else ''} not been"
    )
    return f"{article.lower()} {noun} {be} {done}{f' to{to_whom}' if to_whom else ''}{yet}"


def _is_adverb(word: str) -> bool:
    return word.endswith("ly") and word not in {"reply", "supply", "family", "assembly"}


def _reworded(match: re.Match[str], before: str) -> str | None:
    perfect, verb, object_article, object_noun, article, noun = match.groups()
    if not (_OPENS if verb or noun else _OPENS_BARE).search(before):
        return None
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


def _by_hand(match: re.Match[str]) -> str:
    """`Your streak was not completed.`: the fact alone, with the thing where the clause names it."""
    _, verb, article, noun, *_ = match.groups()
    if not verb:
        follows = _VERB.match(match.string, match.end())
        verb = follows[1] if follows else ""
    done = _DONE.get(verb.lower())
    if done is None:
        counted = _COUNTED.match(match.string, match.end())
        return f"{counted[1]} were missed." if counted else _BY_HAND
    return _not_done(article, noun, done)


def _not_done(article: str, noun: str, done: str) -> str:
    if not noun or _NO_NOUN.intersection(noun.lower().split()):
        return f"… was not {done}."
    return f"{article.capitalize()} {noun} {'were' if _is_plural(article, noun) else 'was'} not {done}."


def _is_plural(article: str, noun: str) -> bool:
    last = noun.lower().split()[-1]
    return article.lower() in {"these", "those"} or (
        last.endswith("s") and not last.endswith(("ss", "us", "is"))
    )


def _left(verb: str, article: str, noun: str, *, perfect: bool) -> str | None:
    state = _LEFT.get(verb)
    words = noun.lower().split()
    fits = _FITS.get(state or "")
    if state is None or (_NO_NOUN | _RIGHT).intersection(words) or (fits and words[-1] not in fits):
        return None
    plural = _is_plural(article, noun)
    be = {(False, False): "was", (False, True): "were", (True, False): "has been", (True, True): "have been"}
    return f"{article.lower()} {noun} {be[perfect, plural]} {state}"
