"""What of a message does not reach readers elsewhere as it stands: times, telephone numbers, units, degrees.

- A time needs its zone where the readers live in several, and where it tells of a call, a line or an event online; for
  people who meet in one place, at lunch or on an outing, it needs none.
  A zone of elsewhere is named with the time of the readers beside it.
- A toll-free number of North America and its emergency number are at home there.
- Units get their value in the other system. A number that can be read in two ways (`1,5`) gets none.
"""

import re
from collections.abc import Iterator
from typing import Final

from comity_skills.cultural_context_check.knowledge import Finding, Knowledge, Setting

_TIME: Final = re.compile(
    r"(?<![\w:.])\d{1,2}(?::\d{2})?[ ]?(?:am|pm|a\.m\.|p\.m\.|o'clock)(?!\w)"
    r"|(?<![\w:.])\d{1,2}:\d{2}(?![\w:])"
    r"|\b(?:from[ ]\d{1,2}[ ]to[ ]\d{1,2}|9[ ](?:to|-|–)[ ]5)(?=[,.!]|[ ](?:on[ ])?(?:mon|tue|wed|thu|fri|sat|sun|daily|every|weekdays))",  # noqa: RUF001
    re.IGNORECASE,
)
_ZONE: Final = re.compile(
    r"[ ]?\(?(?P<zone>UTC|GMT|[A-Z]{1,2}[SD]T|A[EWC]ST|CET|CEST|EET|EEST|WAT|CAT|EAT|MSK|SGT|HKT|PKT|WIB|BRT|ART|NZ[SD]T|SAST"
    r"|ET|PT|CT|MT|Eastern|Pacific|Central|Mountain|your[ ]time|local[ ]time|[A-Z][a-z]{2,15}(?:[ ][A-Z][a-z]{2,15})?[ ]time)\b"
)
_ALL_TIMES: Final = re.compile(r"\b(?:all|our)[ ](?:times|hours)[ ]are\b|\btime[ ]?zone\b", re.IGNORECASE)
_FROM_AFAR: Final = re.compile(
    r"\b(?:hotline|help[ ]?line|help[ ]?desk|call[ ]cent(?:er|re)|customer[ ](?:service|support)|support[ ](?:line|desk|team|chat)"
    r"|webinar|zoom|(?:video|conference)[ ](?:call|conference)|(?:teams|online|virtual|remote)[ ](?:call|event|session|meeting|training"
    r"|workshop)|live[ ]?stream)\b",
    re.IGNORECASE,
)
# People who eat or travel together are in one place.
_TOGETHER: Final = re.compile(
    r"\b(?:lunch|dinner|breakfast|brunch|picnic|barbecue|bbq|canteen|cafeteria|lobby|off-?site|outing|hike|excursion|car[ ]?park|parking[ ]lot"
    r"|(?:meeting|class)[ ]?room|room[ ]\d{1,4}|auditorium|gym|church|playground|front[ ]desk|reception|school[ ](?:gate|hall|bus)|bus|in[ ]person)\b",
    re.IGNORECASE,
)
_TOLL_FREE: Final = re.compile(
    r"(?<![\w-])(?:\+?1[-. ])?\(?8(?:00|88|77|66|55|44|33)\)?[-. ]\d{3}[-. ]\d{4}(?!\w)"
    r"|(?<![\w-])1[-. ]8(?:00|88|77|66|55|44|33)[-. ][A-Z\d][A-Z\d-]{5,10}\b"
)
_TOLL_FREE_NAMED: Final = re.compile(r"\btoll[- ]free[ ](?:number|line|hotline)\b", re.IGNORECASE)
_EMERGENCY: Final = re.compile(r"\b(?:call|dial|ring|phone)[ ](?P<number>911)\b", re.IGNORECASE)
_UNIT: Final = re.compile(
    r"(?<![\w.])(?P<value>\d[\d,.]{0,12})[ -]?"
    r"(?:(?P<imperial>miles?|mi|mph|feet|foot|ft|inch|inches|yards?|yds?|lbs?|pounds?|ounces?|oz|gallons?|gal|acres?"
    r"|°F|degrees[ ]Fahrenheit|fahrenheit)"
    r"|(?P<metric>kilomet(?:re|er)s?|km|km/h|met(?:re|er)s?|centimet(?:re|er)s?|cm|kg|kilos?|kilograms?|grams?"
    r"|lit(?:re|er)s?|°C|degrees[ ]Celsius|celsius))(?!\w)",
    re.IGNORECASE,
)
# The first one that a unit begins with; `mile` stands before `mi`, `km/h` before `km`.
_FACTORS: Final = (
    *(("mph", 1.609, "km/h"), ("mi", 1.609, "km"), ("f", 0.3048, "m"), ("inch", 2.54, "cm"), ("y", 0.9144, "m")),
    *(("lb", 0.4536, "kg"), ("pound", 0.4536, "kg"), ("o", 28.35, "g"), ("acre", 0.4047, "hectares")),
    *(("km/h", 0.6214, "mph"), ("kilom", 0.6214, "miles"), ("km", 0.6214, "miles"), ("k", 2.205, "lb")),
    *(("cent", 0.3937, "inches"), ("cm", 0.3937, "inches"), ("m", 3.281, "ft"), ("gram", 0.03527, "oz")),
)  # fmt: skip
_DEGREES: Final = re.compile(r"(?<![\w.])(-?\d{1,3})[ ](?:degrees|°)(?![ ](?:of|C|F|c|f)|\w)")
_HEAT: Final = re.compile(
    r"\b(?:below|above|under|over|hot|cold|weather|temperatures?|outside|heat|warm|cool|oven|bake|preheat|store|fever|"
    r"freezing|forecast|sunny|reach(?:es)?)\b",
    re.IGNORECASE,
)
_ANGLE: Final = re.compile(
    r"\b(?:angle|rotat\w{1,5}|turn(?:s|ed)?|tilt\w{0,3}|bend|corner|view|camera|latitude)\b", re.IGNORECASE
)
_AROUND: Final = 40
_SENTENCE: Final = 90
_NORTH_AMERICA: Final = frozenset({"US", "CA"})


