from time import process_time

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity_skills.neurodiversity_design_check import SKILL
from comity_skills.skill import SkillInputError, SkillOutcome
from tests.prepared import handler_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEEPS = jsonschema.Draft202012Validator(dict(SKILL.contracts["enhanced"].output_schema))


@pytest.fixture(scope="module")
def check():
    handler = handler_of(SKILL)
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
        ("no_way_out", "cannot be disabled"),
    ]


def test_focus_is_read_as_whole_words(check):
    assert check("plain page", focus=["ADHD users"]).output["areas"] == ["attention"]
    unknown = check("plain page", focus=["maladhdy"])
    assert unknown.output["areas"] == []
    assert any("maladhdy" in line for line in unknown.assumptions)
    assert len(unknown.output["recommendations"]) == 3


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
        "There is no reduced motion setting": ("no_way_out", "no reduced motion"),
        "It ignores prefers-reduced-motion": ("no_way_out", "ignores prefers-reduced-motion"),
        "Buttons move when the page loads": ("unpredictable", "Buttons move"),
        "A ticker of news": ("animation", "ticker"),
        "A verification code must be typed": ("memory", "verification code"),
        "A serif typeface": ("hard_letters", "serif typeface"),
        "A banner that cannot be dismissed": ("no_way_out", "cannot be dismissed"),
        "There is no way to close the banner": ("no_way_out", "no way to close"),
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
        with pytest.raises(SkillInputError) as refused:
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
    except SkillInputError as refused:
        answer = refused
    begins = "Input validation failed for action 'neurodiversity_design_check': "
    assert isinstance(answer, SkillOutcome) or answer.message.startswith(begins)


def test_without_a_focus_only_what_was_described_is_answered(check):
    said = check("A login page with a blinking banner").output["recommendations"]
    assert len(said) == 1
    assert "blinking" in said[0]
    assert len(check("A page with headings").output["recommendations"]) <= 3


def test_every_item_of_a_denied_list_is_denied(check):
    for description in (
        "We removed the confetti animation, the timer and the sound effects because users complained.",
        "We dropped the countdown, the carousel, the pop-ups and the CAPTCHA.",
        "A page without a timer, animations and background music.",
        "There is no timer, no animation and no pop-up.",
    ):
        assert triggers(check(description)) == [], description
    assert triggers(check("We removed the timer and added an animation, a carousel and pop-ups.")) == [
        ("animation", "animation"),
        ("animation", "carousel"),
        ("notifications", "pop-ups"),
    ]


def test_a_figure_of_speed_is_no_flashing(check):
    for description in (
        "The flash sale page loads in a flash",
        "It is done in the blink of an eye",
        "A camera with flash photography",
        "Learn with flash cards",
        "The server sets a flash message",
        "Adobe Flash is gone for good",
    ):
        assert "flashing" not in {issue for issue, _ in triggers(check(description))}, description
    assert triggers(check("The banner flashes")) == [("flashing", "flashes")]


def advised(outcome):
    return " ".join(outcome.output["recommendations"]).lower()


def test_nobody_is_told_to_do_what_the_description_says_is_done(check):
    said = advised(check("The form saves automatically and shows a progress bar."))
    assert "save" not in said
    assert "where people are" not in said
    assert "only for what is needed" in said
    for description in (
        "A form with autosave",
        "A form; answers are saved as you go",
        "A wizard with save and resume",
    ):
        assert "save" not in advised(check(description)), description
        assert "where people are" in advised(check(description)), description
    for description in ("Step 2 of 5 is shown above the form", "A survey with a progress indicator"):
        assert "where people are" not in advised(check(description)), description
        assert "save" in advised(check(description)), description


def test_what_is_missing_is_still_asked_for(check):
    for description in (
        "A form without a progress bar",
        "A form that does not save automatically",
        "Nothing is saved automatically in this form",
        "A form in nine steps",
        "An online form; there is no paper form",
        "An online form, and a paper form for those who ask",
    ):
        said = advised(check(description))
        assert "save as" in said, description
        assert "where people are" in said, description


def test_paper_is_not_told_to_save(check):
    for description in (
        "A paper form with 3 pages",
        "A questionnaire on paper",
        "Printed forms with six questions",
    ):
        said = advised(check(description))
        assert "save" not in said, description
        assert "where people are" in said, description


