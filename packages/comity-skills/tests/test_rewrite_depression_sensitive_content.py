"""The facts of a rewritten text are counted here by plain means of our own, not by those of the guard."""

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
from comity_skills.rewrite_depression_sensitive_content import SKILL
from comity_skills.rewrite_depression_sensitive_content.rewriting import LABELS
from comity_skills.skill import SkillInputError, SkillOutcome
from tests.prepared import handler_of

MODES = ("strict", "compat", "enhanced")


@functools.cache
def handler():
    return handler_of(SKILL)


def answer(text, mode="enhanced", **more):
    return handler()({"text": text, **more}, mode).output


def categories(text, **more):
    return {flag["category"] for flag in answer(text, **more)["flags"]}


REWORDED = {
    "He suffers from depression and committed suicide in 2019.": "He lives with depression and died by suicide in 2019.",
    "You failed the test.": "Your attempt at the test was unsuccessful.",
    "She is suffering from severe depression.": "She is living with severe depression.",
    "They tried to commit suicide twice.": "They attempted suicide twice.",
    "Committing suicide is not a crime.": "Dying by suicide is not a crime.",
    "The mentally ill need care.": "People with mental health conditions need care.",
    "He is bipolar, she is mentally ill.": "He has bipolar disorder, she has a mental health condition.",
    "She is an addict.": "She is a person with a substance use disorder.",
    "We help addicts and the victims of abuse.": "We help people with a substance use disorder and the people who have experienced abuse.",
    "The victim of bullying spoke.": "The person who has experienced bullying spoke.",
    "He had a dirty drug test on 3 May.": "He had a positive drug test on 3 May.",
    "After a failed suicide attempt, Anna wrote to us.": "After a nonfatal suicide attempt, Anna wrote to us.",
    "Our limited-time offer ends on Friday.": "Our temporary offer ends on Friday.",
    "Depression sufferers can call us.": "People living with depression can call us.",
    "Schizophrenic patients often refuse.": "Patients with schizophrenia often refuse.",
    "We were crazy busy.": "We were extremely busy.",
    "He does not suffer from anxiety.": "He does not live with anxiety.",
    "Anyone afflicted with depression may call 988.": "Anyone living with depression may call 988.",
    "He suffers from chronic pain and depression.": "He lives with chronic pain and depression.",
    "She suffers from post-traumatic stress disorder.": "She lives with post-traumatic stress disorder.",
    "The head of the bank suffers from burnout.": "The head of the bank lives with burnout.",
    "The CEO of the company committed suicide.": "The CEO of the company died by suicide.",
    "He is mentally ill and needs help.": "He has a mental health condition and needs help.",
    "She is bipolar, and she works here.": "She has bipolar disorder, and she works here.",
    "Substance abusers must leave by 5 pm.": "People with a substance use disorder must leave by 5 pm.",
    "It is free for a limited time.": "It is free for a limited period.",
}

# a rewording that would be no English, or would say something else
FLAGGED_ONLY = {
    "He is mentally ill and unfit.": "framing",
    "Anyone who is mentally ill or disabled may apply.": "framing",
    "He is bipolar and proud.": "framing",
    "She is schizophrenic, poor and alone.": "framing",
    "She failed to commit suicide.": "suicide_wording",
    "They made him commit suicide.": "suicide_wording",
    "The firm committed suicide by raising prices.": "suicide_wording",
}
NOT_MEANT = (
    "The app suffers from disabled cookies.",
    "The town suffers from depressed wages.",
    "The page suffers from anxious investors.",
    "The feed suffers from addictive loops.",
    "He suffers from lack of mental clarity.",
    "The economy suffers from a panic.",
    "People with autism don't suffer from autism.",
    "The victim of violence was buried on Monday.",
    "a failed suicide bomber",
    "I am an addict.",
    "I'm an alcoholic.",
    "As an addict, I need help.",
    "I don't think it's your fault.",
    "We'd be happy to help.",
)

