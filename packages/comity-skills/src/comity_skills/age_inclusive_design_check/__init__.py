"""`age_inclusive_design_check`: whom a flow shuts out by age, old or young."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import convert, json

from comity_skills.age_inclusive_design_check.contract import CONTRACTS, GROUPS, NAME
from comity_skills.skill import Mode, Skill, SkillHandler, SkillOutcome

_GUIDANCE: Final = "age_inclusive_design_check/guidance.json"
_INTERFACE: Final = "words/interface.json"


def _prepare(data: Mapping[str, bytes]) -> SkillHandler:
    from comity_skills.age_inclusive_design_check.check import Guidance, Reader, recorded
    from comity_skills.words.fields import text_field, texts_field, trimmed
    from comity_skills.words.interface import Interface

    told = json.decode(data[_GUIDANCE])
    known = convert(told, Guidance)
    reader = Reader(known, Interface(json.decode(data[_INTERFACE]), told["rules"], GROUPS))

    def handle(given: Mapping[str, Any], mode: Mode) -> SkillOutcome:
        description = text_field(NAME, given, "flow_description")
        groups = [trimmed(item) for item in texts_field(NAME, given, "age_groups")]
        if mode == "enhanced":
            return reader.check(description, [item for item in groups if item])
        return recorded(description, groups, known)

    return handle


SKILL: Final = Skill(name=NAME, contracts=CONTRACTS, prepare=_prepare, data=(_INTERFACE, _GUIDANCE))
