"""The contract of `neurodiversity_design_check` in each mode."""

from typing import Final

from comity_skills.schema import TEXT, TEXTS, Contracts, told
from comity_skills.skill import Mode, SkillContract
from comity_skills.words.spans import WHY, span_schema

NAME: Final = "neurodiversity_design_check"
AREAS: Final = ("attention", "sensory", "reading", "executive")

_CONTRACTS: Final = Contracts(
    skill="neurodiversity-aware-design",
    boundary="Inclusive design guidance only",
    needs=["ui_description"],
    gives=["recommendations"],
    description="Reads the description of an interface for what burdens attention, senses, reading or memory.",
)
_INPUT: Final = {"ui_description": TEXT, "focus": TEXTS}
_OUTPUT: Final = {"recommendations": TEXTS, "tradeoffs": TEXTS}
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
    "strict": _CONTRACTS.silent(_INPUT, _OUTPUT),
    "compat": _CONTRACTS.of(_INPUT, _OUTPUT),
    "enhanced": _CONTRACTS.of(
        {
            "ui_description": told(TEXT, "The interface, in English."),
            "focus": told(TEXTS, "Whom or what to look at, for example ADHD, autism, dyslexia, memory."),
        },
        _OUTPUT,
        _ENHANCED,
    ),
}
