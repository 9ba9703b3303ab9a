from time import process_time

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity_skills.age_inclusive_design_check import SKILL
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
    return lambda description, mode="enhanced", **more: handler(
        {"flow_description": description, **more}, mode
    )


def triggers(outcome):
    return [(each["issue"], each["text"]) for each in outcome.output["triggers"]]


def test_recorded_counts_follow_groups_and_money(check):
    cases = [
        ("account creation", ["senior"], 5, 4),
        ("account creation", ["adults"], 4, 2),
        ("account creation", [], 8, 6),
        ("account creation", ["Teens"], 3, 4),
        ("account creation", ["60+"], 5, 4),
        ("account creation", ["older adults", "youth"], 8, 6),
        ("a payment flow", ["adults"], 6, 3),
        ("online Banking", [], 10, 7),
        ("with a 5-minute timeout and CAPTCHA", ["senior"], 5, 4),
    ]
    for mode in ("strict", "compat"):
        for description, groups, recommendations, notes in cases:
            outcome = check(description, mode, age_groups=groups)
            counts = {name: len(lines) for name, lines in outcome.output.items()}
            assert counts == {"recommendations": recommendations, "access_notes": notes}, (
                description,
                groups,
            )
            assert (outcome.uncertainty, len(outcome.assumptions)) == ("low", 3)


def test_a_timeout_and_a_captcha_are_read(check):
    outcome = check("Sign-up with a 5-minute timeout and a CAPTCHA", age_groups=["older adults"])
    assert triggers(outcome) == [("time_limit", "5-minute timeout"), ("captcha", "CAPTCHA")]
    assert outcome.output["recommendations"][0].startswith('A time limit ("5-minute timeout"): ')
    assert outcome.output["recommendations"][1].startswith('A test to prove that one is human ("captcha"): ')


def test_stereotypes_are_named(check):
    assert triggers(
        check("So simple that the elderly and the tech-illiterate can use it, even your grandma could.")
    ) == [
        ("stereotype", "the elderly"),
        ("stereotype", "tech-illiterate"),
        ("stereotype", "even your grandma could"),
    ]


def test_longer_words_and_missing_things_set_off_nothing(check):
    for description in (
        "The platform informs stakeholders in context.",
        "There is no time limit and no CAPTCHA.",
        "It works without a timeout.",
        "For senior managers with older browsers.",
    ):
        assert triggers(check(description)) == [], description


def test_groups_are_read_from_words_and_ages(check):
    cases = {
        ("older adults",): ["older"],
        ("65+",): ["older"],
        ("13-17",): ["younger"],
        ("children", "grandparents"): ["older", "younger"],
        ("adults",): [],
        ("30 to 50",): [],
        ("stakeholders",): [],
    }
    for groups, expected in cases.items():
        assert check("a flow", age_groups=list(groups)).output["groups"] == expected, groups
    assert check("A flow for teenagers").output["groups"] == ["younger"]
    assert check("A flow").output["groups"] == []


def test_money_is_read_as_a_whole_word(check):
    plain = len(check("a flow", age_groups=["adults"]).output["recommendations"])
    assert len(check("a payment flow", age_groups=["adults"]).output["recommendations"]) == plain + 2
    assert len(check("an embankment", age_groups=["adults"]).output["recommendations"]) == plain


def test_ranks_versions_and_idioms_are_no_ages_and_no_money(check):
    for description in (
        "A dashboard for senior developers",
        "The older version of the app",
        "A young company builds it",
        "Minor changes to the page",
        "A child element of the page",
    ):
        assert check(description).output["groups"] == [], description
    for groups, named in (
        (["under 18"], ["younger"]),
        (["below the age of 16"], ["younger"]),
        (["under 30"], []),
        (["senior developers"], []),
        (["middle-aged"], []),
        (["boomers"], ["older"]),
        (["seniors", "senior managers"], ["older"]),
    ):
        assert check("a page", age_groups=groups).output["groups"] == named, groups
    plain = len(check("a page", age_groups=["adults"]).output["recommendations"])
    for description, more in (("Please pay attention", 0), ("A food bank finder", 0), ("Pay your bill", 2)):
        found = check(description, age_groups=["adults"]).output["recommendations"]
        assert len(found) == plain + more, description


