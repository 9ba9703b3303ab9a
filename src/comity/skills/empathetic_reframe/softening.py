"""A refusal or bad news, told by somebody who minds: the same sentence with a few words before it.

- `We cannot refund you.` becomes `We are sorry, but we cannot refund you.`: the refusal itself is untouched. Where
  the sentence has a `but` of its own it is `We are sorry that ...`.
- Only a plain statement at the start of a sentence is touched, and only when what is refused is something the
  reader may have wished for: `We cannot wait to see you` and `We don't share your data` stay. So does news for
  which such a phrase is too small.
- Once in a message is enough. A message that already says sorry gets no second one.
- Whoever speaks as `I` says it as `I`.
"""

import re
from collections.abc import Iterator
from typing import Final

from comity.skills.editing.passage import Passage
from comity.skills.editing.rules import Finding

CATEGORY: Final = "refusal"
REASON: Final = (
    "Says that the news is hard for the reader before giving it; what is refused or asked stays the same."
)

# what one cannot do may be anything the reader asked for; what one does not or will not do may be good news
_CANNOT: Final = (
    r"(?:\s+(?:cannot|can't|can not|could not|couldn't|can (?:no longer|neither)|aren't able to"
    r"|(?:will not|won't) be able to)"
    r"|(?:'re|'m|\s+are|\s+am)(?: currently)? (?:unable|not able|no longer able|not in a position) to)"
)
_DOES_NOT: Final = r"\s+(?:do not|don't|will not|won't|no longer)"
_SERVE: Final = r"accommodate|compensate|deliver|exchange|help you|make an exception|refund|reimburse|repair|ship|take back|waive(?! your rights?\b)"
_GIVE: Final = r"extend|give you|grant|lend you|offer|provide"
_SOMETIMES_WELCOME: Final = (
    r"approve|assist|book|cancel|change|cover|fulfil|fulfill|help with|honou?r|issue|make changes|process"
    r"|replace(?! you\b)|reschedule|reserve|return|schedule|send|serve|upgrade"
)
_ASKED_BY_YOU: Final = (
    r"(?:accept|allow|permit|support) (?:your?|returns|refunds|exchanges|cancellations|changes|requests)"
)
# what people ask for, within a few words after the verb
_FAVOUR: Final = (
    r"(?=(?:\W{1,3}\w{1,20}){0,5}?\W{1,3}(?:access|advice|answers?|appointments?|assistance|compensation|copies|copy|credit"
    r"|deadlines?|deliver(?:y|ies)|discounts?|exceptions?|exchanges?|extensions?|help|jobs?|leave|loans?|money|parking"
    r"|permission|places?|positions?|quotes?|raises?|refunds?|repairs?|replacements?|requests?|returns?|rooms?|samples?|seats?|services?"
    r"|shipping|support|tables?|tickets?|time|updates?|upgrades?|visas?|vouchers?|warrant(?:y|ies)|euros?|dollars?)\b)"
)
_FOUND: Final = (
    r"find (?:your|any|the|an?) (?:\w{1,20} )?(?:account|address|application|bag|booking|cat|details|documents?|dog"
    r"|email|file|invoice|luggage|order|package|parcel|payment|receipt|records?|request|reservation|suitcase|tickets?)"
)
_POLICY: Final = r"(?:(?:as per|per|under) our (?:policy|policies|terms|terms and conditions),?\s+)"
_BAD_NEWS: Final = re.compile(
    r"(?:unfortunately|regrettably),?\s+(?=(?:we|you|your|the|this|that|there|it|our|i|they|as per|(?!no|yes)(?-i:[A-Z])\w+)\b)",
    re.IGNORECASE,
)


