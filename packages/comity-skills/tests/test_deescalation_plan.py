import functools
from datetime import date
from importlib.resources import files
from time import process_time

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.testing.vectors import vector_file
from comity_skills.deescalation_plan import SKILL
from comity_skills.deescalation_plan.situation import EFFECTS, HIDDEN
from comity_skills.editing.rules import ruleset
from comity_skills.skill import SkillInputError, SkillOutcome
from tests.prepared import handler_of

MODES = ("strict", "compat", "enhanced")


@functools.cache
def handler():
    return handler_of(SKILL)


def answer(situation, intensity="medium", mode="enhanced"):
    return handler()({"situation": situation, "intensity": intensity}, mode).output


def triggers(situation):
    return {trigger["category"] for trigger in answer(situation)["triggers"] if not trigger["negated"]}


def handed_to(situation):
    return [handoff["to"] for handoff in answer(situation)["handoffs"]]


def test_the_recorded_modes_count_as_recorded():
    for mode in ("strict", "compat"):
        for intensity, steps, notes in (("low", 6, 1), ("medium", 7, 1), ("high", 7, 3)):
            output = answer("a dispute", intensity, mode)
            assert list(output) == ["plan", "risk_notes"]
            assert (len(output["plan"]), len(output["risk_notes"])) == (steps, notes)
            alarmed = answer("a charming dispute", intensity, mode)
            assert len(alarmed["risk_notes"]) == notes + 1
            assert alarmed["risk_notes"][-1].startswith("ALERT:")


def test_parts_of_words_and_peaceful_uses_trigger_nothing():
    for situation in (
        "A charming paralegal at the pharmacy did something illegal-looking but harmless",
        "Our threat model changed",
        "The knife set and the bath bomb arrived late",
        "He hit the target and kicked off the meeting",
        "She pushed me to finish by Friday",
        "We beat them in the match",
        "It wouldn't hurt to ask",
        "Sue from accounting booked the tennis court",
        "He jumped the gun on the glue gun recall",
    ):
        assert triggers(situation) == set(), situation


def test_danger_goes_to_the_emergency_services_first():
    for situation in (
        "A customer pulled a knife on the cashier",
        "He has a gun in his bag",
        "He punched my coworker in the face",
        "They were throwing chairs",
        "He said \u201cI will kill you\u201d to my colleague",
        "We received a bomb threat",
    ):
        output = answer(situation)
        assert output["handoffs"][0]["to"] == "emergency", situation
        assert "emergency number" in output["plan"][0]
        assert output["suggested_intensity"] == "high"
        assert any(note.startswith("ALERT:") for note in output["risk_notes"])


def test_fire_and_assault_are_danger():
    for situation in (
        "He wants to burn the office down",
        "She said she will blow up our school",
        "An employee was raped",
        "He set the bin alight: arson",
        "It is about domestic violence",
        "Shots were fired outside",
        "She is swinging a bottle",
    ):
        assert handed_to(situation)[0] == "emergency", situation
    for situation in (
        "celery stalks",
        "weapons-grade sarcasm",
        "We want to shoot our house for a magazine",
        "explosive temper",
        "She slapped her desk",
        "The kids play with water pistols",
    ):
        assert triggers(situation) == set(), situation


def test_what_cannot_be_read_is_said():
    for situation in ("Le client menace de me frapper et il ne veut pas partir", "客户威胁要打我"):
        outcome = handler()({"situation": situation}, "enhanced")
        assert len(outcome.assumptions) == 4
        assert "not in English" in outcome.assumptions[-1]
        assert outcome.uncertainty == "high"
        for mode in ("strict", "compat"):
            assert len(handler()({"situation": situation}, mode).assumptions) == 3


def test_danger_to_oneself_goes_to_crisis_support():
    for situation in ("She said she might hurt herself if we cancel", "He spoke of suicide during the call"):
        assert handed_to(situation) == ["crisis_support"], situation


def test_a_wish_to_die_goes_to_crisis_support():
    for situation in (
        "The patient says he wants to die",
        "She wishes she was dead",
        "A student wants to jump from the roof",
    ):
        assert "crisis_support" in handed_to(situation), situation
    assert triggers("I wanted to die of embarrassment") == set()


def test_what_failed_or_is_not_yours_goes_to_a_supervisor():
    assert handed_to("They refuse to talk to each other") == ["supervisor"]
    for situation in (
        "She has called three times and nothing has worked",
        "This is the third complaint about the same bill",
        "He wants to talk to your manager",
        "She asks for an exception to our policy",
        "Two attempts to mediate failed",
    ):
        assert handed_to(situation) == ["supervisor"], situation
        assert any("supervisor" in step for step in answer(situation)["plan"])


