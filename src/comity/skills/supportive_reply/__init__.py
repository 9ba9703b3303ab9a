"""`supportive_reply`: an answer to somebody in distress that notices danger and says where help is.

`grief_support_response` is the name that 0.1.1 has for the modes of grief.
"""

from collections.abc import Mapping
from typing import Any, Final

from comity.skills.crisis import DATA as CRISIS_DATA
from comity.skills.crisis.data import OPINION
from comity.skills.crisis.lines import LINES
from comity.skills.skill import Mode, Skill, SkillHandler, SkillOutcome
from comity.skills.supportive_reply.contract import (
    CONTRACTS,
    DEFAULT_LOCALE,
    DEFAULT_MODE,
    GRIEF_CONTRACTS,
    GRIEF_MODES,
    GRIEF_NAME,
    NAME,
    RISKS,
    SUPPORT_MODES,
)

_REPLIES: Final = "supportive_reply/replies.json"
_DATA: Final = (*CRISIS_DATA, OPINION, LINES, _REPLIES)


def _prepare(data: Mapping[str, bytes]) -> SkillHandler:
    from msgspec import json

    from comity.skills.crisis import crisis_detector
    from comity.skills.crisis.lines import place_of, read_lines
    from comity.skills.crisis.report import QUIET
    from comity.skills.editing.concern import is_concerning
    from comity.skills.editing.schema import chosen
    from comity.skills.supportive_reply import recorded
    from comity.skills.supportive_reply.reply import Asked, Replies, Responder
    from comity.skills.words.fields import text_field, trimmed

    detector = crisis_detector(data)
    responder = Responder(json.decode(data[_REPLIES], type=Replies), read_lines(data[LINES]))

    def handle(given: Mapping[str, Any], mode: Mode) -> SkillOutcome:
        message = text_field(NAME, given, "message")
        risk = chosen(NAME, "risk_level", text_field(NAME, given, "risk_level"), RISKS)
        locale = text_field(NAME, given, "locale", DEFAULT_LOCALE)
        if mode == "strict":
            return recorded.reply_0_1(risk, detector.judge(message))
        locale = trimmed(locale)
        support = chosen(
            NAME, "support_mode", text_field(NAME, given, "support_mode", DEFAULT_MODE), SUPPORT_MODES
        )
        report = detector.detect(message)
        if mode == "enhanced":
            sent = locale if "locale" in given and locale else None
            return responder.reply(Asked(message=message, risk=risk, mode=support, locale=sent), report)
        raised = report.detected or is_concerning(message, QUIET, "compat")
        words = responder.words(place_of(locale).language)
        return recorded.reply_1_0(message, risk, locale, support, words, report, raised=raised)

    return handle


def _prepare_grief(data: Mapping[str, bytes]) -> SkillHandler:
    from msgspec import json

    from comity.skills.crisis import crisis_detector
    from comity.skills.crisis.lines import read_lines
    from comity.skills.editing.schema import chosen
    from comity.skills.supportive_reply import recorded
    from comity.skills.supportive_reply.reply import Asked, Replies, Responder
    from comity.skills.words.fields import text_field

    detector = crisis_detector(data)
    responder = Responder(json.decode(data[_REPLIES], type=Replies), read_lines(data[LINES]))

    def handle(given: Mapping[str, Any], mode: Mode) -> SkillOutcome:
        message = text_field(GRIEF_NAME, given, "message")
        support = chosen(
            GRIEF_NAME, "support_mode", text_field(GRIEF_NAME, given, "support_mode"), GRIEF_MODES
        )
        if mode != "enhanced":
            return recorded.grief_0_1(support, responder.words("en")[support], detector.judge(message))
        asked = Asked(message=message, risk="medium", mode=support, locale=None)
        return responder.grief(asked, detector.detect(message))

    return handle


SKILL: Final = Skill(name=NAME, contracts=CONTRACTS, prepare=_prepare, data=_DATA)
GRIEF_SKILL: Final = Skill(name=GRIEF_NAME, contracts=GRIEF_CONTRACTS, prepare=_prepare_grief, data=_DATA)
