"""The recorded shapes hold in their modes, the evidence in ours, and no mode repeats what was written."""

import json
from functools import cache
from importlib.resources import files

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.testing.vectors import vector_file
from comity_skills.skill import SkillInputError
from comity_skills.supportive_reply import GRIEF_SKILL, SKILL
from comity_skills.supportive_reply.data import SPOKEN
from comity_skills_data import shipped

CRISIS = "I want to kill myself tonight"
LANGUAGES = ("en", "es", "fr", "de", "pt", "it", "zh", "ja", "ko", "ar", "hi")


@cache
def handler(action):
    chosen = {SKILL.name: SKILL, GRIEF_SKILL.name: GRIEF_SKILL}[action]
    return chosen.prepare(shipped())


def reply(message, risk="low", mode="enhanced", **more):
    return handler("supportive_reply")({"message": message, "risk_level": risk, **more}, mode)


def grief(message, support="presence", mode="strict"):
    return handler("grief_support_response")({"message": message, "support_mode": support}, mode)


def held(case, mode):
    outcome = handler(case["action"])(case["input"], mode)
    expected = case["expect"]
    assert outcome.uncertainty == expected["uncertainty"], case
    assert len(outcome.assumptions) == expected["assumptions_count"], case
    assert list(outcome.output) == expected["output_keys"], case
    for name, length in expected["lengths"].items():
        assert len(outcome.output[name]) == length, (case, name)


@pytest.mark.parametrize(
    ("stem", "mode"), [("actions_v01_properties", "strict"), ("actions_v108_properties", "compat")]
)
def test_vector_actions_supportive_replies_have_the_recorded_shape(stem, mode):
    own = [case for case in vector_file("actions", stem) if case["action"] in {SKILL.name, GRIEF_SKILL.name}]
    assert own
    for case in own:
        held(case, mode)


@pytest.mark.parametrize(
    ("mode", "counts"),
    [("strict", {"low": 1, "medium": 2, "high": 4}), ("compat", {"low": 1, "medium": 3, "high": 7})],
)
def test_the_recorded_counts_follow_the_risk_and_a_crisis_raises_it(mode, counts):
    for risk, count in counts.items():
        assert len(reply("I had a hard week", risk, mode).output["escalation_guidance"]) == count
        raised = reply(CRISIS, risk, mode)
        assert len(raised.output["escalation_guidance"]) == counts["high"]
        assert raised.assumptions[0].startswith("Risk level: high (auto-escalated")


def test_everyday_words_are_no_crisis_except_where_1_0_8_takes_them_for_one():
    assert len(reply("I feel overwhelmed", mode="strict").output["escalation_guidance"]) == 1
    assert len(reply("I feel overwhelmed", mode="compat").output["escalation_guidance"]) == 7
    ours = reply("I feel overwhelmed").output
    assert len(ours["escalation_guidance"]) == 1
    assert ours["crisis"] == {
        "detected": False,
        "severity": "none",
        "mention": False,
        "subject": "none",
        "dangers": [],
        "signals": [],
    }


def test_a_mention_shows_where_help_is_and_changes_no_recorded_count():
    message = "My friend wants to kill herself"
    for mode in ("strict", "compat"):
        quiet, mentioned = (reply("hello", mode=mode), reply("My uncle took his own life", mode=mode))
        assert len(quiet.output["escalation_guidance"]) == 1
        assert "findahelpline.com" not in str(quiet.output)
        assert "findahelpline.com" in str(mentioned.output)
        grave = reply("My uncle took his own life", "medium", mode).output["escalation_guidance"]
        assert ["findahelpline.com" in line for line in grave] == [False] * (len(grave) - 1) + [True]
    ours = reply(message, locale="en-GB").output
    assert ours["crisis"]["mention"]
    assert not ours["crisis"]["detected"]
    assert "116 123" in str(ours["escalation_guidance"])
    assert ours["resources"][0]["country"] == "GB"


