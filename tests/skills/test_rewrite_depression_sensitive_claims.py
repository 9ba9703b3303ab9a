"""Cure claims, scores told as diagnoses, guilt, comparison and the method of a suicide, and what is none of these."""

import functools
from importlib.resources import files

import pytest

from comity.skills.rewrite_depression_sensitive_content import SKILL


@functools.cache
def handler():
    place = files("comity.skills")
    return SKILL.prepare({name: place.joinpath(name).read_bytes() for name in SKILL.data})


def answer(text, mode="enhanced", **more):
    return handler()({"text": text, **more}, mode).output


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("Beat depression for good in 21 days.", "medical_claim"),
        ("End anxiety once and for all with our app.", "medical_claim"),
        ("Our course permanently erases anxiety.", "medical_claim"),
        ("Be depression-free in 3 weeks!", "medical_claim"),
        ("97% of clients are cured.", "medical_claim"),
        ("Our guaranteed natural formula.", "medical_claim"),
        ("No more pills!", "medical_claim"),
        ("Ditch your antidepressants.", "medical_claim"),
        ("Breathwork rewires your brain.", "medical_claim"),
        ("Exercise is the best antidepressant.", "medical_claim"),
        ("Your score: 19. You are severely depressed.", "medical_claim"),
        ("Your score of 12 means that you have moderate depression.", "medical_claim"),
        ("Your therapist will be so disappointed in you.", "shame_blame"),
        ("Your plants will miss you!", "shame_blame"),
        ("Everyone else on your team has already finished the survey.", "shame_blame"),
        ("You're the only one left!", "shame_blame"),
        ("What kind of mother doesn't bond with her baby?", "shame_blame"),
        ("Good mothers never complain.", "shame_blame"),
        ("Call before you let the whole team down.", "shame_blame"),
        ("Stop making excuses.", "shame_blame"),
        ("Sick days for mental health must be real.", "stigma"),
        ("Snap out of the winter blues.", "minimizing"),
        ("Happiness is a choice.", "minimizing"),
        ("They are prone to self-pity.", "judgmental"),
        ("He hanged himself in his garage.", "suicide_wording"),
        ("She lost her battle with depression.", "framing"),
        ("Don't let depression win.", "framing"),
        ("Buy now or stay stuck forever.", "hopeless"),
        ("Book your seat before midnight!", "urgency_pressure"),
    ],
)
def test_claims_guilt_and_methods_are_flagged_with_what_could_stand_there(text, category):
    flags = [flag for flag in answer(text)["flags"] if flag["category"] == category]
    assert flags
    assert all(flag["alternative"] and flag["reason"] for flag in flags)
    assert answer(text)["result"] == text


@pytest.mark.parametrize(
    "text",
    [
        "Overcoming depression takes time.",
        "Nobody can end depression for good.",
        "There are no more pills in the box.",
        "Take no more pills than prescribed.",
        "Don't ditch your antidepressants.",
        "Guaranteed delivery by Friday.",
        "9 out of 10 patients get better.",
        "Which is the best antidepressant?",
        "If you are severely depressed, call us.",
        "You told us that you have severe depression.",
        "Your score suggests moderate symptoms.",
        "Your customers will be disappointed with the delay.",
        "We will miss you.",
        "Everyone has already received the mail.",
        "You're the last one left in the queue.",
        "What kind of person are you looking for?",
        "You may feel that you let the team down.",
        "Choose happiness or sadness in the mood log.",
        "He shot himself in the foot with that plan.",
        "He fell from the ladder to his death.",
        "You can go or stay home.",
        "Submit the form before midnight.",
        "Our so-called depression glass collection",
    ],
)
def test_plain_neighbours_of_claims_guilt_and_methods_are_no_flags(text):
    assert answer(text)["flags"] == []


def test_more_is_reworded_where_it_says_the_same():
    for text, expected in {
        "Depressives in particular need rest.": "People with depression in particular need rest.",
        "We treat epileptics and anorexics.": "We treat people with epilepsy and people with anorexia.",
        "Manic depressives can call us.": "People with bipolar disorder can call us.",
        "The psychotics ward": "The psychotics ward",
        "Please man up and talk to your manager.": "Please talk to your manager.",
        "Cheer up and call a friend.": "Call a friend.",
        "Man up and you will win.": "Man up and you will win.",
        "He told me to man up and I cried.": "He told me to man up and I cried.",
        "This is a crazy good sale!": "This is an extremely good sale!",
        "Insane discounts up to 60%": "Incredible discounts up to 60%",
        "An insane deal, a crazy deal.": "An incredible deal, a remarkable deal.",
        "You did not complete your mood log.": "Your mood log was not completed.",
    }.items():
        assert answer(text)["result"] == expected
        for mode in ("strict", "compat"):
            assert answer(text, mode)["result"] == text


def test_an_audit_says_of_nothing_that_it_was_reworded():
    (flag,) = answer("He committed suicide in 2015.", mode="enhanced")["flags"]
    assert flag["reworded"] is True
    (flag,) = handler()({"text": "He committed suicide in 2015.", "mode": "audit"}, "enhanced").output[
        "flags"
    ]
    assert flag["reworded"] is False
    assert flag["alternative"] == "died by suicide"


def test_the_output_itself_says_that_a_foreign_text_was_not_read():
    output = answer(
        "La d\u00e9pression est un signe de faiblesse. Secouez-vous et souriez, \u00e7a passera !"
    )
    assert output["safety_flags"] == ["Not read: the text is not in English; a person has to read it"]
    assert output["pattern_count"] == 0
