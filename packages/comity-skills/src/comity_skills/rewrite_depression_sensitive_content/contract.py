"""The contract of `rewrite_depression_sensitive_content` in each mode.

The output schema of 0.1.1 leaves out two fields that its server sends; here they are declared.
"""

from typing import Any, Final

from comity_skills.editing.schema import CRISIS, EDITS, FLAGS, TEXT, TEXTS, YES_NO, closed
from comity_skills.skill import Mode, SkillContract

NAME: Final = "rewrite_depression_sensitive_content"
MODES: Final = ("audit", "rewrite")
DEFAULT_MODE: Final = "rewrite"
DEFAULT_DOMAIN: Final = "general"

_DESCRIPTION: Final = (
    "Finds wording that shames, hurries, stigmatises or minimises, and rewords what can be reworded safely."
)
_RECORDED: Final = {
    "result": TEXT,
    "safety_flags": TEXTS,
    "pattern_count": {"type": "integer"},
    "review_recommended": YES_NO,
}


def _input(text: dict[str, Any], domain: dict[str, Any]) -> dict[str, Any]:
    return closed(
        {
            "text": text,
            "mode": {"type": "string", "enum": [*MODES], "default": DEFAULT_MODE},
            "domain": domain,
        },
        ["text"],
    )


def _contract(input_schema: dict[str, Any], output: dict[str, Any], description: str = "") -> SkillContract:
    return SkillContract(
        skill="depression-sensitive-content",
        boundary="Non-clinical UX/content guidance only",
        input_schema=input_schema,
        output_schema=closed(output),
        description=description,
    )


_DEFAULTED: Final = {**TEXT, "default": DEFAULT_DOMAIN}
CONTRACTS: Final[dict[Mode, SkillContract]] = {
    "strict": _contract(_input(TEXT, TEXT), _RECORDED),
    "compat": _contract(_input(TEXT, _DEFAULTED), {**_RECORDED, "crisis_resources": TEXTS}, _DESCRIPTION),
    "enhanced": _contract(
        _input(
            {**TEXT, "description": "The text to look at. The rules are written for English."},
            {
                **_DEFAULTED,
                "description": "Where the text is used; in a clinical domain its terms are no flags.",
            },
        ),
        {**_RECORDED, "crisis_resources": TEXTS, "edits": EDITS, "flags": FLAGS, "crisis": CRISIS},
        _DESCRIPTION,
    ),
}
