"""The contracts of `supportive_reply` and of its old companion `grief_support_response` in each mode."""

from typing import Any, Final

from comity_skills.editing.schema import CRISIS, TEXT, TEXTS, closed
from comity_skills.skill import Mode, SkillContract

NAME: Final = "supportive_reply"
GRIEF_NAME: Final = "grief_support_response"
RISKS: Final = ("low", "medium", "high")
GRIEF_MODES: Final = ("presence", "practical", "reflection")
SUPPORT_MODES: Final = ("general", *GRIEF_MODES)
DEFAULT_LOCALE: Final = "en"
DEFAULT_MODE: Final = "general"
BOUNDARY: Final = "Non-clinical support; must provide escalation cues when risk is elevated"
GRIEF_BOUNDARY: Final = "Non-clinical bereavement support only"

_DESCRIPTION: Final = (
    "Answers somebody in distress or grief, notices when they speak of their own danger, and names the crisis lines "
    "of their country."
)
_GRIEF_DESCRIPTION: Final = "Answers somebody who has lost a person; supportive_reply does the same and more."

_RISK: Final = {"type": "string", "enum": [*RISKS]}
_LOCALE: Final = {"type": "string", "default": DEFAULT_LOCALE}
_MODE: Final = {"type": "string", "enum": [*SUPPORT_MODES], "default": DEFAULT_MODE}
_GRIEF_MODE: Final = {"type": "string", "enum": [*GRIEF_MODES]}

_RECORDED: Final = {"reply": TEXT, "escalation_guidance": TEXTS, "boundaries_notice": TEXT}
_LINE: Final = closed(
    {"name": TEXT, "contact": TEXT, "hours": TEXT, "languages": TEXTS, "source": TEXT},
    ["name", "contact", "source"],
)
_ADDED: Final[dict[str, Any]] = {
    "crisis": CRISIS,
    "resources": {
        "type": "array",
        "description": "By country, and last the directories that know every country. Empty when nothing asks for it.",
        "items": closed(
            {
                "country": {
                    **TEXT,
                    "description": "ISO 3166 code; absent for the international directories.",
                },
                "name": TEXT,
                "emergency": TEXT,
                "lines": {"type": "array", "items": _LINE},
                "checked": {
                    "type": ["string", "null"],
                    "description": "The day on which somebody opened the sources of these lines; null: nobody did.",
                },
                "incomplete": {"type": "boolean"},
            },
            ["name", "lines"],
        ),
    },
}


def _contract(properties: dict[str, Any], output: dict[str, Any], description: str = "") -> SkillContract:
    return SkillContract(
        skill="supportive-conversation",
        boundary=BOUNDARY,
        input_schema=closed(properties, ["message", "risk_level"]),
        output_schema=closed(output, ["reply", "escalation_guidance"]),
        description=description,
    )


def _grief(output: dict[str, Any]) -> SkillContract:
    return SkillContract(
        skill="grief-loss-support",
        boundary=GRIEF_BOUNDARY,
        input_schema=closed({"message": TEXT, "support_mode": _GRIEF_MODE}),
        output_schema=closed(output, ["reply", "care_notes"]),
        description=_GRIEF_DESCRIPTION,
    )


_INPUT: Final = {"message": TEXT, "risk_level": _RISK, "locale": _LOCALE}
_GRIEF_OUTPUT: Final = {"reply": TEXT, "care_notes": TEXTS, "escalation_guidance": TEXTS}

CONTRACTS: Final[dict[Mode, SkillContract]] = {
    "strict": _contract(_INPUT, _RECORDED),
    "compat": _contract({**_INPUT, "support_mode": _MODE}, {**_RECORDED, "care_notes": TEXTS}, _DESCRIPTION),
    "enhanced": _contract(
        {
            "message": {**TEXT, "description": "What the person wrote, in any of eleven languages."},
            "risk_level": {
                **_RISK,
                "description": "As it is known before; a crisis in the message raises it.",
            },
            "locale": {
                **_LOCALE,
                "description": "A language tag. Its region decides the country: es-MX is Mexico.",
            },
            "support_mode": _MODE,
        },
        {**_RECORDED, "care_notes": TEXTS, **_ADDED},
        _DESCRIPTION,
    ),
}
GRIEF_CONTRACTS: Final[dict[Mode, SkillContract]] = {
    "strict": _grief(_GRIEF_OUTPUT),
    "enhanced": _grief({**_GRIEF_OUTPUT, **_ADDED}),
}