# what follows a verb whose refusal is not always unwelcome
_TO_READER: Final = (
    r"(?: (?:to|with|for|on|out|back))? (?:your?|an?|any|the|this|that|these|those|it|them|orders?|bookings?|payments?"
    r"|refunds?|returns?)"
)
_REFUSALS: Final = (
    re.compile(
        rf"{_POLICY}?(?P<who>we|i)(?P<alas>\s+unfortunately)?(?:\s+(?:also|currently|just|really|simply|still))?"
        rf"(?:{_CANNOT}\s+(?:currently\s+)?(?:{_SERVE}|{_GIVE}|{_FOUND}|{_ASKED_BY_YOU}"
        rf"|(?:{_SOMETIMES_WELCOME}){_TO_READER})"
        rf"|{_DOES_NOT}\s+(?:currently\s+)?(?:{_SERVE}|{_ASKED_BY_YOU}|(?:{_GIVE})\b{_FAVOUR}))\b",
        re.IGNORECASE,
    ),
    re.compile(
        r"(?P<who>your)\s+(?:\w{1,20}\s+){0,2}?(?:appeal|application|claim|extension|loan|refund|request|return|visa)\s+"
        r"(?:(?:was|is|has been)\s+(?:declined|denied|refused|rejected|unsuccessful)"
        r"|(?:(?:cannot|can't|could not|couldn't|will not|won't)\s+be|(?:was|is|has) not(?: been)?|wasn't|hasn't been)\s+"
        r"(?:accepted|approved|granted|honou?red|processed))\b",
        re.IGNORECASE,
    ),
    re.compile(
        r"(?P<who>your)\s+(?:\w{1,20}\s+)?(?:contract|employment|lease|visa)\s+(?:cannot|can't|will not|won't)\s+be\s+"
        r"(?:extended|renewed)\b",
        re.IGNORECASE,
    ),
    re.compile(
        r"(?P<who>you)\s+(?:(?:were|are|have)\s+not\s+(?:been\s+)?(?:accepted|chosen|selected|shortlisted)\s+for"
        r"|(?:did not|didn't)\s+get)\s+(?:the|this|our|an?)\s+(?:\w{1,20}\s+){0,2}?"
        r"(?:course|interview|job|loan|place|position|post|programme|program|role|scholarship)\b",
        re.IGNORECASE,
    ),
    re.compile(
        r"(?P<who>cancellations|changes|exchanges|extensions|refunds|returns)\s+(?:are not|aren't|are no longer)\s+"
        r"(?:accepted|allowed|available|permitted|possible)\b",
        re.IGNORECASE,
    ),
    re.compile(
        rf"(?P<who>it(?:'s| is) not|it isn't)\s+possible to (?:{_SERVE}|(?:{_SOMETIMES_WELCOME}|extend) (?:your?|an?)\b)",
        re.IGNORECASE,
    ),
    re.compile(
        r"(?P<who>you)\s+(?:cannot|can't|can not|will not be able to|are not entitled to|are not eligible for)\s+"
        r"(?:(?:get|receive|have)\s+)?(?:a|any|your)\s+(?:\w{1,20}\s+)?(?:discount|exchange|extension|refund|replacement)\b",
        re.IGNORECASE,
    ),
)
_SALUTATION: Final = re.compile(r"(?:dear|hello|hi|hey)(?:\s[^,!?\r\n]{1,40})?,\s+", re.IGNORECASE)
# marks of a list, of emphasis, of a mood or of a page before the first word
_MARKS: Final = re.compile(
    r"(?:</?[a-z][^<>]{0,200}>|\d{1,3}[.)]\s|[^\w\s\"'`(\[<\u201c\u2018\u00ab\u201e]|\s){1,12}", re.IGNORECASE
)
_UNDER: Final = re.compile(r"(?:as per|per|under)(?= our)", re.IGNORECASE)
_SORRY: Final = re.compile(r"\b(?:sorry|apolog\w{1,6}|regret(?:s|fully)?|afraid)\b", re.IGNORECASE)
_NO_REGRET: Final = re.compile(
    r"\?|\b(?:enough|without you|any (?:fees?|charges?|problems?|errors?|issues?|faults?|bugs?|damage|signs?)|better"
    # good news: what nobody wishes for is refused
    r"|spam|(?:your|personal) (?:personal )?(?:data|information)|third part(?:y|ies)|(?:anything|nothing) less|trouble"
    r"|the (?:past|world|truth)|i (?:can't|cannot|can not|couldn't|could not) (?:process|change) (?:this|that|it)|by mistake"
    r"|hard time|you up|debt(?:s|ors?)?|detention|sentence|penalt(?:y|ies)|fines|threats?|scam\w{0,4}"
    # news too grave for a phrase
    r"|die[ds]?|dead|death|passed away|funeral|killed|suicide|cancer|abus\w{1,4}|violen\w{1,3}|harass\w{1,5}"
    r"|tumou?rs?|malignan\w{1,3}|metasta\w{1,6}|terminal(?:ly)?|leuka?emia|dementia|alzheimer's|hiv|incurable"
    r"|inoperable|miscarr\w{1,6}|still(?:born|birth)|stroke)\b",
    re.IGNORECASE,
)
_BUT: Final = re.compile(r"\bbut\b", re.IGNORECASE)


def softened(passage: Passage) -> Iterator[Finding]:
    """At most one finding: the first refusal or piece of bad news in the message."""
    if _SORRY.search(passage.folded):
        return
    for start, end in passage.sentences:
        if _NO_REGRET.search(passage.folded, start, min(end, start + 600)):
            continue
        marks = _MARKS.match(passage.folded, start)
        if marks:
            start = marks.end()  # noqa: PLW2901 the first word stands after them
        salutation = _SALUTATION.match(passage.folded, start)
        if salutation:
            start = salutation.end()  # noqa: PLW2901 the statement begins after it
        news = _BAD_NEWS.match(passage.folded, start)
        refusal = _refusal(passage.folded, news.end() if news else start)
        shouted = passage.text[start : start + 12].isupper()
        if (news or refusal) and not shouted and not passage.is_quoted(start, start + 1):
            yield _finding(passage, (start, end), news, refusal)
            return


def _refusal(text: str, place: int) -> re.Match[str] | None:
    return next((found for form in _REFUSALS if (found := form.match(text, place))), None)


def _finding(
    passage: Passage, sentence: tuple[int, int], news: re.Match[str] | None, refusal: re.Match[str] | None
) -> Finding:
    text = passage.text
    start, last = sentence
    speaker = "I am" if (refusal and refusal["who"].lower() == "i") or passage.speaks_alone else "We are"
    under = _UNDER.match(passage.folded, news.end() if news else start)
    if under and (news or refusal):
        end, kept = under.end(), "under"
    elif news:
        end, kept = news.end(), ""
    else:
        end = start + len(refusal["who"]) if refusal else start
        kept = text[start:end] if text[start:end] == "I" else text[start:end].lower()
        if refusal and refusal.groupdict().get("alas"):
            end = refusal.end("alas")
    turn = "sorry that" if _BUT.search(passage.folded, end, min(last, end + 600)) else "sorry, but"
    words = f"{speaker} {turn} {kept}"
    original = text[start:end]
    if original[0].islower() and speaker == "We are":
        words = words.replace("We", "we", 1)
    return Finding(
        rule="refusal",
        category=CATEGORY,
        severity="medium",
        start=start,
        end=end,
        text=original,
        reason=REASON,
        replacement=words,
    )