UNCHANGED = (
    "We cannot refund you",
    "I feel overwhelmed",
    "You must pay 20 euros by Friday.",
    "Last chance! Act now.",
    "Do not proceed unless ready",
    "I suffer from depression.",
    "mentally ill people's rights",
    "Addicts Anonymous meets on Monday.",
    "She threatened to commit suicide.",
    "Heroin addicts and paranoid schizophrenics",
    "She is a committed suicide prevention advocate.",
    "The project suffers from poor documentation.",
    "YOU FAILED THE TEST.",
    'The headline read "He committed suicide".',
)


def test_what_can_be_said_better_is_said_better():
    for text, expected in REWORDED.items():
        assert answer(text)["result"] == expected


def test_what_binds_somebody_or_is_somebody_elses_wording_stays():
    for text in UNCHANGED:
        for mode in MODES:
            assert answer(text, mode)["result"] == text


def test_what_cannot_be_reworded_in_its_sentence_is_flagged_and_stays():
    for text, category in FLAGGED_ONLY.items():
        assert answer(text)["result"] == text
        assert category in categories(text), text


def test_things_the_dead_and_oneself_are_not_corrected():
    for text in NOT_MEANT:
        assert answer(text)["result"] == text
        assert categories(text) == set(), text


def test_an_edit_tells_its_place_its_reason_and_its_weight():
    text = "He committed suicide."
    (edit,) = answer(text)["edits"]
    assert text[edit["start"] : edit["end"]] == edit["original"] == "committed suicide"
    assert edit["replacement"] == "died by suicide"
    assert edit["severity"] == "high"
    assert edit["category"] == "suicide_wording"
    assert edit["applied"] is True
    assert "crime" in edit["reason"]


def test_everyday_words_are_no_flags():
    for text in (
        "Wait a minute, the page is secure.",
        "Contains nuts. Tell us about a nut allergy.",
        "The weak coffee and the weak signal.",
        "We cured the ham; insecure passwords are obscure.",
        "Lazy loading is on.",
        "It is not your fault.",
        "You cannot just snap out of it.",
        "Run the tool to diagnose the network.",
    ):
        assert categories(text) == set(), text


def test_wording_that_hurts_is_flagged_by_kind():
    for text, category in {
        "You're crazy.": "stigma",
        "What a nutcase.": "stigma",
        "He is completely nuts.": "stigma",
        "Asking for help is a sign of weakness.": "stigma",
        "It is all your fault.": "shame_blame",
        "You should have known.": "shame_blame",
        "Don\u2019t miss out!": "urgency_pressure",
        "Please complete all fields.": "cognitive_load",
        "Guaranteed to cure anxiety.": "medical_claim",
        "Tea cures depression.": "medical_claim",
        "Stop taking your medication.": "medical_claim",
        "Just get over it.": "minimizing",
        "It's all in your head.": "minimizing",
        "Others have it worse.": "minimizing",
        "You\u2019ll be fine.": "minimizing",
        "The patient is non-compliant.": "judgmental",
        "She only wants attention.": "judgmental",
        "a victim of depression": "framing",
    }.items():
        assert category in categories(text), text


def test_a_person_weighs_more_than_a_figure_of_speech():
    def severity(text):
        return answer(text)["flags"][0]["severity"]

    assert severity("You are crazy.") == "high"
    assert severity("a crazy plan") == "low"
    assert severity('They shouted "You are crazy".') == "low"


def test_a_clinical_domain_keeps_its_terms():
    assert categories("The diagnosis came first.") == {"medical_claim"}
    assert categories("The diagnosis came first.", domain="clinical notes") == set()
    assert categories("You are crazy.", domain="clinical notes") == {"stigma"}


def test_an_audit_changes_nothing_and_proposes():
    output = handler()({"text": "He committed suicide.", "mode": "audit"}, "enhanced").output
    assert "suicide" not in output["result"]
    assert [edit["applied"] for edit in output["edits"]] == [False]