def test_one_way_among_others_is_not_the_only_one(check):
    for description in ("Not only online: phone and paper too", "It is not app-only"):
        assert triggers(check(description)) == [], description
    assert ("digital_only", "only online") in triggers(check("It works only online"))
    assert ("young_contact", "chat with strangers") in triggers(check("Kids chat with strangers"))


def test_wrong_items_are_refused_in_every_mode(check):
    for mode in ("strict", "compat", "enhanced"):
        with pytest.raises(SkillInputError, match=r"'age_groups\[0\]' must be a string"):
            check("x", mode, age_groups=[{}])


def test_uncertainty_follows_the_evidence(check):
    assert check("a flow").uncertainty == "high"
    assert check("The page has a timeout.").uncertainty == "medium"
    assert (
        check(
            "It has a timeout and the user has to copy the code from the phone to the page. " * 2
        ).uncertainty
        == "low"
    )


@given(st.text(max_size=200), st.lists(st.text(max_size=20), max_size=3))
def test_triggers_are_where_they_say_and_the_output_keeps_its_schema(check, description, groups):
    outcome = check(description or "x", age_groups=groups)
    KEEPS.validate(dict(outcome.output))
    for each in outcome.output["triggers"]:
        assert (description or "x")[each["start"] : each["end"]] == each["text"]


