"""Messages as people write them in ten languages: each gets the answer to its topic, and what needs nothing gets none.

`spoken/<languages>.json` holds them by topic, each after its locale if it is sent with one. `no_topic` are harmless
neighbours of trouble, `nothing` needs no support, and `asked` looks like an order and is asked about.
"""

import json
from functools import cache
from importlib.resources import files
from pathlib import Path

import pytest

from comity_skills.supportive_reply import SKILL
from comity_skills.supportive_reply.data import SPOKEN as FILES
from tests.prepared import handler_of

SPOKEN = [
    (path.stem, kind, locale, message)
    for path in sorted(Path(__file__).with_name("spoken").glob("*.json"))
    for kind, messages in json.loads(path.read_bytes()).items()
    for locale, message in messages
]


@cache
def handler():
    return handler_of(SKILL)


@cache
def nothing(languages):
    place = files("comity_skills")
    spoken = [json.loads(place.joinpath(FILES[code]).read_bytes()) for code in languages.split("_")]
    latin = [one["latin"] for one in spoken if "latin" in one]
    return {one["replies"]["nothing"] for one in (*spoken, *latin)}


def answered(message, locale):
    given = {"message": message, "risk_level": "low"}
    return handler()(given | ({"locale": locale} if locale else {}), "enhanced")


@pytest.mark.parametrize(("languages", "kind", "locale", "message"), SPOKEN)
def test_a_message_as_people_write_it_gets_the_answer_to_its_topic(languages, kind, locale, message):
    answer = answered(message, locale)
    said = answer.output["reply"]
    if kind in {"nothing", "asked"}:
        assert (said in nothing(languages)) is (kind == "nothing")
    else:
        told = [line.removeprefix("Topic: ") for line in answer.assumptions if line.startswith("Topic: ")]
        assert told == ([] if kind == "no_topic" else [kind])


def test_a_cry_is_not_taken_for_a_matter_of_fact():
    for message in ("बस, अब और नहीं", "सब तबाह हो गया", "Was soll ich tun?"):
        assert answered(message, "de-DE").output["reply"] not in nothing("de_hi")
