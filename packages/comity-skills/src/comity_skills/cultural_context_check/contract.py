"""The contract of `cultural_context_check` in each mode."""

from typing import Final

from comity_skills.schema import PLACE, TEXT, TEXTS, Contracts, closed, one_of, told
from comity_skills.skill import Mode, SkillContract
from comity_skills.words.spans import span_schema

NAME: Final = "cultural_context_check"
DEFAULT_REGION: Final = "global"

_CONTRACTS: Final = Contracts(
    skill="cultural-sensitivity",
    boundary="Context-sensitive recommendations with uncertainty disclosure",
    needs=["message", "audience"],
    gives=["adapted_message", "notes"],
    description="Looks for what may be misread by an audience elsewhere, and says what is known of the place.",
)
_OUTPUT: Final = {"adapted_message": TEXT, "notes": TEXTS, "uncertainty": TEXT}
_REGION: Final = {**TEXT, "default": DEFAULT_REGION}
_FOUND_PLACE: Final = {
    "kind": one_of("country", "area"),
    "code": told(TEXT, "ISO 3166-1 code of a country, or our name of an area."),
    "name": TEXT,
    "field": one_of("region", "audience"),
    "text": TEXT,
    "start": PLACE,
    "end": PLACE,
}
_ENHANCED: Final = {
    "adapted_text": told(TEXT, "The message with its greeting adapted, and no prefix."),
    "places": {
        "type": "array",
        "description": "Which places were recognised, and by which words of which field.",
        "items": closed(_FOUND_PLACE),
    },
    "findings": span_schema(
        "What in the message may be misread. Start and end count characters of the message as sent.",
        {"why": TEXT, "suggestion": TEXT},
    ),
    "edits": span_schema("What was changed in the message, and into what.", {"replacement": TEXT}),
}
CONTRACTS: Final[dict[Mode, SkillContract]] = {
    "strict": _CONTRACTS.silent({"message": TEXT, "audience": TEXT, "region": TEXT}, _OUTPUT),
    "compat": _CONTRACTS.of({"message": TEXT, "audience": TEXT, "region": _REGION}, _OUTPUT),
    "enhanced": _CONTRACTS.of(
        {
            "message": told(TEXT, "The message, in English."),
            "audience": told(TEXT, "Who will read it; places named here count too."),
            "region": told(_REGION, "Country, state, area, ISO code or language tag, or several of them."),
        },
        _OUTPUT,
        _ENHANCED,
    ),
}
