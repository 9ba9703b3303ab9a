from importlib.resources import files
from time import process_time

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.core.errors import ActionError
from comity.skills.neurodiversity_design_check import SKILL
from comity.skills.skill import SkillOutcome

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEEPS = jsonschema.Draft202012Validator(dict(SKILL.contracts["enhanced"].output_schema))


@pytest.fixture(scope="module")
def check():
    place = files("comity.skills")
    handler = SKILL.prepare({name: place.joinpath(name).read_bytes() for name in SKILL.data})
    return lambda description, mode="enhanced", **more: handler({"ui_description": description, **more}, mode)


def triggers(outcome):
    return [(each["issue"], each["text"]) for each in outcome.output["triggers"]]


def test_recorded_counts_follow_focus_and_words(check):
    cases = [
        ("plain page", ["adhd"], 3, 2),
        ("plain page", ["Autism "], 3, 2),
        ("plain page", ["executive function"], 4, 2),
        ("plain page", ["dyslexia"], 4, 2),
        ("plain page", ["colour blindness"], 2, 1),
        ("plain page", [], 14, 5),
        ("Form with animation, notification alert and text", ["zzz"], 14, 5),
        ("our platform", ["zzz"], 4, 2),
        ("in context", ["zzz"], 4, 2),
        ("animated", ["zzz"], 2, 1),
    ]
    for mode in ("strict", "compat"):
        for description, focus, recommendations, tradeoffs in cases:
            outcome = check(description, mode, focus=focus)
            counts = {name: len(lines) for name, lines in outcome.output.items()}
            assert counts == {"recommendations": recommendations, "tradeoffs": tradeoffs}, (
                description,
                focus,
            )
            assert (outcome.uncertainty, len(outcome.assumptions)) == ("medium", 3)


def test_without_a_focus_all_areas_are_covered(check):
    assert len(check("plain page", "strict").output["recommendations"]) == 14


def test_the_description_is_read_and_the_words_are_named(check):
    description = (
        "A 5-minute timeout, a CAPTCHA, autoplay video, an animated banner, 12px labels, colour-coded errors, "
        "drag and drop, infinite scroll and legal jargon."
    )
    outcome = check(description)
    assert triggers(outcome) == [
        ("time_limit", "5-minute timeout"),
        ("captcha", "CAPTCHA"),
        ("autoplay", "autoplay"),
        ("animation", "animated"),
        ("small_text", "12px"),
        ("colour_only", "colour-coded"),
        ("drag_and_drop", "drag and drop"),
        ("infinite_scroll", "infinite scroll"),
        ("jargon", "jargon"),
    ]
    assert '("5-minute timeout")' in outcome.output["recommendations"][0]


def test_longer_words_and_missing_things_set_off_nothing(check):
    for description in (
        "A platform with information in context, transformed and uniform.",
        "No animations, autoplay or pop-ups.",
        "It works without a timeout.",
        "The page does not use motion.",
        "Respects the reduced motion setting.",
        "16px text and 48px buttons.",
    ):
        assert triggers(check(description)) == [], description


def test_a_mention_that_is_not_counted_says_why(check):
    outcome = check("No animations. A carousel that can be paused.")
    assert [(each["text"], each["why"]) for each in outcome.output["not_counted"]] == [
        ("animations", "absent"),
        ("carousel", "controlled"),
    ]


def test_what_cannot_be_switched_off_still_counts(check):
    assert triggers(check("Animations cannot be disabled.")) == [
        ("animation", "Animations"),
        ("no_pause_or_save", "cannot be disabled"),
    ]


def test_focus_is_read_as_whole_words(check):
    assert check("plain page", focus=["ADHD users"]).output["areas"] == ["attention"]
    unknown = check("plain page", focus=["maladhdy"])
    assert unknown.output["areas"] == []
    assert any("maladhdy" in line for line in unknown.assumptions)
    assert len(unknown.output["recommendations"]) == 2


def test_wording_that_ranks_people_is_named(check):
    assert triggers(check("For low-functioning users, unlike normal users.")) == [
        ("wording", "low-functioning"),
        ("wording", "normal users"),
    ]


def test_sizes_count_for_text_and_targets_only(check):
    assert triggers(check("Body text of 11 pt.")) == [("small_text", "11 pt")]
    assert triggers(check("Buttons are 30px wide.")) == [("small_target", "30px")]
    assert triggers(check("A margin of 8px around the logo.")) == []


