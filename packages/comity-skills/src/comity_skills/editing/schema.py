"""The JSON Schemas of what the editing skills add to an answer."""

from typing import Any, Final, get_args

from comity_skills.crisis.report import Kind
from comity_skills.schema import PLACE, TEXT, YES_NO, closed
from comity_skills.skill import SkillInputError

SEVERITY: Final[dict[str, Any]] = {"type": "string", "enum": ["low", "medium", "high", "critical"]}


EDITS: Final[dict[str, Any]] = {
    "type": "array",
    "description": "What is replaced by what. In an audit these are proposals: `applied` is false.",
    "items": closed(
        {
            "start": PLACE,
            "end": PLACE,
            "original": TEXT,
            "replacement": TEXT,
            "reason": TEXT,
            "category": TEXT,
            "severity": SEVERITY,
            "applied": YES_NO,
        }
    ),
}
FLAGS: Final[dict[str, Any]] = {
    "type": "array",
    "description": "Every place that a rule found; `reworded` says that one of the edits takes care of it.",
    "items": closed(
        {
            "start": PLACE,
            "end": PLACE,
            "text": TEXT,
            "category": TEXT,
            "severity": SEVERITY,
            "reason": TEXT,
            "quoted": YES_NO,
            "reworded": YES_NO,
            "alternative": {**TEXT, "description": "What could stand there instead, where no edit was made."},
        },
        ["start", "end", "text", "category", "severity", "reason", "quoted", "reworded"],
    ),
}
CRISIS: Final[dict[str, Any]] = closed(
    {
        "detected": YES_NO,
        "severity": {"type": "string", "enum": ["none", "low", "moderate", "high", "immediate"]},
        "mention": YES_NO,
        "subject": {
            "type": "string",
            "enum": ["self", "other", "none"],
            "description": "Who is in danger. `detected` is the writer's own danger alone.",
        },
        "dangers": {
            "type": "array",
            "description": "Another person in danger, violence against the writer, harm to a child, a medical emergency, "
            "a threat by the writer. One that is not certain is likely by how the message is told.",
            "items": closed(
                {
                    "kind": {"type": "string", "enum": [*get_args(Kind)]},
                    "subject": {"type": "string", "enum": ["self", "other"]},
                    "span": {"type": "array", "items": PLACE, "minItems": 2, "maxItems": 2},
                    "language": TEXT,
                    "weapon": YES_NO,
                    "certain": YES_NO,
                }
            ),
        },
        "signals": {
            "type": "array",
            "items": closed(
                {
                    "category": TEXT,
                    "severity": TEXT,
                    "span": {"type": "array", "items": PLACE, "minItems": 2, "maxItems": 2},
                    "language": TEXT,
                    "subject": {"type": "string", "enum": ["self", "other", "unknown"]},
                    "negated": YES_NO,
                    "tense": {"type": "string", "enum": ["present", "past", "future"]},
                    "framed": YES_NO,
                }
            ),
        },
    }
)


def chosen(action: str, field: str, value: str, choices: tuple[str, ...]) -> str:
    """The value, which has to be one of the choices; refused in the words of the validator."""
    if value not in choices:
        raise SkillInputError(
            f"Input validation failed for action '{action}': '{field}' must be one of: {', '.join(choices)}"
        )
    return value
