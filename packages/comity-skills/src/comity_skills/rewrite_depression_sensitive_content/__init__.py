"""`rewrite_depression_sensitive_content`: words that do not hurt people who are low, and the same message."""

from collections.abc import Mapping
from typing import Any, Final

from comity_skills.editing import TONE_WORDS
from comity_skills.rewrite_depression_sensitive_content.contract import (
    CONTRACTS,
    DEFAULT_DOMAIN,
    DEFAULT_MODE,
    MODES,
    NAME,
)
from comity_skills.skill import Mode, Skill, SkillHandler, SkillOutcome

_PHRASES: Final = "rewrite_depression_sensitive_content/phrases.json"


def _prepare(data: Mapping[str, bytes]) -> SkillHandler:
    from comity_skills.crisis import crisis_detector
    from comity_skills.editing.rules import compiled, ruleset
    from comity_skills.editing.schema import chosen
    from comity_skills.editing.tone import tone_reader
    from comity_skills.rewrite_depression_sensitive_content.rewriting import rewrite
    from comity_skills.words.fields import text_field, trimmed

    rules = compiled(ruleset(data[_PHRASES]))
    detector, learned = crisis_detector(data), tone_reader(data)

    def handle(given: Mapping[str, Any], mode: Mode) -> SkillOutcome:
        text = text_field(NAME, given, "text")
        return rewrite(
            text if mode == "enhanced" else trimmed(text),
            asked=chosen(NAME, "mode", text_field(NAME, given, "mode", DEFAULT_MODE), MODES),
            domain=trimmed(text_field(NAME, given, "domain", DEFAULT_DOMAIN)) or DEFAULT_DOMAIN,
            mode=mode,
            rules=rules,
            detector=detector,
            learned=learned,
        )

    return handle


SKILL: Final = Skill(name=NAME, contracts=CONTRACTS, prepare=_prepare, data=(_PHRASES, TONE_WORDS))
