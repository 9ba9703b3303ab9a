"""The numbers are held against what libphonenumber knows of each country's plan."""

import re
from functools import cache
from importlib.resources import files

import phonenumbers
import pytest
from phonenumbers import shortnumberinfo

from comity.skills.crisis.lines import LINES, help_for, place_of, read_lines

# National emergency numbers that the metadata does not know, or knows by an older number.
NEWER_THAN_THE_METADATA = {"GH": "112", "NG": "112", "RS": "194"}
# Short codes of crisis lines in ranges that the metadata does not know.
SHORT_CODES = {"GR": "1018", "LB": "1564", "PH": "1553"}


@cache
def lines():
    return read_lines(files("comity.skills").joinpath(LINES).read_bytes())


def test_sixty_countries_and_more_have_an_emergency_number_that_is_one():
    assert len(lines().countries) >= 60
    for code, country in lines().countries.items():
        known = NEWER_THAN_THE_METADATA.get(code) == country.emergency
        assert known or shortnumberinfo.is_emergency_number(country.emergency, code), code


def test_every_number_can_be_dialled_in_its_country():
    for code, country in lines().countries.items():
        for line in country.lines:
            texted = re.fullmatch(r"text [A-Z]+ to (\d+)", line.contact)
            number = texted[1] if texted else line.contact.partition(",")[0]
            parsed = phonenumbers.parse(number, code)
            assert (
                phonenumbers.is_valid_number(parsed)
                or shortnumberinfo.is_possible_short_number_for_region(parsed, code)
                or SHORT_CODES.get(code) == number
            ), (code, line)


def test_every_line_names_its_source_and_every_country_its_review():
    for code, country in lines().countries.items():
        assert re.fullmatch(r"[A-Z]{2}", code)
        assert "2026-11-15" <= country.reviewed < country.review_by, code
        for line in country.lines:
            assert line.source.startswith("https://"), line
            assert line.languages, line
    assert [line.contact for line in lines().international if "findahelpline" in line.contact]
    assert all(code in lines().countries for codes in lines().languages.values() for code in codes)


@pytest.mark.parametrize(
    ("locale", "country"),
    [
        ("es-MX", "MX"),
        ("es_ES", "ES"),
        ("zh-Hant-TW", "TW"),
        ("pt-BR", "BR"),
        ("en-GB-oxendict", "GB"),
        ("FR-ca", "CA"),
    ],
)
def test_the_region_decides_and_not_the_language(locale, country):
    found = help_for(lines(), locale)
    assert found.own
    assert list(found.countries) == [country]


@pytest.mark.parametrize("locale", ["es", "ENGLISH", "", "es-XX", "🙂", "x" * 1000, "arn", "es-419"])
def test_without_a_region_the_directories_come_first_and_countries_are_examples(locale):
    found = help_for(lines(), locale)
    assert not found.own
    assert found.international
    assert place_of("arn").language == "arn"


def test_a_language_without_a_country_gets_its_largest():
    assert list(help_for(lines(), "es").countries) == ["MX", "ES", "CO"]
    assert not help_for(lines(), "arn").countries
