"""`deescalation_plan`: how to calm a conflict, and when to hand it over."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import json

from comity_skills.deescalation_plan.contract import (
    CONTRACTS,
    DEFAULT_INTENSITY,
    INTENSITIES,
    NAME,
)
from comity_skills.skill import Mode, Skill, SkillHandler, SkillOutcome

_SIGNALS: Final = "deescalation_plan/signals.json"
_PLANS: Final = "deescalation_plan/plans.json"


def _prepare(data: Mapping[str, bytes]) -> SkillHandler:
    from comity_skills.crisis import crisis_detector
    from comity_skills.deescalation_plan.planning import PlanFile, plan
    from comity_skills.editing.rules import compiled, ruleset
    from comity_skills.editing.schema import chosen
    from comity_skills.words.fields import text_field, trimmed

    rules = compiled(ruleset(data[_SIGNALS]))
    plans = json.decode(data[_PLANS], type=PlanFile).plans
    detector = crisis_detector(data)

    def handle(given: Mapping[str, Any], mode: Mode) -> SkillOutcome:
        situation = text_field(NAME, given, "situation")
        named = text_field(NAME, given, "intensity", DEFAULT_INTENSITY)
        intensity = chosen(NAME, "intensity", named, INTENSITIES)
        return plan(
            situation if mode == "enhanced" else trimmed(situation),
            intensity=intensity if "intensity" in given else None,
            mode=mode,
            rules=rules,
            plans=plans,
            detector=detector,
        )

    return handle


SKILL: Final = Skill(name=NAME, contracts=CONTRACTS, prepare=_prepare, data=(_SIGNALS, _PLANS))
