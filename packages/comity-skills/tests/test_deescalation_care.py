"""Who strikes out because of an illness gets care, and whoever else does near them gets none."""

import pytest

from comity_skills.deescalation_plan import SKILL
from tests.prepared import handler_of


def answer(situation):
    return handler_of(SKILL)({"situation": situation, "intensity": "medium"}, "enhanced").output


def handed_to(situation):
    return [handoff["to"] for handoff in answer(situation)["handoffs"]]


def kind(situation):
    return handler_of(SKILL)({"situation": situation}, "enhanced").output["kind"]


@pytest.mark.parametrize(
    "text",
    [
        "I'm a care assistant in a dementia unit. Mr. H. gets very agitated around 5 pm and yesterday he hit a colleague.",
        "I work nights on a dementia ward. Mrs Kaya bit a nurse yesterday when we changed her.",
        "We work in a nursing home. One of our residents became combative and scratched a colleague.",
        "In our memory care unit a gentleman hits out whenever somebody takes his arm.",
        "I am a nurse in a geriatric ward. A patient punched my colleague during the night.",
    ],
)
def test_that_carers_who_name_a_resident_get_the_care_plan_and_no_police(text):
    assert kind(text) == "care"
    assert handed_to(text) == ["care_team"]
    assert "police" not in " ".join(answer(text)["plan"])


@pytest.mark.parametrize(
    "text",
    [
        "I'm a care assistant in a dementia unit. My husband hit me last night.",
        "I'm a nurse on the dementia ward. A visitor punched my colleague.",
        "My manager Mr. Brown in the care home shouts at us every day.",
        "I work in a nursing home. A colleague slaps the residents.",
        "I work in a care home and Mr Brown hits a resident.",
        "I work in a care home. The son of Mrs. K. pushed me against the wall.",
        "Mr. Smith next door hit me.",
    ],
)
def test_that_others_who_strike_in_or_near_a_care_home_get_no_care_plan(text):
    assert kind(text) != "care"


def test_that_who_wants_to_go_home_is_not_to_be_blocked():
    wish = "I'm a carer in a dementia unit. Mr. H. hits out at 5 pm, he wants to 'go home to his mother'."
    assert answer(wish)["risk_notes"][0].startswith("Who wants to go home")