def test_control_and_fear_are_heard_without_a_blow():
    for situation, category in (
        ("He won't let me leave the house", "control"),
        ("He follows me home every night", "stalking"),
        ("They doxxed me", "abuse"),
        ("He never hit me but I'm scared of him", "harm"),
    ):
        assert triggers(situation) == {category}, situation
        assert answer(situation)["suggested_intensity"] == "high", situation


def test_the_law_goes_to_those_responsible_for_it():
    for situation in ("They made a legal threat", "He will take us to court", "They threatened to sue us"):
        assert handed_to(situation) == ["legal"], situation


def test_a_trigger_says_which_words_called_for_what():
    situation = "The tenant is screaming and called her an idiot"
    rows = answer(situation)["triggers"]
    assert [row["text"] for row in rows] == ["screaming", "called her an idiot"]
    for row in rows:
        assert situation[row["start"] : row["end"]] == row["text"]
        assert row["effect"] == EFFECTS[row["category"]]


def test_what_is_said_not_to_be_so_is_told_and_drives_nothing():
    output = answer("No threats were made, nobody was hurt and he did not hit anyone")
    assert [row["negated"] for row in output["triggers"]] == [True, True, True]
    assert output["handoffs"] == []
    assert output["suggested_intensity"] == "low"
    assert triggers("Not only did he shout, he made threats") == {"anger", "threat"}


def test_the_words_suggest_and_the_caller_decides():
    for situation, suggested in {
        "Two colleagues disagree about a deadline": "low",
        "They disagree and complain about each other": "medium",
        "The customer is furious": "medium",
        "He keeps insulting the nurse": "high",
        "The meeting is at noon": None,
    }.items():
        output = answer(situation, "low")
        assert output["suggested_intensity"] == suggested, situation
        assert output["intensity"] == "low"
        higher = any("speak for intensity" in note for note in output["risk_notes"])
        assert higher == (suggested not in {None, "low"})


def test_a_crisis_raises_the_intensity_in_every_mode():
    for mode in MODES:
        output = answer("My brother and I argue and I want to kill myself", "low", mode)
        assert len(output["risk_notes"]) == (4 if mode == "enhanced" else 3), mode
        assert any(note.startswith("CRISIS:") and "988" in note for note in output["risk_notes"])
    assert output["intensity"] == "high"
    assert output["handoffs"][0]["to"] == "crisis_support"


def test_what_is_no_conflict_gets_one_short_sentence():
    output = answer("asdf")
    assert output["plan"] == [
        "No conflict was recognised in this description; say in English who wants what from whom."
    ]
    assert output["risk_notes"] == []
    for mode in ("strict", "compat"):
        assert len(answer("asdf", mode=mode)["plan"]) == 7


def test_without_an_intensity_the_words_decide_downwards_too():
    chess = handler()({"situation": "A friendly disagreement over chess"}, "enhanced").output
    assert (chess["intensity"], chess["suggested_intensity"]) == ("low", "low")
    assert answer("A friendly disagreement over chess", "medium")["intensity"] == "medium"
    unknown = handler()({"situation": "My neighbour and his trees"}, "enhanced").output
    assert (unknown["intensity"], unknown["suggested_intensity"]) == ("medium", None)


def test_a_general_plan_says_that_no_conflict_was_heard_in_the_words():
    output = answer("My neighbour and his trees")
    assert output["plan"][0].startswith("No words of a conflict were recognised")
    assert "get to safety" in output["plan"][0]


def test_quiet_conflicts_are_heard():
    assert triggers("Two colleagues no longer speak to each other") == {"frustration", "between_others"}
    for situation in (
        "My sister is not talking to me",
        "My neighbour plays loud music every night.",
        "My colleague takes credit for my work.",
        "He ignores me in front of the team.",
    ):
        assert triggers(situation) == {"frustration"}, situation


