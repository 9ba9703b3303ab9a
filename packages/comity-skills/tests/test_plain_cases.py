"""Sentences that once got a false, empty or useless answer, each asked of the skill that a user would ask."""

import json
from functools import cache
from importlib.resources import files

import pytest

from comity.actions.library import Library
from evals.tables.crisis import detector

CARRYING = "What you are carrying matters"


@cache
def library():
    return Library("enhanced")


def asked(action, **given):
    handler = library().handler(library().calls.entry(action).action)
    return handler(given, "enhanced").output


def replied(message, **more):
    return asked("supportive_reply", message=message, risk_level="low", **more)


@pytest.mark.parametrize(
    "text",
    [
        "The file does not exist.",
        "w w w w w w w w",
        "파일이 존재하지 않습니다.",
        "존재하지 않는 페이지입니다.",
        "Thanks, talk soon.",
        "Sorry, no refunds.",
        "Please read this before you start.",
    ],
)
def test_office_and_technical_sentences_are_neither_a_crisis_nor_a_mention(text):
    report = detector().detect(text)
    assert (report.detected, report.mention, report.subject, report.signals) == (False, False, "none", ())
    assert replied(text)["resources"] == []


@pytest.mark.parametrize(
    "text",
    [
        "My brother says he is going to shoot himself and he has a gun",
        "Mon frère dit qu'il va se tirer une balle et il a une arme",
        "Mein Bruder sagt, er erschießt sich, und er hat eine Waffe",
        "兄が銃で自殺すると言っていて、銃を持っています",
        "My roommate just swallowed a whole bottle of pills and won't wake up",
    ],
)
def test_another_person_in_danger_gets_the_emergency_number_first(text):
    output = replied(text)
    assert "112" in output["reply"][:90]
    assert "112" in output["escalation_guidance"][0]
    assert output["crisis"]["subject"] == "other"
    assert output["crisis"]["detected"] is False
    assert output["resources"]


def test_the_emergency_number_is_that_of_the_region():
    output = replied("My roommate just swallowed a whole bottle of pills and won't wake up", locale="en-AU")
    assert "000" in output["reply"][:60]


@pytest.mark.parametrize(
    ("text", "locale", "country"),
    [("Ik wil dood", "nl-NL", "NL"), ("Я больше не хочу жить, помогите мне", "ru-RU", "RU")],
)
def test_a_language_that_is_not_read_is_told_and_the_lines_of_the_locale_are_shown(text, locale, country):
    output = replied(text, locale=locale)
    assert "cannot read the language" in output["reply"]
    assert country in [group.get("country") for group in output["resources"]]


def test_violence_at_home_is_not_handed_to_a_supervisor_nor_negotiated():
    output = asked("deescalation_plan", situation="My husband hits me when he drinks")
    said = " ".join([*output["plan"], *output["risk_notes"]])
    assert "supervisor" not in said
    assert "stop negotiating" not in said.lower()
    assert "emergency number" in said
    assert output["intensity"] == "high"


def test_a_knife_makes_the_plan_one_of_high_intensity_unless_the_caller_says_otherwise():
    situation = "A man at the counter has a knife"
    assert asked("deescalation_plan", situation=situation)["intensity"] == "high"
    assert asked("deescalation_plan", situation=situation, intensity="low")["intensity"] == "low"


def test_joy_anger_grief_loneliness_and_a_lost_job_get_five_answers():
    texts = [
        "I'm so happy, I passed!",
        "I'm furious with my landlord, I hate him",
        "My dad died last week",
        "I feel so lonely in this city",
        "I lost my job and I'm ashamed to tell my wife",
    ]
    replies = [replied(text)["reply"] for text in texts]
    assert len(set(replies)) == len(texts)
    assert not any(CARRYING in reply for reply in replies)
    assert "wonderful" in replies[0]
    assert "job" in replies[4]


def test_a_bug_report_is_told_that_nothing_calls_for_support():
    output = replied("NullPointerException in line 42 when I call save() twice")
    assert output["reply"] == "I see nothing here that calls for support; if there is something, tell me."


