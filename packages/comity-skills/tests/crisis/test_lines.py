"""The numbers are held against what libphonenumber knows of each country's plan."""

import re
from functools import cache
from importlib.resources import files

import phonenumbers
import pytest
from phonenumbers import shortnumberinfo

from comity_skills.crisis.lines import LINES, help_for, overridden, place_of, read_lines
from comity_skills.skill import SkillDataError

FILE = files("comity_skills").joinpath(LINES).read_bytes()

# National emergency numbers that the metadata does not know, or knows by an older number.
NEWER_THAN_THE_METADATA = {"GH": "112", "NG": "112", "RS": "194"}
# Short codes of crisis lines in ranges that the metadata does not know.
SHORT_CODES = {"GR": "1018", "LB": "1564", "PH": "1553"}


@cache
def lines():
    return read_lines(files("comity_skills").joinpath(LINES).read_bytes())


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


CHECKED = {}


def test_every_line_names_its_source_and_no_country_claims_that_somebody_checked_it():
    """Whoever opens the sources of a country writes the day down here and there, with the country in `CHECKED`."""
    for code, country in lines().countries.items():
        assert re.fullmatch(r"[A-Z]{2}", code)
        assert country.checked == CHECKED.get(code), code
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


def test_a_country_that_lacks_lines_says_so():
    assert {code for code, country in lines().countries.items() if country.incomplete} == {"PT", "CO", "PE"}


def test_an_operator_sets_countries_of_their_own_over_ours():
    own = b'{"countries": {"PT": {"name": "Portugal", "emergency": "112", "checked": "2026-11-16", "lines": [{"name": "Linha", "contact": "1411", "source": "https://a.example"}]}}}'
    found = read_lines(overridden(FILE, own))
    assert [line.contact for line in found.countries["PT"].lines] == ["1411"]
    assert found.countries["ES"] == lines().countries["ES"]
    assert found.international == lines().international


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (b"no json", "cannot be used"),
        (b'{"countries": {"PT": {"name": "Portugal"}}}', "emergency"),
        (
            b'{"countries": {"Portugal": {"name": "P", "emergency": "112", "lines": []}}}',
            "two capital letters",
        ),
        (b'{"country": {}}', "country"),
    ],
)
def test_a_file_of_lines_that_cannot_be_used_is_refused_with_what_is_wrong(own, said):
    with pytest.raises(SkillDataError, match=said):
        overridden(FILE, own)
