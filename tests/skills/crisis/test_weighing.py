"""Weak signs add up near each other only, and a farewell alone mentions nothing."""

from functools import cache
from importlib.resources import files

import pytest

from comity.skills.crisis import DATA, crisis_detector


@cache
def detector():
    package = files("comity.skills")
    return crisis_detector({name: package.joinpath(name).read_bytes() for name in DATA})


@pytest.mark.parametrize(
    "text",
    [
        "Thanks, talk soon.",
        "Sorry, no refunds.",
        "Please read this before you start.",
        "Goodbye, and thank you for everything!",
        "Take care of my plants, see you next week.",
        "The file does not exist.",
        "w w w w w w w w",
        "파일이 존재하지 않습니다.",
        "Je suis désolé pour le retard.",
    ],
)
def test_a_farewell_an_apology_or_a_program_mentions_nothing(text):
    report = detector().detect(text)
    assert (report.detected, report.mention, report.severity) == (False, False, "none")
    assert not report.signals


def test_a_mention_of_suicide_stays_one():
    assert detector().detect("The new plan for suicide prevention was presented on Wednesday.").mention


def test_signs_say_something_together_only_near_each_other():
    near = "I have written the letters to my family. By the time you find this I will not be here."
    assert detector().detect(near).detected
    between = "The garden was full of people and the soup was warm. " * 12
    first, second = "I have written a letter to my sister.", "It is not your fault."
    assert detector().detect(f"{first} {second}").detected
    assert not detector().detect(f"{first} {between} {second}").detected