def test_a_form_that_does_all_of_it_needs_no_advice(check):
    outcome = check("The form saves automatically, shows a progress bar and asks only for what is needed.")
    assert triggers(outcome) == []
    assert [each["why"] for each in outcome.output["not_counted"]] == ["met"]


def test_what_vanishes_by_itself_is_found(check):
    for description, words in {
        "Error messages disappear after 10 seconds": "disappear after 10 seconds",
        "The hint vanishes after a few seconds": "vanishes after a few seconds",
        "The banner closes automatically": "closes automatically",
        "Tips are visible for five seconds": "visible for five seconds",
        "Messages that auto-dismiss": "auto-dismiss",
    }.items():
        assert ("vanishing", words) in triggers(check(description)), description
    for description in (
        "Messages stay until they are closed",
        "Messages do not disappear after 10 seconds",
        "The shop closes in May",
    ):
        assert "vanishing" not in {issue for issue, _ in triggers(check(description))}, description


def test_many_choices_are_counted(check):
    for description, words in {
        "A navigation bar with 14 menu items": "14 menu items",
        "A menu with twelve entries": "menu with twelve entries",
        "20 options to choose from": "20 options",
        "The toolbar has 30 buttons": "toolbar has 30 buttons",
        "dozens of options": "dozens of options",
    }.items():
        assert ("many_choices", words) in triggers(check(description)), description
    for description in (
        "A bar with 3 menu items",
        "Two options",
        "A menu with five entries",
        "14 days to return",
    ):
        assert triggers(check(description)) == [], description


def test_what_people_describe_in_a_sentence_is_found(check):
    for description, found in {
        "A ticket machine in the hall": ("kiosk", "ticket machine"),
        "The menu opens on hover": ("hover", "hover"),
        "The dryer signals the end only by a beep": ("sound_only", "only by a beep"),
        "A lecture without captions": ("sound_only", "without captions"),
        "A phone line where you press 1 for help": ("voice_menu", "press 1 for"),
        "A chatbot answers": ("chatbot", "chatbot"),
        "You get a PDF form": ("pdf", "PDF form"),
        "The plan is cheap and renews automatically": ("hard_to_cancel", "renews automatically"),
        "A toolbar with icons without words": ("hidden_controls", "icons without words"),
        "The box is already ticked": ("dark_pattern", "box is already ticked"),
        "A mail with a tiny grey unsubscribe link": ("dark_pattern", "tiny grey unsubscribe link"),
        "You can only cancel by phone": ("hard_to_cancel", "only cancel by phone"),
        "The exam uses a proctoring tool": ("watched", "proctoring"),
        "Zooming is disabled": ("fixed_display", "Zooming is disabled"),
        "The code is valid for 30 seconds": ("time_limit", "valid for 30 seconds"),
        "An app with streaks": ("pull", "streaks"),
        "A page full of ads": ("advertising", "ads"),
    }.items():
        assert found in triggers(check(description)), description


def test_harmless_neighbours_of_a_barrier_are_none(check):
    for description in (
        "A link to the start page",
        "An ad hoc meeting",
        "A page that prints well in large print and black",
        "Are you sure you want to delete it? Yes or no",
        "A tan background",
        "Only 3 items on a page",
        "Videos with captions",
        "The chatbot was removed",
        "You can cancel online with one click",
        "A page that asks every user for the name",
    ):
        assert triggers(check(description)) == [], description


def test_a_description_without_a_known_barrier_is_told_so(check):
    first, *hints = check("A library page with a search field and opening hours").output["recommendations"]
    assert "nothing in this description was recognised" in first
    assert 1 <= len(hints) <= 2
    assert (
        "could not be read"
        in check("La página tiene un menú grande y una imagen.").output["recommendations"][0]
    )
    assert "under people's control" in check("No animations and no timer.").output["recommendations"][0]


def test_what_cannot_be_stopped_is_not_told_to_save(check):
    (said,) = check("A loudspeaker alarm that cannot be turned off").output["recommendations"]
    assert said.startswith(
        'Something that people cannot stop, skip or close ("cannot be turned off"): Let people skip'
    )
    assert "save" in advised(check("A test that cannot be paused"))


