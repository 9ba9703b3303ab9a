"""What of a message collides with the days of its readers: days of rest, hours of prayer, fasts, feasts, seasons.

- An hour belongs to the day that is named in the same sentence, with no other day between them: `Friday at 1 pm`.
- A sentence that already minds the day (`closed`, `after prayers`, `after sunset`, `those who do not fast`) is no finding.
- A feast is at home with its own faith and in its own countries: there it is a finding only when work is put on it.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from comity_skills.cultural_context_check.knowledge import Finding, Knowledge, NationalDay, Setting
from comity_skills.cultural_context_check.served import is_offered
from comity_skills.words.phrases import Found, Phrases
from comity_skills.words.tokens import Token

_DAY: Final = re.compile(r"\b(?P<day>thursday|friday|saturday|sunday)s?\b|\bweekends?\b", re.IGNORECASE)
_OTHER_DAY: Final = re.compile(r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b", re.IGNORECASE)
_HOUR: Final = re.compile(
    r"(?<![\w:.])(?P<hour>\d{1,2})(?::[0-5]\d)?[ ]?(?P<half>am|pm|a\.m|p\.m)(?!\w)"
    r"|(?<![\w:.])(?P<clock>[01]?\d|2[0-3]):[0-5]\d(?![\w:])"
    r"|\b(?P<word>noon|midday|lunch|lunchtime|morning|evening|night|dinner)\b",
    re.IGNORECASE,
)
_HOURS: Final = {"morning": 9, "evening": 19, "night": 20, "dinner": 19}  # the other words are noon
_MINDED: Final = re.compile(
    r"\b(?:prayers?|jumu'?ah|jumma|sabbath|shabbat|church|clos(?:e|es|ed|ing)|off|instead[ ]of|except"
    r"|no[ ](?:meetings?|class(?:es)?|lessons?|school|work|exams?)|not[ ](?:on|work|meet|open|hold|be[ ]held))\b",
    re.IGNORECASE,
)
_CLOSED: Final = re.compile(
    r"\b(?:clos(?:e|es|ed|ing)|day[ ]off|no[ ](?:meetings?|class(?:es)?|work|school))\b", re.IGNORECASE
)
_AT_PRAYER: Final = re.compile(
    r"[^.!?\n]{0,20}\b(?:after|before|following)[ ](?:the[ ])?(?:friday[ ])?(?:prayers?|jumu'?ah|jumma)\b"
    r"|[ ](?:prayers?|sermons?)\b",
    re.IGNORECASE,
)
_SENTENCE_END: Final = re.compile(r"[.!?](?=\s)|\n")
_AROUND: Final = 70  # characters from a day to its hour
_FAST: Final = re.compile(r"\b(?:ramadh?an|ramazan|fasting|yom[ ]kippur)\b", re.IGNORECASE)
_FAST_OVER: Final = re.compile(
    r"\b(?:after|before|until|end[ ]of)[ ](?:the[ ]end[ ]of[ ])?(?:ramadh?an|ramazan|yom[ ]kippur)\b"
    r"|\b(?:ramadh?an|ramazan)[ ](?:is[ ]over|ends|has[ ]ended)\b"
    r"|\b(?:blood[ ](?:test|sample)|intermittent)\b|\bfasting[ ](?:glucose|blood|insulin)\b",
    re.IGNORECASE,
)
_FAST_MINDED: Final = re.compile(
    r"\b(?:iftar|suhoor|suhur|sehri|sunset|sundown|maghrib|dusk|dawn|break(?:ing)?[ ](?:the|your|our)[ ]fast"
    r"|(?:not|don't|aren't|isn't)[ ](?:be[ ])?fast(?:ing)?|evening|dinner|tonight)\b",
    re.IGNORECASE,
)
_MEALS: Final = Phrases(
    (phrase, True)
    for phrase in (
        "lunch|lunches|brunch|breakfast|picnic|pizza|snacks|buffet|potluck|barbecue|bbq|cupcakes|doughnuts|donuts|cookies",
        "coffee|tea break|morning|breaks|together|with",
        "for coffee|tea",
        "birthday? cake",
        "bake sale",
        "ice cream",
        "food and drinks|drink",
        "ramadan|ramadhan lunch|brunch|breakfast|picnic",
        "lunch|brunch|picnic|breakfast in|during ramadan|ramadhan",
        "must|should eat|drink|taste",
        "has|have|need|needs|required to eat|drink|taste",
    )
)
_WORK: Final = re.compile(
    r"\b(?:meetings?|exams?|tests?|deadline|due|training|mandatory|workshops?|shifts?|interviews?|must[ ]attend|conference|trip)\b",
    re.IGNORECASE,
)
_GREETED: Final = re.compile(
    r"\b(?:merry|happy|blessed|joyful|joyous|mubarak|kareem|greetings|wishes|wish)\b", re.IGNORECASE
)
_GREETING: Final = 16  # characters from a feast to the words that wish it
_GREET: Final = "Greet those who keep it, and wish the others well without the feast"
_MONTH: Final = re.compile(
    r"\b(January|February|March|April|June|July|August|September|October|November|December)\b"
    r"|(?:\b(?i:in|this|next|last|of|from|until)|\d)[ ](May)\b"
)
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_SOUTHERN: Final = (
    *("summer", "summer", "autumn", "autumn", "autumn", "winter"),
    *("winter", "winter", "spring", "spring", "spring", "summer"),
)


def days(message: str, known: Knowledge, setting: Setting) -> Iterator[Finding]:
    """Days on which this audience does not work, and hours at which it prays."""
    for match in _DAY.finditer(message):
        if _AT_PRAYER.match(message, match.end()):
            continue
        day = (match["day"] or "friday").lower()
        rest = known.rest[day] & set(setting.countries)
        if rest and not (match["day"] and _CLOSED.search(_around(message, *match.span()))):
            where = setting.listed(rest)
            advice = (
                f"{day.capitalize()} is a day of rest in {where}: ask, or choose a working day"
                if match["day"]
                else f"Name the days: in {where} the weekend is not Saturday and Sunday"
            )
            yield Finding("week_day", *match.span(), known.why["week_day"], advice)
        elif match["day"] and not rest:
            yield from _at_prayer(message, match, known, setting)


def _at_prayer(message: str, match: re.Match[str], known: Knowledge, setting: Setting) -> Iterator[Finding]:
    day = match["day"].lower()
    meant = [each for each in known.worship if each.day == day and setting.here(each.where)]
    if not meant:
        return
    near = _around(message, *match.span())
    if _MINDED.search(near):
        return
    hours = [_hour(hour) for hour in _HOUR.finditer(near)]
    if day == "friday" and re.search(r"\bafternoon\b", near, re.IGNORECASE) and not hours:
        hours = [15]
    for each in meant:
        first, last = each.hours
        if any(first <= hour <= last for hour in hours) or (each.all_day and not hours):
            here = setting.listed(setting.here(each.where))
            yield Finding(
                "week_day",
                *match.span(),
                known.why["prayer"],
                f"Choose another time: {each.meaning} ({here})",
                "times of prayer",
            )
            return


def _hour(match: re.Match[str]) -> int:
    if match["word"]:
        return _HOURS.get(match["word"].lower(), 12)
    if match["clock"]:
        return int(match["clock"])
    return int(match["hour"]) % 12 + (12 if match["half"].lower().startswith("p") else 0)


def _around(message: str, start: int, end: int) -> str:
    """The sentence around a day, as far as the next day."""
    before = message[max(start - _AROUND, 0) : start]
    after = message[end : end + _AROUND]
    for bound in (_SENTENCE_END, _OTHER_DAY):
        cuts = [match.end() for match in bound.finditer(before)]
        before = before[cuts[-1] :] if cuts else before
    # `1 p.m. at the office` goes on behind the point
    for match in _SENTENCE_END.finditer(after):
        if not after[: match.start()].lower().endswith((" a.m", " p.m", "0a.m", "0p.m")):
            after = after[: match.start()]
            break
    other = _OTHER_DAY.search(after)
    return f"{before} {after[: other.start()] if other else after}"


def fasting(message: str, words: Sequence[Token], setting: Setting) -> Iterator[Finding]:
    """Meals by day for people of whom the audience or the message says that they fast."""
    if not ("fasting" in setting.readers or _FAST.search(message)) or _FAST_OVER.search(message):
        return
    for found in _MEALS.find(words):
        near = _around(message, found.start, found.end)
        if is_offered(words, found.first, found.last) and not _FAST_MINDED.search(near):
            duty = words[found.last].word in {"eat", "drink", "taste"}
            yield Finding(
                "custom",
                found.start,
                found.end,
                "Those who fast eat and drink nothing by day",
                "Leave everybody free to take nothing"
                if duty
                else "Invite after sunset, or meet without food",
                "fasting",
            )


def is_fast(text: str) -> bool:
    return _FAST.search(text) is not None and _FAST_OVER.search(text) is None


def feast(
    message: str, found: Found[tuple[str, str]], known: Knowledge, setting: Setting, advice: str
) -> Iterator[Finding]:
    """A feast of a faith: found where others read of it, and where work is put on the day of those who keep it.

    Ramadan is no feast but a month of fasting: it is found only where it is wished; `fasting` has the rest.
    """
    faith = found.meaning[1]
    homes = known.homes.get(faith, frozenset())
    own = faith in setting.faiths or (bool(setting.countries) and setting.countries.keys() <= homes)
    near = _around(message, found.start, found.end)
    month = message[found.start : found.end].lower().startswith("rama")
    greeted = _GREETED.search(message, max(found.start - _GREETING, 0), found.end + _GREETING) is not None
    on_it = _WORK.search(near) and not _MINDED.search(near) and not _before_or_after(message, found)
    if not own and (greeted if month else not on_it or faith in {"", "christian"}):
        yield Finding(
            "holiday", found.start, found.end, known.why["holiday"], _GREET if greeted and faith else advice
        )
    elif on_it and not month:
        yield Finding(
            "holiday",
            found.start,
            found.end,
            "Those who keep this day do not work or sit exams on it",
            "Choose another day",
        )


def _before_or_after(message: str, found: Found[tuple[str, str]]) -> bool:
    before = message[max(found.start - 12, 0) : found.start].lower()
    return re.search(r"\b(?:after|before|until|by)[ ](?:the[ ])?\Z", before) is not None


def national_day(
    found: Found[tuple[str, str]], day: NationalDay, known: Knowledge, setting: Setting
) -> Iterator[Finding]:
    """A day of one country is at home there, and no holiday elsewhere."""
    others = setting.countries.keys() - day.where
    if others or not setting.countries:
        listed = setting.listed(others) if 0 < len(others) <= 3 else ""
        elsewhere = f"; {day.elsewhere}" if day.elsewhere else f", and not of {listed}" if listed else ""
        yield Finding(
            "holiday",
            found.start,
            found.end,
            known.why["holiday"],
            f"Say whose day it is and what it changes for the readers: it is a day of {day.of}{elsewhere}",
        )


def months_named(message: str) -> frozenset[str]:
    return frozenset(one or two for one, two in _MONTH.findall(message))


def season(
    message: str,
    found: Found[tuple[str, str]],
    months: frozenset[str],
    known: Knowledge,
    setting: Setting,
) -> Iterator[Finding]:
    """Where the message names a month, the season that the month has there decides."""
    why, advice = known.why["season"], f"Better: {found.meaning[1]}"
    south = setting.countries.keys() & known.temperate_south
    if len(months) == 1 and south and south == setting.countries.keys():
        (month,) = months
        there = _SOUTHERN[_MONTHS.index(month)]
        said = message[found.start : found.end].lower()
        if there in said or (there == "autumn" and "fall" in said):
            return
        advice = f"{month} is {there} in {setting.listed(south)}: check that the text and the offer fit"
    yield Finding("season", found.start, found.end, why, advice)
