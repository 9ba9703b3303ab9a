"""The recorded shapes: how many lines of guidance and assumptions there are, in which order (actions 2.3, 2.10).

- The wording is ours where the record leaves it open, the counts never are. What outranks them, in these modes
  too: a crisis in the message raises the risk to high, and the message is not repeated (1.0.8 quotes it).
- A mention changes no count: the last line of guidance then tells where help is to be found. Another person in danger
  raises the risk, too, and the first line then says how to get help for them. A message in a language that is not read
  is told so in the reply.
- 1.0.8 takes some everyday words for a crisis ("overwhelmed"); compat raises the risk for them as it does.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from comity_skills.crisis import CrisisReport, Verdict
from comity_skills.crisis.lines import place_of
from comity_skills.skill import SkillOutcome
from comity_skills.supportive_reply.contract import BOUNDARY, GRIEF_BOUNDARY
from comity_skills.supportive_reply.notes import CRISIS_FIRST, care_notes, style

_REPLY: Final = (
    "I hear you, and I am glad you reached out. What you are carrying matters, and you do not have to carry it "
    "alone. There is no need to rush; tell me as much or as little as you like."
)
_AVAILABLE: Final = "Professional support is available any time you need it"
_HARDER: Final = "If things feel harder over time, consider speaking with a mental health professional"
_CONTACT: Final = "You can contact a support line any time, even just to talk"
_FOR_ANOTHER: Final = (
    "Call your local emergency number (112, 911 …) now for the person in danger, say where they are, and stay with "
    "them or on the phone until help is there"
)
_UNREAD: Final = (
    " I cannot read the language of your message, so something important may have escaped me; the contacts below can "
    "help now."
)
_EMERGENCY: Final = "If you are in immediate danger, please call your local emergency services now"
_LOCAL: Final = "Reach out to a crisis line where you live; they are there for exactly this"
_NUMBERS: Final = (
    "In the UK: Samaritans 116 123 | US: 988 Suicide & Crisis Lifeline | International: findahelpline.com"
)
_TRUSTED: Final = "Tell somebody you trust how you are, and ask them to stay with you"
_CAVEAT: Final = "This reply is non-clinical support and does not replace professional care"

# One line each of the two that 1.0.8 names by language; those that have been replaced since are the current ones.
_BY_LANGUAGE: Final[dict[str, tuple[str, str]]] = {
    "en": ("988 Suicide & Crisis Lifeline (US): call or text 988", "Samaritans (UK): 116 123"),
    "zh": ("China: 12356", "Hong Kong Samaritans: 2896 0000"),
    "es": ("Spain: 024", "Mexico SAPTEL: 55 5259 8121"),
    "fr": ("France: 3114", "Switzerland: 143"),
    "de": ("Germany TelefonSeelsorge: 0800 111 0 111", "Austria: 142"),
    "ja": ("Inochi no Denwa: 0120-783-556", "Yorisoi Hotline: 0120-279-338"),
    "ko": ("Korea: 109", "Korea mental health crisis line: 1577-0199"),
    "ar": ("Egypt: 16328", "Saudi Arabia: 920033360"),
    "pt": ("Brazil CVV: 188", "Portugal SOS Voz Amiga: 213 544 545"),
}
_EMOTIONS: Final[dict[str, tuple[str, ...]]] = {
    "fear_anxiety": ("scared", "terrified", "anxious", "worried", "afraid", "nervous", "panic"),
    "sadness_grief": ("sad", "grief", "loss", "crying", "heartbroken", "devastated", "miss", "missing"),
    "anger_frustration": ("angry", "furious", "frustrated", "annoyed", "irritated", "rage", "mad"),
    "loneliness_isolation": ("lonely", "alone", "isolated", "nobody", "no one", "disconnected", "abandoned"),
    "shame_guilt": ("ashamed", "guilty", "embarrassed", "humiliated", "regret", "my fault", "i should have"),
    "love_connection": ("love", "grateful", "thankful", "appreciate", "connected", "supported", "cared for"),
}
_BOUNDARY_WORDS: Final = (
    "you should", "you need to listen", "i promise", "i guarantee", "trust me", "believe me", "you'll be fine",
    "it's not that bad", "don't worry", "calm down", "relax", "stop overreacting",
)  # fmt: skip


def reply_0_1(risk: str, verdict: Verdict, *, unread: bool) -> SkillOutcome:
    return _reply_0_1(
        risk, verdict.detected or verdict.threatened, verdict.mention, verdict.endangered, unread
    )


@cache
def _reply_0_1(risk: str, detected: bool, mention: bool, endangered: bool, unread: bool) -> SkillOutcome:
    """There are few, and each is made once."""
    verdict = Verdict(detected=detected, mention=mention or unread, endangered=endangered)
    used = "high" if verdict.raised else risk
    return SkillOutcome(
        uncertainty="medium",
        assumptions=[_risk_line(risk, raised=verdict.raised), _CAVEAT],
        output={
            "reply": f"{_FOR_ANOTHER}. {_REPLY}" if endangered else _REPLY + (_UNREAD if unread else ""),
            "escalation_guidance": _shown(_guidance_0_1(used), verdict),
            "boundaries_notice": BOUNDARY,
        },
        shared=True,
    )


def grief_0_1(mode: str, reply: str, verdict: Verdict) -> SkillOutcome:
    guidance = _guidance_0_1("high" if verdict.raised else "medium")
    return SkillOutcome(
        uncertainty="medium",
        assumptions=[
            f"Support mode: {mode}",
            "Grief has no timetable and no right form",
            f"{GRIEF_BOUNDARY}; this reply does not replace professional care",
        ],
        output={
            "reply": reply,
            "care_notes": _five_notes(mode, verdict),
            "escalation_guidance": _shown(guidance, verdict),
        },
    )


def reply_1_0(
    message: str,
    risk: str,
    locale: str,
    mode: str,
    replies: Mapping[str, str],
    report: CrisisReport,
    *,
    raised: bool,
    death: bool,
) -> SkillOutcome:
    """`death` says that the message is about one: the modes are sorry for a loss only then."""
    language = _language(locale)
    used = "high" if raised else risk
    emotion, confidence = _emotion(message)
    flags = [word for word in _BOUNDARY_WORDS if word in message.lower()]
    output: dict[str, Any] = {
        "reply": _beginning(replies, report)
        + replies[style(mode, death=death) if mode != "general" else used],
        "escalation_guidance": _shown(_guidance_1_0(used, language), report),
        "boundaries_notice": BOUNDARY,
    }
    if mode != "general":
        output["care_notes"] = care_notes(mode, message, crisis=raised, death=death)
    return SkillOutcome(
        uncertainty="medium",
        assumptions=[
            _risk_line(risk, raised=raised),
            f"Locale: {language}",
            f"Detected emotion: {emotion} (confidence: {confidence:.1f})",
            f"Support mode: {mode}",
            f"Boundary flags: {', '.join(flags) or 'none'}",
            _CAVEAT,
        ],
        output=output,
    )


def _beginning(replies: Mapping[str, str], report: CrisisReport) -> str:
    return f"{replies['other_anywhere']} " if report.endangered else ""


def _five_notes(mode: str, verdict: Verdict) -> list[str]:
    """As many as the record has, whatever the message says; danger comes first all the same."""
    first, *others = care_notes(mode, "", crisis=False, death=True)
    return [f"{CRISIS_FIRST} {first}" if verdict.detected else first, *others]


def _risk_line(risk: str, *, raised: bool) -> str:
    if raised:
        return "Risk level: high (auto-escalated from caller-provided level due to detected crisis signals)"
    return f"Risk level: {risk} (self-reported or system-assessed)"


def _guidance_0_1(risk: str) -> list[str]:
    if risk == "high":
        return [_EMERGENCY, _LOCAL, _NUMBERS, _TRUSTED]
    return [_HARDER, _CONTACT] if risk == "medium" else [_AVAILABLE]


def _guidance_1_0(risk: str, language: str) -> list[str]:
    primary, secondary = _BY_LANGUAGE[language]
    if risk == "medium":
        return [_HARDER, _CONTACT, primary]
    if risk == "low":
        return [_AVAILABLE]
    return [
        _EMERGENCY,
        primary,
        secondary,
        "Crisis Text Line: Text HOME to 741741",
        "International: https://findahelpline.com",
        "IASP: https://www.iasp.info/crisis-centres-helplines/",
        _TRUSTED,
    ]


def _shown(guidance: list[str], verdict: Verdict) -> list[str]:
    if verdict.endangered:
        guidance[0] = _FOR_ANOTHER
    if verdict.mention:
        guidance[-1] = f"{guidance[-1]} | {_NUMBERS}"
    return guidance


def _language(locale: str) -> str:
    language = place_of(locale).language
    return language if language in _BY_LANGUAGE else "en"


def _emotion(message: str) -> tuple[str, float]:
    lowered = message.lower()
    hits = {name: sum(word in lowered for word in words) for name, words in _EMOTIONS.items()}
    best = max(hits, key=hits.__getitem__)
    return (best, min(hits[best] / 5, 1.0)) if hits[best] else ("neutral", 0.0)
