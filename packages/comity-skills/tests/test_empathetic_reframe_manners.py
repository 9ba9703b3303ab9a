"""Rudeness, apologies that nobody made, and duties: what `empathetic_reframe` says of each, and what it leaves in peace."""

import functools

import pytest

from comity_skills.empathetic_reframe import SKILL
from tests.prepared import handler_of

RUDE = ("swearing", "insult", "contempt", "always_never")


@functools.cache
def handler():
    return handler_of(SKILL)


def outcome(message, tone="warm"):
    return handler()({"message": message, "tone": tone}, "enhanced")


def flags(message, tone="warm"):
    return outcome(message, tone).output["flags"]


def categories(message):
    return {flag["category"] for flag in flags(message)}


def reframed(message):
    return outcome(message).output["reframed_message"]


@pytest.mark.parametrize(
    ("message", "category"),
    [
        ("wtf is this shit, the report is 3 days late", "swearing"),
        ("The shower is shit.", "swearing"),
        ("Where is my damn parcel?", "swearing"),
        ("This is bullshit.", "swearing"),
        ("Fix the f***ing build", "swearing"),
        ("For fuck's sake, answer me.", "swearing"),
        ("What the hell happened?", "swearing"),
        ("Shut up and listen to me, you never let anybody finish!", "contempt"),
        ("Dude, that's a stupid question, google it.", "contempt"),
        ("What a dumb idea.", "contempt"),
        ("Hey guys, your code is garbage and breaks the build", "contempt"),
        ("Your report was absolutely useless.", "contempt"),
        ("Your handwriting is terrible.", "contempt"),
        ("If you don't understand this, you shouldn't work here.", "contempt"),
        ("What is wrong with you?", "contempt"),
        ("Seriously, what\u2019s wrong with you", "contempt"),
        ("How many times do I have to tell you?", "contempt"),
        ("Do you even read my mails?", "contempt"),
        ("If you don't like it, quit.", "contempt"),
        ("Just google it.", "contempt"),
        ("I am sick of your excuses.", "contempt"),
        ("Go to hell.", "contempt"),
        ("You are so stupid.", "insult"),
        ("You idiot, that was the wrong file.", "insult"),
        ("You're a complete moron.", "insult"),
        ("Are you stupid?", "insult"),
        ("You are useless and lazy.", "insult"),
        ("Thanks for nothing, asshole", "insult"),
        ("You're such a loser.", "insult"),
        ("I hate you.", "insult"),
        ("You piece of shit.", "insult"),
        ("You are a waste of space.", "insult"),
        ("You liar!", "insult"),
        ("Your idea sucks.", "contempt"),
        ("Can't you read?", "contempt"),
        ("Why don't you ever listen?", "always_never"),
        ("You always ruin everything", "always_never"),
        ("You never listen to me.", "always_never"),
        ("You're always late.", "always_never"),
        ("You keep interrupting me.", "always_never"),
        ("Why do you never answer?", "always_never"),
        ("You never let anyone finish.", "always_never"),
    ],
)
def test_rudeness_is_flagged_with_what_could_stand_there_and_why(message, category):
    for tone in ("neutral", "warm", "formal"):
        found = [flag for flag in flags(message, tone) if flag["category"] == category]
        assert found, tone
        assert all(flag["alternative"] and flag["reason"] for flag in found)
    assert reframed(message) == message


