"""The contract of `neurodiversity_design_check` in each mode."""

from typing import Any, Final

from comity_skills.skill import Mode, SkillContract
from comity_skills.words.spans import WHY, span_schema

NAME: Final = "neurodiversity_design_check"
AREAS: Final = ("attention", "sensory", "reading", "executive")

_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_DESCRIPTION: Final = (
    "Reads the description of an interface for what burdens attention, senses, reading or memory."
)


def _input(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["ui_description"],
        "properties": properties,
        "additionalProperties": False,
    }


def _contract(
    input_schema: dict[str, Any], more: dict[str, Any] | None = None, description: str = ""
) -> SkillContract:
    added = more or {}
    return SkillContract(
        skill="neurodiversity-aware-design",
        boundary="Inclusive design guidance only",
        input_schema=input_schema,
        output_schema={
            "type": "object",
            "required": ["recommendations", *added],
            "properties": {"recommendations": _TEXTS, "tradeoffs": _TEXTS, **added},
            "additionalProperties": False,
        },
        description=description,
    )


_ENHANCED: Final = {
    "areas": {
        "type": "array",
        "description": "What the recommendations are about: named in focus, or touched by the description.",
        "items": {"type": "string", "enum": [*AREAS, "language"]},
    },
    "triggers": span_schema("Which words of the description set off which issue."),
    "not_counted": span_schema(
        "Mentions that say the thing is absent, under people's control, or already done as advised.",
        {"why": WHY},
    ),
}
CONTRACTS: Final[dict[Mode, SkillContract]] = {
    "strict": _contract(_input(ui_description=_TEXT, focus=_TEXTS)),
    "compat": _contract(_input(ui_description=_TEXT, focus=_TEXTS), description=_DESCRIPTION),
    "enhanced": _contract(
        _input(
            ui_description={**_TEXT, "description": "The interface, in English."},
            focus={
                **_TEXTS,
                "description": "Whom or what to look at, for example ADHD, autism, dyslexia, memory.",
            },
        ),
        _ENHANCED,
        _DESCRIPTION,
    ),
}
