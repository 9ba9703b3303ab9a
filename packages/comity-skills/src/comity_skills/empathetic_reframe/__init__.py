"""`empathetic_reframe`: the same message, from somebody who minds."""

from collections.abc import Mapping
from typing import Any, Final

from comity_skills.editing import TONE_WORDS
from comity_skills.empathetic_reframe.contract import CONTRACTS, DEFAULT_TONE, NAME, TONES
from comity_skills.skill import Mode, Skill, SkillHandler, SkillOutcome

_PHRASES: Final = "empathetic_reframe/phrases.json"


def _prepare(data: Mapping[str, bytes]) -> SkillHandler:
    from comity_skills.crisis import crisis_detector
    from comity_skills.editing.rules import compiled, ruleset
    from comity_skills.editing.schema import chosen
    from comity_skills.editing.tone import tone_reader
    from comity_skills.empathetic_reframe.reframing import reframe
    from comity_skills.words.fields import text_field, trimmed

    rules = compiled(ruleset(data[_PHRASES]))
    detector, learned = crisis_detector(data), tone_reader(data)

    def handle(given: Mapping[str, Any], mode: Mode) -> SkillOutcome:
        message = text_field(NAME, given, "message")
        return reframe(
            message if mode == "enhanced" else trimmed(message),
            tone=chosen(NAME, "tone", text_field(NAME, given, "tone", DEFAULT_TONE), TONES),
            mode=mode,
            rules=rules,
            detector=detector,
            learned=learned,
        )

    return handle


SKILL: Final = Skill(name=NAME, contracts=CONTRACTS, prepare=_prepare, data=(_PHRASES, TONE_WORDS))
