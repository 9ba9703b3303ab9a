"""The contract of `age_inclusive_design_check` in each mode."""

from typing import Any, Final

from comity_skills.skill import Mode, SkillContract
from comity_skills.words.spans import WHY, span_schema

NAME: Final = "age_inclusive_design_check"
GROUPS: Final = ("older", "younger")

_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_DESCRIPTION: Final = "Reads the description of a flow for what shuts out older or younger people."


def _input(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["flow_description"],
        "properties": properties,
        "additionalProperties": False,
    }


def _contract(
    input_schema: dict[str, Any], more: dict[str, Any] | None = None, description: str = ""
) -> SkillContract:
    added = more or {}
    return SkillContract(
        skill="age-inclusive-design",
        boundary="Inclusive design guidance only",
        input_schema=input_schema,
        output_schema={
            "type": "object",
            "required": ["recommendations", *added],
            "properties": {"recommendations": _TEXTS, "access_notes": _TEXTS, **added},
            "additionalProperties": False,
        },
        description=description,
    )


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
    "strict": _contract(_input(flow_description=_TEXT, age_groups=_TEXTS)),
    "compat": _contract(_input(flow_description=_TEXT, age_groups=_TEXTS), description=_DESCRIPTION),
    "enhanced": _contract(
        _input(
            flow_description={**_TEXT, "description": "The flow, in English."},
            age_groups={**_TEXTS, "description": "Who uses it, for example older adults, teens, 65+, 13-17."},
        ),
        _ENHANCED,
        _DESCRIPTION,
    ),
}
