"""The contract of `cognitive_accessibility_audit` in each mode."""

from typing import Final

from comity_skills.schema import PLACE, TEXT, TEXTS, Contracts, one_of, told
from comity_skills.skill import Mode, SkillContract
from comity_skills.words.spans import span_schema

NAME: Final = "cognitive_accessibility_audit"

DEFAULT_CONTEXT: Final = "general digital interface"

_COUNT: Final = {"type": ["integer", "null"], "minimum": 0}
_SCORE: Final = {"type": ["number", "null"]}
_CONTEXT: Final = {**TEXT, "default": DEFAULT_CONTEXT}
_CONTRACTS: Final = Contracts(
    skill="cognitive-accessibility",
    boundary="Design guidance only",
    needs=["content"],
    gives=["findings", "recommendations"],
    description="Measures how easy content is to read and follow, and says what to change.",
)
_OUTPUT: Final = {"findings": TEXTS, "recommendations": TEXTS}
_READABILITY: Final = {
    "language": one_of("english", "german", "french", "spanish", "italian", "portuguese", "other", "unknown"),
    "words": _COUNT,
    "sentences": PLACE,
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
        "properties": {**_READABILITY, "formula": TEXT, "ease": {"type": "number"}},
        "additionalProperties": False,
    },
    "evidence": span_schema(
        "What was found: start and end count characters of the content as sent.",
        {"suggestion": TEXT},
        optional=("suggestion",),
    ),
}
CONTRACTS: Final[dict[Mode, SkillContract]] = {
    "strict": _CONTRACTS.silent({"content": TEXT, "target_context": TEXT}, _OUTPUT),
    "compat": _CONTRACTS.of({"content": TEXT, "target_context": _CONTEXT}, _OUTPUT),
    "enhanced": _CONTRACTS.of(
        {
            "content": told(
                TEXT,
                "The text that people read. Formulas are known for English, German, French, Spanish, Italian and Portuguese.",
            ),
            "target_context": told(_CONTEXT, "Where the content appears."),
        },
        _OUTPUT,
        _ENHANCED,
    ),
}
