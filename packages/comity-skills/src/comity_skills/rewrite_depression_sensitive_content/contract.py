"""The contract of `rewrite_depression_sensitive_content` in each mode.

The output schema of 0.1.1 leaves out two fields that its server sends; here they are declared.
"""

from typing import Final

from comity_skills.editing.schema import CRISIS, EDITS, FLAGS
from comity_skills.schema import TEXT, TEXTS, YES_NO, Contracts, one_of, told
from comity_skills.skill import Mode, SkillContract

NAME: Final = "rewrite_depression_sensitive_content"
MODES: Final = ("audit", "rewrite")
DEFAULT_MODE: Final = "rewrite"
DEFAULT_DOMAIN: Final = "general"

_CONTRACTS: Final = Contracts(
    skill="depression-sensitive-content",
    boundary="Non-clinical UX/content guidance only",
    needs=["text"],
    description="Finds wording that shames, hurries, stigmatises or minimises, and rewords what can be reworded safely.",
)
_RECORDED: Final = {
    "result": TEXT,
    "safety_flags": TEXTS,
    "pattern_count": {"type": "integer"},
    "review_recommended": YES_NO,
}
_OF_1_0: Final = {**_RECORDED, "crisis_resources": TEXTS}
_MODE: Final = {**one_of(*MODES), "default": DEFAULT_MODE}
_DOMAIN: Final = {**TEXT, "default": DEFAULT_DOMAIN}
CONTRACTS: Final[dict[Mode, SkillContract]] = {
    "strict": _CONTRACTS.silent({"text": TEXT, "mode": _MODE, "domain": TEXT}, _RECORDED),
    "compat": _CONTRACTS.of({"text": TEXT, "mode": _MODE, "domain": _DOMAIN}, _OF_1_0),
    "enhanced": _CONTRACTS.of(
        {
            "text": told(TEXT, "The text to look at. The rules are written for English."),
            "mode": _MODE,
            "domain": told(_DOMAIN, "Where the text is used; in a clinical domain its terms are no flags."),
        },
        {**_OF_1_0, "edits": EDITS, "flags": FLAGS, "crisis": CRISIS},
    ),
}
