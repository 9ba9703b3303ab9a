"""The contracts of `supportive_reply` and of its old companion `grief_support_response` in each mode."""

from typing import Any, Final

from comity_skills.editing.schema import CRISIS
from comity_skills.schema import TEXT, TEXTS, Contracts, closed, one_of, told
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

_RISK: Final = one_of(*RISKS)
_LOCALE: Final = {"type": "string", "default": DEFAULT_LOCALE}
_MODE: Final = {**one_of(*SUPPORT_MODES), "default": DEFAULT_MODE}

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
                "country": told(TEXT, "ISO 3166 code; absent for the international directories."),
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
_CONTRACTS: Final = Contracts(
    skill="supportive-conversation",
    boundary=BOUNDARY,
    needs=["message", "risk_level"],
    gives=["reply", "escalation_guidance"],
    description="Answers somebody in distress or grief, notices when they speak of their own danger, and names the crisis lines "
    "of their country.",
)
_GRIEF: Final = Contracts(
    skill="grief-loss-support",
    boundary=GRIEF_BOUNDARY,
    needs=None,
    gives=["reply", "care_notes"],
    description="Answers somebody who has lost a person; supportive_reply does the same and more.",
)

_INPUT: Final = {"message": TEXT, "risk_level": _RISK, "locale": _LOCALE}
_GRIEF_OUTPUT: Final = {"reply": TEXT, "care_notes": TEXTS, "escalation_guidance": TEXTS}

_GRIEF_INPUT: Final = {"message": TEXT, "support_mode": one_of(*GRIEF_MODES)}

CONTRACTS: Final[dict[Mode, SkillContract]] = {
    "strict": _CONTRACTS.silent(_INPUT, _RECORDED),
    "compat": _CONTRACTS.of({**_INPUT, "support_mode": _MODE}, {**_RECORDED, "care_notes": TEXTS}),
    "enhanced": _CONTRACTS.of(
        {
            "message": told(TEXT, "What the person wrote, in any of eleven languages."),
            "risk_level": told(_RISK, "As it is known before; a crisis in the message raises it."),
            "locale": told(_LOCALE, "A language tag. Its region decides the country: es-MX is Mexico."),
            "support_mode": _MODE,
        },
        {**_RECORDED, "care_notes": TEXTS, **_ADDED},
    ),
}
GRIEF_CONTRACTS: Final[dict[Mode, SkillContract]] = {
    "strict": _GRIEF.of(_GRIEF_INPUT, _GRIEF_OUTPUT),
    "enhanced": _GRIEF.of(_GRIEF_INPUT, {**_GRIEF_OUTPUT, **_ADDED}),
}