def test_the_country_is_that_of_the_region():
    guidance = reply(CRISIS, locale="es-MX").output["escalation_guidance"]
    assert "911" in guidance[0]
    assert "800 911 2000" in " ".join(guidance)
    assert "024" not in " ".join(guidance)
    neutral = reply(CRISIS, locale="es").output
    assert (
        "findahelpline.com"
        in neutral["escalation_guidance"][1 + (neutral["crisis"]["severity"] == "immediate")]
    )
    assert [one.get("country") for one in neutral["resources"]] == [None, "MX", "ES", "CO"]


def test_a_detected_crisis_is_answered_with_the_emergency_first_in_eleven_languages():
    answers = {language: reply(CRISIS, locale=language).output for language in LANGUAGES}
    assert len({answer["reply"] for answer in answers.values()}) == len(LANGUAGES)
    for language, answer in answers.items():
        assert answer["crisis"]["detected"], language
        assert answer["crisis"]["severity"] == "immediate", language
        assert len(answer["escalation_guidance"]) >= 5, language


def test_who_sends_no_locale_is_answered_in_the_language_he_wrote():
    assert reply("quiero quitarme la vida").output["reply"] == reply(CRISIS, locale="es").output["reply"]
    assert reply("hola").output["reply"] == reply("hola", locale="es").output["reply"]
    assert reply("12345").output["reply"] == reply("12345", locale="en").output["reply"]


def test_every_language_has_every_sentence_and_its_blanks():
    place = files("comity_skills")
    told = {code: json.loads(place.joinpath(name).read_bytes())["replies"] for code, name in SPOKEN.items()}
    assert tuple(told) == LANGUAGES
    for language, words in told.items():
        assert list(words) == list(told["en"]), language
        assert all(words.values()), language
        assert "{number}" in words["emergency"], language
        assert "{urls}" in words["directories"], language


def test_grief_modes_have_notes_and_danger_comes_before_them():
    notes = reply("My father died", mode="compat", support_mode="practical").output["care_notes"]
    assert len(notes) == 5
    more = reply(
        "My dad died. Everything happens for a reason, they say", mode="compat", support_mode="presence"
    )
    assert len(more.output["care_notes"]) == 7
    danger = reply("My wife died and I want to die too", mode="compat", support_mode="presence").output[
        "care_notes"
    ]
    assert len(danger) == 8
    assert "safety" in danger[0]
    assert "care_notes" not in reply("My father died").output


def test_a_platitude_is_heard_as_a_phrase_and_1_0_8_hears_it_inside_words():
    def notes(message, mode):
        return len(reply(message, mode=mode, support_mode="presence").output["care_notes"])

    for message in ("I had to remove one of his coats", "I slept at least three hours", "I cannot move on"):
        assert notes(message, "enhanced") == 5, message
        assert notes(message, "compat") == 7, message
    for message in (
        "They say he is in a better place",
        "They tell me to move on",
        "At least he had no pain, they say",
    ):
        assert notes(message, "enhanced") == 7, message


def test_nothing_says_that_there_is_a_line_in_every_country():
    for message in ("I want to kill myself", "My brother committed suicide"):
        guidance = " ".join(reply(message).output["escalation_guidance"])
        assert "by country" in guidance
        assert "every country" not in guidance


def test_grief_support_response_is_the_old_name_and_sees_a_crisis_too():
    calm, grave = grief("My parent died"), grief("My parent died and I want to die")
    assert len(calm.output["escalation_guidance"]) == 2
    assert len(grave.output["escalation_guidance"]) == 4
    ours = grief("My parent died and I want to die", mode="enhanced").output
    assert list(ours) == ["reply", "care_notes", "escalation_guidance", "crisis", "resources"]
    assert ours["crisis"]["detected"]


def test_uncertainty_is_constant_where_recorded_and_follows_the_evidence_in_ours():
    assert {reply(text, mode="strict").uncertainty for text in (CRISIS, "hello")} == {"medium"}
    assert reply(CRISIS).uncertainty == "low"
    assert reply("My uncle took his own life").uncertainty == "medium"
    assert reply("witaj, mam zły dzień", locale="pl").uncertainty == "high"


