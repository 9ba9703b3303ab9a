"""Which places a text names: countries, their people and cities, US states, areas of the world, and codes.

- Whole words only, the longest first: `Indiana` is a state, `West Indian` the Caribbean, `Latin American` no
  American.
- A region that is nothing but codes (`JP`, `pt-BR`, `US, CA`, `US-IN`) is read as ISO codes and language tags. Within
  a sentence only `US`, `UK`, `EU` and the like count, in capitals.
- A place that is left out (`outside India`, `non-US`) is not meant.
- A lower-case code that is also a language of elsewhere (`ar`, `sv`) is doubtful.
- A place before a US state (`Paris, Texas`, `Indianapolis, IN`) belongs to the state.
- Countries and areas are known in German, French, Spanish, Italian and Portuguese, too. A name that is also an English
  word or a first name (`Island`, `Maurice`) counts only when it is the whole field.
- `Georgia` is a country and a state: both are answered and the doubt is told, unless another US place decides.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, Literal
from unicodedata import combining, normalize

from msgspec import Struct
from msgspec.structs import replace

from comity_skills.words.phrases import Found, Phrases
from comity_skills.words.tokens import tokens

Kind = Literal["country", "area"]

_CODE: Final = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z]{4})?(?:[-_][A-Za-z]{2,3})?\Z")
_STATE_CODE: Final = re.compile(r",[ ]?([A-Z]{2})\b")
_CAPITALS: Final = re.compile(r"\b(?:U\.S\.A?\.?|U\.K\.|US|UK|EU|UAE|NZ)(?![\w])")
_CAPITAL_CODES: Final = {"US": "US", "USA": "US", "UK": "GB", "UAE": "AE", "NZ": "NZ"}
_OUTSIDE: Final = re.compile(
    r"\b(?:not[ ](?:in|from|based[ ]in)|outside(?:[ ]of)?|except(?:[ ]for|[ ]in)?|excluding|other[ ]than|non)[ -](?:the[ ])?\Z",
    re.IGNORECASE,
)
_LEFT_OUT: Final = re.compile(r"\b(?:not|outside|except|excluding|other[ ]than|non)\b", re.IGNORECASE)
_BEFORE: Final = 30
_MOST_PLACES: Final = 20


class Note(Struct, frozen=True, kw_only=True):
    """`about` is its topic, or several; one that is `area_only` says nothing of a single country, and none of those in `not_in`."""

    about: str
    text: str
    not_in: frozenset[str] = frozenset()
    area_only: bool = False


class Country(Struct, frozen=True, kw_only=True):
    name: str
    languages: tuple[str, ...]
    currency: str
    date: str
    direction: str
    hours: int
    units: str
    alpha3: str = ""
    also: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


class Area(Struct, frozen=True, kw_only=True):
    name: str
    names: tuple[str, ...]
    members: tuple[str, ...]
    notes: tuple[Note, ...]


class Audience(Struct, frozen=True, kw_only=True):
    names: tuple[str, ...]
    notes: tuple[Note, ...]


class Regions(Struct, frozen=True, kw_only=True):
    """The data file."""

    countries: dict[str, Country]
    areas: dict[str, Area]
    us_states: dict[str, str]
    ambiguous: dict[str, tuple[str, ...]]
    written_large: frozenset[str]
    unnamed: tuple[str, ...]
    everywhere: frozenset[str]
    universal: tuple[str, ...]
    audiences: tuple[Audience, ...]
    topics: dict[str, str]
    topics_of_findings: dict[str, tuple[str, ...]]
    general: frozenset[str]


class Names(Struct, frozen=True, kw_only=True):
    """The data file of foreign names; those in `whole` count only by themselves."""

    whole: frozenset[str]
    countries: dict[str, tuple[str, ...]]
    areas: dict[str, tuple[str, ...]]


class Place(Struct, frozen=True):
    kind: Kind
    code: str
    name: str
    field: str
    text: str
    start: int
    end: int
    doubtful: bool = False
    state: bool = False


class _Meaning(Struct, frozen=True):
    kind: Kind
    codes: tuple[str, ...]
    state: bool = False


class Gazetteer:
    def __init__(self, known: Regions, names: Names) -> None:
        self._known = known
        self._whole = names.whole
        self._phrases = Phrases([*_entries(known), *_foreign(names)])
        self._states = frozenset(known.us_states.values())
        self._by_alpha3 = {
            country.alpha3: code for code, country in known.countries.items() if country.alpha3
        }
        self._by_language = _first_countries(known.countries)
        self._languages = frozenset(
            language for country in known.countries.values() for language in country.languages
        )

    def find(self, text: str, field: str) -> list[Place]:
        codes = self._codes(text, field) if field == "region" else []
        if codes:
            return codes
        stripped = text.strip()
        found = [
            place
            for each in self._phrases.find(tokens(text.replace("St.", "St ")))
            for place in self._named(text, stripped, field, each)
        ]
        found += self._capitals(text, field, found)
        found += self._state_codes(text, field, found)
        found = [
            place for place in found if not _OUTSIDE.search(text, max(0, place.start - _BEFORE), place.start)
        ]
        found.sort(key=lambda place: place.start)
        found = _settled(text, found)
        return found[:_MOST_PLACES]

    def is_unknown(self, region: str) -> bool:
        """Whether the region seems to name a place, and none that is known: not `worldwide`, nor `outside India`."""
        words = {token.word for token in tokens(region)}
        open_ended = words & self._known.everywhere or _LEFT_OUT.search(region)
        return bool(words) and not open_ended and not self.find(region, "region")

    def _named(self, text: str, stripped: str, field: str, found: Found[_Meaning]) -> Iterator[Place]:
        words = text[found.start : found.end]
        if words.lower() in self._known.written_large and words[:1].islower() and len(words) < len(stripped):
            return
        alone = len(words) == len(stripped) and words[:1].isupper()
        if not alone and _without_accents(words.lower()) in self._whole:
            return
        meaning = found.meaning
        for code in meaning.codes:
            name = self._name(meaning.kind, code)
            doubtful = len(meaning.codes) > 1
            yield Place(
                meaning.kind, code, name, field, words, found.start, found.end, doubtful, meaning.state
            )

    def _name(self, kind: Kind, code: str) -> str:
        return self._known.countries[code].name if kind == "country" else self._known.areas[code].name

    def _country(self, code: str, field: str, words: str, start: int) -> Place:
        return Place("country", code, self._name("country", code), field, words, start, start + len(words))

    def _codes(self, text: str, field: str) -> list[Place]:
        """The region as a list of codes; nothing when any part is no code."""
        found = []
        for match in re.finditer(r"[^,;/\s]+", text):
            country = self._country_of_code(match[0])
            if country is None:
                return []
            place = self._country(country, field, match[0], match.start())
            found.append(replace(place, doubtful=self._is_language(match[0], country)))
        return found[:_MOST_PLACES]

    def _is_language(self, code: str, country: str) -> bool:
        """Whether a bare code in small letters is a language too, and one that this country does not speak."""
        spoken = self._known.countries[country].languages
        also = code.islower() and code in self._languages and code.upper() not in _CAPITAL_CODES
        return also and code not in spoken

    def _country_of_code(self, code: str) -> str | None:
        if not _CODE.fullmatch(code):
            return None
        first, *rest = re.split("[-_]", code)
        if not rest:
            upper = _CAPITAL_CODES.get(first.upper(), first.upper())
            if upper in self._known.countries:
                return upper
            return self._by_language.get(first) if len(first) == 2 else self._by_alpha3.get(first.upper())
        last = rest[-1].upper()
        if first.upper() == "US" and last in self._states and first.isupper():
            return "US"
        return last if last in self._known.countries else None

    def _capitals(self, text: str, field: str, found: Sequence[Place]) -> Iterator[Place]:
        taken = {place.start for place in found}
        for match in _CAPITALS.finditer(text):
            code = _CAPITAL_CODES.get(match[0].replace(".", ""))
            if code and match.start() not in taken:
                yield self._country(code, field, match[0], match.start())

    def _state_codes(self, text: str, field: str, found: Sequence[Place]) -> Iterator[Place]:
        ends = {place.end: place for place in found}
        for match in _STATE_CODE.finditer(text):
            before = ends.get(match.start())
            if match[1] in self._states and not (before and before.code == match[1]):
                yield replace(self._country("US", field, match[1], match.start(1)), state=True)


def _entries(known: Regions) -> Iterator[tuple[str, _Meaning | None]]:
    for phrase in known.unnamed:
        yield phrase, None
    for word, codes in known.ambiguous.items():
        yield word, _Meaning("country", codes)
    for phrase in known.us_states:
        yield phrase, _Meaning("country", ("US",), state=True)
    for code, country in known.countries.items():
        meaning = _Meaning("country", (code,))
        for phrase in (*_written(country.name), *country.also, *country.people, *country.places):
            yield phrase, meaning
            yield _without_accents(phrase), meaning
    for code, area in known.areas.items():
        for phrase in area.names:
            yield phrase, _Meaning("area", (code,))


def _foreign(names: Names) -> Iterator[tuple[str, _Meaning | None]]:
    kinds: tuple[tuple[Kind, Mapping[str, tuple[str, ...]]], ...] = (
        ("country", names.countries),
        ("area", names.areas),
    )
    for kind, by_code in kinds:
        for code, phrases in by_code.items():
            for phrase in phrases:
                spelled = " ".join(token.word for token in tokens(phrase))
                yield spelled, _Meaning(kind, (code,))
                yield _without_accents(spelled), _Meaning(kind, (code,))


def _written(name: str) -> Iterator[str]:
    """`St. Kitts & Nevis` is also written with Saint, with and, and without it."""
    spelled = " ".join(token.word for token in tokens(name.replace("&", "and")))
    for one in (spelled, spelled.replace(" and ", " ")):
        yield one
        if one.startswith("st "):
            yield one.replace("st ", "saint ", 1)


def _without_accents(phrase: str) -> str:
    return "".join(character for character in normalize("NFD", phrase) if not combining(character))


def _first_countries(countries: Mapping[str, Country]) -> dict[str, str]:
    """For a bare language tag that is no country code (`ja`): the one country whose first language it is."""
    owners: dict[str, list[str]] = {}
    for code, country in countries.items():
        if country.languages:
            owners.setdefault(country.languages[0], []).append(code)
    return {language: codes[0] for language, codes in owners.items() if len(codes) == 1}


def _settled(text: str, found: Sequence[Place]) -> list[Place]:
    """Without the places that belong to a US state, and with doubts removed where another US place decides."""
    gone = {
        at
        for at, (one, two) in enumerate(pairwise(found))
        if two.state and not one.state and text[one.end : two.start].strip() == "," and one.code != "US"
    }
    kept = [place for at, place in enumerate(found) if at not in gone]
    american = any(place.code == "US" and not place.doubtful for place in kept)
    if not american:
        return kept
    return [replace(place, doubtful=False) for place in kept if not (place.doubtful and place.code != "US")]
