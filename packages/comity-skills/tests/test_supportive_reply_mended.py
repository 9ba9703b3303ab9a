"""Messages that were answered wrongly once."""

import pytest

from tests.replies import answered

JOY = "That is wonderful news"


@pytest.mark.parametrize("times", [2, 5, 10])
@pytest.mark.parametrize(
    "sentence",
    ["The quick brown fox. ", "The train leaves at nine. ", "Wir essen um sechs. ", "今天天气很好。"],
)
def test_a_calm_sentence_is_no_crisis_for_being_repeated(sentence, times):
    assert answered(sentence * times).output["crisis"]["detected"] is False


def test_a_repeated_cry_for_help_is_found_where_it_stands():
    text = "It rains. It rains. I want to die. I want to die."
    crisis = answered(text).output["crisis"]
    assert crisis["detected"]
    assert all("die" in text[slice(*signal["span"])] for signal in crisis["signals"])


@pytest.mark.parametrize(
    "message",
    [
        "He held the pillow over my face until I nearly blacked out.",
        "My husband held the pillow over my face until I nearly blacked out last night.",
        "Yesterday my boyfriend choked me, I couldn't breathe.",
    ],
)
def test_violence_that_nearly_killed_raises_the_risk_and_names_no_lines_for_suicide(message):
    reply = answered(message)
    assert reply.assumptions[0].startswith(
        "Risk level: high (raised from low: the message speaks of the writer's own"
    )
    assert [danger["kind"] for danger in reply.output["crisis"]["dangers"]] == ["violence"]
    assert "988" not in str(reply.output)


def test_violence_that_was_not_deadly_leaves_the_risk_as_it_was_given():
    assert answered("My husband hits me when he drinks.").assumptions[0].startswith("Risk level: low")


def test_joy_with_tears_is_answered_with_joy():
    assert answered("I got the apprenticeship!!! Mum cried!").output["reply"].startswith(JOY)
    assert not answered("I got the job but I cried all night").output["reply"].startswith(JOY)
    assert not answered("I cried all day!!").output["reply"].startswith(JOY)


@pytest.mark.parametrize(
    ("message", "sorry"),
    [
        ("There was a death in the family last night.", "sorry for your loss"),
        ("Es gab einen Todesfall in der Familie.", "leid"),
        ("Il y a eu un décès dans la famille.", "désolé"),
        ("Hubo una muerte en la familia.", "Siento"),
    ],
)
def test_a_death_in_the_family_is_a_loss(message, sorry):
    assert sorry in answered(message).output["reply"]


@pytest.mark.parametrize(
    "message",
    [
        "My son swallowed a battery five minutes ago, what do I do?",
        "My toddler swallowed a button battery",
        "My 2 year old just swallowed a button battery!",
        "Meine Tochter hat eine Knopfzelle verschluckt!",
        "Mi hija se ha tragado una pila",
    ],
)
def test_who_swallowed_a_battery_gets_help_for_that_and_nothing_else(message):
    output = answered(message).output
    assert output["crisis"]["dangers"][0]["kind"] == "body"
    assert len(output["escalation_guidance"]) == 2
    assert "988" not in str(output)
    assert "shoulder" not in str(output)
    assert output["resources"] == []


def test_what_the_writer_swallowed_or_what_is_long_ago_is_not_somebody_elses():
    assert not answered("I swallowed a coin as a kid, years ago").output["crisis"]["dangers"]
    assert not answered("Last year my son swallowed a coin, we laugh about it now").output["crisis"][
        "dangers"
    ]
