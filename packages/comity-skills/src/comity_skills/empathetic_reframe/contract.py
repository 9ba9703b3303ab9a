"""The contract of `empathetic_reframe` in each mode."""

from typing import Final

from comity_skills.editing.schema import CRISIS, EDITS, FLAGS
from comity_skills.schema import TEXT, TEXTS, Contracts, one_of, told
from comity_skills.skill import Mode, SkillContract

NAME: Final = "empathetic_reframe"
TONES: Final = ("neutral", "warm", "formal")
DEFAULT_TONE: Final = "warm"

_CONTRACTS: Final = Contracts(
    skill="empathetic-communication",
    boundary="No manipulation or deceptive empathy",
    needs=["message"],
    description="Rewords a message to be warmer or more formal without changing what it says, and flags hollow empathy and rudeness.",
)
_RECORDED: Final = {"reframed_message": TEXT, "rationale": TEXTS, "escalation_guidance": TEXTS}
_INPUT: Final = {"message": TEXT, "tone": {**one_of(*TONES), "default": DEFAULT_TONE}}
CONTRACTS: Final[dict[Mode, SkillContract]] = {
    "strict": _CONTRACTS.silent(_INPUT, _RECORDED),
    "compat": _CONTRACTS.of(_INPUT, _RECORDED),
    "enhanced": _CONTRACTS.of(
        _INPUT | {"message": told(TEXT, "The message to reword. The rules are written for English.")},
        {**_RECORDED, "edits": EDITS, "flags": FLAGS, "crisis": CRISIS},
    ),
}
