"""The facts of a reframed message are counted here by plain means of our own, not by those of the guard."""

import functools
import re
from collections import Counter
from datetime import date
from importlib.resources import files

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.testing.vectors import vector_file
from comity_skills.editing.rules import ruleset
from comity_skills.empathetic_reframe import SKILL
from comity_skills.empathetic_reframe.reframing import FLAGGED, REWORDED, REWORDED_SINCE
from comity_skills.skill import SkillInputError, SkillOutcome
from tests.prepared import handler_of

MODES = ("strict", "compat", "enhanced")
TONES = ("neutral", "warm", "formal")


@functools.cache
def handler():
    return handler_of(SKILL)


def answer(message, tone="warm", mode="enhanced"):
    return handler()({"message": message, "tone": tone}, mode).output


def reframed(message, tone="warm", mode="enhanced"):
    return answer(message, tone, mode)["reframed_message"]


def flagged(message, tone="warm"):
    return {(flag["text"].lower(), flag["category"]) for flag in answer(message, tone)["flags"]}


WARM = {
    "We cannot refund you": "We are sorry, but we cannot refund you",
    "You failed the test.": "Your attempt at the test was unsuccessful.",
    "I feel overwhelmed": "I feel overwhelmed",
    "We don't ship to Spain before 3 May.": "We are sorry, but we don't ship to Spain before 3 May.",
    "We don\u2019t ship to Spain before 3 May.": "We are sorry, but we don\u2019t ship to Spain before 3 May.",
    "Unfortunately, you must pay us 20 euros by Friday.": "We are sorry, but you must pay us 20 euros by Friday.",
    "As per our policy we can't change your booking, John.": "We are sorry, but under our policy we can't change your booking, John.",
    "Unfortunately, as per our policy we cannot refund you, Mrs. Smith.": "We are sorry, but under our policy we cannot refund you, Mrs. Smith.",
    "As per our policy, returns take 5 days.": "Under our policy, returns take 5 days.",
    "I can't help you with your problem.": "I am sorry, but I can't help you with your concern.",
    "Unfortunately, I won't be there on 3 May.": "I am sorry, but I won't be there on 3 May.",
    "unfortunately we cannot help you": "we are sorry, but we cannot help you",
    "We cannot refund you. We cannot exchange it.": "We are sorry, but we cannot refund you. We cannot exchange it.",
    "Dear Ms. Lee, we cannot extend your deadline.": "Dear Ms. Lee, we are sorry, but we cannot extend your deadline.",
    "Unfortunately our Dr. Smith is not available.": "We are sorry, but our Dr. Smith is not available.",
    "We do not accept returns after 30 days.": "We are sorry, but we do not accept returns after 30 days.",
    "I know how you feel, and I wrote to Anna.": "I want to understand how you feel, and I wrote to Anna.",
    # a sentence with a but of its own
    "We can't refund you, but we can exchange it.": "We are sorry that we can't refund you, but we can exchange it.",
    "Unfortunately there are only 2 seats left with us, but not for you.": "We are sorry that there are only 2 seats left with us, but not for you.",
    # other ways to refuse
    "We're unable to refund you.": "We are sorry, but we're unable to refund you.",
    "We unfortunately cannot refund you.": "We are sorry, but we cannot refund you.",
    "We are no longer able to ship to Malta.": "We are sorry, but we are no longer able to ship to Malta.",
    "We no longer ship to Malta.": "We are sorry, but we no longer ship to Malta.",
    "We can neither refund nor exchange it.": "We are sorry, but we can neither refund nor exchange it.",
    "Your request was denied on 3 May.": "Unfortunately, your request was denied on 3 May.",
    "Your loan was not approved.": "Unfortunately, your loan was not approved.",
    "We won't be able to deliver before 5 pm.": "We are sorry, but we won't be able to deliver before 5 pm.",
    "We still can't find your parcel.": "We are sorry, but we still can't find your parcel.",
    "You have not been selected for the role.": "Unfortunately, you have not been selected for the role.",
    "Your contract will not be renewed.": "Unfortunately, your contract will not be renewed.",
    "Refunds are not possible.": "Unfortunately, refunds are not possible.",
    "It's not possible to change your flight.": "Unfortunately, it's not possible to change your flight.",
    "You cannot get a refund.": "Unfortunately, you cannot get a refund.",
    # what stands before the first word
    "Hi, we cannot refund you.": "Hi, we are sorry, but we cannot refund you.",
    "- We cannot refund you.": "- We are sorry, but we cannot refund you.",
    "1) We cannot refund you.": "1) We are sorry, but we cannot refund you.",
    "<p>We cannot refund you.</p>": "<p>We are sorry, but we cannot refund you.</p>",
    "**We cannot refund you.**": "**We are sorry, but we cannot refund you.**",
    "\U0001f600 We cannot refund you.": "\U0001f600 We are sorry, but we cannot refund you.",
    # what somebody else said is left, and does not stand for the author's own
    "> We cannot refund you.\n\nWe cannot exchange it.": (
        "> We cannot refund you.\n\nWe are sorry, but we cannot exchange it."
    ),
}
WARM_LEAVES = (
    "We are sorry, we cannot refund you.",
    "We cannot refund you. We are sorry.",
    "If we cannot refund you, we will say so.",
    "We can't wait to see you!",
    "We can't help but smile.",
    "We won't cancel your order.",
    "We could not find any errors in your form.",
    "We cannot accept violence.",
    "We cannot thank you enough.",
    "Unfortunately, your mother died.",
    "Your problem is that the cable is loose.",
    "I know how you feel about cats.",
    "She said: \u201cWe cannot refund you.\u201d",
    "Can't we refund you?",
    "THE PAYMENT FAILED. UNFORTUNATELY, WE CANNOT REFUND YOU.",
    "He suffers from depression and committed suicide in 2019.",
)
WELCOME = (
    "We don't provide your data to third parties.",
    "We will not give you spam.",
    "We won't give you any trouble.",
    "We will not extend your detention.",
    "We will not waive your rights.",
    "We cannot offer you anything less than the best.",
    "We cannot give you up.",
    "We cannot cancel our love for you.",
    "We cannot change the past.",
    "We could not find your name on the list of debtors.",
    "We could not find your tumour on the new scan.",
    "Your claim was not refused.",
    "You have not been selected for the audit.",
    "We cannot replace you, you are unique.",
    "Your request was denied by mistake and is now approved.",
)
TOO_GRAVE = (
    "Unfortunately, your biopsy shows a malignant tumour.",
    "Unfortunately, you had a miscarriage.",
    "Unfortunately, your illness is incurable.",
)
FORMAL = {
    "Hi John, sorry, thanks you guys": "Dear John, sorry, thank you",
    "Hi, thanks for waiting.": "Hello, thank you for waiting.",
    "Hi there!": "Hello!",
    "We're sorry about the delay.": "We apologise for the delay.",
    "Sorry for the delay. It won't happen again.": "Apologies for the delay. It will not happen again.",
    "I'm sorry for your loss.": "I am sorry for your loss.",
    "You guys don't pay.": "You do not pay.",
    "As per our policy we can't change your booking, John.": "Under our policy we cannot change your booking, John.",
    "Don't you agree? We can't.": "Don't you agree? We cannot.",
    "She thanks for nothing. Thanks, John!": "She thanks for nothing. Thank you, John!",
    "Sorry for the mistakes I made.": "Apologies for the mistakes I made.",
    "Sorry for the late reply. I was ill.": "Apologies for the late reply. I was ill.",
    "Sorry for the trouble you caused me.": "Sorry for the trouble you caused me.",
    # a question in the shape of a cry has no full form
    "Isn't that nice!": "Isn't that nice!",
    "Wasn't John great!": "Wasn't John great!",
    "You can come, can't you.": "You can come, can't you.",
    "Can't anyone help!": "Can't anyone help!",
    "I couldn't've known.": "I couldn't've known.",
    "People who aren't members can't vote.": "People who are not members cannot vote.",
    "We CAN'T pay and DON'T ship.": "We CANNOT pay and DO NOT ship.",
    "All you guys can come.": "All of you can come.",
    "Hi guys, thanks Anna.": "Hello, thank you Anna.",
}


