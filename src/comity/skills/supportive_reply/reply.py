"""The reply of our own mode: in the language of the locale, with help by country and the evidence beside it.

- It never repeats the message. What it says depends on the risk, on the mode asked for and on the report alone.
- Who sends no locale is answered in the language of what was found, else in English.
- Uncertainty follows from the evidence: low when somebody speaks plainly of himself, high when the language is
  not one that the detector reads, medium otherwise; finding nothing proves nothing.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, json

from comity.skills.crisis import CrisisReport
from comity.skills.crisis.lines import Country, Help, Lines, help_for, place_of
from comity.skills.crisis.report import RANK
from comity.skills.editing.evidence import crisis_row
from comity.skills.skill import SkillOutcome, Uncertainty
from comity.skills.supportive_reply.contract import BOUNDARY, GRIEF_BOUNDARY
from comity.skills.supportive_reply.notes import care_notes

_CAVEAT: Final = "Non-clinical support: it does not replace professional care, and it diagnoses nothing."


class Replies(Struct, frozen=True):
    """By language: the reply for each risk and mode, and the sentences of the guidance."""

    reviewed: str
    sources: tuple[str, ...]
    languages: Mapping[str, Mapping[str, str]]


class Asked(Struct, frozen=True, kw_only=True):
    """`locale` is None when none was sent."""

    message: str
    risk: str
    mode: str
    locale: str | None


class Responder:
    def __init__(self, replies: Replies, lines: Lines) -> None:
        self._replies = replies.languages
        self._lines = lines
        self._rows = {code: _country_row(code, country) for code, country in lines.countries.items()}
        self._worldwide = {
            "name": "International directories",
            "lines": json.decode(json.encode(lines.international)),
        }

    def words(self, language: str) -> Mapping[str, str]:
        return self._replies.get(language) or self._replies["en"]

    def reply(self, asked: Asked, report: CrisisReport) -> SkillOutcome:
        language = self._language(asked, report)
        words = self.words(language)
        risk = "high" if report.detected else asked.risk
        helping = help_for(self._lines, asked.locale or language)
        shows = report.mention or risk != "low"
        output: dict[str, Any] = {
            "reply": words[_which(asked.mode, risk, report)],
            "escalation_guidance": _guidance(words, helping, risk, report),
            "boundaries_notice": BOUNDARY,
        }
        if asked.mode != "general":
            output["care_notes"] = care_notes(asked.mode, asked.message, crisis=report.detected, by_word=True)
        output["crisis"] = crisis_row(report)
        output["resources"] = self._resources(helping) if shows else []
        return SkillOutcome(
            uncertainty=self._uncertainty(asked, report),
            assumptions=[
                _risk_line(asked.risk, report),
                f"Language of the reply: {language if language in self._replies else 'en'}",
                _place_line(helping),
                f"Support mode: {asked.mode}",
                _CAVEAT,
            ],
            output=output,
        )

    def grief(self, asked: Asked, report: CrisisReport) -> SkillOutcome:
        """`grief_support_response` in our own mode."""
        whole = self.reply(asked, report)
        output = {
            name: whole.output[name]
            for name in ("reply", "care_notes", "escalation_guidance", "crisis", "resources")
        }
        assumptions = [*whole.assumptions[:-1], f"{GRIEF_BOUNDARY}; it does not replace professional care."]
        return SkillOutcome(uncertainty=whole.uncertainty, assumptions=assumptions, output=output)

    def _resources(self, helping: Help) -> list[dict[str, Any]]:
        rows = [self._rows[code] for code in helping.countries]
        return [*rows, self._worldwide] if helping.own else [self._worldwide, *rows]

    def _language(self, asked: Asked, report: CrisisReport) -> str:
        if asked.locale is not None:
            return place_of(asked.locale).language
        if not report.signals:
            return "en"
        return max(report.signals, key=lambda signal: RANK[signal.severity]).language

    def _uncertainty(self, asked: Asked, report: CrisisReport) -> Uncertainty:
        if (
            asked.locale is not None
            and place_of(asked.locale).language not in self._replies
            and not report.signals
        ):
            return "high"
        plain = any(
            signal.subject == "self" and not signal.lowered and RANK[signal.severity] >= RANK["high"]
            for signal in report.signals
        )
        return "low" if plain else "medium"


def _which(mode: str, risk: str, report: CrisisReport) -> str:
    if report.detected:
        return "high"
    if mode != "general":
        return mode
    return "mention" if report.mention and risk == "low" else risk


def _guidance(words: Mapping[str, str], helping: Help, risk: str, report: CrisisReport) -> list[str]:
    urls = " ".join(line.contact for line in helping.international)
    directories = words["directories"].format(urls=urls)
    contacts = [
        ("" if helping.own else f"{country.name}: ")
        + f"{line.name}, {line.contact}"
        + (f" ({line.hours})" if line.hours else "")
        for country in helping.countries.values()
        for line in (country.lines if helping.own else country.lines[:1])
    ]
    found = [*contacts, directories] if helping.own else [directories, *contacts]
    if risk == "high":
        away = [words["distance"]] if report.severity == "immediate" else []
        return [*_emergency(words, helping), *away, *found, words["trusted"]]
    if risk == "medium":
        return [words["professional"], *found, words["trusted"]]
    return [words["available"], *found] if report.mention else [words["available"]]


def _emergency(words: Mapping[str, str], helping: Help) -> list[str]:
    if not helping.own:
        return [words["emergency_anywhere"]]
    return [
        words["emergency"].format(number=country.emergency, country=country.name)
        for country in helping.countries.values()
    ]


def _country_row(code: str, country: Country) -> dict[str, Any]:
    row: dict[str, Any] = {"country": code, **json.decode(json.encode(country))}
    return {name: row[name] for name in ("country", "name", "emergency", "lines", "reviewed", "review_by")}


def _risk_line(risk: str, report: CrisisReport) -> str:
    if report.detected and risk != "high":
        return f"Risk level: high (raised from {risk}: the message speaks of the writer's own danger)"
    return f"Risk level: {risk} (as given by the caller)"


def _place_line(helping: Help) -> str:
    if helping.own:
        return "Country: " + ", ".join(helping.countries)
    return "Country: not told by the locale; the largest countries of the language are shown as examples"