@pytest.mark.parametrize("mode", ["strict", "compat", "enhanced"])
@given(
    secret=st.text(alphabet="qxzjvk0123456789", min_size=12, max_size=20),
    risk=st.sampled_from(["low", "medium", "high"]),
    extra=st.sampled_from(["", "I want to die ", "my friend killed himself ", "$& $$ \\1 "]),
)
def test_what_the_user_wrote_is_never_repeated(mode, secret, risk, extra):
    outcome = reply(extra + secret, risk, mode)
    assert secret not in json.dumps([outcome.assumptions, outcome.output], ensure_ascii=False)


@given(
    message=st.text(min_size=1, max_size=80),
    risk=st.sampled_from(["low", "medium", "high"]),
    more=st.fixed_dictionaries(
        {},
        optional={
            "locale": st.text(max_size=12),
            "support_mode": st.sampled_from(["general", "presence", "practical"]),
        },
    ),
    mode=st.sampled_from(["strict", "compat", "enhanced"]),
)
def test_every_answer_keeps_the_schema_of_its_mode(message, risk, more, mode):
    outcome = reply(message, risk, mode, **more)
    output = json.loads(json.dumps(outcome.output))
    jsonschema.validate(output, SKILL.contracts[mode].output_schema)
    assert outcome.assumptions


def test_the_schemas_hold_for_a_crisis_and_a_mention_and_for_grief():
    for message in (CRISIS, "My friend killed herself", "hello"):
        for locale in ("en", "es-MX", "xx"):
            output = json.loads(json.dumps(reply(message, locale=locale).output))
            jsonschema.validate(output, SKILL.contracts["enhanced"].output_schema)
        for mode in ("strict", "enhanced"):
            output = json.loads(json.dumps(grief(message, mode=mode).output))
            jsonschema.validate(output, GRIEF_SKILL.contracts[mode].output_schema)


@pytest.mark.parametrize(
    ("given_", "problem"),
    [
        ({"message": 3, "risk_level": "low"}, "'message' must be a string"),
        ({"message": "x", "risk_level": "huge"}, "'risk_level' must be one of: low, medium, high"),
        ({"message": "x", "risk_level": "low", "locale": 7}, "'locale' must be a string"),
        ({"message": "x", "risk_level": "low", "support_mode": "loud"}, "'support_mode' must be one of"),
    ],
)
def test_a_bad_value_is_refused_in_a_sentence(given_, problem):
    with pytest.raises(SkillInputError, match=problem):
        handler("supportive_reply")(given_, "enhanced")


def test_against_violence_the_police_is_named_where_the_emergency_number_is_another_one():
    message = "Mein Mann schlägt mich"
    assert "ruf 112 an" in reply(message, locale="de-DE").output["escalation_guidance"][0]
    assert "ruf die Polizei an" in reply(message, locale="de-JP").output["escalation_guidance"][0]
    assert "ruf die Polizei an" in reply(message).output["escalation_guidance"][0]


def test_the_words_of_a_neighbouring_language_do_not_change_that_of_the_reply():
    assert reply("Si me deja otra vez, me mato, te lo juro").output["reply"].startswith("Me alegra")


def test_who_is_hurt_by_others_is_answered_that_also_where_the_phrasing_sounds_like_a_crisis():
    told = "My husband slammed me against the wall last night. He says if I tell anyone he'll take the kids."
    assert (
        reply(told)
        .output["reply"]
        .startswith("I am glad you told me. What is being done to you is not your fault")
    )
    assert (
        reply(f"{told} I want to kill myself.")
        .output["reply"]
        .startswith("I am really glad you told me this.")
    )


def test_who_denies_to_be_in_danger_is_answered_what_the_message_is_about():
    output = reply("I'm not suicidal, I just feel lonely since moving to Leeds for work.").output
    assert output["reply"].startswith("Being alone with so much is hard")
    assert output["resources"]