def test_a_warm_message_minds_and_means_the_same():
    for mode in MODES:
        for message, expected in WARM.items():
            assert reframed(message, mode=mode) == expected


def test_what_is_no_bad_news_or_somebody_elses_is_left():
    for message in WARM_LEAVES:
        assert reframed(message) == message


def test_nobody_is_sorry_for_good_news_and_a_phrase_is_too_small_for_the_worst():
    for mode in MODES:
        for message in (*WELCOME, *TOO_GRAVE):
            assert reframed(message, mode=mode) == message


def test_a_problem_with_something_is_no_concern():
    for message in (
        "Talk to a doctor about your problem with alcohol.",
        "We received your issue of the magazine.",
    ):
        assert reframed(message) == message
    assert reframed("We looked into your issue.") == "We looked into your concern."


def test_a_feeling_that_others_are_denied_is_not_claimed():
    message = "Nobody but I know how you feel."
    assert reframed(message) == message


def test_a_formal_message_is_in_full_forms():
    for message, expected in FORMAL.items():
        assert reframed(message, "formal") == expected


def test_neutral_changes_nothing_and_still_flags():
    for message in (*WARM, *FORMAL):
        assert reframed(message, "neutral") == message
    assert ("i know how you feel", "hollow_empathy") in flagged("I know how you feel.", "neutral")


