"""Cure claims, scores told as diagnoses, guilt, comparison and the method of a suicide, and what is none of these."""

import functools

import pytest

from comity_skills.rewrite_depression_sensitive_content import SKILL
from tests.prepared import handler_of


@functools.cache
def handler():
    return handler_of(SKILL)


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


FRAMES = {
    "in the head, or a choice": (
        (
            "The pain is only in her mind.|It is all in their heads.|Anxiety is a figment of your imagination."
            "|Being sad is just a decision.|That's simply a matter of willpower.|He chose to stay depressed."
            "|Count your blessings.|You should be more grateful."
        ),
        (
            "It is not all in your head.|It's a choice between two plans.|It's your choice which therapist you see."
            "|I keep the list all in my head.|Depression is not a choice."
        ),
    ),
    "too weak": (
        (
            "They are too lazy to get help.|He was too weak to ask for help.|Some are so selfish to leave."
            "|With enough discipline anyone can beat depression.|All you need is positive thinking to get well."
            "|She is too soft to cope."
        ),
        (
            "She was too weak to stand.|The signal is too weak to load.|With treatment you can get better."
            "|I'm too weak to fight today."
        ),
    ),
    "a promise of recovery": (
        (
            "Be medication free in 3 weeks.|Get off your meds within a few days.|Pill-free for life!"
            "|Every patient makes a full recovery.|With therapy everyone gets better.|All our clients recover fully."
            "|Sleep better in ten days, guaranteed."
        ),
        (
            "Many people recover fully.|Not everyone recovers completely.|Delivered in 3 days, guaranteed."
            "|This is a drug-free workplace."
        ),
    ),
    "parents": (
        (
            "Mothers who stay at home never raise anxious kids.|It is caused by bad parenting.|Depression stems from absent fathers."
            "|Good parents don't have suicidal children.|It is the result of a poor upbringing, of weak mothers, due to working mothers."
            "|Families that eat together seldom have depressed teens."
        ),
        (
            "Depression is not caused by bad parenting.|Parents who worry can call us.|Good parents make mistakes too."
            "|Families that travel never have to queue."
        ),
    ),
    "service shame": (
        (
            "When you again fail to reply, we close the file.|Repeated failure to engage will end the therapy."
            "|The client failed to turn up.|This suggests a lack of effort.|She is clearly not committed to treatment."
            "|You don't want to get better.|You disappointed your family.|You gave up again.|You have let your group down."
        ),
        (
            "Lack of motivation is a symptom of depression.|The app failed to load.|You let your hair down."
            "|If you cannot attend, call us.|We let you down."
        ),
    ),
    "rank": (
        (
            "Your sleep is lower than 80% of our users.|You are in the bottom 10%.|Your mood is below average."
            "|You are more anxious than most people.|That's less active than your peers and worse than average."
            "|You rank in the lowest quarter."
        ),
        (
            "Your bill is lower than 80% of households.|Rainfall was below average.|You feel better than yesterday."
            "|Sales are worse than average."
        ),
    ),
    "a question that shames": (
        (
            "How long will you keep suffering?|Do you really want to stay lonely?|Isn't it time you moved on?"
            "|Don't you want to be happy?|Why stay miserable?|Can you afford to do nothing?|Haven't you suffered enough?"
        ),
        "Can you afford to pay rent?|How long will you stay?|Do you want to stay logged in?|Do you want to be reminded?",
    ),
    "no excuse": (
        (
            "That's no excuse.|There is absolutely no excuse for staying in bed.|Being tired is not an excuse."
            "|You've got no more excuses.|It is never an excuse.|They have no real excuse."
        ),
        "No excuse needed to rest.|There is no excuse for bullying.|You have every excuse.|Excuse me, is this free?",
    ),
    "stigma of suicide and illness": (
        (
            "Killing yourself is cowardly.|Suicide is the ultimate sin.|He took the coward's way out."
            "|It was a permanent answer to a passing feeling.|Suicide was his only way out.|Suicide is just attention seeking."
            "|Psychiatric patients are often violent.|Never hire anyone with mental problems."
            "|Depressed people shouldn't have children.|Is she a manic-depressive?"
        ),
        (
            "Suicide is not selfish.|It is a myth that suicide is selfish.|The pension debt is a time bomb."
            "|Most people with schizophrenia are not violent.|We hire people with a mental illness."
        ),
    ),
}


@pytest.mark.parametrize("text", [one for bad, _ in FRAMES.values() for one in bad.split("|")])
def test_that_a_frame_is_seen_with_any_filling(text):
    flags = answer(text)["flags"]
    assert any(flag["alternative"] and flag["reason"] for flag in flags)
    assert answer(text)["result"] == text


@pytest.mark.parametrize("text", [one for _, fine in FRAMES.values() for one in fine.split("|")])
def test_that_the_harmless_neighbour_of_a_frame_is_left_in_peace(text):
    assert answer(text)["flags"] == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Two pupils killed themselves in the library.", "library"),
        ("She died by suicide after leaving a letter.", "letter"),
        ("He took his own life by stepping in front of a train.", "train"),
        ("Her suicide: she took a large overdose of tablets.", "overdose"),
        ("He killed himself with a shotgun.", "shotgun"),
        ("The suicide of a man who leapt from the old bridge.", "bridge"),
    ],
)
def test_that_a_report_of_a_suicide_is_asked_to_leave_out_method_place_and_note(text, told):
    flags = [flag for flag in answer(text)["flags"] if flag["category"] == "suicide_wording"]
    assert any(told in flag["text"] and "eave out" in flag["alternative"] for flag in flags)


@pytest.mark.parametrize(
    "text",
    [
        "She died by suicide last year.",
        "She left a note for her flatmate.",
        "The barrier on the bridge helps suicide prevention.",
        "He jumped from the roof into the pool.",
        "A suicide prevention training in the library.",
    ],
)
def test_that_a_death_without_details_and_details_without_a_death_are_left_in_peace(text):
    assert answer(text)["flags"] == []


@pytest.mark.parametrize(
    "text",
    [
        "Don't tell them to cheer up.",
        "It is easy to think they are just lazy or attention seeking.",
        "Never tell a patient that it is all in their head.",
        "Many people still believe that depression is a choice.",
        "Instead of saying snap out of it, ask how they are.",
        "It is often dismissed as attention seeking.",
    ],
)
def test_that_wording_the_writer_rejects_is_not_flagged_as_the_writers(text):
    assert answer(text)["flags"] == []


@pytest.mark.parametrize("text", ["Don't tell me you are lazy.", "Don't ask why, but cheer up."])
def test_that_a_dont_which_rejects_something_else_hides_nothing(text):
    assert answer(text)["flags"]


@pytest.mark.parametrize(
    "text",
    [
        "She committed suicide attempts twice before she was 20.",
        "They commit suicide attempts under stress.",
        "Members committed suicide pacts.",
        "He commits suicide bombings.",
    ],
)
def test_that_an_attempt_is_not_made_into_a_death(text):
    assert answer(text)["result"] == text


def test_what_somebody_was_told_is_not_what_the_writer_says():
    text = "Being told to cheer up rarely helps somebody with depression. Listening often does."
    assert answer(text)["flags"] == []
    said = "Those who call in sick leave the work to the rest of us. Pull yourselves together."
    assert "minimizing" in {flag["category"] for flag in answer(said)["flags"]}
