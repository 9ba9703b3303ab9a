"""Danger that is said plainly is found by the rules alone, and its harmless neighbours are not, in every language."""

import json
from functools import cache
from pathlib import Path

import pytest

from comity_skills.crisis import crisis_detector
from comity_skills.crisis.data import LANGUAGES
from comity_skills_data import shipped

FOLDER = Path(__file__).with_name("plain_statements")


@cache
def detector():
    return crisis_detector(shipped())


def sentences(kind):
    return [
        text
        for path in sorted(FOLDER.glob("*.json"))
        for text in json.loads(path.read_text(encoding="utf-8"))[kind]
    ]


def test_every_language_has_sentences():
    assert {path.stem for path in FOLDER.glob("*.json")} == set(LANGUAGES)


@pytest.mark.parametrize("text", sentences("statements"))
def test_a_plain_statement_is_found(text):
    assert detector().detect(text).detected


@pytest.mark.parametrize("text", sentences("neighbours"))
def test_a_harmless_neighbour_is_not(text):
    assert not detector().detect(text).detected