def test_the_advice_fits_the_thing(check):
    for description, issue in {
        "A weather app with voice control": "speech",
        "The next video starts automatically": "autoplay",
        "A contract as a 40-page PDF": "dense_text",
        "A remote with 60 identical buttons": "many_choices",
        "The site is in dark grey on black": "low_contrast",
        "The letter is written in 10 pt": "small_text",
    }.items():
        assert [one for one, _ in triggers(check(description))] == [issue], description


@pytest.mark.parametrize(
    ("description", "issue"),
    [
        ("Login asks for the 3rd and 7th character of the password", "memory"),
        ("Enter two letters from your memorable word", "memory"),
        ("You log in and then solve a picture puzzle", "captcha"),
        ("An AI scores eye contact and tone of voice", "judged_manner"),
        ("Students must keep eye contact during the exam", "judged_manner"),
        ("The tool analyses facial expressions of applicants", "judged_manner"),
        ("Cameras must be on in the meeting tool", "judged_manner"),
        ("They have to remember the total from page 1", "carry_over"),
        ("People enter the same address twice", "carry_over"),
        ("The digits are in a narrow font", "numbers"),
        ("Amounts without thousand separators", "numbers"),
        ("Errors only show after pressing Submit", "errors"),
        ("The clock at the top pulses, a clock that pulses", "flashing"),
        ("A button shakes when it is not pressed", "animation"),
        ("The icons change place every week", "unpredictable"),
        ("Tiles are rearranged automatically", "unpredictable"),
        ("Lines run the full width of the screen", "dense_text"),
        ("There is no way to change the font", "fixed_display"),
        ("Are you sure you don't want to not receive our emails?", "dark_pattern"),
        ("Every message plays a ping", "sound"),
        ("Notifications can be turned off only per channel", "no_way_out"),
    ],
)
def test_barriers_told_in_other_words_are_found(check, description, issue):
    assert issue in {one for one, _ in triggers(check(description))}


@pytest.mark.parametrize(
    "description",
    [
        "A plain list of 8 items with a label each",
        "A small text 'Saved' appears next to the item",
        "A lesson player with a progress bar with 4 steps",
        "Children can repeat any step of the lesson",
        "A puzzle game for the train",
        "A pulse survey result page",
        "We answer within 24 hours",
        "The brand book describes our tone of voice",
        "Contact us by phone, we make the effort",
        "The page remembers the total for you",
    ],
)
def test_harmless_neighbours_of_these_words_set_off_nothing(check, description):
    assert triggers(check(description)) == []


def test_what_can_be_turned_off_only_here_and_there_is_not_under_control(check):
    limited = check("Notifications can be turned off only per channel.").output
    assert limited["not_counted"] == []
    free = check("Notifications can be turned off.").output
    assert [each["why"] for each in free["not_counted"]] == ["controlled"]


def test_a_focus_adds_only_what_the_description_does_not_speak_of(check):
    calm = check(
        "One big circle grows slowly. Tap anywhere to stop. Reduced motion setting of the phone is respected.",
        focus=["autism"],
    ).output["recommendations"]
    assert calm[0].startswith("No barrier was recognised")
    assert not any("reduced-motion" in line for line in calm)
    justified = check("Justified text in a 12px serif font", focus=["dyslexia"]).output["recommendations"]
    assert sum("justified" in line.lower() for line in justified) == 1
    assert sum("sans-serif" in line for line in justified) == 1
    for said in (calm, justified):
        general = [line for line in said if "in general: " in line]
        assert len(general) <= 2
        assert said[-len(general) :] == general


def test_a_trade_off_is_told_of_what_was_found_only(check):
    assert len(check("Icons without labels", focus=["ADHD"]).output["tradeoffs"]) == 1
    assert "misses news" in check("Pop-ups all the time").output["tradeoffs"][0]


def test_a_focus_without_guidance_is_named(check):
    lines = check("The digits are in a narrow font", focus=["dyscalculia"]).assumptions
    assert any("dyscalculia" in line for line in lines)


