"""The contract of `deescalation_plan` in each mode."""

from typing import Final

from comity_skills.editing.schema import CRISIS, SEVERITY
from comity_skills.schema import PLACE, TEXT, TEXTS, YES_NO, Contracts, closed, one_of, told
from comity_skills.skill import Mode, SkillContract

NAME: Final = "deescalation_plan"
INTENSITIES: Final = ("low", "medium", "high")
DEFAULT_INTENSITY: Final = "medium"
HANDOFFS: Final = (
    "emergency", "crisis_support", "victim_support", "parent_support", "care_team", "carer_support", "supervisor", "legal",
)  # fmt: skip
KINDS: Final = (
    "weapon", "suicide", "near_harm_child", "near_harm", "care", "at_home", "road", "hits_back", "pupils", "siblings",
    "violence", "stalking", "control", "unread", "bystander", "stranger", "small_child", "teenager", "own_anger", "moderator",
    "formal_threat", "review", "code_review", "rumour", "chat", "mail", "between_others", "counter", "neighbour", "couple",
    "family", "colleague", "none", "talk",
)  # fmt: skip

_CONTRACTS: Final = Contracts(
    skill="conflict-de-escalation",
    boundary="No coercive tactics",
    needs=["situation"],
    description="Plans how to calm a conflict, says which words call for what, and when to hand over to somebody else.",
)
_RECORDED: Final = {"plan": TEXTS, "risk_notes": TEXTS}
_INTENSITY: Final = one_of(*INTENSITIES)
_ENHANCED: Final = {
    "kind": {
        "type": "string",
        "enum": [*KINDS],
        "description": "What the plan is made for. From `weapon` to `control` it is about safety, not about talking; `suicide` is for somebody else who may take their life; "
        "`care` is for somebody ill, confused or disabled who strikes out, `hits_back`, `pupils` and `siblings` for the "
        "grown-up beside children who fight or mean to, `rumour` for false claims in public, `formal_threat` for an announced lawsuit, complaint or review. "
        "`unread` and `none` have no plan.",
    },
    "intensity": {**_INTENSITY, "description": "The one the plan is made for."},
    "suggested_intensity": {
        "type": ["string", "null"],
        "enum": [*INTENSITIES, None],
        "description": "What the words of the situation speak for; null when they say nothing.",
    },
    "triggers": {
        "type": "array",
        "description": "Which words of the situation called for what. Places count characters as sent.",
        "items": closed(
            {
                "start": PLACE,
                "end": PLACE,
                "text": TEXT,
                "category": TEXT,
                "severity": SEVERITY,
                "negated": YES_NO,
                "effect": TEXT,
            }
        ),
    },
    "handoffs": {
        "type": "array",
        "description": "Who else is needed, the most urgent first.",
        "items": closed({"to": one_of(*HANDOFFS), "because": TEXTS}),
    },
    "crisis": CRISIS,
}
_INPUT: Final = {"situation": TEXT, "intensity": {**_INTENSITY, "default": DEFAULT_INTENSITY}}
CONTRACTS: Final[dict[Mode, SkillContract]] = {
    "strict": _CONTRACTS.silent(_INPUT, _RECORDED),
    "compat": _CONTRACTS.of(_INPUT, _RECORDED),
    "enhanced": _CONTRACTS.of(
        _INPUT | {"situation": told(TEXT, "What happens between whom. The rules are written for English.")},
        {**_RECORDED, **_ENHANCED},
    ),
}