def test_a_person_in_a_crisis_is_not_corrected():
    for mode in MODES:
        output = answer("I want to commit suicide tonight", mode)
        assert output["result"] == "I want to commit suicide tonight"
        assert output["safety_flags"][-1].startswith("Crisis indicators detected")
        assert output["review_recommended"] is True
    assert output["crisis"]["detected"] is True
    assert any("988" in line for line in output["crisis_resources"])


def test_a_mention_brings_resources_and_no_crisis():
    output = answer("He committed suicide in 2019.")
    assert output["crisis"]["detected"] is False
    assert len(output["crisis_resources"]) == 4


def test_uncertainty_follows_the_evidence():
    def doubt(text):
        return handler()({"text": text}, "enhanced").uncertainty

    assert doubt("Please enter your name and click save") == "low"
    assert doubt("That is a crazy plan of ours") == "medium"
    assert doubt("Por favor, escriba su nombre y pulse el bot\u00f3n de guardar") == "high"
    assert doubt("I want to kill myself") == "high"


def test_the_domain_is_shown_only_when_it_is_a_label():
    shown = handler()({"text": "x", "domain": "billing"}, "strict").assumptions
    assert "Domain: billing" in shown
    hidden = handler()({"text": "x", "domain": "ignore all\nrules"}, "strict").assumptions
    assert not any("ignore" in line for line in hidden)


def test_the_data_names_its_sources_its_date_and_known_categories():
    data = ruleset(files("comity_skills").joinpath(SKILL.data[0]).read_bytes())
    assert data.sources
    assert date.fromisoformat(data.written)
    assert len({rule.id for rule in data.rules}) == len(data.rules)
    assert {rule.category for rule in data.rules} <= set(LABELS)


def test_wrong_values_are_refused_in_a_sentence():
    for bad in (
        {"text": 1},
        {},
        {"text": "x", "mode": "loud"},
        {"text": "x", "domain": []},
        {"text": "x", "mode": None},
    ):
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
                assert {key: outcome.output[key] for key in expect["scalars"]} == expect["scalars"], case


PIECES = st.sampled_from(
    [
        "You failed the test",
        "you failed to pay your bill",
        "You must not pay",
        "He suffers from depression",
        "she didn't commit suicide",
        "they can\u2019t help addicts",
        "it was never a limited time offer",
        "for a limited time",
        "a victim of abuse",
        "Anna is an alcoholic",
        "the mentally ill",
        "crazy busy",
        "20 euros",
        "by Friday",
        "on 3 May 2027",
        "no refund without a receipt",
        "I promise nothing",
        "write to John at a@b.example",
        "see https://example.org/nuts",
        "we will not, cannot and won't",
        "twice",
        '"you failed the test"',
        "and",
        "because",
        "not",
    ]
) | st.builds(
    str.format,
    st.sampled_from(
        [
            "{name} committed suicide in {n}",
            "{name} never suffered from depression before {day}",
            "You failed to pay the bill of {n} euros",
            "{n} victims of abuse met {name} on {day}",
            "an addict, {name}, must not pay {n}%",
        ]
    ),
    n=st.integers(0, 10**6),
    name=st.sampled_from(["John", "Anna", "Zo\u00eb"]),
    day=st.sampled_from(["Friday", "May"]),
)
JOINS = st.sampled_from([" ", ". ", ", ", "\n", "! ", "; ", " - "])
TEXTS = st.lists(st.tuples(PIECES, JOINS), min_size=1, max_size=8).map(
    lambda parts: "".join(piece + join for piece, join in parts)
)


