"""The check in our own mode: which places are meant, what is known of them, what in the message may be misread.

- Places come from the region, and from the audience too; faiths and fasts come from the audience.
- A region that names a place which is not known is told in the result: only what holds everywhere is then judged.
- A text in another language is not read: only its figures and signs are. How an English one sounds is read by
  `editing.tone`, unless its writer is in danger.
- Uncertainty is never low: culture is no lookup. It is medium when one place or several are known without doubt
  and the message could be read, and high otherwise.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from comity_skills.crisis.detector import CrisisDetector
from comity_skills.cultural_context_check.adapt import Edit, adapt
from comity_skills.cultural_context_check.contract import DEFAULT_REGION
from comity_skills.cultural_context_check.days import is_fast
from comity_skills.cultural_context_check.knowledge import Finding, Knowledge, Setting
from comity_skills.cultural_context_check.message import Examiner
from comity_skills.cultural_context_check.notes import Notes
from comity_skills.cultural_context_check.places import Gazetteer, Names, Place, Regions
from comity_skills.editing.tone import Tone
from comity_skills.reading.language import Language, language_of
from comity_skills.skill import SkillOutcome, Uncertainty
from comity_skills.words.fields import trimmed
from comity_skills.words.phrases import Phrases
from comity_skills.words.spans import MOST_EVIDENCE, span
from comity_skills.words.tokens import tokens, word_set

_MOST_QUOTED: Final = 8
_LONGEST_QUOTE: Final = 60
_NOT_READ: Final = (
    "The message is not in English. Its words were not read: only figures and signs in it were checked."
)
_MARKS: Final = " \t,.:!–—-"  # noqa: RUF001
_PHRASE: Final = word_set(
    "our my your their the a an all every everyone everybody anyone some people in from of at for with who that based"
)
_PEOPLE: Final = word_set("people women men children staff youth folk public management")
_GOOD_FORM: Final = word_set("tone address gendered humour slang hedge boast direct time individual")
_LABELS: Final = {
    "idiom": "Idioms",
    "slang": "Chat words and slang",
    "faith": "Words of one faith",
    "phone": "Telephone numbers",
    "gendered": "Gendered wording",
    "address": "Informal address",
    "holiday": "Holidays",
    "humour": "Humour or slang",
    "food_and_drink": "Food, drink or games",
    "individual": "Appeal to the individual alone",
    "direct": "Bluntness",
    "tone": "Tone",
    "exposure": "Speaking of failures before others",
    "boast": "Self-praise or pressure",
    "hedge": "Over-softened request",
    "assimilation": "Wording that sets people apart",
    "season": "Seasons",
    "name_field": "Names and addresses",
    "date": "Ambiguous dates",
    "week_day": "Days of rest",
    "time": "Times without a zone",
    "number": "Numbers",
    "currency": "Unclear currency",
    "units": "Units",
    "colour": "Colours",
    "gesture": "Gestures and pictures",
    "direction": "Left and right",
    "custom": "Customs and names",
}


class Reader:
    def __init__(
        self, regions: Regions, names: Names, knowledge: Knowledge, tone: Tone, detector: CrisisDetector
    ) -> None:
        self._tone = tone
        self._detector = detector
        self._regions = regions
        self._places = Gazetteer(regions, names)
        self._english = knowledge.english
        self._examiner = Examiner(knowledge, _peoples(regions))
        self._readers = Phrases(
            (phrase, kind or None) for kind, phrases in knowledge.readers.items() for phrase in phrases
        )
        self._faiths = Phrases(knowledge.faiths.items())
        self._notes = Notes(regions)

    def check(self, message: str, audience: str, region: str) -> SkillOutcome:
        places = self._places.find(region, "region") + self._places.find(audience, "audience")
        unknown = _unknown(places) if self._places.is_unknown(trimmed(region)) else ""
        setting = self._setting(places, audience, everywhere=not places and not unknown)
        language = language_of(message, tokens(message))
        read = language != "other"
        tone = self._tone if read and not self._detector.detect(message).detected else None
        findings = _fitting(self._examiner.examine(message, setting, tone), message, setting, language)
        adapted, edits = (
            adapt(message, neutral=True) if read and "close" not in setting.readers else (message, [])
        )
        shown = trimmed(region) or DEFAULT_REGION
        left = _left(findings, edits)
        return SkillOutcome(
            uncertainty=_uncertainty(places, language),
            assumptions=_assumptions(trimmed(audience), shown, places, language),
            output={
                "adapted_message": _labelled(
                    trimmed(adapted),
                    _readers(trimmed(audience), shown, places, language),
                    edits,
                    left,
                    unknown,
                    language,
                ),
                "notes": [
                    *([f"{unknown[0].upper()}{unknown[1:]}."] if unknown else ()),
                    *(() if read else (_NOT_READ,)),
                    *_changes(message, edits),
                    *_summary(message, left),
                    *self._notes.choose(message if read else "", audience, places, setting, findings),
                ],
                "uncertainty": _doubt(places, language),
                "adapted_text": trimmed(adapted),
                "places": [_shown(place) for place in places],
                "findings": [_found(message, finding) for finding in findings[:MOST_EVIDENCE]],
                "edits": [_edited(message, edit) for edit in edits[:MOST_EVIDENCE]],
            },
        )

    def _setting(self, places: Iterable[Place], audience: str, *, everywhere: bool) -> Setting:
        codes: list[str] = []
        areas: set[str] = set()
        for place in places:
            if place.kind == "area":
                areas.add(place.code)
                codes += self._regions.areas[place.code].members
            else:
                codes.append(place.code)
                areas |= {name for name, area in self._regions.areas.items() if place.code in area.members}
        readers = frozenset(found.meaning for found in self._readers.find(tokens(audience)))
        readers |= {"fasting"} if is_fast(audience) else frozenset()
        return Setting(
            {code: self._regions.countries[code] for code in dict.fromkeys(codes)},
            frozenset(areas),
            everywhere=everywhere,
            faiths=frozenset(found.meaning for found in self._faiths.find(tokens(audience)) if found.meaning),
            readers=readers,
            fluent=bool(codes) and self._english.issuperset(codes) and "second_language" not in readers,
        )


def _peoples(regions: Regions) -> Iterable[str]:
    """`Germans`, `Nigerian`: the names of people that are one word."""
    for country in regions.countries.values():
        for names in country.people:
            yield from names.split("|") if " " not in names else ()


def _fitting(findings: list[Finding], message: str, setting: Setting, language: Language) -> list[Finding]:
    """Among friends only what sets people apart is told, and to a friend elsewhere nothing of good form.

    In another language than English only figures and signs are read, and a date is written as its readers write it,
    where they have one order.
    """
    if language == "other":
        one = len({country.date for country in setting.countries.values()}) == 1
        findings = [
            finding
            for finding in findings
            if _is_figure(message[finding.start : finding.end]) and not (one and finding.issue == "date")
        ]
    if setting.among_friends:
        return [finding for finding in findings if finding.issue == "assimilation"]
    if "close" in setting.readers:
        return [finding for finding in findings if finding.issue not in _GOOD_FORM]
    return findings


def _is_figure(text: str) -> bool:
    return any(map(str.isdigit, text)) or not any(map(str.isalpha, text))


def _unknown(places: Sequence[Place]) -> str:
    """What is said of a region that names no place we know; the audience may name some."""
    names = ", ".join(dict.fromkeys(place.name for place in places))
    checked = f"the message was checked for {names}" if names else "only what holds everywhere was checked"
    return f"the region is not known here: {checked}"


def _labelled(
    text: str,
    readers: str,
    edits: Sequence[Edit],
    findings: Sequence[Finding],
    unknown: str,
    language: Language,
) -> str:
    """What was not changed is not called adapted, and says why; `findings` are those that the edits left."""
    issues = ", ".join(dict.fromkeys(_label(finding).lower() for finding in findings))
    reasons = [unknown] if unknown else []
    if language == "other":
        reasons.append("its language is not read here")
    if issues:
        reasons += [*(["changed: how readers are addressed"] if edits else ()), f"change by hand: {issues}"]
    if not edits and not reasons:
        reasons.append("nothing in it was found to need a change")
    done = ("Partly adapted" if issues or language == "other" else "Adapted") if edits else "Not adapted"
    return f"[{'; '.join((f'{done} for {readers}', *reasons))}]: {text}"


def _left(findings: Sequence[Finding], edits: Sequence[Edit]) -> list[Finding]:
    """The findings that no edit has settled."""
    left = []
    at = 0
    for finding in findings:
        while at < len(edits) and edits[at].end <= finding.start:
            at += 1
        if at == len(edits) or not edits[at].start <= finding.start < finding.end <= edits[at].end:
            left.append(finding)
    return left


def _readers(audience: str, region: str, places: Sequence[Place], language: Language) -> str:
    """`team audience, Japan`; an audience that is a phrase of its own stands by itself: `our team in Riyadh`."""
    words = [token.word for token in tokens(audience)]
    whole = bool(words) and (
        language == "other"
        or not _PHRASE.isdisjoint(words)
        or words[-1] in _PEOPLE
        or (words[-1][-1:] == "s" and words[-1][-2:] != "ss")
    )
    first, *rest = audience.split(" ", 1)
    shown = (
        " ".join((first.lower() if first.lower() in _PHRASE else first, *rest))
        if whole
        else f"{audience} audience"
    )
    named = region == DEFAULT_REGION and any(place.field == "audience" for place in places)
    said = {*(token.word for token in tokens(region))} <= {*words}
    return shown if named or said else f"{shown}, {region}"


def _changes(message: str, edits: Sequence[Edit]) -> Iterable[str]:
    """What was done, told once: it is no advice any more."""
    made = [
        f'"{message[edit.start : edit.end].strip(_MARKS)}" into "{edit.replacement.strip(_MARKS)}"'
        if edit.replacement.strip(_MARKS)
        else f'"{message[edit.start : edit.end].strip(_MARKS)}" left out'
        for edit in edits[:_MOST_QUOTED]
    ]
    if made:
        yield f"Changed in the message: {'; '.join(dict.fromkeys(made))}."


def _label(finding: Finding) -> str:
    return finding.about.capitalize() or _LABELS[finding.issue]


def _summary(message: str, findings: Sequence[Finding]) -> Iterable[str]:
    """One line for each issue and reason. Where its words call for different things, each has its own."""
    by_issue: dict[tuple[str, str], dict[str, Finding]] = {}
    for finding in findings:
        word = message[finding.start : finding.end]
        if len(word) > _LONGEST_QUOTE:
            word = f"{word[:_LONGEST_QUOTE].rpartition(' ')[0]} …"
        by_issue.setdefault((_label(finding), finding.why), {}).setdefault(word, finding)
    for (label, why), by_word in by_issue.items():
        shown = {
            f'"{word}"': found.suggestion.rstrip(".") for word, found in [*by_word.items()][:_MOST_QUOTED]
        }
        more = f" and {len(by_word) - _MOST_QUOTED} more" if len(by_word) > _MOST_QUOTED else ""
        alike = len(set(shown.values())) == 1
        advice = shown.values() if alike else (f"{word}: {said}" for word, said in shown.items())
        yield f"{label} ({', '.join(shown)}{more}): {why}. {'. '.join(dict.fromkeys(advice))}."


def _uncertainty(places: Sequence[Place], language: Language) -> Uncertainty:
    return (
        "high" if not places or any(place.doubtful for place in places) or language == "other" else "medium"
    )


def _assumptions(audience: str, region: str, places: Sequence[Place], language: Language) -> list[str]:
    lines = [f"Audience: {audience}", f"Region: {region}"]
    if places:
        names = ", ".join(dict.fromkeys(place.name for place in places))
        lines.append(f"Places recognised: {names}.")
    else:
        lines.append("No place was recognised; the notes hold everywhere.")
    if language == "other":
        lines.append("The message is not in English: only figures and signs in it could be read.")
    lines.append(
        "Notes are general, hold for no single person, and nobody from the audience has reviewed them."
    )
    return lines


def _doubt(places: Sequence[Place], language: Language) -> str:
    doubtful = [place for place in places if place.doubtful]
    if doubtful:
        return f'"{doubtful[0].text}" names more than one place; say which one is meant.'
    if language == "other":
        return "The message could not be read in its language; findings in it are incomplete."
    if not places:
        return "No place is known, so nothing here is fitted to the audience."
    return "Cultural notes are generalisations; confirm them with people from the audience."


def _shown(place: Place) -> dict[str, Any]:
    return {
        "kind": place.kind,
        "code": place.code,
        "name": place.name,
        "field": place.field,
        "text": place.text,
        "start": place.start,
        "end": place.end,
    }


def _found(message: str, finding: Finding) -> dict[str, Any]:
    return {
        **span(finding.issue, message[finding.start : finding.end], finding.start, finding.end),
        "why": finding.why,
        "suggestion": finding.suggestion,
    }


def _edited(message: str, edit: Edit) -> dict[str, Any]:
    return {
        **span("address", message[edit.start : edit.end], edit.start, edit.end),
        "replacement": edit.replacement,
    }
