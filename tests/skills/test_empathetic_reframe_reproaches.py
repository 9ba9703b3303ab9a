"""Reproaches, shouting, contempt and threats: what `empathetic_reframe` drops, what it flags, and what it leaves in peace."""

import functools
from importlib.resources import files

import pytest

from comity.skills.empathetic_reframe import SKILL


@functools.cache
def handler():
    place = files("comity.skills")
    return SKILL.prepare({name: place.joinpath(name).read_bytes() for name in SKILL.data})


def outcome(message, tone="warm"):
    return handler()({"message": message, "tone": tone}, "enhanced")


def flags(message, tone="warm"):
    return outcome(message, tone).output["flags"]


def categories(message):
    return {flag["category"] for flag in flags(message)}


def reframed(message, tone="warm"):
    return outcome(message, tone).output["reframed_message"]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("As I already told you, the shop is closed on Sunday.", "The shop is closed on Sunday."),
        ("Like I said, I can't come.", "I can't come."),
        ("The shop is closed, as I already said.", "The shop is closed."),
        (
            "As I already explained in my email of 3 May, the link expires.",
            "As I explained in my email of 3 May, the link expires.",
        ),
        (
            "Per my last email, the deadline is Friday.",
            "As I wrote in my last email, the deadline is Friday.",
        ),
        (
            "The contract clearly states that pets are not allowed.",
            "The contract states that pets are not allowed.",
        ),
        ("Obviously, we can't do that.", "We can't do that."),
        ("You claim that the parcel never arrived.", "You say that the parcel never arrived."),
        ("You people never answer.", "You never answer."),
        ("To be honest, your plan will not work.", "Your plan will not work."),
        ("Just send me the file.", "Please send me the file."),
        ("Simply update your address.", "Please update your address."),
        ("Use the new template.", "Please use the new template."),
        ("Redo it by tomorrow 9am.", "Please redo it by tomorrow 9am."),
        ("Don't forget to sign the form.", "Please don't forget to sign the form."),
        ("Where is my parcel?? I want it NOW!!!", "Where is my parcel? I want it now!"),
        ("Why is it late AGAIN?!", "Why is it late again?"),
        ("You did not submit the timesheet on time.", "The timesheet was not submitted on time."),
    ],
)
def test_a_reproach_that_says_nothing_goes_and_the_matter_stays(message, expected):
    assert reframed(message) == expected
    assert reframed(message, "formal") != message
    assert reframed(message, "neutral") == message
    for mode in ("strict", "compat"):
        assert handler()({"message": message}, mode).output["reframed_message"] == message


@pytest.mark.parametrize(
    "message",
    [
        "Do it exactly as I said.",
        "As I said, Anna left.",
        "As I said, iPhones are cheaper.",
        "You claim that amount on your taxes.",
        "If you claim it on your taxes, we keep the receipt.",
        "Clearly, the parcel was stolen.",
        "You obviously did not see it.",
        "To be honest, I love your plan.",
        "Just send the first page.",
        "Just call us any time.",
        "Test this week was cancelled.",
        "Report by Anna is attached.",
        "Update today: the lift works.",
        "Take the stairs.",
        "Save the date!",
        "Use it or lose it.",
        "Happy birthday!!! You are great!!",
        "Do NOT take more than 2 tablets NOW.",
        "Press the STOP button.",
        "WHERE IS MY REFUND?",
        "Set a ?? b in the code.",
        "You did not finish the race.",
        "You did not meet the client.",
        'She wrote: "as I already told you, it is late".',
    ],
)
def test_what_may_mean_something_is_not_dropped(message):
    assert reframed(message) == message


@pytest.mark.parametrize(
    ("message", "category"),
    [
        ("Why can't you just follow simple instructions?", "contempt"),
        ("How hard is it to send a file?", "contempt"),
        ("What part of no don't you understand?", "contempt"),
        ("I told you three times to use the new template.", "dismissal"),
        ("We asked you twice to close the gate.", "dismissal"),
        ("Jayden is lazy and disruptive.", "insult"),
        ("Our new intern is incompetent.", "insult"),
        ("She does not care about her grades.", "insult"),
        ("You are so selfish.", "insult"),
        ("It's honestly so selfish.", "contempt"),
        ("That was really inconsiderate.", "contempt"),
        ("You always cancel last minute.", "always_never"),
        ("You never submit timesheets on time.", "always_never"),
        ("Your report was a mess.", "contempt"),
        ("Your slides were sloppy.", "contempt"),
        ("Your English is terrible.", "contempt"),
        ("You haven't been taking care of yourself.", "blame_or_order"),
        ("Take it twice a day like you were told.", "blame_or_order"),
        ("I know you'll make it all about you like always.", "blame_or_order"),
        ("I bet you'll just complain.", "blame_or_order"),
        ("Either shut it up or I call the city.", "blame_or_order"),
        ("Either shut it up or I call the city.", "contempt"),
        ("If you mess this up one more time you're fired.", "blame_or_order"),
        ("I don't care what your excuse is.", "contempt"),
        ("I'm tired of the excuses.", "contempt"),
        ("If you had bothered to contact us, this would be solved.", "blame_or_order"),
        ("Whoever keeps stealing my yogurt: stop.", "blame_or_order"),
        ("You need to move on, it's been six months already.", "hollow_empathy"),
        ("We cannot extend it. Stop asking.", "dismissal"),
        ("SEND ME THE FILE", "shouting"),
    ],
)
def test_contempt_blame_and_threats_in_plain_words_are_flagged_with_what_could_stand_there(message, category):
    found = [flag for flag in flags(message, "neutral") if flag["category"] == category]
    assert found
    assert all(flag["alternative"] and flag["reason"] for flag in found)


@pytest.mark.parametrize(
    "message",
    [
        "Why can't you come over?",
        "How hard is it to learn Dutch?",
        "I told you about the house.",
        "My dog is lazy.",
        "He is not lazy.",
        "It's not rude to ask.",
        "The soup was disgusting.",
        "You always cancel the noise, great headphones.",
        "I know you'll do great.",
        "Either you call me or I call you.",
        "I don't care which one we take.",
        "It's been two years now.",
        "Whoever found my keys, thank you.",
        "You forgot your password.",
        "Your English is excellent.",
    ],
)
def test_harmless_neighbours_of_contempt_blame_and_threats_are_left_in_peace(message):
    assert flags(message) == []


def test_one_place_gets_one_advice():
    found = flags(
        "As I already explained in my previous email, it expires. You obviously did not read it.", "neutral"
    )
    assert [flag["text"] for flag in found] == ["As I already explained in", "You obviously did not read"]


def test_an_alternative_offers_nothing_that_the_writer_did_not_offer():
    for message, words in {
        "There is nothing I can do.": "I am not able to change this; the decision stands.",
        "You never paid back the 200 from last summer.": "The amount of … is still open; it was due on <date>.",
        "I told you three times to use the new template.": "Please use the new template.",
    }.items():
        assert [flag["alternative"] for flag in flags(message)] == [words]


def test_a_feeling_is_no_duty():
    for message in ("You need to move on.", "You must get over it.", "You have to calm down."):
        assert "blame_or_order" not in categories(message)


def test_a_no_may_stand_before_the_regret():
    assert (
        reframed("No, we cannot extend the deadline.")
        == "No, we are sorry, but we cannot extend the deadline."
    )
    assert reframed("No, we can't wait to see you.") == "No, we can't wait to see you."
