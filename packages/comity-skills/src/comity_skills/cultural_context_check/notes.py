"""Which of the notes on a place or an audience are told: those that touch what the message does, and a few more.

- Every note has a topic, or several, the main one first. The message has the topics of its findings and of its words (`topics` in the data).
- A note on a topic of the message is told as it is. Of the others at most two are told, marked as general, and only
  on topics that any message has: tone, address, relation. What is said
  of the audience itself goes before what is said of the place. A line of thanks or sympathy, or to a friend, needs none. A note on colours is beside the point where there is none.
- A country brings its own notes and those of the smallest area around it that has any to say of it; what holds only of
  an area as a whole, or not of that country, is left out.
"""

from collections.abc import Iterator, Sequence
from re import compile as pattern
from typing import Final

from comity_skills.cultural_context_check.knowledge import Finding, Setting
from comity_skills.cultural_context_check.places import Note, Place, Regions
from comity_skills.words.phrases import Phrases
from comity_skills.words.tokens import tokens

_MOST_GENERAL: Final = 2
_MOST_COUNTRIES: Final = 3
_PERSONAL: Final = pattern(
    r"(?i)\b(?:thanks|thank you (?:so|very) much|thank you for your help|condolences?|sorry for your loss|passed away|happy birthday"
    r"|congratulations|get well|pray(?:ing)? for you|thank you for (?:the|your|a) (?:lovely|kind|wonderful|great))\b"
)
_DATE: Final = pattern(r"(?<![\w.])\d{1,4}[/.-]\d{1,2}[/.-]\d{1,4}\b|(?<![\w.])\d{1,2}/\d{1,2}\b")
# What is told of a clock, where the message keeps to the other one.
_OTHER_CLOCK: Final = {
    12: pattern(r"(?<![\d:.])(?:1[3-9]|2[0-3]):[0-5]\d\b"),
    24: pattern(r"(?i)\d[ ]?(?:[ap]m|[ap]\.m)\b"),
}
_UNIT: Final = pattern(
    r"\d[ ]?(?:km|kg|cm|lbs?|miles?|feet|ft|inch|inches|pounds|ounces|oz|degrees|kilos?|met(?:re|er)s?)\b"
)
_MONEY: Final = pattern(r"[$€£¥₹][ ]?\d|\b[A-Z]{3}[ ]\d|\d[ ](?:dollars|euros?|pounds|yen|yuan|rupees)\b")
_ORDERS: Final = {"dmy": "day, month, year", "mdy": "month, day, year", "ymd": "year, month, day"}
_UNITS: Final = {
    "metric": "metric units",
    "imperial": "US customary units",
    "mixed": "metric and imperial units",
}


class Notes:
    def __init__(self, regions: Regions) -> None:
        self._regions = regions
        self._audiences = Phrases(
            (phrase, at) for at, audience in enumerate(regions.audiences) for phrase in audience.names
        )
        topics: dict[str, list[str]] = {}
        for topic, words in regions.topics.items():
            for word in words.split("|"):
                topics.setdefault(word, []).append(topic)
        self._topics = topics

    def choose(
        self,
        message: str,
        audience: str,
        places: Sequence[Place],
        setting: Setting,
        findings: Sequence[Finding],
    ) -> list[str]:
        if setting.among_friends:
            return []
        touched = {topic for token in tokens(message) for topic in self._topics.get(token.word, ())}
        touched.update(
            topic for finding in findings for topic in self._regions.topics_of_findings[finding.issue]
        )
        of_audience = [
            note
            for found in self._audiences.find(tokens(audience))
            for note in self._regions.audiences[found.meaning].notes
        ]
        known = [*of_audience, *(note for place in places for note in self._of_place(place))]
        told = list(dict.fromkeys(note.text for note in known if touched & {*note.about.split()}))
        told += _facts(message, places, setting)
        if "close" in setting.readers or _PERSONAL.search(message):
            return told
        general = [
            note.text
            for note in of_audience or known
            if note.about.split()[0] in self._regions.general and note.text not in told
        ]
        if not places:
            general += self._regions.universal
        return [*told, *(f"General: {text}" for text in list(dict.fromkeys(general))[:_MOST_GENERAL])]

    def _of_place(self, place: Place) -> list[Note]:
        if place.kind == "area":
            return list(self._regions.areas[place.code].notes)
        around = [
            notes
            for area in sorted(self._regions.areas.values(), key=lambda area: len(area.members))
            if place.code in area.members
            and (
                notes := [note for note in area.notes if not note.area_only and place.code not in note.not_in]
            )
        ]
        return [*self._regions.countries[place.code].notes, *(around[0] if around else ())]


def _facts(message: str, places: Sequence[Place], setting: Setting) -> Iterator[str]:
    """What CLDR says of countries that were named, as far as the message writes dates, times, units or amounts."""
    named = {place.code for place in places if place.kind == "country"}
    if len(named) != len(setting.countries):
        return
    for country in list(setting.countries.values())[:_MOST_COUNTRIES]:
        facts = {
            f"dates as {_ORDERS[country.date]}": _DATE,
            f"{country.hours}-hour clock": _OTHER_CLOCK[country.hours],
            _UNITS[country.units]: _UNIT,
            f"amounts in {country.currency}": _MONEY,
        }
        touched = [fact for fact, figures in facts.items() if figures.search(message)]
        if touched:
            yield f"{country.name}: {', '.join(touched)}."