def out_of_reach(message: str, known: Knowledge, setting: Setting) -> Iterator[Finding]:
    yield from _times(message, known, setting)
    yield from _phones(message, known, setting)
    yield from _units(message, known, setting)
    yield from _degrees(message, known, setting)


def _times(message: str, known: Knowledge, setting: Setting) -> Iterator[Finding]:
    one = len(setting.countries) == 1
    abroad = bool(_TOLL_FREE.search(message))
    told = _ALL_TIMES.search(message) is not None
    together = _TOGETHER.search(message) is not None
    for match in _TIME.finditer(message):
        zone = _ZONE.match(message, match.end())
        if zone:
            yield from _foreign_zone(match, zone, known, setting)
            continue
        afar = abroad or _FROM_AFAR.search(message[max(match.start() - _SENTENCE, 0) : match.end() + _AROUND])
        if told or (together and not afar):
            continue
        if not one or setting.american:
            yield Finding(
                "time", *match.span(), known.why["time"], "Add the time zone, for example 15:00 UTC"
            )
        elif afar:
            (country,) = setting.countries.values()
            advice = f"Add the time zone, or say that it is the time in {country.name}"
            yield Finding("time", *match.span(), known.why["time"], advice)


def _foreign_zone(
    match: re.Match[str], zone: re.Match[str], known: Knowledge, setting: Setting
) -> Iterator[Finding]:
    homes = next((homes for names, homes in known.zones.items() if zone["zone"] in names.split()), None)
    if homes is None or len(setting.countries) != 1 or setting.countries.keys() & homes:
        return
    (country,) = setting.countries.values()
    advice = f"Give the time and the day in {country.name} beside it"
    yield Finding("time", match.start(), zone.end(), known.why["zone"], advice, "times of elsewhere")


def _phones(message: str, known: Knowledge, setting: Setting) -> Iterator[Finding]:
    if setting.elsewhere_than(_NORTH_AMERICA):
        for match in _TOLL_FREE.finditer(message):
            yield Finding(
                "phone",
                *match.span(),
                "A toll-free number of North America often cannot be reached from abroad",
                "Add a number with its country code that can be called from abroad",
            )
    if not setting.american:
        for match in _TOLL_FREE_NAMED.finditer(message):
            advice = "Say from where it can be called, and add a number with its country code"
            yield Finding("phone", *match.span(), known.why["phone"], advice)
    if setting.elsewhere_than(known.emergency_911):
        for match in _EMERGENCY.finditer(message):
            yield Finding(
                "phone",
                *match.span("number"),
                "Emergency numbers differ from country to country",
                "Name the emergency number of the readers' country",
            )


def _units(message: str, known: Knowledge, setting: Setting) -> Iterator[Finding]:
    systems = {country.units for country in setting.countries.values()}
    for match in _UNIT.finditer(message):
        imperial = match["imperial"] is not None
        at_home = systems and systems <= ({"imperial", "mixed"} if imperial else {"metric", "mixed"})
        if not at_home:
            other = "metric" if imperial else "US customary"
            value = _converted(match["value"], (match["imperial"] or match["metric"]).lower())
            advice = f"Give the {other} value beside it{f': about {value}' if value else ''}"
            yield Finding("units", *match.span(), known.why["units"], advice)


def _converted(figures: str, unit: str) -> str:
    """Gallons and litres are not converted: there are two gallons."""
    plain = figures.replace(",", "") if re.fullmatch(r"\d{1,3}(?:,\d{3}){1,3}", figures) else figures
    if not re.fullmatch(r"\d{1,9}(?:\.\d{1,2})?", plain) or unit.startswith(("gal", "lit")):
        return ""
    value = float(plain)
    if unit.endswith(("f", "fahrenheit")):
        return f"{round((value - 32) * 5 / 9)} °C"
    if unit.endswith(("°c", "celsius")):
        return f"{round(value * 9 / 5 + 32)} °F"
    factor, name = next((factor, name) for begins, factor, name in _FACTORS if unit.startswith(begins))
    digits = 0 if value * factor >= 100 else 1 if value * factor >= 10 else 2
    shown = f"{value * factor:.{digits}f}"
    return f"{shown.rstrip('0').rstrip('.') if digits else shown} {name}"


def _degrees(message: str, known: Knowledge, setting: Setting) -> Iterator[Finding]:
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
        yield Finding("units", *match.span(), known.why["units"], advice)