def test_a_hostile_text_takes_time_in_proportion(check):
    # a hundred thousand characters; anything quadratic takes minutes
    begun = process_time()
    for unit in ("timeout, ", "no a or ", "5 5 ", "the elderly ", "a"):
        check(unit * (100_000 // len(unit)))
    assert process_time() - begun < 20


@given(JSON, JSON, st.sampled_from(("strict", "compat", "enhanced")))
def test_any_value_gets_an_outcome_or_a_refusal(check, description, groups, mode):
    try:
        answer = check(description, mode, age_groups=groups)
    except SkillInputError as refused:
        answer = refused
    begins = "Input validation failed for action 'age_inclusive_design_check': "
    assert isinstance(answer, SkillOutcome) or answer.message.startswith(begins)


def test_without_a_group_only_what_was_described_is_answered(check):
    timed = check("A page with a 30 second timeout").output["recommendations"]
    assert len(timed) == 1
    assert "time limit" in timed[0].lower()
    assert len(check("A page with headings").output["recommendations"]) <= 4


def test_an_age_in_the_description_is_read_as_that_age(check):
    for description, named in {
        "Kids aged 7 chat with strangers.": ["younger"],
        "A quiz for people aged 7 to 12": ["younger"],
        "For users aged 70 and over": ["older"],
        "For 12-year-olds": ["younger"],
        "A game that a 6-year-old can play": ["younger"],
        "Residents over the age of 75 sign up here": ["older"],
        "A bus pass for over-65s": ["older"],
        "Lessons for under-12s": ["younger"],
        "Adults aged 30 to 50": [],
        "For people aged 18 or more": [],
        "A 10-year-old system is replaced": [],
        "Aged cheese is on sale": [],
        "A middle-aged man signs up": [],
        "Used in over 60 countries": [],
        "Done in under 5 minutes": [],
        "An aging server is replaced": [],
        "Files with an age of 7 days are deleted": [],
        "Services for the aged": ["older"],
        "An ageing population": ["older"],
        "All ages, from 6 to 99": ["older", "younger"],
    }.items():
        assert check(description).output["groups"] == named, description
    assert triggers(check("Sign up in under 5 minutes")) == []
    said = " ".join(check("Kids aged 7 chat with strangers.").output["recommendations"])
    assert "18 px" not in said
    assert "paper" not in said


def test_a_closed_branch_an_app_that_everybody_must_use_and_a_second_factor_are_barriers(check):
    found = triggers(
        check("Bank branch closes; from now on customers must use the app with two-factor authentication.")
    )
    assert found == [
        ("digital_only", "branch closes"),
        ("digital_only", "must use the app"),
        ("second_factor", "two-factor authentication"),
    ]
    for description, issue in {
        "You have to download our app to book": "digital_only",
        "Members need to install the app": "digital_only",
        "All branches are closing in May": "digital_only",
        "We are closing our branches": "digital_only",
        "Appointments only through the website": "digital_only",
        "Login needs 2FA": "second_factor",
        "An authenticator app is needed": "second_factor",
        "A code is sent by SMS": "second_factor",
    }.items():
        assert issue in {one for one, _ in triggers(check(description))}, description
    for description in (
        "The branch closes at five",
        "Customers do not have to use the app",
        "You no longer need to use the app",
        "Customers can use the app or call us",
        "There is no two-factor authentication",
        "Two-factor authentication is optional",
    ):
        assert triggers(check(description)) == [], description


def test_the_data_of_a_child_come_first_and_want_consent(check):
    outcome = check(
        "A game for children aged 8 that shows ads, asks for the home address, and offers loot boxes for real money."
    )
    assert [issue for issue, _ in triggers(outcome)] == [
        "advertising",
        "children_data",
        "paid_chance",
        "paid_chance",
    ]
    first, second, third, *_ = outcome.output["recommendations"]
    assert first.startswith('Personal data of children ("for the home address"): Do not collect it')
    assert "consent of a parent" in first
    assert second.startswith("Paid chance")
    assert "no targeted advertising" in third
    for description in (
        "A homework app for pupils that stores their phone number",
        "Kids share their exact location with friends",
        "A site where 12-year-olds enter their full name",
        "Girls and boys upload photos of themselves",
    ):
        assert "children_data" in {issue for issue, _ in triggers(check(description))}, description
    assert "children_data" in {
        issue for issue, _ in triggers(check("The quiz asks for the birthday", age_groups=["under 13"]))
    }


def test_the_data_of_adults_are_no_data_of_children(check):
    for description in (
        "The bank asks for the home address and the date of birth.",
        "Users aged 40 share their location.",
        "The app for children does not ask for the home address.",
        "An app for university students with their email address",
    ):
        assert "children_data" not in {issue for issue, _ in triggers(check(description))}, description
    said = " ".join(check("A shop with ads").output["recommendations"])
    assert "children" not in said


def test_a_wheel_and_grey_text_are_found(check):
    found = triggers(
        check(
            "A form where the birth year is picked by scrolling a wheel from 2025 backwards, in light grey text."
        )
    )
    assert ("picker", "scrolling a wheel") in found
    assert ("low_contrast", "light grey text") in found
    assert "children_data" not in {issue for issue, _ in found}
    for description in (
        "A page about bicycle wheels",
        "A wheelchair user signs up",
        "Scroll down to read the text",
    ):
        assert triggers(check(description)) == [], description


def test_who_can_write_to_children_is_looked_at(check):
    for description in ("A game for kids with voice chat", "Anyone can message the pupils"):
        assert "young_contact" in {issue for issue, _ in triggers(check(description))}, description
    assert triggers(check("Anyone can comment on the article")) == []


def test_consent_that_is_there_is_not_asked_for(check):
    (first, *_) = check("With parental consent, children enter their full name.").output["recommendations"]
    assert first.startswith("Personal data of children")
    assert "consent" not in first


def test_what_a_group_needs_in_general_is_told_as_such_and_once(check):
    said = check("A bus app for older people with a 2-minute timeout").output["recommendations"]
    assert said[0].startswith('A time limit ("2-minute timeout")')
    assert all(line.startswith("For older people in general: ") for line in said[1:])
    assert not any("time limit" in line for line in said[1:])
    assert (
        "nothing in this description was recognised"
        in check("A quiz for grandparents").output["recommendations"][0]
    )


def test_the_address_of_a_parent_is_none_of_a_child(check):
    assert "children_data" not in {
        issue for issue, _ in triggers(check("The children's library asks for the parents' email address"))
    }


@pytest.mark.parametrize(
    ("description", "groups", "issue"),
    [
        ("Offers for 'buy now pay later' appear after each purchase", ["teens"], "young_credit"),
        ("Teens can't see what parents see", ["teens"], "young_watched"),
        ("The app secretly tracks the child", ["children"], "young_watched"),
        ("A game with written instructions before each level", ["children"], "young_reading"),
        ("A shop with gems opens when a level ends", ["children"], "paid_chance"),
        ("Horror trailers play, there's no PIN", ["children"], "young_content"),
        ("Incoming calls are answered automatically after 10 seconds", ["older adults"], "by_itself"),
        ("The doorbell with the camera on", ["older adults"], "by_itself"),
        ("A date of birth from a drop-down that starts in 1980", ["over 50"], "age_excluded"),
        ("The graduation year is mandatory", [], "age_excluded"),
        ("Join our young and dynamic team", [], "age_excluded"),
        ("Riders must be 16, we just ask them to tick that", [], "age_gate"),
        ("Subtitles are in the fourth level of settings", [], "hidden_controls"),
        ("The help button is in the menu", [], "hidden_controls"),
        ("They accept a 14 page tenancy contract", [], "long_contract"),
        ("The deadline is 24 hours after the mail", [], "time_limit"),
        ("You pay via Apple Pay or Google Pay", [], "card_only"),
    ],
)
def test_barriers_of_an_age_told_in_other_words_are_found(check, description, groups, issue):
    assert issue in {one for one, _ in triggers(check(description, age_groups=groups))}


@pytest.mark.parametrize(
    "description",
    [
        "A paper for grown-ups: buy now, talk later",
        "Managers read the written instructions",
        "A horror film club for adults",
        "Our support answers within 24 hours",
        "The list starts with the newest entry",
        "A camera shop with many brands",
        "The project deadline is Friday",
    ],
)
def test_harmless_neighbours_of_these_words_set_off_nothing(check, description):
    assert triggers(check(description)) == []


def test_a_young_team_is_no_child(check):
    outcome = check("The form asks for the date of birth, with a picture of our young and dynamic team")
    assert outcome.output["groups"] == []
    assert "children_data" not in {issue for issue, _ in triggers(outcome)}


def test_a_good_flow_is_not_told_what_it_does(check):
    said = " ".join(
        check(
            "Big buttons, one question per screen, a Back button on each screen, no time limit and a button "
            "that calls a person.",
            age_groups=["older adults"],
        ).output["recommendations"]
    )
    for words in ("44 by 44", "time limit", "telephone", "way back"):
        assert words not in said
    assert "No barrier was recognised" in said


@pytest.mark.parametrize(
    ("description", "more"),
    [
        ("Pay by card or cash", 0),
        ("A self-checkout kiosk", 0),
        ("Pay with Apple Pay or Google Pay", 0),
        ("Pay your bill", 2),
    ],
)
def test_how_one_pays_at_a_till_calls_for_no_words_on_fraud(check, description, more):
    said = check(description, age_groups=["adults"]).output["recommendations"]
    assert sum("fraud" in line or "money moves" in line for line in said) == more


def issues(check, description, *groups):
    return {issue for issue, _ in triggers(check(description, age_groups=list(groups)))}


@pytest.mark.parametrize(
    ("description", "issue"),
    [
        ("The child can chat with any other user straight away.", "young_contact"),
        ("Players get messages from anyone.", "young_contact"),
        ("Kids are matched with random players.", "young_contact"),
        ("It gets a push at 11 pm if the streak is about to be lost.", "young_night"),
        ("Reminders come at night.", "young_night"),
        ("It sends notifications after bedtime.", "young_night"),
        ("It says 'You are behind 80% of your class'.", "social_pressure"),
        ("It tells them they are slower than their classmates.", "social_pressure"),
        ("A wrong answer shows a big red X.", "shaming"),
        ("Passwords need 12 characters with symbols.", "memory"),
        ("All instructions are paragraphs of 80 words.", "dense_text"),
        ("They send a video of their face.", "children_data"),
    ],
)
def test_that_what_endangers_or_shames_children_is_read(check, description, issue):
    assert issue in issues(check, description, "children")


@pytest.mark.parametrize(
    ("description", "issue"),
    [
        ("There are no messages from anyone.", "young_contact"),
        ("The child can write a story about any animal.", "young_contact"),
        ("No notifications after 9 pm.", "young_night"),
        ("A reminder comes at 4 pm.", "young_night"),
        ("They earn badges for finishing a lesson.", "notifications"),
        ("The page shows a video of a volcano.", "children_data"),
        ("The back button is behind the class list.", "shaming"),
    ],
)
def test_that_harmless_neighbours_in_products_for_children_are_left_alone(check, description, issue):
    assert issue not in issues(check, description, "children")


def test_that_applicants_are_not_taken_for_children(check):
    flow = "It wants a video of 60 seconds 'showing your young, dynamic energy' and only works with a LinkedIn login."
    assert issues(check, flow, "older workers") == {"age_excluded", "digital_only"}


def test_that_a_good_machine_is_not_told_what_it_does_already(check):
    flow = (
        "Ticket machine: large buttons, four steps, no time limit, a Help button that calls a person. "
        "Screen height is adjustable."
    )
    assert check(flow).output["recommendations"][0] == (
        'A machine in a public place ("ticket machine"): Offer keys to feel and speech through headphones.'
    )
    assert "within reach" in check("A ticket machine with a timeout.").output["recommendations"][0]


def test_that_money_that_is_said_to_be_absent_brings_no_advice_on_fraud(check):
    for description in (
        "A reading game for kids, no ads, no chat, no purchases.",
        "A drawing app without payments.",
        "A free app. There are no in-app purchases and you never pay.",
    ):
        assert "fraud" not in str(check(description).output).lower(), description
    for description in ("People pay in the app.", "No ads, but purchases are offered.", "A banking app."):
        assert "fraud" in str(check(description).output).lower(), description


@pytest.mark.parametrize(
    ("description", "issues"),
    [
        (
            "Ticket machine. Touch screen at 150 cm height, only cards, language choose by flags.",
            ["kiosk", "out_of_reach", "card_only", "flags"],
        ),
        ("Practice on the third floor without a lift, no seats", ["steps", "no_seat"]),
        ("Appointments only by telephone", ["phone_only"]),
        ("Package insert of a medicine in 6 point print", ["small_text"]),
        ("Library for kids: shelves at 180 cm", ["out_of_reach"]),
        ("Library for kids: shelves at 90 cm", []),
        ("The home page shows only cards", []),
    ],
)
def test_that_barriers_of_machines_rooms_and_paper_are_named(check, description, issues):
    assert [issue for issue, _ in triggers(check(description))] == issues


def test_that_a_place_is_not_measured_in_pixels(check):
    for description in (
        "Ticket machine with small print and tiny keys",
        "Paper ballot in small print",
        "Museum audio guide with tiny buttons",
        "Swimming course in a noisy hall",
    ):
        said = str(check(description, age_groups=["65+"]).output)
        assert " px" not in said, description
        assert "digital services" not in said, description
    assert " px" in str(check("A web form with small print", age_groups=["65+"]).output)


def test_that_stated_large_text_and_a_helper_are_credited(check):
    said = check("Ticket machine. Instructions in 18pt with a help button that calls a person.").output
    assert "large text" not in str(said)
    assert "counter near" not in str(said)


def test_that_a_group_that_is_no_age_is_named(check):
    outcome = check("A form", age_groups=["seniors", "adults", "4-7", "wheelchair users"])
    assert any("No age was recognised in: wheelchair users." in line for line in outcome.assumptions)
    assert not any("No age" in line for line in check("A form", age_groups=["all ages", "65+"]).assumptions)


def test_that_an_unknown_argument_is_refused_by_the_contract():
    refused = jsonschema.Draft202012Validator(dict(SKILL.contracts["enhanced"].input_schema))
    assert not refused.is_valid({"flow_description": "A form", "target_age_groups": ["65+"]})


@pytest.mark.parametrize(
    "words", ["A library catalogue", "Our library catalog", "The search of the shop listings"]
)
def test_a_catalogue_is_no_place_to_sit(words):
    output = handler_of(SKILL)(
        {"flow_description": f"{words} where people look for things."}, "enhanced"
    ).output
    assert "where they sit" not in str(output)
