"""Where help is to be found, by country: the emergency number, the crisis lines, the international directories.

- The country is the region of the locale, never its language: `es-MX` is Mexico. A locale without a region, or
  with one that is not in the file, has no country of its own: it gets the directories first and then, each
  labelled, the largest countries of its language.
- The file says of each country on which day somebody opened the sources of its lines; null means that nobody did.
- An operator may set countries of their own over ours (`overridden`).
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from msgspec import Struct

from comity_skills.skill import SkillDataError

LINES = "crisis/lines.json"

_SUBTAG = re.compile(r"[A-Za-z0-9]{1,8}")
_REGION = re.compile("[A-Z]{2}")


class Line(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`contact` is what one dials, the words one texts, or an address on the web."""

    name: str
    contact: str
    source: str
    hours: str = ""
    languages: tuple[str, ...] = ()


class Country(Struct, frozen=True, forbid_unknown_fields=True):
    """`ambulance` says that the emergency number is not that of the police."""

    name: str
    emergency: str
    lines: tuple[Line, ...]
    checked: str | None = None
    incomplete: bool = False
    ambulance: bool = False


class Lines(Struct, frozen=True, forbid_unknown_fields=True):
    note: str
    international: tuple[Line, ...]
    languages: Mapping[str, tuple[str, ...]]
    countries: Mapping[str, Country]


class OwnLines(Struct, frozen=True, forbid_unknown_fields=True):
    """What an operator writes: whole countries, and the international directories if they are to be others."""

    countries: Mapping[str, Country] = {}
    international: tuple[Line, ...] = ()


class Place(NamedTuple):
    """`language` is the primary subtag in lower case, `region` the region in upper case or nothing."""

    language: str
    region: str


class Help(Struct, frozen=True):
    """`own` when the countries are the one that the locale names."""

    own: bool
    countries: Mapping[str, Country]
    international: tuple[Line, ...]


def read_lines(data: bytes) -> Lines:
    return msgspec.json.decode(data, type=Lines)


def overridden(data: bytes, own: bytes) -> bytes:
    """Our lines with those of the operator in their place. SkillDataError when theirs cannot be used."""
    try:
        given = msgspec.json.decode(own, type=OwnLines)
    except msgspec.MsgspecError as fault:
        raise SkillDataError(
            f'the file of crisis lines cannot be used: {fault}; write {{"countries": {{"PT": {{"name", "emergency", '
            f'"lines": [{{"name", "contact", "source"}}]}}}}}}'
        ) from None
    unknown = [code for code in given.countries if not _REGION.fullmatch(code)]
    if unknown:
        raise SkillDataError(
            f"the file of crisis lines has the country {unknown[0][:20]!r}; use two capital letters (ISO 3166)"
        )
    lines = read_lines(data)
    return msgspec.json.encode(
        msgspec.structs.replace(
            lines,
            countries={**lines.countries, **given.countries},
            international=given.international or lines.international,
        )
    )


def place_of(locale: str) -> Place:
    """Language and region of a tag such as `zh-Hant-TW` or `pt_BR`; what is no tag is nowhere."""
    language, *rest = _SUBTAG.findall(locale[:64]) or [""]
    region = next((subtag.upper() for subtag in rest if len(subtag) == 2 and subtag.isalpha()), "")
    return Place(language.lower(), region)


def help_for(lines: Lines, locale: str) -> Help:
    place = place_of(locale)
    country = lines.countries.get(place.region)
    if country is not None:
        return Help(True, {place.region: country}, lines.international)
    codes = lines.languages.get(place.language, ())
    return Help(False, {code: lines.countries[code] for code in codes}, lines.international)
