"""The contract of `age_inclusive_design_check` in each mode."""

from typing import Final

from comity_skills.schema import TEXT, TEXTS, Contracts, told
from comity_skills.skill import Mode, SkillContract
from comity_skills.words.spans import WHY, span_schema

NAME: Final = "age_inclusive_design_check"
GROUPS: Final = ("older", "younger")

_CONTRACTS: Final = Contracts(
    skill="age-inclusive-design",
    boundary="Inclusive design guidance only",
    needs=["flow_description"],
    gives=["recommendations"],
    description="Reads the description of a flow for what shuts out older or younger people.",
)
_INPUT: Final = {"flow_description": TEXT, "age_groups": TEXTS}
_OUTPUT: Final = {"recommendations": TEXTS, "access_notes": TEXTS}
_ENHANCED: Final = {
    "groups": {
        "type": "array",
        "description": "Which age groups the guidance is for: named in age_groups, or in the description.",
        "items": {"type": "string", "enum": [*GROUPS]},
    },
    "triggers": span_schema("Which words of the description set off which issue."),
    "not_counted": span_schema(
        "Mentions that say the thing is absent, under people's control, or already done as advised.",
        {"why": WHY},
    ),
}
CONTRACTS: Final[dict[Mode, SkillContract]] = {
    "strict": _CONTRACTS.silent(_INPUT, _OUTPUT),
    "compat": _CONTRACTS.of(_INPUT, _OUTPUT),
    "enhanced": _CONTRACTS.of(
        {
            "flow_description": told(TEXT, "The flow, in English."),
            "age_groups": told(TEXTS, "Who uses it, for example older adults, teens, 65+, 13-17."),
        },
        _OUTPUT,
        _ENHANCED,
    ),
}
