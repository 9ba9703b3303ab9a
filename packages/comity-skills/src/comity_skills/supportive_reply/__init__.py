"""`supportive_reply`: an answer to somebody in distress that notices danger and says where help is.

`grief_support_response` is the name that 0.1.1 has for the modes of grief.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from comity_skills.crisis.lines import LINES
from comity_skills.skill import Mode, Skill, SkillHandler, SkillOutcome
from comity_skills.supportive_reply.contract import (
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

if TYPE_CHECKING:
    from comity_skills.supportive_reply.matter import Matters
    from comity_skills.supportive_reply.message import MessageReader
    from comity_skills.supportive_reply.reply import Responder

UNREAD: Final = "crisis/unread.json"
_DATA: Final = (UNREAD, LINES)


def _prepare(data: Mapping[str, bytes]) -> SkillHandler:
    from comity_skills.crisis import crisis_detector
    from comity_skills.crisis.lines import place_of
    from comity_skills.crisis.report import QUIET
    from comity_skills.crisis.unread import Unread
    from comity_skills.editing.concern import is_concerning
    from comity_skills.editing.schema import chosen
    from comity_skills.supportive_reply import recorded
    from comity_skills.supportive_reply.reply import Asked
    from comity_skills.words.fields import text_field, trimmed

    detector, unread = crisis_detector(data, phrasing=True), Unread(data[UNREAD])
    responder = _responder(data)

    def handle(given: Mapping[str, Any], mode: Mode) -> SkillOutcome:
        message = text_field(NAME, given, "message")
        risk = chosen(NAME, "risk_level", text_field(NAME, given, "risk_level"), RISKS)
        if mode == "strict":
            folded = detector.folded(message)
            verdict = detector.judge(message, folded)
            silent = not (verdict.detected or verdict.mention or verdict.endangered)
            return recorded.reply_0_1(risk, verdict, unread=silent and unread(message, folded))
        locale = trimmed(text_field(NAME, given, "locale", DEFAULT_LOCALE))
        support = chosen(
            NAME, "support_mode", text_field(NAME, given, "support_mode", DEFAULT_MODE), SUPPORT_MODES
        )
        report = detector.detect(message)
        if mode == "enhanced":
            sent = locale if "locale" in given and locale else None
            return responder.reply(Asked(message=message, risk=risk, mode=support, locale=sent), report)
        raised = report.raised or is_concerning(message, QUIET, "compat")
        words = responder.words(place_of(locale).language)
        death = support != DEFAULT_MODE and responder.speaks_of_death(message)
        return recorded.reply_1_0(message, risk, locale, support, words, report, raised=raised, death=death)

    return handle


def _responder(data: Mapping[str, bytes]) -> "Responder":
    from comity_skills.crisis.lines import read_lines
    from comity_skills.supportive_reply.reply import Responder

    return Responder(read_lines(data[LINES]), message_reader(data))


def message_reader(data: Mapping[str, bytes]) -> "MessageReader":
    from comity_skills.prepared import once
    from comity_skills.reading.latin import Latin
    from comity_skills.supportive_reply.message import MessageReader
    from comity_skills.supportive_reply.wordings import Wordings

    wordings = once(data, "supportive_reply/wordings", Wordings)
    return MessageReader(wordings, matters_reader(data), once(data, "reading/latin", Latin), data[UNREAD])


def matters_reader(data: Mapping[str, bytes]) -> "Matters":
    from comity_skills.prepared import once
    from comity_skills.supportive_reply.matter import Matters

    return once(
        data,
        "supportive_reply/matter",
        lambda section: once(data, "supportive_reply/fields", lambda fields: Matters(section, fields)),
    )


def _prepare_grief(data: Mapping[str, bytes]) -> SkillHandler:
    from comity_skills.crisis import crisis_detector
    from comity_skills.editing.schema import chosen
    from comity_skills.supportive_reply import recorded
    from comity_skills.supportive_reply.reply import Asked
    from comity_skills.words.fields import text_field

    detector = crisis_detector(data, phrasing=True)
    responder = _responder(data)

    def handle(given: Mapping[str, Any], mode: Mode) -> SkillOutcome:
        message = text_field(GRIEF_NAME, given, "message")
        support = chosen(
            GRIEF_NAME, "support_mode", text_field(GRIEF_NAME, given, "support_mode"), GRIEF_MODES
        )
        if mode != "enhanced":
            return recorded.grief_0_1(support, responder.words("en")[support], detector.judge(message))
        asked = Asked(message=message, risk="medium", mode=support, locale=None, bereaved=True)
        return responder.grief(asked, detector.detect(message))

    return handle


SKILL: Final = Skill(name=NAME, contracts=CONTRACTS, prepare=_prepare, data=_DATA)
GRIEF_SKILL: Final = Skill(name=GRIEF_NAME, contracts=GRIEF_CONTRACTS, prepare=_prepare_grief, data=_DATA)
