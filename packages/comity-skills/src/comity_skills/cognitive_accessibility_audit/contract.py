"""The contract of `cognitive_accessibility_audit` in each mode."""

from typing import Any, Final

from comity_skills.skill import Mode, SkillContract
from comity_skills.words.spans import span_schema

NAME: Final = "cognitive_accessibility_audit"

_TEXTS: Final = {"type": "array", "items": {"type": "string"}}
_COUNT: Final = {"type": ["integer", "null"], "minimum": 0}
_SCORE: Final = {"type": ["number", "null"]}
_DESCRIPTION: Final = "Measures how easy content is to read and follow, and says what to change."


def _input(target_context: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["content"],
        "properties": {"content": content, "target_context": target_context},
        "additionalProperties": False,
    }


def _output(more: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["findings", "recommendations", *more],
        "properties": {"findings": _TEXTS, "recommendations": _TEXTS, **more},
        "additionalProperties": False,
    }


_READABILITY: Final = {
    "language": {
        "type": "string",
        "enum": ["english", "german", "french", "spanish", "italian", "portuguese", "other", "unknown"],
    },
    "words": _COUNT,
    "sentences": {"type": "integer", "minimum": 0},
    "words_per_sentence": _SCORE,
    "sentences_over_20_words": _COUNT,
    "sentences_over_30_words": _COUNT,
    "flesch_reading_ease": _SCORE,
    "flesch_kincaid_grade": _SCORE,
    "smog_grade": _SCORE,
    "automated_readability_index": _SCORE,
    "coleman_liau_index": _SCORE,
}
_ENHANCED: Final = {
    "readability": {
        "type": "object",
        "description": "Counts and scores; a score is null where it does not hold for the language, a count where the script parts no words. `formula` and `ease` (0 to 100) are those of German, French, Spanish, Italian or Portuguese.",
        "required": [*_READABILITY],
        "properties": {**_READABILITY, "formula": {"type": "string"}, "ease": {"type": "number"}},
        "additionalProperties": False,
    },
    "evidence": span_schema(
        "What was found: start and end count characters of the content as sent.",
        {"suggestion": {"type": "string"}},
        optional=("suggestion",),
    ),
}


def _contract(
    input_schema: dict[str, Any], output_schema: dict[str, Any], description: str = ""
) -> SkillContract:
    return SkillContract(
        skill="cognitive-accessibility",
        boundary="Design guidance only",
        input_schema=input_schema,
        output_schema=output_schema,
        description=description,
    )


_TEXT: Final = {"type": "string"}
DEFAULT_CONTEXT: Final = "general digital interface"
CONTRACTS: Final[dict[Mode, SkillContract]] = {
    "strict": _contract(_input(_TEXT, _TEXT), _output({})),
    "compat": _contract(_input({**_TEXT, "default": DEFAULT_CONTEXT}, _TEXT), _output({}), _DESCRIPTION),
    "enhanced": _contract(
        _input(
            {**_TEXT, "default": DEFAULT_CONTEXT, "description": "Where the content appears."},
            {
                **_TEXT,
                "description": "The text that people read. Formulas are known for English, German, French, Spanish, Italian and Portuguese.",
            },
        ),
        _output(_ENHANCED),
        _DESCRIPTION,
    ),
}