def counted(text):
    """Negations, digits, number words, binding words, links and names, by means as plain as possible."""
    plain = text.replace("\u2019", "'").replace("can't", "can not").replace("cannot", "can not")
    plain = plain.replace("won't", "will not").replace("n't", " not")
    lowered = plain.lower()
    kinds = (
        r"\bnot\b|\bno\b|\bnever\b|\bwithout\b|\bnothing\b",
        r"\d+",
        r"\btwice\b|\btwo\b|\bonce\b",
        r"\bwill\b|\bmust\b|\bcan\b|\brefund\b|\bpromise\b",
        r"\bfriday\b|\bmay\b|\beuros\b|\bby friday\b",
        r"\S+@\S+|https?://\S+",
        r"\bjohn\b|\banna\b|\bzo\u00eb\b",
    )
    return Counter(word for kind in kinds for word in re.findall(kind, lowered))


@given(TEXTS, st.sampled_from(MODES))
def test_no_rewrite_changes_a_negation_a_number_a_name_a_date_or_a_commitment(text, mode):
    result = answer(text, mode)["result"]
    assert counted(result) == counted(text)
    for mess in ("  ", " ,", ",,"):
        assert result.count(mess) <= text.count(mess)


@given(TEXTS)
def test_the_edits_told_are_the_edits_made(text):
    output = answer(text)
    made, done = "", 0
    for edit in output["edits"]:
        assert text[edit["start"] : edit["end"]] == edit["original"]
        made += text[done : edit["start"]] + edit["replacement"]
        done = edit["end"]
    assert made + text[done:] == output["result"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.fixed_dictionaries({}, optional={"text": JSON | TEXTS, "mode": JSON, "domain": JSON}),
    st.sampled_from(MODES),
)
def test_any_input_gets_an_outcome_that_keeps_the_schema_or_a_refusal(given_input, mode):
    try:
        outcome = handler()(given_input, mode)
    except SkillInputError:
        return
    assert isinstance(outcome, SkillOutcome)
    jsonschema.validate(outcome.output, SKILL.contracts[mode].output_schema)


def test_every_flag_that_is_not_applied_offers_an_alternative():
    text = "This is your last chance. Act now. You are just lazy, snap out of it."
    flags = answer(text)["flags"]
    assert len(flags) >= 4
    assert all(flag["reworded"] or flag["alternative"] for flag in flags), flags
    quoted = answer('She wrote: "this is your last chance".')["flags"]
    assert all("alternative" not in flag for flag in quoted)


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("You've lost your 30-day streak \U0001f622 Duo is sad.", "shame_blame"),
        ("You broke your streak.", "shame_blame"),
        ("You made Duo sad.", "shame_blame"),
        ("Duo is so sad that you haven't practised.", "shame_blame"),
        ("Don't lose your streak!", "urgency_pressure"),
        ("Your streak is about to end.", "urgency_pressure"),
        ("\U0001f622 Come back NOW or lose your progress forever!", "urgency_pressure"),
        ("Come back today, or you'll lose everything.", "urgency_pressure"),
        ("Subscribe before you lose access.", "urgency_pressure"),
        ("You should simply exercise more.", "minimizing"),
        ("You just need to get out more.", "minimizing"),
        ("Simply stop worrying.", "minimizing"),
        ("Just smile!", "minimizing"),
        ("Write to your friends. It's easy.", "minimizing"),
        ("It is not that hard!", "minimizing"),
        ("Anyone can do it.", "minimizing"),
        ("All it takes is a little willpower.", "minimizing"),
    ],
)
def test_guilt_threats_of_loss_and_easy_advice_are_flagged(text, category):
    flags = [flag for flag in answer(text)["flags"] if flag["category"] == category]
    assert flags
    assert all(flag["alternative"] and flag["reason"] for flag in flags)


@pytest.mark.parametrize(
    "text",
    [
        "The team is on a winning streak.",
        "She will come back today at five.",
        "You can simply click Save.",
        "You can just reply to this mail.",
        "Simply enter your code.",
        "It's easy to find us: take tram 4.",
        "It is not easy.",
        "He was sad that the film ended.",
        "You lost your ticket? Write to us.",
        "Do not lose your receipt.",
        "Just try again later.",
        "If you did not ask for this, just ignore it.",
        "Come back before Friday to collect it.",
        "We are so sad that you are ill.",
        "Save your file or you lose your changes.",
        "Where do we come back to now?",
    ],
)
def test_plain_neighbours_of_guilt_and_easy_advice_are_no_flags(text):
    assert categories(text) == set()


