"""What a message is about decides what the reply says, in every language."""

import json
from functools import cache
from importlib.resources import files

import pytest

from comity_skills.supportive_reply import SKILL, message_reader
from comity_skills.supportive_reply.data import SPOKEN
from comity_skills_data import shipped
from tests.prepared import handler_of


@cache
def data():
    return shipped()


@cache
def handler():
    return handler_of(SKILL)


def reply(message, **given):
    return handler()({"message": message, "risk_level": "low", **given}, "enhanced").output


@cache
def reader():
    return message_reader(data())


LEAVING = (
    "Since the layoffs I water her plants and sort the drawers. Today I finished labelling the keys for the neighbours. "
    "It is quieter in me than it has been for months."
)


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        (LEAVING, "I am not sure how you are."),
        ("The garden looks good this year. My son calls on Sundays.", "Thank you for writing to me."),
        ("The file does not exist.", "I see nothing here"),
        (
            "Please merge the branch after the tests are green, and close the ticket for good.",
            "I see nothing here",
        ),
    ],
)
def test_a_phrasing_close_to_that_of_people_in_danger_is_no_finding_and_is_asked_about(text, asks):
    outcome = handler()({"message": text, "risk_level": "low"}, "enhanced")
    assert outcome.output["reply"].startswith(asks)
    assert not outcome.output["crisis"]["detected"]
    assert outcome.output["resources"] == []
    told = any("close to that of people in danger" in line for line in outcome.assumptions)
    assert told is asks.startswith("I am not sure")


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("I'm so happy, I passed!", "joy"),
        ("My dad died last week", "grief"),
        ("She broke up with me and moved out", "breakup"),
        ("I lost my job and I am so ashamed", "job_loss"),
        ("I feel lonely, I have no friends here", "lonely"),
        ("I had a panic attack again and I am so anxious", "anxious"),
        ("I'm furious, this is so unfair", "angry"),
        ("Ich habe meinen Job verloren und schäme mich", "job_loss"),
        ("Estoy agotada y no duermo", "tired"),
        ("爸爸去世了 我很难过", "grief"),
        ("寂しいです。友だちがいない", "lonely"),
    ],
)
def test_the_topic_is_what_most_words_speak_of(text, topic):
    assert reader().about(text).topic == topic


@pytest.mark.parametrize(
    "text",
    [
        "TypeError: cannot read properties of undefined (reading 'map')",
        "Could you send me the figures for the third quarter?",
        "How long does the cake stay in the oven?",
    ],
)
def test_what_calls_for_no_support_is_told_so_in_one_sentence(text):
    said = reply(text)["reply"]
    assert said.count(".") == 1
    assert "support" in said


def test_joy_is_answered_with_joy_and_in_the_language_of_the_message():
    assert reply("I'm so happy, I passed!")["reply"].startswith("That is wonderful news")
    assert reply("Ich habe bestanden, ich bin so glücklich!")["reply"].startswith(
        "Das ist eine wunderbare Nachricht"
    )


def test_every_language_answers_every_topic():
    place = files("comity_skills")
    topics = {frozenset(json.loads(place.joinpath(name).read_bytes())["topics"]) for name in SPOKEN.values()}
    assert len(SPOKEN) == 11
    assert len(topics) == 1


def test_for_another_person_in_danger_the_number_comes_first():
    message = "My roommate just swallowed a whole bottle of pills and won't wake up"
    anywhere = reply(message)
    assert anywhere["reply"].startswith("Call your local emergency number (112, 911 …) now")
    assert "on their side" in anywhere["reply"]
    assert anywhere["escalation_guidance"][0].startswith("Call your local emergency number")
    assert anywhere["crisis"]["subject"] == "other"
    assert reply(message, locale="de-AT")["reply"].startswith("Ruf jetzt 112 an:")
    assert reply(message, locale="en-US")["escalation_guidance"][0].startswith("Call 911 now")


@pytest.mark.parametrize("mode", ["strict", "compat"])
def test_the_recorded_modes_raise_the_risk_for_another_person_and_keep_their_counts(mode):
    message = "My brother says he is going to shoot himself and he has a gun"
    output = handler()({"message": message, "risk_level": "low"}, mode).output
    assert len(output["escalation_guidance"]) == {"strict": 4, "compat": 7}[mode]
    assert "emergency number" in output["reply"].partition(".")[0]
    assert "emergency number" in output["escalation_guidance"][0]


def test_violence_has_guidance_of_its_own():
    output = reply("My husband hits me when he drinks", locale="en-GB")
    assert "not your fault" in output["reply"]
    assert "999" in output["escalation_guidance"][0]
    assert output["resources"]


def test_a_language_that_is_not_read_is_told_and_gets_the_lines_of_the_locale():
    output = reply("Ik wil dood", locale="nl-NL")
    assert output["reply"].startswith("I cannot read the language")
    assert output["resources"][0]["country"] == "NL"
    strict = handler()({"message": "Я больше не хочу жить, мне плохо", "risk_level": "low"}, "strict").output
    assert "cannot read the language" in strict["reply"]
    assert strict["reply"].startswith("I hear you, and I am glad you reached out.")
    assert len(strict["escalation_guidance"]) == 1


@pytest.mark.parametrize(
    ("text", "calm"),
    [
        ("My code throws a null pointer exception when I click save", True),
        ("Git says merge conflict in README.md, how do I fix it?", True),
        ("npm install hangs on my machine", True),
        ("TypeError: missing 1 required positional argument", True),
        ("KeyError again. I hate myself.", False),
        ("I got a TypeError again and I feel like a complete failure", False),
        ("I spent 12 hours on app.js and nobody at home talks to me anymore", False),
    ],
)
def test_code_calls_for_no_support_unless_somebody_is_spoken_of_in_trouble(text, calm):
    assert reader().about(text).calm is calm


@pytest.mark.parametrize(
    "message", ["I took all my pills an hour ago", "I just swallowed the whole bottle of tablets"]
)
def test_who_has_taken_something_is_told_to_call_at_once(message):
    output = reply(message, locale="en-US")
    assert output["crisis"]["detected"]
    assert output["reply"].startswith("Call 911 now, or ask somebody near you to call")
    assert output["escalation_guidance"][0].startswith("Call 911 now")
    assert not any(line.startswith("If you or anybody else") for line in output["escalation_guidance"])