@pytest.mark.parametrize(
    "message",
    [
        "The garbage collection runs at night.",
        "Your code is garbage collected.",
        "Your blue bin is rubbish only.",
        "You always bring the best cake.",
        "You never let me down.",
        "You never complain, and I admire that.",
        "You never pay for shipping.",
        "You can always ask me.",
        "You never know.",
        "There are no stupid questions.",
        "This may be a stupid question, but where is the door?",
        "I made a stupid mistake.",
        "You are not stupid.",
        "Nobody thinks you are stupid.",
        "I felt like an idiot.",
        "An idiot-proof guide to baking.",
        "The doctors will find out what is wrong with you.",
        "What is wrong with your car?",
        "You can google it later.",
        "The classic shiitake recipe.",
        "The dam holds, the sheet is new, and Dick Turner lives in Scunthorpe.",
        "If you don't like it, you can return it.",
        "You shouldn't work here alone at night.",
        "The shop shuts up at six.",
        "Your headache sounds awful, rest well.",
        "Do you know whether the clown comes at five?",
        "Hello, the dog is stupidly happy.",
        "Trash goes out on Monday; your day is Tuesday.",
        "Your uncle is no fool.",
        "He is sick of yoghurt.",
        "You are a pig farmer.",
        "You time your runs well, and you space them.",
        "You fool around and still win.",
        "I never said you are an idiot.",
        "You are not an idiot.",
        "Are you serious about the house?",
        "You are never late, thank you.",
        "You never learn a language by apps alone.",
        "You always forget how good you are.",
    ],
)
def test_harmless_neighbours_of_rude_words_are_left_in_peace(message):
    assert categories(message).isdisjoint(RUDE)


def test_swearing_at_a_thing_is_no_insult():
    assert categories("the shower is shit") == {"swearing"}
    assert categories("This printer is a piece of crap.") == {"swearing"}


def test_quoted_rudeness_is_somebody_elses():
    (flag,) = flags('He wrote "you idiot" to Anna.')
    assert (flag["quoted"], flag["severity"]) == (True, "low")
    assert "alternative" not in flag


@pytest.mark.parametrize(
    "message",
    [
        "Your work is what one gets for hiring friends.",
        "Hey team, not one of us has read the thing that this is about",
    ],
)
def test_a_message_to_somebody_in_which_no_rule_found_anything_is_not_called_sure(message):
    got = outcome(message)
    assert got.output["flags"] == []
    assert got.uncertainty == "medium"
    assert "does not show" in got.output["rationale"][0]


def test_a_plain_statement_to_nobody_may_be_sure():
    assert outcome("The shop is open from nine to five on all days.").uncertainty == "low"


def test_a_message_in_another_language_is_said_to_be_unread():
    got = outcome("Reiß dich zusammen, andere haben es viel schlimmer als du.")
    assert got.uncertainty == "high"
    assert got.output["rationale"] == ["Nothing was reworded: the message is not in English and was not read"]


@pytest.mark.parametrize(
    "message",
    [
        "Unfortunately, you are right.",
        "Unfortunately I won the bet, so you owe me a beer.",
        "Unfortunately, it is raining and we are all wet.",
        "Unfortunately, you are not wrong, and I know it.",
        "Unfortunately they did not win the match, and I am annoyed.",
        "Unfortunately I love him.",
        "Unfortunately, I can't disagree.",
        "Unfortunately, that is how we all learn.",
        "Unfortunately, we were right about the weather.",
        "Unfortunately, our rivals were faster.",
        "Unfortunately I don't like him.",
        "Unfortunately I did not win.",
        "Unfortunately I could not sleep.",
        "Unfortunately the film was not good, I think.",
        "Unfortunately, you must pay 20 euros by Friday.",
        "Unfortunately Dr. Smith is not available.",
        "Unfortunately, your parcel was lost.",
    ],
)
def test_unfortunately_makes_no_apology_that_nobody_made(message):
    assert reframed(message) == message


def test_regret_is_said_by_whoever_speaks_in_the_message():
    for message, expected in {
        "Unfortunately, you must pay our fee of 20 euros.": "We are sorry, but you must pay our fee of 20 euros.",
        "Unfortunately, your parcel was lost. I will look for it.": (
            "I am sorry, but your parcel was lost. I will look for it."
        ),
        "Unfortunately the event is cancelled. We will write to you.": (
            "We are sorry, but the event is cancelled. We will write to you."
        ),
        "Unfortunately I cannot come on Monday.": "I am sorry, but I cannot come on Monday.",
        "Unfortunately there is no room left, we checked.": "We are sorry, but there is no room left, we checked.",
        "Unfortunately our shop is not open on Sunday.": "We are sorry, but our shop is not open on Sunday.",
        "Unfortunately your place was not kept, we gave it away.": (
            "We are sorry, but your place was not kept, we gave it away."
        ),
        "Unfortunately we are sold out.": "We are sorry, but we are sold out.",
        "Unfortunately, I have to cancel our lunch.": "I am sorry, but I have to cancel our lunch.",
    }.items():
        assert reframed(message) == expected