@pytest.mark.parametrize(
    "description",
    [
        "Errors appear as a red border without text.",
        "Icons are shown without text.",
        "A wrong field gets a red outline without any message.",
        "The tiles come without text.",
    ],
)
def test_that_what_is_seen_without_text_is_not_said_to_be_heard(check, description):
    assert "sound_only" not in {issue for issue, _ in triggers(check(description))}


@pytest.mark.parametrize(
    "description",
    [
        "The alarm is a beep without text.",
        "A voice without any text explains it.",
        "A film without captions.",
    ],
)
def test_that_sound_without_text_is_said_to_be_only_heard(check, description):
    assert "sound_only" in {issue for issue, _ in triggers(check(description))}


@pytest.mark.parametrize(
    ("description", "issue"),
    [
        ("Errors are only shown after pressing Pay.", "errors"),
        ("Errors are shown as a red border without text.", "colour_only"),
        ("Numbers turn green or red.", "colour_only"),
        ("The position of the Pay button changes daily.", "unpredictable"),
        ("People work out the remaining sum by hand.", "numbers"),
        ("Appointments are moved by small 12 px handles.", "small_target"),
        ("A misspelled word is met with a buzzer.", "shaming"),
        ("A red badge on the app icon counts messages.", "notifications"),
    ],
)
def test_that_these_barriers_are_read(check, description, issue):
    assert issue in {found for found, _ in triggers(check(description))}


def test_that_a_form_which_does_all_as_advised_is_no_barrier(check):
    for rest in ("nothing is lost", "people can come back later", "people can pick up where they left"):
        outcome = check(f"Five steps with a progress bar; {rest}. The page says why we ask for each thing.")
        assert triggers(outcome) == [], rest
    assert triggers(check("Five steps in a row, and the price says what it is."))


@pytest.mark.parametrize(
    ("description", "counts"),
    [
        ("The host can turn the timer off.", False),
        ("Teachers may switch all animations off.", False),
        ("Nobody can turn the timer off.", True),
        ("The host starts the timer off stage.", True),
    ],
)
def test_that_what_somebody_can_turn_off_is_under_control(check, description, counts):
    assert bool(triggers(check(description))) is counts


@pytest.mark.parametrize(
    ("description", "issues"),
    [
        (
            "Open plan office with hot desking, music from speakers all day",
            ["noise", "no_own_place", "noise"],
        ),
        ("Final exam of 3 hours without pauses, deadlines change sometimes", ["no_breaks", "short_notice"]),
        ("Appointments can only be booked by phone", ["phone_only"]),
        ("Classroom with neon light, tasks explained only once", ["harsh_light", "spoken_only"]),
        ("The queue is at the station: a crowded hall, strong perfume", ["crowd", "smells"]),
    ],
)
def test_that_barriers_of_rooms_and_processes_are_named(check, description, issues):
    assert [issue for issue, _ in triggers(check(description))] == issues


@pytest.mark.parametrize(
    "description",
    [
        "Our job interview: questions are sent two days before, no time limit, quiet room, break whenever needed.",
        "Supermarket with quiet hour every Tuesday, dimmed lights, no music.",
        "Team meeting: agenda is sent two days before, breaks every 45 minutes.",
        "Office with flickering neon lights and a loud printer",
    ],
)
def test_that_a_place_gets_no_advice_for_screens(check, description):
    output = check(description, focus=["autism"]).output
    said = " ".join((*output["recommendations"], *output["tradeoffs"]))
    assert not any(word in said for word in ("text size", "motion", "page", "themes", " px", "mute"))


def test_that_a_screen_in_an_office_stays_a_screen(check):
    for description in ("Office app with flashing banners", "The exam page has a blinking clock"):
        assert "three times a second" in check(description).output["recommendations"][0], description
    for description in ("No breaks between paragraphs", "The queue of jobs is shown", "A role playing game"):
        assert triggers(check(description)) == [], description


@pytest.mark.parametrize(
    "words", ["A library catalogue", "Our library catalog", "The search of the shop listings"]
)
def test_a_catalogue_is_no_place_to_sit(words):
    output = handler_of(SKILL)(
        {"ui_description": f"{words} where people look for things."}, "enhanced"
    ).output
    assert "where they sit" not in str(output)