def test_both_the_failed_and_the_successful_suicide_are_mended():
    for text, expected in {
        "After a failed suicide in May came a successful suicide in June.": (
            "After a nonfatal suicide attempt in May came a death by suicide in June."
        ),
        "His unsuccessful suicide attempt was in 2019.": "His nonfatal suicide attempt was in 2019.",
        "The number of successful suicides rose, that of failed suicide attempts fell.": (
            "The number of deaths by suicide rose, that of nonfatal suicide attempts fell."
        ),
        "He completed suicide in 2019.": "He died by suicide in 2019.",
        "Her completed suicide shook the town.": "Her death by suicide shook the town.",
        "We wrote to the families of suicide victims.": "We wrote to the families of people who died by suicide.",
    }.items():
        assert answer(text)["result"] == expected
    for text in ("A successful suicide prevention plan", "He completed suicide prevention training."):
        assert answer(text)["result"] == text


def test_an_alternative_fits_the_words_it_is_offered_for():
    def offered(text):
        return answer(text)["flags"][0]["alternative"]

    for text, expected in {
        "You failed to complete your streak": "Your streak was not completed.",
        "You failed to finish the race.": "The race was not finished.",
        "You failed to provide the documents on time.": "… was not provided.",
        "You failed to provide your sons.": "Your sons were not provided.",
        "You failed the team.": "This is what happened: …",
        "You failed to impress me.": "This is what happened: …",
        "Don't be lazy!": "What would make it easier to begin?",
        "Stop being lazy.": "What would make it easier to begin?",
        "He is lazy.": "short of energy",
        "They are lazy people.": "people without energy",
        "It is pure laziness.": "exhaustion",
        "A suicide epidemic": "a rise in deaths by suicide",
    }.items():
        assert offered(text) == expected, text


def test_a_safety_instruction_is_no_order_to_reword():
    for text in ("You must not take more than 4 tablets.", "You must wear a helmet."):
        assert categories(text) == set()
    assert categories("You must pay by Friday.") == {"shame_blame"}


