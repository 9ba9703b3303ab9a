"""`cultural_context_check`: what a message may mean to people elsewhere."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import json

from comity_skills.cultural_context_check.contract import CONTRACTS, DEFAULT_REGION, NAME
from comity_skills.editing import TONE_WORDS
from comity_skills.skill import Mode, Skill, SkillHandler, SkillOutcome

_REGIONS: Final = "cultural_context_check/regions.json"
_NAMES: Final = "cultural_context_check/names.json"
_MESSAGE: Final = "cultural_context_check/message.json"


def _prepare(data: Mapping[str, bytes]) -> SkillHandler:
    from comity_skills.crisis import crisis_detector
    from comity_skills.cultural_context_check import recorded
    from comity_skills.cultural_context_check.check import Reader
    from comity_skills.cultural_context_check.knowledge import Knowledge
    from comity_skills.cultural_context_check.places import Names, Regions
    from comity_skills.editing.tone import tone_reader
    from comity_skills.words.fields import text_field, trimmed

    reader = Reader(
        json.decode(data[_REGIONS], type=Regions),
        json.decode(data[_NAMES], type=Names),
        json.decode(data[_MESSAGE], type=Knowledge),
        tone_reader(data),
        crisis_detector(data),
    )

    def handle(given: Mapping[str, Any], mode: Mode) -> SkillOutcome:
        message = text_field(NAME, given, "message")
        audience = text_field(NAME, given, "audience")
        region = text_field(NAME, given, "region", DEFAULT_REGION)
        if mode == "enhanced":
            return reader.check(message, audience, region)
        return recorded.check(trimmed(message), trimmed(audience), trimmed(region) or DEFAULT_REGION)

    return handle


SKILL: Final = Skill(
    name=NAME,
    contracts=CONTRACTS,
    prepare=_prepare,
    data=(_REGIONS, _NAMES, _MESSAGE, TONE_WORDS),
)
