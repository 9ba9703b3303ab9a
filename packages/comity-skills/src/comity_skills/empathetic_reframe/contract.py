"""The contract of `empathetic_reframe` in each mode."""

from typing import Any, Final

from comity_skills.editing.schema import CRISIS, EDITS, FLAGS, TEXT, TEXTS, closed
from comity_skills.skill import Mode, SkillContract

NAME: Final = "empathetic_reframe"
TONES: Final = ("neutral", "warm", "formal")
DEFAULT_TONE: Final = "warm"

_DESCRIPTION: Final = "Rewords a message to be warmer or more formal without changing what it says, and flags hollow empathy and rudeness."
_RECORDED: Final = {"reframed_message": TEXT, "rationale": TEXTS, "escalation_guidance": TEXTS}


def _input(message: dict[str, Any]) -> dict[str, Any]:
    tone = {"type": "string", "enum": [*TONES], "default": DEFAULT_TONE}
    return closed({"message": message, "tone": tone}, ["message"])


def _contract(input_schema: dict[str, Any], output: dict[str, Any], description: str = "") -> SkillContract:
    return SkillContract(
        skill="empathetic-communication",
        boundary="No manipulation or deceptive empathy",
        input_schema=input_schema,
        output_schema=closed(output),
        description=description,
    )


CONTRACTS: Final[dict[Mode, SkillContract]] = {
    "strict": _contract(_input(TEXT), _RECORDED),
    "compat": _contract(_input(TEXT), _RECORDED, _DESCRIPTION),
    "enhanced": _contract(
        _input({**TEXT, "description": "The message to reword. The rules are written for English."}),
        {**_RECORDED, "edits": EDITS, "flags": FLAGS, "crisis": CRISIS},
        _DESCRIPTION,
    ),
}