def test_hollow_empathy_is_caught():
    for message in (
        "I know how you feel.",
        "We completely understand how you feel.",
        "At least you have a job.",
        "It could be worse.",
        "Everything happens for a reason.",
        "Stay positive!",
        "You\u2019ll be fine.",
        "It'll all work out.",
        "Don't worry about it.",
        "Please calm down.",
        "I'm sorry you feel that way.",
        "We apologise for any inconvenience.",
        "Time heals all wounds.",
        "I know exactly what you\u2019re going through.",
        "I can only imagine how you feel.",
        "We understand your frustration.",
        "Our thoughts and prayers are with you.",
        "It happened for a reason.",
        "It is what it is.",
        "You should be grateful.",
        "Look at the bright side.",
    ):
        assert "hollow_empathy" in {category for _, category in flagged(message)}, message


def test_plain_uses_of_the_same_words_are_not():
    for message in (
        "Pay at least 3 euros.",
        "You need at least the red one.",
        "Your test was positive for iron.",
        "It helps you to calm down.",
        "You can relax the rule in the settings.",
        "Tell me how you feel.",
        "Please move on to the next page, then let it go to sleep.",
        "Relax your shoulders.",
        "The fans cheer up and down the stadium.",
        "We'd be happy to help, and she'll be happy too.",
    ):
        assert "hollow_empathy" not in {category for _, category in flagged(message)}, message


def test_a_denial_of_blame_is_no_blame():
    for message in (
        "I don't think it's your fault.",
        "Nobody says this is your fault.",
        "It's not that it is your fault.",
        "The map shows your fault line.",
    ):
        assert flagged(message) == set(), message
    assert flagged("It is clearly your fault, not ours.") == {("your fault", "blame_or_order")}


def test_a_duty_is_flagged_and_kept():
    message = "You must pay 20 euros, and you should have asked."
    assert flagged(message) == {("you must", "blame_or_order"), ("you should have", "blame_or_order")}
    assert reframed(message) == message


def test_the_rationale_tells_what_was_done():
    output = answer("We cannot refund you. You must pay.")
    assert output["rationale"][0].startswith('"We" became "We are sorry, but we":')
    assert output["rationale"][1].startswith('"You must" was left as it is:')
    assert answer("The shop is open.")["rationale"] == [
        "Nothing was reworded: no rule of this tone applies to the message"
    ]


def test_a_crisis_is_not_reworded_and_goes_to_a_person():
    message = "We cannot refund you, and I want to kill myself."
    for mode, lines in (("strict", 3), ("compat", 5), ("enhanced", 5)):
        output = answer(message, mode=mode)
        assert output["reframed_message"] == message
        assert len(output["escalation_guidance"]) == lines
        assert any("988" in line for line in output["escalation_guidance"])
    assert output["crisis"]["detected"] is True
    assert handler()({"message": message}, "enhanced").uncertainty == "high"


def test_a_mention_shows_where_help_is_and_claims_nothing():
    output = answer("He committed suicide in 2019.")
    assert output["crisis"]["detected"] is False
    assert len(output["escalation_guidance"]) == 2


def test_everyday_stress_is_no_crisis():
    for mode in ("strict", "enhanced"):
        assert answer("I feel overwhelmed", mode=mode)["escalation_guidance"] == []


def test_the_data_names_its_sources_its_date_and_known_categories():
    data = ruleset(files("comity_skills").joinpath(SKILL.data[0]).read_bytes())
    assert data.sources
    assert date.fromisoformat(data.written)
    assert len({rule.id for rule in data.rules}) == len(data.rules)
    assert {rule.category for rule in data.rules} <= FLAGGED.union(
        *REWORDED_SINCE.values(), *REWORDED.values()
    )


def test_wrong_values_are_refused_in_a_sentence():
    for bad in ({"message": 1}, {}, {"message": "x", "tone": "loud"}, {"message": "x", "tone": None}):
        with pytest.raises(SkillInputError, match="Input validation failed for action"):
            handler()(bad, "enhanced")


