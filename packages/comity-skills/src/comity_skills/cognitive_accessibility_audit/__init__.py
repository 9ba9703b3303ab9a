"""`cognitive_accessibility_audit`: how easy a content is to read and to follow."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import convert, json

from comity_skills.cognitive_accessibility_audit.contract import CONTRACTS, DEFAULT_CONTEXT, NAME
from comity_skills.skill import Mode, Skill, SkillHandler, SkillOutcome

_ENGLISH: Final = "reading/english.json"
_ABBREVIATIONS: Final = "reading/abbreviations.json"
_RULES: Final = "cognitive_accessibility_audit/rules.json"


def _prepare(data: Mapping[str, bytes]) -> SkillHandler:
    from comity_skills.cognitive_accessibility_audit import audit, recorded
    from comity_skills.cognitive_accessibility_audit.wording import read_wording
    from comity_skills.reading.measure import read_reading_data
    from comity_skills.words.fields import text_field, trimmed
    from comity_skills.words.phrases import Phrases
    from comity_skills.words.rules import Rule, Rules
    from comity_skills.words.tokens import word_set

    rules = json.decode(data[_RULES])
    known = audit.Knowledge(
        read_reading_data(data[_ENGLISH], data[_ABBREVIATIONS]),
        Rules(convert(rules["rules"], tuple[Rule, ...]), rules["ignored"]),
        Phrases[str](rules["jargon"].items()),
        Phrases[str](rules["idioms"].items()),
        Phrases[str](rules["double_negatives"].items()),
        word_set(rules["known_long_words"]),
        read_wording(rules),
    )

    def handle(given: Mapping[str, Any], mode: Mode) -> SkillOutcome:
        content = text_field(NAME, given, "content")
        context = trimmed(text_field(NAME, given, "target_context", DEFAULT_CONTEXT)) or DEFAULT_CONTEXT
        if mode == "enhanced":
            return audit.audit(content, context, known)
        return recorded.audit(trimmed(content), context)

    return handle


SKILL: Final = Skill(
    name=NAME, contracts=CONTRACTS, prepare=_prepare, data=(_ENGLISH, _ABBREVIATIONS, _RULES)
)