def test_a_hostile_description_takes_time_in_proportion():
    begun = process_time()
    for unit in ("I ", "keeps standing ", "a man yelling ", "won't let me ", "my ex's ", "in the ", "email "):
        answer(unit * (50_000 // len(unit)))
    assert process_time() - begun < 20


def test_uncertainty_follows_the_evidence():
    def doubt(situation, intensity="medium"):
        return handler()({"situation": situation, "intensity": intensity}, "enhanced").uncertainty

    assert doubt("The customer is furious about the bill") == "low"
    assert doubt("The customer is furious about the bill", "high") == "medium"
    assert doubt("Un cliente est\u00e1 gritando en la tienda") == "high"
    assert (
        handler()({"situation": "The customer is furious about the bill"}, "strict").uncertainty == "medium"
    )


def test_the_data_names_its_sources_its_date_and_known_categories():
    data = ruleset(files("comity_skills").joinpath(SKILL.data[0]).read_bytes())
    assert data.sources
    assert date.fromisoformat(data.written)
    assert len({rule.id for rule in data.rules}) == len(data.rules)
    assert {rule.category for rule in data.rules} <= set(EFFECTS) | HIDDEN


def test_wrong_values_are_refused_in_a_sentence():
    for bad in (
        {"situation": 1},
        {},
        {"situation": "x", "intensity": "huge"},
        {"situation": "x", "intensity": 3},
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


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)

WORDS = st.lists(
    st.sampled_from(
        ["he", "hit", "me", "no", "threats", "gun", "has a", "kill you", "will", "sue", "angry", ".", ","]
    ),
    max_size=12,
).map(" ".join)


@given(
    st.fixed_dictionaries(
        {},
        optional={"situation": JSON | WORDS, "intensity": JSON | st.sampled_from(["low", "medium", "high"])},
    ),
    st.sampled_from(MODES),
)
def test_any_input_gets_an_outcome_that_keeps_the_schema_or_a_refusal(given_input, mode):
    try:
        outcome = handler()(given_input, mode)
    except SkillInputError:
        return
    assert isinstance(outcome, SkillOutcome)
    jsonschema.validate(outcome.output, SKILL.contracts[mode].output_schema)


@pytest.mark.parametrize(
    ("situation", "kind"),
    [
        ("Two colleagues no longer speak to each other", "between_others"),
        ("Two of my nurses refuse to work together", "between_others"),
        ("Our flatmates ignore each other since June", "between_others"),
        ("My colleagues don't talk to me any more", "talk"),
        ("My parents are fighting and my dad hit my mum", "violence"),
        ("My mum hit her alarm clock", "talk"),
        ("The client threatens legal action", "formal_threat"),
        ("The client threatens to hurt me", "violence"),
    ],
)
def test_somebody_between_two_others_and_somebody_who_is_hurt_get_their_own_plan(situation, kind):
    assert handler()({"situation": situation}, "enhanced").output["kind"] == kind


def test_a_threat_to_go_to_court_is_a_matter_of_the_law_and_not_of_safety():
    output = handler()({"situation": "The client threatens legal action"}, "enhanced").output
    assert output["intensity"] == "medium"
    assert [one["to"] for one in output["handoffs"]] == ["legal"]


@pytest.mark.parametrize(
    "situation",
    [
        "A customer at my pharmacy counter is banging on the glass because his prescription is late.",
        "My neighbour pounds on my wall whenever I play the piano.",
        "A man in the queue keeps swearing because I took too long.",
        "A mother at school is pacing up and down and wants the headteacher.",
        "A client on the phone is getting louder and louder.",
        "A colleague threw his pen on the table in the meeting.",
        "My boss snapped at me.",
        "Two parents got into each other's faces at the school gate.",
    ],
)
def test_anger_shows_in_what_people_do(situation):
    assert "anger" in triggers(situation)
    assert handler()({"situation": situation}, "enhanced").output["intensity"] == "medium"


@pytest.mark.parametrize(
    "situation",
    [
        "My flatmate leaves passive-aggressive notes on the fridge",
        "My brother won't help with our parents",
        "My landlord enters my flat without asking.",
        "My wife and I can't stop bickering about money.",
        "My flatmate's boyfriend never pays.",
        "My sister and I haven't spoken since the funeral.",
        "My ex refused to hand over the children.",
        "The neighbours upstairs stomp around at midnight.",
    ],
)
def test_friction_is_a_mild_sign(situation):
    assert triggers(situation) == {"frustration"}
    assert handler()({"situation": situation}, "enhanced").output["intensity"] == "low"


@pytest.mark.parametrize(
    "situation",
    [
        "She keeps banging on about her holiday.",
        "We lost 10 pounds on the deal.",
        "He swears by this brand of coffee.",
        "My colleague is pacing himself for the marathon.",
        "The company gets louder applause.",
        "The project demands a lot of time.",
        "The noise cancelling headphones arrived.",
        "Our doctor helps people with dementia.",
        "She stole my heart.",
    ],
)
def test_words_of_anger_in_peaceful_use_are_no_sign(situation):
    assert triggers(situation) == set()


@pytest.mark.parametrize(
    "text",
    [
        "He is screaming he will stab his stepdad if he comes down",
        "My son is in the kitchen with a knife screaming he will stab his stepdad",
        "My ex says he's gonna kill my new boyfriend when he gets here",
        "A pupil wrote that he will shoot the maths teacher tomorrow",
        "My neighbour swears to break the caretaker's legs",
        "Tenant shouts he'll beat up the landlord",
        "She said she'd poison her mother-in-law",
        "My sons are fighting, the older one says he will stab his brother",
        "Coworker said he will put the foreman in hospital",
        "A customer texted: I will kill your manager",
        "Landlord says he'll throw my stuff out and hit my flatmate",
    ],
)
def test_that_a_threat_to_somebody_else_is_handed_over_and_the_person_is_warned(text):
    output = answer(text)
    assert output["kind"] in {"weapon", "violence"}
    assert handed_to(text)[0] == "emergency"
    assert sum("Warn the person who is threatened" in step for step in output["plan"]) == 1


@pytest.mark.parametrize(
    "text",
    [
        "He is going to beat his opponent in the final on Saturday",
        "My mom is going to kill me if I come home late again",
        "In our D&D game his character wants to kill my wizard and people got upset",
        "The client wants to hit the deadline and is angry with our designer",
        "She will break her leg skiing if nobody stops her, we argue about it",
        "He says he will never hit his brother again",
        "The price rise will hurt the customers and they are upset",
        "Management plans to cut the staff and we argue",
        "They will hit the tenants with another fee, people are angry",
        "My 4-year-old says he will hit his sister and screams",
    ],
)
def test_that_games_and_sayings_and_small_children_are_no_threat_for_the_police(text):
    assert "emergency" not in handed_to(text)
    assert not any("Warn the person" in step for step in answer(text)["plan"])


def test_that_a_threat_to_the_writer_or_a_pet_or_by_the_writer_warns_nobody_else():
    for text, kind in {
        "Roommate threatened to smash my face in over the rent": "violence",
        "My husband says he is going to shoot our dog": "violence",
        "I am going to stab my stepdad, I hate him so much": "near_harm",
    }.items():
        output = answer(text)
        assert output["kind"] == kind, text
        assert not any("Warn the person" in step for step in output["plan"]), text


def test_that_a_threat_to_oneself_is_no_threat_to_another():
    for text in ("He says he is going to kill himself", "She screams that she will hurt herself"):
        assert "self_harm" in triggers(text), text
        assert "crisis_support" in handed_to(text), text
        assert not any("Warn the person" in step for step in answer(text)["plan"]), text


def test_that_who_runs_the_group_is_not_sent_to_whoever_runs_it():
    for text in (
        "Two moderators in our Discord are fighting publicly over who gets to ban people",
        "People insult each other in the WhatsApp group about the school trip. I am the admin.",
        "Two of the admins fight in our facebook group over deleted posts",
    ):
        assert answer(text)["kind"] == "moderator", text
    at_odds = answer(
        "Two moderators in our Discord are fighting over who gets to ban people. I am the owner."
    )
    assert "Write down who decides what" in " ".join(at_odds["plan"])
    assert answer("A stranger insults me in a Discord channel")["kind"] == "chat"


def test_that_who_cares_for_a_relative_at_home_is_not_told_of_a_team():
    text = "My father has dementia and gets furious every evening because he thinks I stole his wallet. He pushed me."
    output = answer(text)
    said = " ".join((*output["plan"], *output["risk_notes"]))
    assert handed_to(text) == ["carer_support"]
    assert not any(word in said for word in ("team", "another carer", "incident"))
    assert "help to look for it" in said
    assert "same hour every day" in said
    for text in (
        "A resident with dementia in our care home hits the nurses when washed",
        "My mother with dementia in the nursing home hits the staff",
    ):
        assert handed_to(text) == ["care_team"], text


def test_that_who_is_alone_or_the_owner_is_sent_to_no_colleague_or_supervisor():
    text = "I run a small kiosk alone and a drunk customer is banging on the counter and insults me, the third time"
    assert handed_to(text) == []
    assert not any("colleague" in step for step in answer(text)["plan"])
    assert handed_to("I own a café and a customer insulted my barista, she complained twice") == []
    assert handed_to("A customer insulted our barista, she complained twice") == ["supervisor"]


def test_that_the_counter_says_sorry_where_the_house_is_at_fault_and_speaks_of_filming_where_it_is_filmed():
    fault = "A customer bangs on the counter because his appointment was cancelled for the third time"
    filmed = "A customer bangs on the counter and is filming us"
    for text, sorry, film in ((fault, True, False), (filmed, False, True)):
        output = answer(text)
        assert output["kind"] == "counter", text
        assert any("Say sorry" in step for step in output["plan"]) == sorry, text
        assert any("filmed" in note for note in output["risk_notes"]) == film, text
