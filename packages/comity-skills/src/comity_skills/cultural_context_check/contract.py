"""The contract of `cultural_context_check` in each mode."""

from typing import Any, Final

from comity_skills.skill import Mode, SkillContract
from comity_skills.words.spans import span_schema

NAME: Final = "cultural_context_check"
DEFAULT_REGION: Final = "global"

_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_PLACE: Final = {"type": "integer", "minimum": 0}
_DESCRIPTION: Final = (
    "Looks for what may be misread by an audience elsewhere, and says what is known of the place."
)


def _input(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["message", "audience"],
        "properties": properties,
        "additionalProperties": False,
    }


def _contract(
    input_schema: dict[str, Any], more: dict[str, Any] | None = None, description: str = ""
) -> SkillContract:
    added = more or {}
    return SkillContract(
        skill="cultural-sensitivity",
        boundary="Context-sensitive recommendations with uncertainty disclosure",
        input_schema=input_schema,
        output_schema={
            "type": "object",
            "required": ["adapted_message", "notes", *added],
            "properties": {"adapted_message": _TEXT, "notes": _TEXTS, "uncertainty": _TEXT, **added},
            "additionalProperties": False,
        },
        description=description,
    )


_FOUND_PLACE: Final = {
    "kind": {"type": "string", "enum": ["country", "area"]},
    "code": {"type": "string", "description": "ISO 3166-1 code of a country, or our name of an area."},
    "name": _TEXT,
    "field": {"type": "string", "enum": ["region", "audience"]},
    "text": _TEXT,
    "start": _PLACE,
    "end": _PLACE,
}
_ENHANCED: Final = {
    "adapted_text": {
        "type": "string",
        "description": "The message with its greeting adapted, and no prefix.",
    },
    "places": {
        "type": "array",
        "description": "Which places were recognised, and by which words of which field.",
        "items": {
            "type": "object",
            "required": [*_FOUND_PLACE],
            "properties": _FOUND_PLACE,
            "additionalProperties": False,
        },
    },
    "findings": span_schema(
        "What in the message may be misread. Start and end count characters of the message as sent.",
        {"why": _TEXT, "suggestion": _TEXT},
    ),
    "edits": span_schema("What was changed in the message, and into what.", {"replacement": _TEXT}),
}
CONTRACTS: Final[dict[Mode, SkillContract]] = {
    "strict": _contract(_input(message=_TEXT, audience=_TEXT, region=_TEXT)),
    "compat": _contract(
        _input(message=_TEXT, audience=_TEXT, region={**_TEXT, "default": DEFAULT_REGION}),
        description=_DESCRIPTION,
    ),
    "enhanced": _contract(
        _input(
            message={**_TEXT, "description": "The message, in English."},
            audience={**_TEXT, "description": "Who will read it; places named here count too."},
            region={
                **_TEXT,
                "default": DEFAULT_REGION,
                "description": "Country, state, area, ISO code or language tag, or several of them.",
            },
        ),
        _ENHANCED,
        _DESCRIPTION,
    ),
}