def test_where_nobody_speaks_bad_news_is_called_unfortunate_and_no_we_is_invented():
    for message, expected in {
        "Your request was denied on 3 May.": "Unfortunately, your request was denied on 3 May.",
        "Refunds are not possible.": "Unfortunately, refunds are not possible.",
        "Your loan was not approved. Unfortunately, the bank is closed.": (
            "Your loan was not approved. Unfortunately, the bank is closed."
        ),
    }.items():
        assert reframed(message) == expected


@pytest.mark.parametrize(
    "message",
    [
        "You must not take more than 4 tablets",
        "You must take the tablets with water.",
        "You must wear a helmet at all times.",
        "You have to leave the building by the nearest emergency exit.",
        "You must not mix this with bleach.",
        "You need to call an ambulance.",
        "If you need to cancel, call us.",
        "Everything you need to know is below.",
        "Do you have to work tomorrow?",
        "You don't need to come in tomorrow.",
    ],
)
def test_a_safety_instruction_and_what_is_no_order_get_no_other_wording(message):
    assert flags(message) == []
    assert reframed(message) == message


def test_a_prohibition_is_not_turned_into_a_request():
    (flag,) = flags("You must not park here.")
    assert flag["text"] == "You must not"
    assert "not allowed" in flag["alternative"]
    (flag,) = flags("You must send the form again.")
    assert flag["alternative"] == "Please …, because …"


@pytest.mark.parametrize(
    "message",
    [
        "Don't worry, but you don't need to come in tomorrow, the shift is covered.",
        "Don't worry, your order is safe.",
        "Don't worry if you are late.",
        "Don't worry about the parking, it is free.",
    ],
)
def test_practical_reassurance_is_no_hollow_empathy(message):
    assert categories(message) == set()


def test_a_worry_that_is_waved_away_is_answered_with_a_question():
    for message in ("Don't worry about it.", "Don't worry!", "Don't worry, it'll be fine."):
        flag = next(flag for flag in flags(message) if flag["text"].startswith("Don't worry"))
        assert flag["category"] == "hollow_empathy"
        assert flag["alternative"] == "What worries you most about it?"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "Your mother's account has been closed since she is deceased. Send us the death certificate.",
            (
                "We are sorry for your loss. Your mother's account has been closed since she is deceased. "
                "Please send us the death certificate."
            ),
        ),
        (
            "Dear Ms Lee,\n\nYour late husband's pension ends on 3 May. Return the form by 10 May.",
            (
                "Dear Ms Lee,\n\nCondolences on your loss. Your late husband's pension ends on 3 May. "
                "Please return the form by 10 May."
            ),
        ),
        (
            "Dear Ms. Lee, after your father died, his policy lapsed. Call us.",
            "Dear Ms. Lee, we are sorry for your loss. After your father died, his policy lapsed. Please call us.",
        ),
    ],
)
def test_a_letter_to_somebody_bereaved_begins_with_condolence(message, expected):
    assert reframed(message) == expected
    for mode in ("strict", "compat"):
        assert handler()({"message": message}, mode).output["reframed_message"] == message


@pytest.mark.parametrize(
    "message",
    [
        "If your mother dies, call your lawyer about the estate.",
        "Your mother's plants died.",
        "Unfortunately, your mother died.",
        "I lost my mother last week.",
        "We are sorry for the loss of your late husband. His account is closed.",
    ],
)
def test_no_condolence_for_what_did_not_happen_or_is_news_itself_or_was_said(message):
    assert reframed(message) == message