def test_a_size_of_the_space_between_is_no_size_of_the_thing(check):
    for description in (
        "Icons 20px apart",
        "Line spacing 12px below labels",
        "The header is 12px tall above the text",
        "Buttons with 8px padding",
        "buttons 44x44px",
        "text at 1.2rem",
    ):
        assert triggers(check(description)) == [], description
    for description, found in {
        "Click the 16x16 px icon": ("small_target", "16x16 px"),
        "Touch targets 24 x 24 pixels": ("small_target", "24 x 24 pixels"),
        "font-size: 0.75rem": ("small_text", "0.75rem"),
        "Buttons are 24 px wide with 4px spacing": ("small_target", "24 px"),
        "buttons 30px tall": ("small_target", "30px"),
    }.items():
        assert triggers(check(description)) == [found], description


def test_everyday_words_are_no_parts_of_an_interface(check):
    for description in (
        "A news flash",
        "A badge of honour",
        "Recipes for French toast",
        "Slides in the sidebar",
        "A pop-up shop finder",
        "Motion sickness is rare",
        "A single-step checkout",
        "A sans-serif font",
        "A blinking cursor",
        "Set in a sans serif typeface",
        "Errors are shown in red with an icon",
        "Meaning is given by colour and shape",
    ):
        assert triggers(check(description)) == [], description


def test_what_was_said_in_other_words_is_found(check):
    for description, found in {
        "Music plays when the page opens": ("autoplay", "plays when the page opens"),
        "The quiz is timed": ("time_limit", "is timed"),
        "There is no reduced motion setting": ("no_pause_or_save", "no reduced motion"),
        "It ignores prefers-reduced-motion": ("no_pause_or_save", "ignores prefers-reduced-motion"),
        "Buttons move when the page loads": ("unpredictable", "Buttons move"),
        "A ticker of news": ("animation", "ticker"),
        "A verification code must be typed": ("memory", "verification code"),
        "A serif typeface": ("hard_letters", "serif typeface"),
        "A banner that cannot be dismissed": ("no_pause_or_save", "cannot be dismissed"),
        "There is no way to close the banner": ("no_pause_or_save", "no way to close"),
        "The contrast is too low": ("low_contrast", "contrast is too low"),
    }.items():
        assert found in triggers(check(description)), description


def test_uncertainty_follows_the_evidence(check):
    long = "The page has a 5-minute timeout and it asks the user for a code that was sent to the phone of the user before. "
    assert check("a page").uncertainty == "high"
    assert check("The page has a timeout.").uncertainty == "medium"
    assert check(long * 2).uncertainty == "low"
    assert check("La página tiene una animación que no se puede parar y es para todos.").uncertainty == "high"


def test_the_recorded_crash_is_a_refusal_in_every_mode(check):
    for mode in ("strict", "compat", "enhanced"):
        with pytest.raises(ActionError) as refused:
            check("x", mode, focus=[1, 2])
        assert refused.value.message == (
            "Input validation failed for action 'neurodiversity_design_check': "
            "'focus[0]' must be a string; 'focus[1]' must be a string"
        )


@given(st.text(max_size=200), st.lists(st.text(max_size=20), max_size=3))
def test_triggers_are_where_they_say_and_the_output_keeps_its_schema(check, description, focus):
    outcome = check(description or "x", focus=focus)
    KEEPS.validate(dict(outcome.output))
    for each in outcome.output["triggers"]:
        assert (description or "x")[each["start"] : each["end"]] == each["text"]


def test_a_hostile_text_takes_time_in_proportion(check):
    # a hundred thousand characters; anything quadratic takes minutes
    begun = process_time()
    for unit in ("animation, ", "no a or ", "12px ", "can be paused ", "a"):
        check(unit * (100_000 // len(unit)))
    assert process_time() - begun < 20


@given(JSON, JSON, st.sampled_from(("strict", "compat", "enhanced")))
def test_any_value_gets_an_outcome_or_a_refusal(check, description, focus, mode):
    try:
        answer = check(description, mode, focus=focus)
    except ActionError as refused:
        answer = refused
    begins = "Input validation failed for action 'neurodiversity_design_check': "
    assert isinstance(answer, SkillOutcome) or answer.message.startswith(begins)


def test_without_a_focus_only_what_was_described_is_answered(check):
    said = check("A login page with a blinking banner").output["recommendations"]
    assert len(said) == 1
    assert "blinking" in said[0]
    assert len(check("A page with headings").output["recommendations"]) <= 3
