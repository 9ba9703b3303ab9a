"""What in a message may be misread elsewhere: words and phrases, dates, days of the week, times, numbers, money, units,
colours, gestures.

Every finding has its place, its reason and a suggestion; the message itself is not touched. What depends on the
audience is found only when it matters there: an idiom of baseball is at home in the United States, white is an
ordinary colour where it does not stand for mourning, alcohol is a question of the place, and of whether it is offered.
Where the message goes everywhere, everything that divides the world is found; where it goes to a place that is not
known, only what holds everywhere.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from comity.skills.cultural_context_check.days import days, fasting, feast, months_named, national_day, season
from comity.skills.cultural_context_check.knowledge import Colour, Finding, Knowledge, Setting
from comity.skills.cultural_context_check.served import is_offered, is_permitted
from comity.skills.words.phrases import Found, Phrases, spellings
from comity.skills.words.tokens import Token, tokens, word_set

_DATE: Final = re.compile(r"(?<![\w./-])(\d{1,2})([/.-])(\d{1,2})(?:\2(\d{4}|\d{2}))?(?![\w/]|[.-]\d)")
_DATE_CUE: Final = word_set(
    "by on before until till from since due deadline date after ends starts begins dated of"
)
_TIME: Final = re.compile(
    r"(?<![\w:.])\d{1,2}(?::\d{2})?[ ]?(?:am|pm|a\.m\.|p\.m\.|o'clock)(?!\w)"
    r"|(?<![\w:.])\d{1,2}:\d{2}(?![\w:])",
    re.IGNORECASE,
)
_ZONE: Final = re.compile(
    r"[ ]?\(?(?:UTC|GMT|[A-Z]{1,2}[SD]T|CET|CEST|EET|EEST|IST|JST|KST|SGT|HKT|BST|ET|PT|CT|MT|Eastern|Pacific|Central|Mountain|your time|local time)\b"
)
_MONEY: Final = re.compile(
    r"(?<!\w)(US|A|AU|C|CA|NZ|S|HK|NT|R|MX)?([$¥£₨]|kr|Rs\.?)[ ]?\d(?:[\d,.]{0,20}\d)?|\d[ ]?(kr|¥)(?!\w)"
)
_UNIT: Final = re.compile(
    r"(?<![\w.])\d[\d,.]{0,12}[ -]?"
    r"(?:(?P<imperial>miles?|mi|mph|feet|foot|ft|inch|inches|yards?|yds?|lbs?|pounds?|ounces?|oz|gallons?|gal|acres?"
    r"|°F|degrees[ ]Fahrenheit|fahrenheit)"
    r"|(?P<metric>kilomet(?:re|er)s?|km|km/h|met(?:re|er)s?|centimet(?:re|er)s?|cm|kg|kilos?|kilograms?|grams?"
    r"|lit(?:re|er)s?|°C|degrees[ ]Celsius|celsius))(?!\w)",
    re.IGNORECASE,
)
_DIRECTION: Final = re.compile(
    r"[←→⇐⇒]|\b(?:on|to|at)[ ]the[ ](?:left|right)(?:[ ]hand)?\b|\bleft[ ]to[ ]right\b", re.IGNORECASE
)
_GROUPED: Final = re.compile(
    r"(?<![\w.,:/-])\d{1,3}(?:(?P<sign>[.,])\d{3})(?:(?P=sign)\d{3}){0,4}(?![\w,:/-]|\.\d{4})"
)
_SCALE: Final = re.compile(r"\b(?:billion|trillion)s?\b", re.IGNORECASE)
_SPELLED: Final = {
    "two": 2,
    "four": 4,
    "six": 6,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "twelve": 12,
    "thirteen": 13,
    "seventeen": 17,
    "fourteen": 14,
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
    r"|(?<![\w.,])(?:[¥₩$€£]|CNY|RMB|JPY|KRW|HKD|TWD)[ ]?(?P<price>\d{1,3}(?:,?\d{3}){0,4})(?![\w.,]\d|\d)"
    r"|(?<![\w.,])(?P<paid>\d{1,3}(?:,?\d{3}){0,4})[ ]?(?:yuan|RMB|renminbi|CNY|won|KRW|yen|JPY|HKD|TWD|dollars|euros?)\b",
    re.IGNORECASE,
)
_GIFT: Final = re.compile(
    r"\b(?:gifts?|giv(?:e|es|en|ing)|gave|souvenirs?|prizes?|giveaways?|congratulat\w{1,6}|birthday|wedding|anniversary"
    r"|retirement|housewarming|hostess|thank[ ]you[ ](?:gift|token)|as[ ]a[ ](?:thank[ ]you|reward|token)|token[ ]of"
    r"|(?:an?|as|our|your|little|small|nice)[ ]presents?)\b",
    re.IGNORECASE,
)
_NO_DATE: Final = word_set(
    "version versions release v ver build section chapter figure fig rev revision invoice ticket page room apt"
)
# `each user enters his name`; a person who was named before is a person.
_GENERIC: Final = re.compile(
    r"\b(?:everyone|everybody|anyone|anybody|(?:each|every|any)[ ](?:\w{1,20}[ ])?(?:user|person|customer|employee|student|member|client|patient|applicant|"
    r"candidate|developer|driver|doctor|engineer|manager|player|reader|visitor|worker|child))\b"
    r"(?:[ ]\w{1,20}){0,5}?[ ](he|his|him|himself)\b",
    re.IGNORECASE,
)
_TITLED: Final = re.compile(
    r"\b(?:Mr|Mrs|Ms|Miss|Dr|Prof|Professor)\.?[ ][A-Z][a-z]{1,15}(?:-[A-Za-z]{1,15})?[ ](?P<last>[A-Z][a-z]{1,15})\b"
)
_DEGREES: Final = re.compile(r"(?<![\w.])(-?\d{1,3})[ ](?:degrees|°)(?![ ](?:of|C|F|c|f)|\w)")
_HEAT: Final = re.compile(
    r"\b(?:below|above|under|over|hot|cold|weather|temperatures?|outside|heat|warm|cool|oven|bake|preheat|store|fever|"
    r"freezing|forecast|sunny|reach(?:es)?)\b",
    re.IGNORECASE,
)
_ANGLE: Final = re.compile(
    r"\b(?:angle|rotat\w{1,5}|turn(?:s|ed)?|tilt\w{0,3}|bend|corner|view|camera|latitude)\b", re.IGNORECASE
)
# `do not touch heads` warns of it; `do not forget the knives` does not
_WARNED: Final = re.compile(
    r"\b(?:not|never|avoid|avoiding|without|don't|don’t|no|nor|refrain[ ]from|instead[ ]of|rather[ ]than)\b"  # noqa: RUF001
    r"(?![ ](?:only|just|forget|hesitate|worry|wait|be[ ]afraid|be[ ]happier|better|mind|need))[^.!?;,\n]{0,30}\Z",
    re.IGNORECASE,
)
_AROUND: Final = 40
_HEDGES: Final = 2  # from so many in one sentence on a request is over-softened
_NEAR: Final = 8  # words from a thing to the word that makes it a gift
_MONTHS: Final = (
    *("", "January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_ORDERS: Final = {"dmy": "day first", "mdy": "month first", "ymd": "year, month, day"}


_SUGGEST: Final = {
    "idiom": "Say it plainly",
    "gendered": "Better",
    "address": "Better",
    "holiday": "Name the date, and leave room for those who do not keep it",
    "humour": "Leave it out, or say what is meant",
    "food_and_drink": "Offer something that everybody can take part in",
    "individual": "Speak also of family, team or community",
    "exposure": "Ask for it in private or in writing",
    "boast": "Better",
    "hedge": "Say what you want, and by when",
    "direct": "Soften it, give it in private, and say how to put it right; the facts stay",
    "assimilation": "Say what is meant without the label",
    "season": "Better",
    "name_field": "Better",
}
_WORD_KINDS: Final = tuple(_SUGGEST)


class Examiner:
    def __init__(self, known: Knowledge) -> None:
        self._known = known
        entries: list[tuple[str, tuple[str, str] | None]] = [(phrase, None) for phrase in known.hidden]
        for kind in _WORD_KINDS:
            entries += [(phrase, (kind, plain)) for phrase, plain in getattr(known, kind).items()]
        entries += [(colour.words, ("colour", "")) for colour in known.colours]
        entries += [
            (gesture.words, ("gesture", gesture.words)) for gesture in known.gestures if gesture.words
        ]
        entries += [(custom.words, ("custom", custom.words)) for custom in known.customs]
        entries += [(day.words, ("national_day", day.words)) for day in known.national_days]
        self._phrases = Phrases(entries)
        self._national_days = {day.words: day for day in known.national_days}
        self._taboos = [(re.compile(taboo.pattern, re.IGNORECASE), taboo) for taboo in known.taboos]

    def examine(self, message: str, setting: Setting) -> list[Finding]:
        words = tokens(message.replace("St.", "St "))  # the point ends no sentence
        found = [
            *self._words(message, words, setting),
            *self._pronouns(message),
            *self._dates(message, words, setting),
            *days(message, self._known, setting),
            *fasting(message, words, setting),
            *self._done_there(message, setting),
            *self._titles(message, setting),
            *self._degrees(message, setting),
            *self._numbers(message, words, setting),
            *self._times(message, setting),
            *self._money(message, setting),
            *self._units(message, setting),
            *self._gestures(message, setting),
            *self._directions(message, setting),
        ]
        return sorted(found, key=lambda each: (each.start, each.end))

    def _words(self, message: str, words: Sequence[Token], setting: Setting) -> Iterator[Finding]:
        phrases = self._phrases.find(words)
        months = months_named(message)
        hedges = Counter(words[found.first].sentence for found in phrases if found.meaning[0] == "hedge")
        for found in phrases:
            kind, plain = found.meaning
            if kind in {"colour", "gesture", "custom", "food_and_drink"}:
                yield from self._by_place(message, found, words, setting)
            elif kind == "holiday":
                yield from feast(message, found, self._known, setting, _SUGGEST[kind])
            elif kind == "national_day":
                yield from national_day(found, self._national_days[plain], self._known, setting)
            elif not self._matters(kind, setting):
                continue
            elif kind == "season":
                yield from season(message, found, months, self._known, setting)
            elif kind != "hedge" or hedges[words[found.first].sentence] >= _HEDGES:
                wording = self._wording(plain, setting)
                suggestion = f"{_SUGGEST[kind]}: {wording}" if wording else _SUGGEST[kind]
                yield self._finding(kind, found.start, found.end, suggestion)

    def _by_place(
        self, message: str, found: Found[tuple[str, str]], words: Sequence[Token], setting: Setting
    ) -> Iterator[Finding]:
        kind, plain = found.meaning
        if kind == "food_and_drink":
            if self._is_served(plain, found, words, setting):
                yield self._food(plain, found.start, found.end, setting)
        elif kind == "colour":
            meanings = self._colours(message[found.start : found.end].lower(), setting)
            if meanings:
                yield self._finding(kind, found.start, found.end, f"In this audience {meanings}")
        elif not _is_warned(message, found.start):
            if kind == "gesture":
                yield from self._gesture_named(plain, found.start, found.end, setting)
            else:
                yield from self._customs(found, words, setting)

    def _wording(self, plain: str, setting: Setting) -> str:
        for other in self._known.instead:
            if other.plain == plain and setting.here(other.where):
                return other.instead
        return plain

    def _food(self, food: str, start: int, end: int, setting: Setting) -> Finding:
        """Where the law forbids it, that is the reason."""
        here = self._known.forbidden_by_law.get(food, frozenset()) & set(setting.countries)
        law = f"The law forbids {food} in {setting.listed(here)}, with few exceptions"
        why = law if here else self._known.why["food_and_drink"]
        advice = self._known.food_instead.get(food, _SUGGEST["food_and_drink"])
        return Finding("food_and_drink", start, end, why, advice, food)

    def _is_served(
        self, food: str, found: Found[tuple[str, str]], words: Sequence[Token], setting: Setting
    ) -> bool:
        """Whether it is offered, and to people of whom some may not take it."""
        where = self._known.care_about_food[food]
        beef = food == "meat" and bool(setting.here(where))
        if is_permitted(words, found.first) and not beef:
            return False
        matters = setting.everywhere or bool(where & setting.areas or setting.here(where))
        return matters and is_offered(words, found.first, found.last)

    def _customs(
        self, found: Found[tuple[str, str]], words: Sequence[Token], setting: Setting
    ) -> Iterator[Finding]:
        near = [
            token
            for token in words[max(found.first - _NEAR, 0) : found.last + _NEAR]
            if token.sentence == words[found.first].sentence
        ]
        given = bool(_GIFT.search(" ".join(token.word for token in near)))
        for custom in self._known.customs:
            if custom.words != found.meaning[1] or (custom.gift and not given):
                continue
            here = setting.here(custom.where)
            if here:
                yield Finding(
                    "custom",
                    found.start,
                    found.end,
                    self._known.why["gift" if custom.gift else "custom"],
                    f"{custom.instead}: {custom.meaning} ({setting.listed(here)})",
                    "gifts" if custom.gift else "",
                )

    def _finding(self, issue: str, start: int, end: int, suggestion: str) -> Finding:
        return Finding(issue, start, end, self._known.why[issue], suggestion)

    def _matters(self, kind: str, setting: Setting) -> bool:
        if kind == "idiom":
            return not setting.american
        if kind in {"individual", "direct", "exposure"}:
            return bool(setting.areas & self._known.care_about_group)
        if kind == "boast":
            return bool(setting.areas & self._known.care_about_modesty)
        if kind == "hedge":
            return bool(setting.here(self._known.care_about_directness))
        if kind == "season":
            return setting.everywhere or bool(set(setting.countries) & self._known.southern_hemisphere)
        return kind != "name_field" or not setting.american

    def _colours(self, word: str, setting: Setting) -> str:
        meanings = [
            f"{colour.meaning} ({', '.join(setting.countries[code].name for code in sorted(here)[:3])})"
            for colour in self._known.colours
            if _names(colour, word) and (here := colour.where & set(setting.countries))
        ]
        return "; ".join(meanings)

    def _pronouns(self, message: str) -> Iterator[Finding]:
        for match in _GENERIC.finditer(message):
            plain = {"he": "they", "his": "their", "him": "them", "himself": "themselves"}[match[1].lower()]
            yield self._finding("gendered", match.start(1), match.end(1), f"Better: {plain}")

    def _dates(self, message: str, words: Sequence[Token], setting: Setting) -> Iterator[Finding]:
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
                yield self._finding("date", match.start(), match.end(), suggestion)

    def _times(self, message: str, setting: Setting) -> Iterator[Finding]:
        if len(setting.countries) == 1 and not setting.american:
            return
        for match in _TIME.finditer(message):
            if not _ZONE.match(message, match.end()):
                yield self._finding(
                    "time", match.start(), match.end(), "Add the time zone, for example 15:00 UTC"
                )

    def _money(self, message: str, setting: Setting) -> Iterator[Finding]:
        for match in _MONEY.finditer(message):
            sign = (match[2] or match[3]).rstrip(".")
            currencies = self._known.signs[sign].split()
            own = {country.currency for country in setting.countries.values()} & set(currencies)
            if match[1] or (len(setting.countries) == 1 and own):
                continue
            start = match.start()
            shown = ", ".join(currencies[:4])
            yield self._finding("currency", start, match.end(), f"Write the code before the amount ({shown})")

    def _units(self, message: str, setting: Setting) -> Iterator[Finding]:
        systems = {country.units for country in setting.countries.values()}
        for match in _UNIT.finditer(message):
            imperial = match["imperial"] is not None
            at_home = systems and systems <= ({"imperial", "mixed"} if imperial else {"metric", "mixed"})
            if not at_home:
                other = "metric" if imperial else "US customary"
                yield self._finding("units", match.start(), match.end(), f"Give the {other} value beside it")

    def _gestures(self, message: str, setting: Setting) -> Iterator[Finding]:
        signs = {
            sign: gesture
            for gesture in self._known.gestures
            if setting.everywhere or gesture.where & set(setting.countries)
            for sign in gesture.signs
        }
        for at, character in enumerate(message):
            gesture = signs.get(character)
            if gesture is not None:
                yield self._finding("gesture", at, at + 1, f"Leave it out: {gesture.meaning}")

    def _gesture_named(self, words: str, start: int, end: int, setting: Setting) -> Iterator[Finding]:
        for gesture in self._known.gestures:
            here = gesture.where & set(setting.countries)
            if gesture.words == words and here:
                yield self._finding(
                    "gesture", start, end, f"Say it without: {gesture.meaning} ({setting.listed(here)})"
                )

    def _numbers(self, message: str, words: Sequence[Token], setting: Setting) -> Iterator[Finding]:
        codes = set(setting.countries)
        comma = codes & self._known.decimal_comma
        unlike = {",": comma, ".": codes - comma}
        at = 0
        for match in _GROUPED.finditer(message):
            while at < len(words) - 1 and words[at].start < match.start():
                at += 1
            here = unlike[match["sign"]]
            if here and not (at and words[at - 1].word in _NO_DATE):
                name = "comma" if match["sign"] == "," else "point"
                plain = match[0].replace(match["sign"], "")
                yield self._finding(
                    "number",
                    match.start(),
                    match.end(),
                    f"Write {plain}: the {name} stands before decimals in {setting.listed(here)}",
                )
        scale = codes & self._known.long_scale
        for match in _SCALE.finditer(message) if scale else ():
            yield self._finding(
                "number",
                match.start(),
                match.end(),
                f"Write the figures out: the word for it is a larger number in {setting.listed(scale)}",
            )
        for match in _CHOSEN.finditer(message):
            yield from self._chosen(match, setting)

    def _chosen(self, match: re.Match[str], setting: Setting) -> Iterator[Finding]:
        said = next(
            filter(None, match.group("behind", "set", "piece", "before", "given", "price", "paid"))
        ).lower()
        figures = said.removesuffix("th").replace(",", "")
        value = _SPELLED.get(said) or int(figures if figures.isdecimal() else 0)
        bought = bool(match["price"] or match["paid"])
        for number in self._known.numbers:
            here = number.where & set(setting.countries)
            alike = (
                number.repeated and len(figures) > 1 and {*figures} in ({str(one)} for one in number.values)
            )
            counts = value in number.values and not bought and (not number.of or match[number.of])
            if here and (alike or counts):
                yield self._finding(
                    "number",
                    match.start(),
                    match.end(),
                    f"Choose another number: {number.meaning} ({setting.listed(here)})",
                )

    def _done_there(self, message: str, setting: Setting) -> Iterator[Finding]:
        """What is not done there, unless the message says so itself."""
        for pattern, taboo in self._taboos:
            here = setting.here(taboo.where)
            for match in pattern.finditer(message) if here else ():
                if not _is_warned(message, match.start()):
                    advice = f"{taboo.instead}: {taboo.meaning} ({setting.listed(here)})"
                    yield self._finding(taboo.issue, match.start(), match.end(), advice)

    def _titles(self, message: str, setting: Setting) -> Iterator[Finding]:
        here = setting.here(self._known.family_name_first)
        for match in _TITLED.finditer(message) if here else ():
            yield Finding(
                "address",
                *match.span(),
                f"The family name comes first in {setting.listed(here)}, and a title goes with it alone",
                f"Write the title and the family name; check that {match['last']} is the family name",
                "titles and names",
            )

    def _degrees(self, message: str, setting: Setting) -> Iterator[Finding]:
        """Degrees of heat without their scale; of an angle nothing is said."""
        for match in _DEGREES.finditer(message):
            near = message[max(match.start() - _AROUND, 0) : match.end() + _AROUND]
            if not _HEAT.search(near) or _ANGLE.search(near):
                continue
            value = int(match[1])
            fahrenheit, celsius = round(value * 9 / 5 + 32), round((value - 32) * 5 / 9)
            if setting.american:
                advice = f"Say the scale: {value} °C would be about {fahrenheit} °F"
            else:
                advice = f"Say the scale: {value} °F would be about {celsius} °C"
            yield self._finding("units", match.start(), match.end(), advice)

    def _directions(self, message: str, setting: Setting) -> Iterator[Finding]:
        if any(country.direction == "rtl" for country in setting.countries.values()):
            for match in _DIRECTION.finditer(message):
                yield self._finding(
                    "direction", match.start(), match.end(), "Name the thing, not its side, and mirror arrows"
                )


def _is_warned(message: str, start: int) -> bool:
    return _WARNED.search(message, max(start - _AROUND, 0), start) is not None


def _names(colour: Colour, word: str) -> bool:
    """`green hat` names a green hat, and green."""
    parts = colour.words.split()
    if len(parts) == 1:
        return any(one in word.split() for one in parts[0].split("|"))
    return word in {" ".join(one) for one in spellings(colour.words)}


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