def test_the_news_of_a_death_or_an_illness_is_flagged_and_left():
    for message in (
        "Your father died last night.",
        "Your biopsy shows a malignant tumour.",
        "You have cancer.",
    ):
        assert categories(message) == {"grave_news"}
        assert reframed(message) == message
    for message in ("Your scan shows no signs of cancer.", "You have an appointment at the cancer centre."):
        assert categories(message) == set()


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Stop emailing us every day.", "Please stop emailing us every day."),
        ("Do not park here.", "Please do not park here."),
        ("Pay 300 euros by Friday.", "Please pay 300 euros by Friday."),
        ("Return your laptop. Thank you.", "Please return your laptop. Thank you."),
        (
            "Call us. Bring your id. Sign the form. Pay the fee.",
            "Please call us. Bring your id. Sign the form. Pay the fee.",
        ),
    ],
)
def test_an_order_becomes_a_request_and_asks_the_same(message, expected):
    assert reframed(message) == expected
    assert handler()({"message": message}, "compat").output["reframed_message"] == message


@pytest.mark.parametrize(
    "message",
    [
        "Bring the water to a boil. Add salt.",
        "Leave the building at once in case of fire.",
        "Send us a postcard any time!",
        "Please send us the form.",
        "Stop smoking and your lungs recover.",
        "Come to our party on Friday!",
        "Have a nice day.",
        'She said: "Send us the form."',
    ],
)
def test_a_recipe_a_warning_an_invitation_and_a_quotation_get_no_please(message):
    assert reframed(message) == message


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "We cannot offer you the job. We had better candidates.",
            "We are sorry, but we cannot offer you the job. Other candidates were closer to what we were looking for.",
        ),
        ("We rejected your claim of 3 May.", "We are sorry, but we rejected your claim of 3 May."),
        (
            "We have decided to go with another firm.",
            "We are sorry, but we have decided to go with another firm.",
        ),
        (
            "Your application for the flat has been rejected.",
            "Unfortunately, your application for the flat has been rejected.",
        ),
        ("You do not qualify for the grant.", "Unfortunately, you do not qualify for the grant."),
        (
            "Your surgery has been postponed to 4 June.",
            "Unfortunately, your surgery has been postponed to 4 June.",
        ),
    ],
)
def test_a_rejection_is_told_by_somebody_who_minds(message, expected):
    assert reframed(message) == expected


@pytest.mark.parametrize(
    "message",
    [
        "Your booking has been cancelled as you requested.",
        "Your fine was cancelled.",
        "We have decided to accept your offer.",
        "You have not been selected for the audit.",
        "We have better candidates than last year.",
    ],
)
def test_what_was_asked_for_or_is_welcome_is_no_rejection(message):
    assert reframed(message) == message


@pytest.mark.parametrize(
    ("message", "category"),
    [
        ("We will answer when we have time.", "dismissal"),
        ("Nobody else has complained.", "dismissal"),
        ("I told you already.", "dismissal"),
        ("It's company policy, there's nothing I can do.", "dismissal"),
        ("This is the third time you have been late.", "always_never"),
        ("Your test results are abnormal.", "grave_news"),
        ("Read the manual first.", "dismissal"),
        ("You are not good enough for this team.", "dismissal"),
        ("You still owe us 200 euros.", "blame_or_order"),
        ("Do it or we will sue.", "blame_or_order"),
        ("You are fired.", "grave_news"),
        ("Your son is lazy and disruptive.", "insult"),
    ],
)
def test_dismissals_debts_threats_and_verdicts_are_flagged_with_what_could_stand_there(message, category):
    found = [flag for flag in flags(message) if flag["category"] == category]
    assert found
    assert all(flag["alternative"] and flag["reason"] for flag in found)


def test_hard_words_to_nobody_are_not_called_sure():
    assert outcome("No refunds and no exceptions for anybody at all.").uncertainty == "medium"