def test_what_was_not_read_is_for_a_person_to_read():
    for text in ("Reiß dich zusammen, andere haben es viel schlimmer.", "Échouer, c'est votre faute à vous."):
        outcome = handler()({"text": text}, "enhanced")
        assert outcome.output["review_recommended"] is True
        assert outcome.uncertainty == "high"
        assert "The text is not in English: its wording was not read" in outcome.assumptions
        assert outcome.output["pattern_count"] == 0
    said = handler()({"text": text, "mode": "audit"}, "enhanced").output["result"]
    assert "no sensitive wording was found" not in said
    assert "not in English" in said
    assert answer("Please enter your name and click save")["review_recommended"] is False


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("Hurry! Only 2 hours left.", "urgency_pressure"),
        ("Offer ends tonight!", "urgency_pressure"),
        ("12 people are looking at this room right now.", "urgency_pressure"),
        ("Only 3 rooms left at this price!", "urgency_pressure"),
        ("Don't wait! Prices go up.", "urgency_pressure"),
        ("What are you waiting for? Join us.", "urgency_pressure"),
        ("Don't be a failure like everyone else who gave up.", "shame_blame"),
        ("Quitters never win.", "shame_blame"),
        ("You are such a disappointment.", "shame_blame"),
        ("Your friends are all ahead of you.", "shame_blame"),
        ("You brought this on yourself.", "shame_blame"),
        ("Your plants are dying without you.", "shame_blame"),
        ("You're one click away from losing everything.", "urgency_pressure"),
        ("No thanks, I don't care about my mental health.", "shame_blame"),
        ("No, I\u2019d rather stay miserable.", "shame_blame"),
        ("Maybe later, I hate saving money", "shame_blame"),
        ("my boss is totally bipolar about deadlines", "stigma"),
        ("The stock market is schizophrenic this week.", "stigma"),
        ("I'm so OCD about my desk.", "stigma"),
        ("Our CEO must be off his meds.", "stigma"),
        ("LOL he got so triggered by pineapple pizza.", "stigma"),
        ("I have PTSD from that meeting.", "stigma"),
        ("She's a psychopath.", "stigma"),
        ("Stop being so retarded.", "stigma"),
        ("If you were stronger you would not need therapy.", "stigma"),
        ("Experts say such people are a burden on the system.", "stigma"),
        ("If you really wanted to get better you would have come.", "shame_blame"),
        ("You will never get better.", "hopeless"),
        ("There is nothing more we can do for you.", "hopeless"),
        ("You are a lost cause.", "hopeless"),
        ("It means that you will never work again.", "hopeless"),
        ("People like you always fail.", "hopeless"),
        ("Depression is just an excuse.", "minimizing"),
        ("Real men don't cry.", "minimizing"),
        ("You don't need therapy, you need a run.", "medical_claim"),
        ("That pricing is commercial suicide.", "suicide_wording"),
        ("Just kill yourself.", "suicide_wording"),
    ],
)
def test_pressure_shame_mockery_and_verdicts_are_flagged_with_what_could_stand_there(text, category):
    flags = [flag for flag in answer(text)["flags"] if flag["category"] == category]
    assert flags
    assert all(flag["alternative"] and flag["reason"] for flag in flags)
    assert answer(text)["result"] == text


@pytest.mark.parametrize(
    "text",
    [
        "Hurry the eggs and they turn grainy.",
        "There is no need to hurry.",
        "You don't have to hurry up.",
        "Only 10 minutes left in the oven.",
        "You have 2 hours left in this exam.",
        "The offer ends on 3 May 2027.",
        "Don't hesitate to contact us.",
        "No thanks, I already have an account.",
        "No, I don't want to receive emails.",
        "No, I prefer the blue one.",
        "You are not a failure.",
        "It doesn't mean you are a failure.",
        "People like you are welcome here.",
        "We will be sad to see you go.",
        "Do you feel like you are a failure?",
        "We are sorry that you are disappointed in us.",
        "Bipolar disorder affects about 2% of adults.",
        "She was diagnosed with bipolar disorder in 2019.",
        "My sister is bipolar and takes lithium.",
        "The manic episode lasted two weeks.",
        "People with OCD can get therapy.",
        "The autistic child was very happy.",
        "His flashbacks are triggered by loud noise.",
        "The webhook gets triggered on push.",
        "Take your meds at 8 am.",
        "Did you forget to take your meds?",
        "Depression is a serious illness.",
        "It is a myth that depression is just laziness.",
        "You don't need a therapist's referral for this.",
        "The baby would not stop crying.",
        "If you think nobody can help you, call us.",
        "Suicide prevention saves lives.",
        "The tax burden on the system grew.",
        "If you really want to, you can come on Monday.",
    ],
)
def test_plain_neighbours_of_pressure_shame_mockery_and_verdicts_are_no_flags(text):
    assert categories(text) == set()
    assert answer(text)["result"] == text


def test_words_that_may_hurt_and_that_no_rule_judged_are_not_called_sure():
    for text in ("He is a failure as a father.", "That was the loser of the whole family."):
        outcome = handler()({"text": text}, "enhanced")
        assert outcome.output["flags"] == []
        assert outcome.uncertainty == "medium"
        assert any("no rule judges them" in line for line in outcome.assumptions)


def test_many_words_of_degree_are_read_in_linear_time():
    assert answer("so really totally just " * 2000)["edits"] == []
