"""A refusal or bad news, told by somebody who minds: the same sentence with a few words before it.

- `We cannot refund you.` becomes `We are sorry, but we cannot refund you.`: the refusal itself is untouched. Where
  the sentence has a `but` of its own it is `We are sorry that ...`.
- Only a plain statement at the start of a sentence is touched, and only when what is refused is something the
  reader may have wished for: `We cannot wait to see you` and `We don't share your data` stay. So does news for
  which such a phrase is too small.
- `Unfortunately` gives way to an apology only where a refusal or bad news for the reader follows: not in
  `Unfortunately, you are right`.
- Once in a message is enough. A message that already says sorry gets no second one.
- Whoever speaks as `I` says it as `I`. Where nobody speaks of themselves nobody is made to: `Your loan was denied`
  becomes `Unfortunately, your loan was denied`, and an `unfortunately` that is there stays.
- A letter about the affairs of somebody who died begins with condolence. The news of a death itself does not: it
  would come after the words that answer it.
"""

import re
from collections.abc import Iterator
from typing import Final

from comity_skills.editing.passage import Passage
from comity_skills.editing.rules import Finding

CATEGORY: Final = "refusal"
REASON: Final = (
    "Says that the news is hard for the reader before giving it; what is refused or asked stays the same."
)
MOURNS: Final = "The reader has lost somebody: that is said before the business of the letter."

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
_ALAS: Final = re.compile(r"\b(?:unfortunately|regrettably)\b", re.IGNORECASE)
_OPENS_WITH_ALAS: Final = re.compile(r"(?:unfortunately|regrettably),?\s+", re.IGNORECASE)
_OVER: Final = (
    r"broken|cancell?ed|closed|damaged|declined|delayed|denied|discontinued|expired|full|fully booked|late|lost|missing|out of"
    r"|over|overdue|postponed|refused|rejected|sold out|too late|unavailable|unsuccessful"
)
_NOT: Final = (
    r"(?:not|cannot|can't|couldn't|won't|isn't|aren't|hasn't|haven't|wasn't|weren't|didn't|don't|doesn't)"
)
_UNABLE: Final = (
    r"cannot|can't|can not|will not|won't|no longer|unable to|not able to"
    r"|(?:could not|couldn't) (?:come|deliver|do|find|finish|get|help|make|reach|repair|send)"
    r"|(?:do not|don't|did not|didn't) (?:accept|allow|find|get|have|manage|offer|receive)"
    r"|(?:have|had|need|will have) to (?:ask|cancel|charge|close|decline|delay|move|postpone|refuse|reject|reschedule|stop)"
)
_NOT_TO_BE_HAD: Final = (
    rf"{_NOT} (?:be |been )?(?:accepted|allowed|available|coming|covered|delivered|for (?:you|sale)|free|here|in stock|included|left"
    r"|offered|open|permitted|possible|ready|renewed|shipped|valid|working)|no longer|only \w{1,20}(?: \w{1,20})? left"
)
# after `unfortunately`: what the writers cannot do or have to do, what the reader must or does not get, what is not to be had
_BAD_NEWS: Final = re.compile(
    r"(?:as per our [^.!?\r\n]{1,40}?,?\s+)?(?:"
    rf"(?:we|i)(?:'m|'re|\s+(?:am|are|also|still|currently|just|really)){{0,2}}\s+(?:{_UNABLE}|{_OVER})\b"
    r"(?! (?:agree|blame|complain|deny|disagree|lose|regret|stop)\b)"
    r"|(?:you|your\s+(?:\w{1,20}\s+){1,3}?)\s*"
    rf"(?:must|have to|need to|will have to|(?:\w{{1,6}} )?{_NOT}|(?:is|are|was|were|has been|have been) (?:{_OVER}))\b"
    r"(?! (?:alone|bad|guilty|mistaken|the only|to blame|wrong)\b)"
    r"|there (?:is|are|was|were) no\b"
    r"|(?:the|this|that|there|it|our|no|all|(?!no|yes)(?-i:[A-Z])\w+)\b[^,;:!?\r\n]{0,80}?"
    rf"\b(?:{_NOT_TO_BE_HAD}|{_OVER})\b)",
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
_KIN: Final = (
    r"(?:mother|mum|mom|father|dad|parents?|husband|wife|spouse|partner|son|daughter|child|baby|brother|sister|grandmother"
    r"|grandfather|grandma|grandpa|uncle|aunt|cousin|fianc\u00e9e?|friend|mother-in-law|father-in-law|stepmother|stepfather|dog|cat)"
)
_YOURS: Final = r"your\s+(?:\w{1,20}[\s-]+){0,3}?"
_TOLD: Final = (
    r"(?:cancell?ed|closed|cut|declined|denied|eliminated|ended|postponed|reduced|refused|rejected|revoked|stopped|terminated|turned down"
    r"|unsuccessful|withdrawn)"
)
# what the enhanced mode takes for a refusal or bad news beside those above
_REFUSALS_SINCE: Final = (
    re.compile(
        r"(?P<who>we|i)(?:'ve|'re|'m|\s+(?:have|had|are|am))?(?:\s+(?:also|already|now|therefore|hereby|just))?\s+(?:"
        r"(?:decided|chosen|chose) (?:not to (?:accept|approve|continue|extend|give|grant|hire|invite|keep|move|offer|proceed|progress"
        r"|renew|take)|against (?:your|you)|to (?:reject|decline|deny|refuse|terminate|let you go|end your|close your"
        r"|cancel your|(?:go|move forward|proceed|continue) with (?:an?other|others?|some(?:one|body) else|a different)|hire (?:an?other|some(?:one|body))))"
        r"|(?:go|going|went|moving forward|proceeding) with (?:an?other|others?|some(?:one|body) else|a different)"
        r"|(?:chose|hired|picked|selected) (?:an?other|some(?:one|body) else|a different|other)"
        r"|(?:reject(?:ed|ing)?|declin(?:ed|ing|e)|den(?:ied|ying|y)|refus(?:ed|ing|e)|terminat(?:ed|ing|e)|withdrawn|withdrew|withdrawing"
        r"|turned down|suspend(?:ed|ing)?|revok(?:ed|ing|e)|will be (?:terminating|ending|closing|cancelling)|closing) your(?! (?:debt|fine)\b)"
        r"|letting you go|(?:have to|must|need to|will) (?:let you go|decline|reject|refuse|deny|terminate your|end your|close your"
        r"|cancel your (?!subscription|debt)|postpone your)"
        r"|(?:do not|don't|did not|didn't) (?:approve|select|choose|shortlist) (?:your?)"
        r"|(?:do not|don't|no longer) (?:need you|have (?:an?|any|the|your?) (?:\w{1,12} )?(?:appointments?|job|opening|place|position|room|role|vacanc\w{1,3}|work|stock|table))"
        r"|have no (?:\w{1,12} )?(?:appointments?|jobs?|openings?|places?|positions?|rooms?|vacanc\w{1,3}|stock|tables?|tickets?|work)"
        r")\b",
        re.IGNORECASE,
    ),
    re.compile(
        rf"(?P<who>your)\s+(?:(?!not\b)[\w']{{1,20}}\s+){{0,3}}?(?:appeal|application|bid|claim|extension|loan|mortgage|offer|petition|proposal|refund|request|return"
        rf"|submission|manuscript|visa|complaint|card|scholarship)\s+(?:(?:for|to|of|from|dated|number|no\.|on|about|against)\s[^.!?,;\r\n]{{1,80}}?\s)?"
        rf"(?:(?:was|is|has been|will be|must be)\s+{_TOLD}|(?:cannot|can't|could not|couldn't|will not|won't)\s+be\s+"
        r"(?:accepted|approved|considered|granted|honou?red|processed|upheld|published)|(?:was|is|has) not(?: been)? "
        r"(?:accepted|approved|granted|successful|upheld)|did not succeed|has failed)\b",
        re.IGNORECASE,
    ),
    re.compile(
        r"(?P<who>your)\s+(?:\w{1,20}\s+){0,2}?(?:appointment|benefits?|booking|class|contract|course|employment|flight|grant|internship|job"
        r"|lease|operation|pension|place|position|post|role|shift|surgery|tenancy|traineeship|treatment|trip)\s+"
        r"(?:(?:has|have) been|was|were|is|are|will be|is being)\s+(?:cancell?ed|cut|delayed|eliminated|ended|made redundant|overbooked|postponed"
        r"|reduced|rejected|revoked|stopped|suspended|terminated|withdrawn|given away)\b",
        re.IGNORECASE,
    ),
    re.compile(
        r"(?P<who>you|your (?:son|daughter|child))(?:'ve|'re)?\s+(?:(?:do not|don't|did not|didn't|does not|doesn't)\s+(?:qualify|pass|get in|get into|meet the (?:conditions|criteria|minimum|requirements|standards?|threshold)|receive the|win the"
        r"|make the|have enough (?:credit|points|income))"
        r"|(?:was|were|are|is|have|has)(?:n't|\s+not)\s+(?:been\s+)?(?:accepted|admitted|approved|awarded|chosen|eligible|entitled|granted|invited|offered|qualified|selected|shortlisted|successful)"
        r"|(?:have been|has been|was|were|are|is)\s+(?:turned down|rejected|denied|placed on (?:the|a|our) wait(?:ing)? ?list|waitlisted|put on (?:the|a|our) wait(?:ing)? ?list)"
        r"|will not (?:receive|get|be (?:paid|reimbursed|promoted|considered|invited|accepted|admitted)))\b",
        re.IGNORECASE,
    ),
)
# what was asked for, what nobody wishes for, and what was meant well
_WANTED: Final = re.compile(
    r"\b(?:as (?:you )?(?:requested|wished|agreed|asked)|(?:at|on|upon) your (?:own )?request|successfully|you asked (?:us )?to|audit|jury|military|fined?|charged|extra"
    r"|spam|surcharge|marketing|newsletters?|reminders?|calls)\b",
    re.IGNORECASE,
)
# a death that the letter takes for known, and one that stands in a letter of business
_MOURNED: Final = re.compile(
    rf"\byour late {_KIN}\b|\b(?:death|passing|estate|funeral|remains|belongings) of your (?:\w{{1,20}} )?{_KIN}\b"
    rf"|\byour (?:\w{{1,20}} )?{_KIN}'s (?:death|passing|estate|funeral|will and testament)\b"
    rf"|\b(?:because|since|as|after|now that|following) (?:your (?:\w{{1,20}} )?{_KIN}|she|he|they) (?:has |have |had )?(?:(?:is|are|was) (?:now )?(?:deceased|dead)|died|passed away)\b",
    re.IGNORECASE,
)
_DIED: Final = re.compile(
    rf"\byour (?:\w{{1,20}} )?{_KIN} (?:has |had )?(?:(?:is|was) (?:deceased|dead)|died|passed away)\b",
    re.IGNORECASE,
)
_KNOWN: Final = re.compile(rf"\byour (?:\w{{1,20}} )?{_KIN}\b", re.IGNORECASE)
_BUSINESS: Final = re.compile(
    r"\b(?:accounts?|benefits?|bills?|certificates?|claims?|contracts?|documents?|estate|forms?|insurance|invoices?|lease|loans?|membership"
    r"|pensions?|polic(?:y|ies)|subscriptions?|tax|tenancy|ticket)\b",
    re.IGNORECASE,
)
_UNSURE: Final = re.compile(
    r"\b(?:if|in case|should|unless|when(?:ever)?|suppose|imagine) (?:your|you|she|he|they|a|the|someone)\b|\?|\b(?:condolences?|sympath\w{1,5}|sorry)\b",
    re.IGNORECASE,
)
_SALUTATION: Final = re.compile(r"(?:dear|hello|hi|hey)(?:\s[^,!?\r\n]{1,40})?,\s+", re.IGNORECASE)
_NO: Final = re.compile(r"no,\s+(?=(?:we|i)\s)", re.IGNORECASE)
# a salutation on a line of its own
_GREETING: Final = re.compile(r"(?:dear|hello|hi|hey)(?:\s[^!?\r\n]{1,60})?[,:!]?$", re.IGNORECASE)
_FIRST_WORD: Final = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
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


def condoled(passage: Passage) -> Iterator[Finding]:
    """At most one finding: the first words of a letter to somebody bereaved, with condolence before them."""
    text = passage.folded
    mourned = _MOURNED.search(text) or (_BUSINESS.search(text) and _DIED.search(text))
    if not mourned or not _KNOWN.search(text) or _UNSURE.search(text) or passage.is_quoted(*mourned.span()):
        return
    for start, end in passage.sentences:
        salutation = _SALUTATION.match(text, start) or _GREETING.match(text, start, end)
        if salutation and salutation.end() >= end:
            continue
        begins = salutation.end() if salutation else start
        first = _FIRST_WORD.match(text, begins)
        if not first or passage.is_quoted(begins, first.end()):
            return
        original = passage.text[begins : first.end()]
        said = {
            "we": "We are sorry for your loss.",
            "I": "I am sorry for your loss.",
            "": "Condolences on your loss.",
        }
        words = said[passage.speaker]
        if original[0].islower() and not words.startswith("I "):
            words = words[0].lower() + words[1:]
        yield Finding(
            rule="condolence",
            category="bereavement",
            severity="high",
            start=begins,
            end=first.end(),
            text=original,
            reason=MOURNS,
            replacement=f"{words} {original[0].upper()}{original[1:]}",
        )
        return


def softened(passage: Passage, *, since: bool = False) -> Iterator[Finding]:
    """At most one finding: the first refusal or piece of bad news in the message. `since` knows more of them."""
    if _SORRY.search(passage.folded):
        return
    for start, end in passage.sentences:
        if _NO_REGRET.search(passage.folded, start, min(end, start + 600)):
            continue
        marks = _MARKS.match(passage.folded, start)
        if marks:
            start = marks.end()  # noqa: PLW2901 the first word stands after them
        salutation = _SALUTATION.match(passage.folded, start) or (since and _NO.match(passage.folded, start))
        if salutation:
            start = salutation.end()  # noqa: PLW2901 the statement begins after it
        shouted = passage.text[start : start + 12].isupper()
        if shouted or passage.is_quoted(start, start + 1):
            continue
        alas = _OPENS_WITH_ALAS.match(passage.folded, start)
        said = alas.end() if alas else start
        refusal = _refusal(passage.folded, said, end, since=since)
        if refusal or (alas and _BAD_NEWS.match(passage.folded, said, end)):
            yield from _finding(passage, (start, said, end), refusal)
            return


def _refusal(text: str, place: int, end: int, *, since: bool) -> re.Match[str] | None:
    forms: tuple[re.Pattern[str], ...] = _REFUSALS
    if since and not _WANTED.search(text, place, min(end, place + 600)):
        forms = (*_REFUSALS, *_REFUSALS_SINCE)
    return next((found for form in forms if (found := form.match(text, place))), None)


def _finding(
    passage: Passage, sentence: tuple[int, int, int], refusal: re.Match[str] | None
) -> Iterator[Finding]:
    """`sentence` is where it starts, where its statement starts after an `unfortunately`, and where it ends."""
    text = passage.text
    start, said, last = sentence
    end, kept = _opening(passage, said, refusal)
    speaker = _speaker(passage, said, refusal)
    if not speaker and _ALAS.search(passage.folded):
        return
    turn = "sorry that" if _BUT.search(passage.folded, end, min(last, end + 600)) else "sorry, but"
    words = f"{speaker} {turn} {kept}" if speaker else f"Unfortunately, {kept}"
    original = text[start:end]
    if original[0].islower() and not words.startswith("I "):
        words = words[0].lower() + words[1:]
    yield Finding(
        rule="refusal",
        category=CATEGORY,
        severity="medium",
        start=start,
        end=end,
        text=original,
        reason=REASON,
        replacement=words,
    )


def _speaker(passage: Passage, said: int, refusal: re.Match[str] | None) -> str:
    who = refusal["who"].lower() if refusal else passage.folded[said : said + 2].lower().strip("' ")
    if who == "i":
        return "I am"
    return {"we": "We are", "I": "I am", "": ""}[passage.speaker]


def _opening(passage: Passage, said: int, refusal: re.Match[str] | None) -> tuple[int, str]:
    """Where the first words of the statement end that come out differently, and what they are then."""
    under = _UNDER.match(passage.folded, said)
    if under:
        return under.end(), "under"
    if not refusal:
        return said, ""
    end = said + len(refusal["who"])
    who = passage.text[said:end]
    if refusal.groupdict().get("alas"):
        end = refusal.end("alas")
    return end, who if who == "I" else who.lower()
