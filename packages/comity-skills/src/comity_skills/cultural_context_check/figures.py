"""Figures in a message that are read or chosen differently elsewhere: dates, numbers, amounts of money, counts of a gift."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from comity_skills.cultural_context_check.knowledge import Finding, Knowledge, Setting
from comity_skills.words.tokens import Token, word_set

_DATE: Final = re.compile(r"(?<![\w./-])(\d{1,2})([/.-])(\d{1,2})(?:\2(\d{4}|\d{2}))?(?![\w/]|[.-]\d)")
_DATE_CUE: Final = word_set(
    "by on before until till from since due deadline date after ends starts begins dated of"
)
_MONEY: Final = re.compile(
    r"(?<!\w)(US|A|AU|C|CA|NZ|S|HK|NT|R|MX)?([$¥£₨]|kr|Rs\.?)[ ]?\d(?:[\d,.]{0,20}\d)?|\d[ ]?(kr|¥)(?!\w)"
)
_GROUPED: Final = re.compile(
    r"(?<![\w.,:/-])\d{1,3}(?:(?P<sign>[.,])\d{3})(?:(?P=sign)\d{3}){0,4}(?![\w,:/-]|\.\d{4})"
)
_SCALE: Final = re.compile(r"\b(?:billion|trillion)s?\b", re.IGNORECASE)
_LAKH: Final = re.compile(
    r"(?<![\w.,])(?P<value>\d{1,6}(?:,\d{2,3}){0,3}(?:\.\d{1,3})?)[ ]?(?P<word>lakhs?|lacs?|crores?)\b",
    re.IGNORECASE,
)
_SPELLED: Final = {
    "two": 2,
    "four": 4,
    "six": 6,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "twelve": 12,
    "thirteen": 13,
    "fourteen": 14,
    "seventeen": 17,
    "fourth": 4,
    "ninth": 9,
    "thirteenth": 13,
    "seventeenth": 17,
}
_COUNT: Final = rf"(?:\d{{1,4}}(?:th)?|{'|'.join(_SPELLED)})"
# A number that somebody chose: a place, a gift, a seat, a price.
_CHOSEN: Final = re.compile(
    rf"\b(?:floor|room|table|seat|gate|suite|(?:lucky )?number)[ ](?P<behind>{_COUNT})\b"
    rf"|\b(?:set|pack|box|bouquet|bunch|gift|present)[ ]of[ ](?P<set>{_COUNT})\b|\b(?P<piece>{_COUNT})[ -]piece\b"
    rf"|\b(?P<before>{_COUNT})[ ](?:\w{{1,12}}[ ]){{0,2}}?(?:(?P<flowers>flowers|roses|tulips|lilies|carnations|chrysanthemums"
    r"|orchids|daisies|peonies|sunflowers)|gifts?|presents?|floor|guests)\b"
    rf"|\b(?P<given>{_COUNT})(?:[ ][\w-]{{1,12}}){{1,3}}?[ ](?:as|for)[ ](?:an?|our|your|the)[ ](?:\w{{1,10}}[ ])?"
    r"(?:gift|present|wedding|birthday|anniversary)\b"
    rf"|\b(?P<each>{_COUNT})[ ](?:of[ ](?:each|them|these|those)|pieces|in[ ](?:the|each|a)[ ](?:set|box|pack))\b"
    r"|(?<![\w.,])(?:[¥₩$€£]|CNY|RMB|JPY|KRW|HKD|TWD)[ ]?(?P<price>\d{1,3}(?:,?\d{3}){0,4})(?![\w.,]\d|\d)"
    r"|(?<![\w.,])(?P<paid>\d{1,3}(?:,?\d{3}){0,4})[ ]?(?:yuan|RMB|renminbi|CNY|won|KRW|yen|JPY|HKD|TWD|dollars|euros?)\b",
    re.IGNORECASE,
)
_NO_DATE: Final = word_set(
    "version versions release v ver build section chapter figure fig rev revision invoice ticket page room apt"
)
_MONTHS: Final = (
    *("", "January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_ORDERS: Final = {"dmy": "day first", "mdy": "month first", "ymd": "year, month, day"}
GIFT: Final = re.compile(
    r"\b(?:gifts?|giv(?:e|es|en|ing)|gave|souvenirs?|prizes?|giveaways?|congratulat\w{1,6}|birthday|wedding|anniversary"
    r"|retirement|housewarming|hostess|thank[ ]you[ ](?:gift|token)|as[ ]a[ ](?:thank[ ]you|reward|token)|token[ ]of"
    r"|(?:an?|as|our|your|little|small|nice)[ ]presents?)\b",
    re.IGNORECASE,
)


def figures(message: str, words: Sequence[Token], known: Knowledge, setting: Setting) -> Iterator[Finding]:
    yield from _dates(message, words, known, setting)
    yield from _numbers(message, words, known, setting)
    yield from _money(message, known, setting)


def _dates(message: str, words: Sequence[Token], known: Knowledge, setting: Setting) -> Iterator[Finding]:
    at = 0
    for match in _DATE.finditer(message):
        first, second, year = int(match[1]), int(match[3]), match[4]
        while at < len(words) - 1 and words[at].start < match.start():
            at += 1
        cue = bool(at) and words[at - 1].word in _DATE_CUE
        if at and words[at - 1].word in _NO_DATE:
            continue
        padded = len(match[1]) == len(match[3]) == 2
        if year is None and (match[2] != "/" or not (cue or padded)):
            continue
        suggestion = _readings(first, second, year, setting)
        if suggestion:
            yield _finding(known, "date", match.start(), match.end(), suggestion)


def _money(message: str, known: Knowledge, setting: Setting) -> Iterator[Finding]:
    for match in _MONEY.finditer(message):
        sign = (match[2] or match[3]).rstrip(".")
        currencies = known.signs[sign].split()
        own = {country.currency for country in setting.countries.values()} & set(currencies)
        if match[1] or (len(setting.countries) == 1 and own):
            continue
        start = match.start()
        shown = (
            ", ".join(currencies[:4]) if len(currencies) <= 4 else f"{', '.join(currencies[:3])} or another"
        )
        yield _finding(known, "currency", start, match.end(), f"Write the code before the amount ({shown})")


def _numbers(message: str, words: Sequence[Token], known: Knowledge, setting: Setting) -> Iterator[Finding]:
    codes = set(setting.countries)
    comma = codes & known.decimal_comma
    unlike = {",": comma, ".": codes - comma}
    at = 0
    for match in _GROUPED.finditer(message):
        while at < len(words) - 1 and words[at].start < match.start():
            at += 1
        here = unlike[match["sign"]]
        if here and not (at and words[at - 1].word in _NO_DATE):
            name = "comma" if match["sign"] == "," else "point"
            plain = match[0].replace(match["sign"], "")
            yield _finding(
                known,
                "number",
                match.start(),
                match.end(),
                f"Write {plain}: the {name} stands before decimals in {setting.listed(here)}",
            )
    scale = codes & known.long_scale
    for match in _SCALE.finditer(message) if scale else ():
        yield _finding(
            known,
            "number",
            match.start(),
            match.end(),
            f"Write the figures out: the word for it is a larger number in {setting.listed(scale)}",
        )
    if setting.elsewhere_than(known.lakh) or not codes:
        for match in _LAKH.finditer(message):
            value = float(match["value"].replace(",", "")) * (
                10**5 if match["word"].lower().startswith("la") else 10**7
            )
            shown = f"{round(value):,}".replace(",", " " if comma else ",")
            yield _finding(known, "number", match.start(), match.end(), f"Write the figure: {shown}")
    given = GIFT.search(message) is not None
    for match in _CHOSEN.finditer(message):
        if given or not match["each"]:
            yield from _chosen(match, known, setting)


def _chosen(match: re.Match[str], known: Knowledge, setting: Setting) -> Iterator[Finding]:
    said = next(
        filter(None, match.group("behind", "set", "piece", "before", "given", "each", "price", "paid"))
    ).lower()
    figures = said.removesuffix("th").replace(",", "")
    value = _SPELLED.get(said) or int(figures if figures.isdecimal() else 0)
    bought = bool(match["price"] or match["paid"])
    for number in known.numbers:
        here = number.where & set(setting.countries)
        alike = number.repeated and len(figures) > 1 and {*figures} in ({str(one)} for one in number.values)
        counts = value in number.values and not bought and (not number.of or match[number.of])
        if here and (alike or counts):
            advice = f"Choose another number: {number.meaning} ({setting.listed(here)})"
            yield Finding("number", *match.span(), known.why["chosen"], advice)


def _finding(known: Knowledge, issue: str, start: int, end: int, suggestion: str) -> Finding:
    return Finding(issue, start, end, known.why[issue], suggestion)


def _readings(first: int, second: int, year: str | None, setting: Setting) -> str:
    """How a date in figures is read; nothing when it is no date, or when all readings agree."""
    tail = f" {year}" if year else ""
    day_first = 1 <= first <= 31 and 1 <= second <= 12
    month_first = 1 <= first <= 12 and 1 <= second <= 31
    orders = sorted({country.date for country in setting.countries.values()})
    if day_first and month_first:
        if first == second:
            return ""
        here = f" This audience mostly writes {_ORDERS[orders[0]]}." if len(orders) == 1 else ""
        return (
            f"Write the month in words: {first} {_MONTHS[second]}{tail} or {second} {_MONTHS[first]}{tail}, whichever is "
            f"meant.{here}"
        )
    if day_first and "mdy" in orders:
        return f"Write the month in words: {first} {_MONTHS[second]}{tail}"
    if month_first and set(orders) != {"mdy"}:
        return f"Write the month in words: {second} {_MONTHS[first]}{tail}"
    return ""