def test_vector_actions_of_this_skill_keep_their_recorded_shape():
    for stem, mode in (("actions_v01_properties", "strict"), ("actions_v108_properties", "compat")):
        for case in vector_file("actions", stem):
            if case["action"] == SKILL.name:
                outcome, expect = handler()(case["input"], mode), case["expect"]
                assert list(outcome.output) == expect["output_keys"], case
                assert outcome.uncertainty == expect["uncertainty"]
                assert len(outcome.assumptions) == expect["assumptions_count"]
                assert {key: len(outcome.output[key]) for key in expect["lengths"]} == expect["lengths"], case


PIECES = st.sampled_from(
    [
        "We cannot refund you",
        "we don't ship to Spain before 3 May",
        "We won\u2019t provide 20 euros",
        "I can't help you with your problem",
        "Unfortunately, you must pay",
        "unfortunately we will not",
        "As per our policy",
        "you failed the test",
        "You failed to sign the form",
        "thanks for nothing",
        "Thanks, Anna",
        "Hi John,",
        "you guys didn't",
        "We're sorry about the delay",
        "I know how you feel",
        "I've paid twice and I'll not pay again",
        "no refund without a receipt",
        "by Friday",
        "a@b.example",
        "https://example.org/We-cannot-refund",
        '"We cannot refund you"',
        "\n> We cannot refund 7 euros to Anna\n",
        "<p>We're unable to pay you 20 euros",
        "Your claim was not approved",
        "Refunds are not possible",
        "Sorry for the delay",
        "Anna and you failed the test",
        "isn't it",
        "and",
        "but",
        "never",
        "your issue",
    ]
) | st.builds(
    str.format,
    st.sampled_from(
        [
            "We cannot refund {n} euros to {name} by {day}",
            "{name}, we won't provide {n} items before {n} {day}",
            "you failed the test on {day}",
            "Unfortunately, {name} must not pay {n}%",
            "Thanks {name}, I can't pay ${n}.50",
        ]
    ),
    n=st.integers(0, 10**6),
    name=st.sampled_from(["John", "Anna", "Zo\u00eb"]),
    day=st.sampled_from(["Friday", "May"]),
)
JOINS = st.sampled_from([" ", ". ", ", ", "\n", "! ", "? ", "; "])
MESSAGES = st.lists(st.tuples(PIECES, JOINS), min_size=1, max_size=8).map(
    lambda parts: "".join(piece + join for piece, join in parts)
)


def counted(text):
    """Negations, numbers, binding words, dates, links and names, by means as plain as possible."""
    plain = text.replace("\u2019", "'").replace("can't", "can not").replace("cannot", "can not")
    plain = plain.replace("won't", "will not").replace("n't", " not").replace("'ll", " will")
    lowered = plain.lower()
    kinds = (
        r"\bnot\b|\bno\b|\bnever\b|\bwithout\b|\bnothing\b",
        r"\d+|\btwice\b|\btwo\b",
        r"\bwill\b|\bmust\b|\bcan\b|\brefund\b|\bprovide\b|\bpay\b|\bpaid\b|\bship\b",
        r"\bfriday\b|\bmay\b|\beuros\b|\bbefore\b|\bby friday\b",
        r"\S+@\S+|https?://\S+",
        r"\bjohn\b|\banna\b|\bzo\u00eb\b|\bspain\b",
    )
    return Counter(word for kind in kinds for word in re.findall(kind, lowered))


@given(MESSAGES, st.sampled_from(TONES), st.sampled_from(MODES))
def test_no_tone_changes_a_negation_a_number_a_name_a_date_or_a_commitment(message, tone, mode):
    result = reframed(message, tone, mode)
    sent = message if mode == "enhanced" else message.strip()
    assert counted(result) == counted(sent)
    for mess in ("  ", " ,", ",,", "but But", "sorry, but We"):
        assert result.count(mess) <= sent.count(mess)


@given(MESSAGES, st.sampled_from(TONES))
def test_the_edits_told_are_the_edits_made(message, tone):
    output = answer(message, tone)
    made, done = "", 0
    for edit in output["edits"]:
        assert message[edit["start"] : edit["end"]] == edit["original"]
        made += message[done : edit["start"]] + edit["replacement"]
        done = edit["end"]
    assert made + message[done:] == output["reframed_message"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.fixed_dictionaries({}, optional={"message": JSON | MESSAGES, "tone": JSON | st.sampled_from(TONES)}),
    st.sampled_from(MODES),
)
def test_any_input_gets_an_outcome_that_keeps_the_schema_or_a_refusal(given_input, mode):
    try:
        outcome = handler()(given_input, mode)
    except SkillInputError:
        return
    assert isinstance(outcome, SkillOutcome)
    jsonschema.validate(outcome.output, SKILL.contracts[mode].output_schema)
