"""Reproaches, shouting, contempt and threats: what `empathetic_reframe` drops, what it flags, and what it leaves in peace."""

import functools

import pytest

from comity_skills.empathetic_reframe import SKILL
from tests.prepared import handler_of


@functools.cache
def handler():
    return handler_of(SKILL)


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


FRAMES = {
    "a question that only shames": (
        (
            "Why would anyone leave the door open?|Why on earth did you delete it?|Why can't you just follow the list?"
            "|Why didn't you even check the date?|What were you thinking?|How could you forget the keys?"
            "|Is it really that hard to lock a door?|What part of no dogs don't you understand?"
        ),
        "Why would you recommend us?|Why did you choose this course?|Why can't you log in?|Why don't you join us?",
    ),
    "it could not be simpler": (
        (
            "How hard can it be?|How difficult could this possibly be?|The steps could not be clearer."
            "|It's not that complicated.|This isn't brain surgery.|A toddler could do it.|Anyone who can read would know."
        ),
        "Signing up couldn't be easier.|It is hard at first.|How hard was the exam?|Could this be simpler?",
    ),
    "others managed": (
        (
            "Everybody else handed it in last week, so it is late.|The rest of the team had no trouble with it."
            "|Your sister managed, so can you.|All the others have already paid.|Other parents make an effort."
            "|Everyone else in the office understands the form.|I can't see how you could miss it."
        ),
        (
            "Everyone else is invited too.|Everyone else got out safely.|I don't understand why you were charged twice."
            "|The others arrive at six."
        ),
    ),
    "too sensitive": (
        (
            "You are far too emotional.|You're just being dramatic.|You were so touchy yesterday.|You're overthinking this."
            "|You are making a big deal out of it.|Don't take it so personally.|You are way too picky."
        ),
        "You are too kind.|You're too early; we open at nine.|You are not too sensitive.|You're being very helpful.",
    ),
    "we all have": (
        (
            "We all have bills.|Everyone has problems.|We all had to wait.|Everybody here has deadlines."
            "|You're not the only one with a job.|They all have families.|Other people have kids."
        ),
        "We all have badges for the event.|Everyone has a seat.|Do we all have kids here?|We all have to laugh.",
    ),
    "nobody died": (
        (
            "No one died.|It's only a phone.|It was just a stupid cat.|Worse things happen.|You'll survive."
            "|There are bigger problems in the world.|What's the big deal?"
        ),
        "It's just a reminder.|Nobody died in the fire.|It's only a phone call away.|It's just a draft.",
    ),
    "as we said": (
        (
            "As we told you when you signed.|I said that before you left.|We explained this at your check-in."
            "|As you were clearly informed, it is closed.|We specifically asked you to ring.|I made clear from the start."
            "|As you well know, it is shut."
        ),
        (
            "As we agreed, I will call.|I said that I would come.|As I wrote in my email of 3 May, it ends."
            "|I told her when you called."
        ),
    ),
    "should know better": (
        (
            "You ought to know better.|You of all people should know better.|You should really know this by now."
            "|I thought you'd know better.|Someone in your position should know better.|You should know how by now."
            "|Patient repeatedly failed to attend.|The tenant has neglected to pay."
        ),
        (
            "You should know that we close at five.|You know better than I do.|The parcel failed to arrive."
            "|If a guest fails to pay, call me."
        ),
    ),
    "a mess, or two ways out": (
        (
            "Your report last week was a disaster.|Your kitchen is a pigsty.|Your talk was an embarrassment."
            "|Either you pay or get out.|Either trust me or we're done.|Hearing you moan is hard.|All you do is whine."
        ),
        (
            "Your flight was a mess, I am sorry.|Either call or email us.|You can complain to the ombudsman."
            "|Your joke made me laugh."
        ),
    ),
    "illness as own doing": (
        (
            "You did this to yourself.|It comes from the way you live.|It hurts because you never exercise."
            "|You really should lose some weight.|This is your own doing.|It is due to how much you drink."
        ),
        (
            "You did this yourself, well done.|What do you like to eat?|You may lose weight with this drug."
            "|It is not because of how you eat."
        ),
    ),
    "the door is closed": (
        (
            "Sorry about your mother's death but we need the form.|It's the rules.|Rules are rules.|End of discussion."
            "|There is nothing more we can do.|My hands are tied.|Consider this your final warning.|Don't make me ask twice."
            "|You lot never clean up."
        ),
        (
            "Our policy is on page two.|These are the rules of chess: two play.|There is nothing I can do until Monday."
            "|You guys always make me smile."
        ),
    ),
}


@pytest.mark.parametrize("message", [one for bad, _ in FRAMES.values() for one in bad.split("|")])
def test_that_a_frame_is_seen_with_any_filling(message):
    found = flags(message, "neutral")
    assert any(flag["alternative"] and flag["reason"] for flag in found)
    assert reframed(message, "neutral") == message


@pytest.mark.parametrize("message", [one for _, fine in FRAMES.values() for one in fine.split("|")])
def test_that_the_harmless_neighbour_of_a_frame_is_left_in_peace(message):
    assert flags(message, "neutral") == []


@pytest.mark.parametrize(
    "message",
    [
        "Don't tell him to calm down.",
        "Never say that it could be worse.",
        "It is easy to think that you are too sensitive.",
        "Avoid telling guests that rules are rules.",
    ],
)
def test_that_wording_the_writer_rejects_is_not_flagged_as_the_writers(message):
    assert flags(message, "neutral") == []


def test_that_a_silver_lining_is_flagged_as_a_whole():
    assert flags("At least you have a job. I am here.")[0]["text"] == "At least you have a job"