def test_every_flag_that_is_not_applied_has_an_alternative_and_a_reason():
    text = "You failed to provide the documents on time. You must send them today. This is your last chance."
    output = asked("rewrite_depression_sensitive_content", text=text)
    left = [flag for flag in output["flags"] if not flag["reworded"]]
    assert len(output["flags"]) >= 3
    assert all(flag["alternative"] and flag["reason"] for flag in left)
    assert "provision" not in json.dumps(output)
    assert "set up" not in json.dumps(output)


def test_pork_and_beer_for_saudi_arabia_are_not_called_adapted():
    output = asked(
        "cultural_context_check",
        message="Join us for pork ribs and beer on Friday!",
        audience="partners",
        region="Saudi Arabia",
    )
    assert output["adapted_message"].startswith("[Not adapted")
    assert {one["text"] for one in output["findings"]} == {"pork", "beer", "Friday"}


def test_design_checks_answer_what_was_described():
    descriptions = [
        "A login page with a blinking banner and a 30 second timeout",
        "Checkout with CAPTCHA and autoplaying video",
        "A form in nine steps without a way back",
        "A dashboard with many notifications",
    ]
    for action, field in (
        ("neurodiversity_design_check", "ui_description"),
        ("age_inclusive_design_check", "flow_description"),
    ):
        said = [tuple(asked(action, **{field: one})["recommendations"]) for one in descriptions]
        assert len(set(said)) == len(said)
        assert any("go back" in line for line in said[2])


def test_german_officialese_is_called_hard():
    text = (
        "Die Nichteinhaltung der Mitwirkungspflichten führt zur Leistungsversagung durch die zuständige Behörde "
        "und schließt jede Fristverlängerung aus."
    )
    (finding, *_) = asked("cognitive_accessibility_audit", content=text)["findings"]
    assert "Hard to read in German" in finding


def audited(html):
    output = asked("accessibility_audit", pages=[{"url": "page", "html": html}], detail="full")
    return output["ranking"][0]


HEAD = "<html lang=en><head><title>A page about boats</title>{}</head><body><main><h1>Boats</h1>{}</main></body></html>"


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("<link rel=stylesheet href=site.css>", '<button class="hidden"></button>'),
        ("", '<p>As shown <a href="#note" role="doc-biblioref">in the book</a>.</p><p id=note>A book.</p>'),
        (
            "<style>p { line-height: 1 !important } p.a { line-height: 1.6 !important }</style>",
            "<p class=a>Text</p>",
        ),
        ("", '<p><a href="/a">Read more</a> about sails. <a href="/b">Read more</a> about oars.</p>'),
    ],
    ids=[
        "a sheet that is not at hand",
        "a role of digital publishing",
        "an overridden rule",
        "links of one name",
    ],
)
def test_what_the_markup_alone_does_not_show_is_no_failure(head, body):
    page = audited(HEAD.format(head, body))
    assert [one for one in page["checks"] if one["failed"]] == []


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ('<img src=a.jpg alt="IMG_2041.jpg">', "name of a file"),
        ('<p><span aria-label="Boat">x</span></p>', "aria-label"),
    ],
    ids=["a file name as text", "a name where none is allowed"],
)
def test_a_file_name_as_text_and_a_prohibited_attribute_are_failures(body, word):
    page = audited(HEAD.format("", body))
    assert any(word in one["problem"] for one in page["findings"])


def test_a_text_without_markup_is_told_why_it_was_not_checked():
    output = asked("accessibility_audit", pages=[{"url": "page", "html": "plain text"}])
    assert output["summary"] == "No page could be checked. The text holds no markup; nothing was checked."


def test_no_country_claims_that_its_lines_were_checked():
    countries = json.loads(files("comity_skills").joinpath("crisis/lines.json").read_bytes())["countries"]
    assert all(country["checked"] is None for country in countries.values())
    assert all(countries[code].get("incomplete") for code in ("PT", "CO", "PE") if code in countries)
