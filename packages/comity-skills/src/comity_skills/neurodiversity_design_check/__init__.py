"""`neurodiversity_design_check`: what an interface asks of attention, senses, reading and memory."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import convert, json

from comity_skills.neurodiversity_design_check.contract import AREAS, CONTRACTS, NAME
from comity_skills.skill import Mode, Skill, SkillHandler, SkillOutcome

_GUIDANCE: Final = "neurodiversity_design_check/guidance.json"
_INTERFACE: Final = "words/interface.json"


def _prepare(data: Mapping[str, bytes]) -> SkillHandler:
    from comity_skills.neurodiversity_design_check.check import Guidance, Reader, recorded
    from comity_skills.words.fields import text_field, texts_field, trimmed
    from comity_skills.words.interface import Interface

    told = json.decode(data[_GUIDANCE])
    known = convert(told, Guidance)
    reader = Reader(known, Interface(json.decode(data[_INTERFACE]), told["rules"], AREAS))

    def handle(given: Mapping[str, Any], mode: Mode) -> SkillOutcome:
        description = text_field(NAME, given, "ui_description")
        focus = [trimmed(item) for item in texts_field(NAME, given, "focus")]
        if mode == "enhanced":
            return reader.check(description, [item for item in focus if item])
        return recorded(description, focus, known)

    return handle


SKILL: Final = Skill(name=NAME, contracts=CONTRACTS, prepare=_prepare, data=(_INTERFACE, _GUIDANCE))
