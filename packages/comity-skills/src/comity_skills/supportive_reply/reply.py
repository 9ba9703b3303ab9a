"""The reply of our own mode: in the language of the locale, with help by country and the evidence beside it.

- It never repeats the message. What it says depends on the report, on the risk and the mode asked for, and on what
  the message is about. It says that nothing calls for support only where that is certain; of what no topic knows it asks
  how the writer is. When nothing was found, but the phrasing is close to that of people in danger, it asks that, too.
- The modes are sorry for a loss only where the message is about a death, or the caller asks for an answer to grief.
- Another person in danger comes first: the emergency number, what to do while waiting, then the lines.
- Violence against the writer and harm to a child have guidance of their own.
- Who is hurt by others and still goes to school is told to tell an adult.
- Suicide as the plot of a story is answered as a story.
- A message in a language that is not read gets the lines of the locale and is told that it was not read.
- Who sends no locale is answered in the language of the message; where that is not certain, in that of what was found, else
  in English.
- Uncertainty follows from the evidence: low when somebody speaks plainly of himself, high when the language is
  not one that the detector reads, medium otherwise; finding nothing proves nothing.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, json
from msgspec.structs import replace

from comity_skills.crisis import CrisisReport
from comity_skills.crisis.lines import Country, Help, Lines, help_for, place_of
from comity_skills.crisis.opinion import CATEGORY as PHRASING
from comity_skills.crisis.report import RANK, Signal
from comity_skills.editing.evidence import crisis_row
from comity_skills.skill import SkillOutcome, Uncertainty
from comity_skills.supportive_reply.contract import BOUNDARY, GRIEF_BOUNDARY, RISKS
from comity_skills.supportive_reply.message import About, MessageReader
from comity_skills.supportive_reply.notes import care_notes, style
from comity_skills.supportive_reply.topics import LIGHT

_CLOSE: Final = "The phrasing is close to that of people in danger; this is no finding."
_SHORT: Final = frozenset(("story", "alarm"))  # replies with little guidance
_BY_OTHERS: Final = frozenset(("violence", "child"))
_LIKELY: Final = {
    ("suicide", "other"): "worry",
    ("violence", "other"): "witness",
    ("child", "other"): "witness",
    ("threat", "other"): "threat",
    ("body", "self"): "own",
    ("violence", "self"): "violence",
    ("child", "self"): "child",
}
"""The reply to a danger, by its name."""
_CAVEAT: Final = "Non-clinical support: it does not replace professional care, and it diagnoses nothing."


class Asked(Struct, frozen=True, kw_only=True):
    """`locale` is None when none was sent. `bereaved` says that the caller knows of a death."""

    message: str
    risk: str
    mode: str
    locale: str | None
    bereaved: bool = False


class Responder:
    def __init__(self, lines: Lines, reader: MessageReader) -> None:
        self._reader = reader
        self._lines = lines
        self._rows = {code: _country_row(code, country) for code, country in lines.countries.items()}
        self._worldwide = {
            "name": "International directories",
            "lines": json.decode(json.encode(lines.international)),
        }

    def words(self, language: str) -> Mapping[str, str]:
        return self._reader.words(language)

    def speaks_of_death(self, message: str) -> bool:
        return self._reader.about(message).death

    def reply(self, asked: Asked, report: CrisisReport) -> SkillOutcome:
        plain = any(
            signal.category != PHRASING and not signal.lowered and signal.subject == "self"
            for signal in report.signals
        )
        about = About() if report.raised and plain else self._reader.about(asked.message, report)
        report = _with_likely(report, about)
        unread = about.unread and not (report.raised or report.signals)
        death = about.death or asked.bereaved
        language = self._language(asked, report, about)
        form = self._reader.form(asked.message, language)
        words = self.words(form)
        risk = "high" if report.raised else asked.risk
        helping = help_for(self._lines, asked.locale or language)
        which = _which(asked.mode, risk, report, unread=unread)
        if which == "mention" and about.story:
            which = "story"
        elif about.young and (which in _BY_OTHERS or (which in RISKS and about.topic == "harmed")):
            which = "minor"
        elif about.alarm and about.topic is None and which == "low" and not report.close:
            which = "alarm"
        lost = unread or (about.uneasy and not report.raised)
        shows = which != "story" and (report.mention or bool(report.dangers) or lost or risk != "low")
        if which in {"other", "own"} or (which == "high" and (report.endangered or _has_begun(report))):
            first = [*_for_another(words, helping, report), *_for_the_body(words, helping, report)]
            said = " ".join([*first, words[which]])
        elif about.now and which in {*_BY_OTHERS, "minor"}:
            said = " ".join([*_for_the_writer(words, helping, report, young=about.young), words[which]])
        elif which == asked.mode:
            said = self._styled(asked, about, form, death=death)
        elif (
            about.topic is not None
            and (which in {"low", "medium"} or (which == "mention" and _denies(report)))
            and not (report.close and about.topic in LIGHT)
        ):
            said = self._reader.reply(form, about.topic)
        elif which == "low" or (which == "medium" and about.calm and not report.close):
            said = words[_open(about, report)]
        else:
            said = words[which]
        output: dict[str, Any] = {
            "reply": said,
            "escalation_guidance": _guidance(words, helping, risk, report, lost=lost, young=about.young)
            if which not in _SHORT
            else [*(_emergency(words, helping) if which == "alarm" else []), words["available"]],
            "boundaries_notice": BOUNDARY,
        }
        if asked.mode != "general":
            output["care_notes"] = care_notes(
                asked.mode, asked.message, crisis=report.detected, death=death, by_word=True
            )
        output["crisis"] = crisis_row(report)
        output["resources"] = (
            []
            if _is_only_of_the_body(report)
            else [self._worldwide]
            if _is_only_of_violence(report)
            else self._resources(helping)
            if shows
            else []
        )
        return SkillOutcome(
            uncertainty="high" if unread else self._uncertainty(asked, report),
            assumptions=[
                _risk_line(asked.risk, report),
                f"Language of the reply: {form if language in self._reader.languages else 'en'}",
                _place_line(helping),
                f"Support mode: {asked.mode}",
                *([f"Topic: {about.topic}"] if about.topic is not None else []),
                *(["The language of the message is not one that is read here."] if unread else []),
                *([_CLOSE] if report.close else []),
                _CAVEAT,
            ],
            output=output,
        )

    def _styled(self, asked: Asked, about: About, language: str, *, death: bool) -> str:
        """The reply of a mode. Where nobody died, joy is answered with joy. The modes speak of a person who died."""
        if about.topic == "pet_loss" or (not death and about.topic in LIGHT):
            return self._reader.reply(language, about.topic)
        return self.words(language)["nothing" if about.calm and not death else style(asked.mode, death=death)]

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

    def _language(self, asked: Asked, report: CrisisReport, about: About) -> str:
        if asked.locale is not None:
            return place_of(asked.locale).language
        if report.dangers:
            found = report.dangers[0].language
        elif report.signals:
            found = max(report.signals, key=lambda signal: RANK[signal.severity]).language
        else:
            return about.language or report.close or "en"
        return self._reader.spoken(asked.message, found)

    def _uncertainty(self, asked: Asked, report: CrisisReport) -> Uncertainty:
        if (
            asked.locale is not None
            and place_of(asked.locale).language not in self._reader.languages
            and not report.signals
        ):
            return "high"
        plain = any(
            signal.subject == "self" and not signal.lowered and RANK[signal.severity] >= RANK["high"]
            for signal in report.signals
        )
        return "low" if plain else "medium"


def _with_likely(report: CrisisReport, about: About) -> CrisisReport:
    """The report with what is likely. A crisis stays the writer's own, unless some words say it of another person. Where only the
    phrasing says so, both may be in danger, and both are answered.
    """
    danger = about.danger
    if danger is None or report.dangers:
        return (
            replace(report, close=about.language or "en") if about.uneasy and not report.detected else report
        )
    if danger.kind == "suicide" and any(map(_is_attempt_of_another, report.signals)):
        danger = replace(danger, kind="overdose", certain=True)
    other = danger.subject == "other"
    of_another = other and any(signal.subject == "other" for signal in report.signals)
    if report.detected and other and not about.sure:
        return report
    if report.detected and other and not of_another:
        return replace(report, dangers=(danger,), endangered=danger.certain)
    detected = report.detected and not other
    return replace(
        report,
        dangers=(danger,),
        detected=detected,
        mention=report.mention or report.detected is not detected,
        severity="low" if report.detected is not detected else report.severity,
        endangered=report.endangered or (other and danger.certain),
    )


def _is_attempt_of_another(signal: Signal) -> bool:
    return (
        signal.category == "attempt"
        and signal.subject == "other"
        and signal.tense == "present"
        and not signal.negated
        and not signal.framed
    )


def _open(about: About, report: CrisisReport) -> str:
    """The reply to a message whose topic is not known, by its name."""
    if report.close:
        return "unsure"
    return "nothing" if about.calm else about.mood or ("either" if about.unclear else "open")


def _which(mode: str, risk: str, report: CrisisReport, *, unread: bool) -> str:
    """The reply to choose, by its name. Who is hurt by others is answered that, also where the phrasing sounds like a crisis."""
    hurt = next(
        (danger.kind for danger in report.dangers if danger.subject == "self" and danger.kind in _BY_OTHERS),
        None,
    )
    if hurt is not None and all(signal.category == PHRASING for signal in report.signals):
        return hurt
    if any(danger.subject == "self" and danger.kind == "body" for danger in report.dangers):
        return "own"
    if report.detected:
        return "high"
    if report.endangered:
        return "other"
    if report.dangers:
        return _LIKELY[report.dangers[0].kind, report.dangers[0].subject]
    if unread:
        return "unread"
    if mode != "general":
        return mode
    return "mention" if report.mention and risk == "low" else risk


def _denies(report: CrisisReport) -> bool:
    """I am not suicidal, I am only lonely."""
    return all(signal.negated for signal in report.signals)


def _guidance(
    words: Mapping[str, str], helping: Help, risk: str, report: CrisisReport, *, lost: bool, young: bool
) -> list[str]:
    """`lost` says that something important may have escaped us."""
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
    if _is_only_of_violence(report):
        found = [directories]
    first = [
        *_for_another(words, helping, report),
        *_for_the_body(words, helping, report),
        *_for_the_writer(words, helping, report, young=young),
        *_for_somebody(words, helping, report),
    ]
    if report.detected or (risk == "high" and not report.endangered):
        away = [words["distance"]] if report.severity == "immediate" else []
        call = [] if _has_begun(report) else _emergency(words, helping)
        return [*first, *call, *away, *found, words["trusted"]]
    if _is_only_of_the_body(report):
        return first
    if first:
        return [*first, *found, words["trusted"]]
    if risk == "medium":
        return [words["professional"], *found, words["trusted"]]
    if lost:
        return [*_emergency(words, helping), *found]
    return [words["available"], *found] if report.mention else [words["available"]]


def _for_another(words: Mapping[str, str], helping: Help, report: CrisisReport) -> list[str]:
    """How to get help for another person, and what to do until it comes."""
    dangers = [danger for danger in report.dangers if danger.subject == "other" and danger.certain]
    if not dangers:
        return []
    kinds = dict.fromkeys("swallowed" if danger.swallowed else danger.kind for danger in dangers)
    wrong = "violence" in kinds and any(country.ambulance for country in helping.countries.values())
    if helping.own and not wrong:
        call = [
            words["other_call"].format(number=country.emergency) for country in helping.countries.values()
        ]
    else:
        call = [words["other_anywhere"]]
    weapon = [words["stay_weapon"]] if any(danger.weapon for danger in dangers) else []
    return [*call, *(words[f"stay_{kind}"] for kind in kinds), *weapon]


def _for_the_writer(
    words: Mapping[str, str], helping: Help, report: CrisisReport, *, young: bool
) -> list[str]:
    number = _police(words, helping)
    kinds = dict.fromkeys(
        danger.kind for danger in report.dangers if danger.subject == "self" and danger.kind in _BY_OTHERS
    )
    first = ["minor_first"] if kinds and young else [f"{kind}_first" for kind in kinds]
    return [words[name].format(number=number) for name in first]


def _for_the_body(words: Mapping[str, str], helping: Help, report: CrisisReport) -> list[str]:
    """Who has taken something or is badly hurt gets help for the body first."""
    hurt = any(danger.subject == "self" and danger.kind == "body" for danger in report.dangers)
    if not hurt and not _has_begun(report):
        return []
    return [_call(words, helping, "own_call", "own_anywhere"), *([words["own_stay"]] if hurt else [])]


def _for_somebody(words: Mapping[str, str], helping: Help, report: CrisisReport) -> list[str]:
    """What to do for a person who is likely in danger, and against what the writer may do."""
    likely = {danger.kind for danger in report.dangers if danger.subject == "other" and not danger.certain}
    number = _police(words, helping)
    said = []
    if "suicide" in likely:
        said += [_call(words, helping, "worry_first", "worry_anywhere"), words["worry_stay"]]
    if likely.intersection(_BY_OTHERS):
        said.append(words["witness_first"].format(number=number))
    if "threat" in likely:
        said.append(words["threat_first"].format(number=number))
    return said


def _is_only_of_violence(report: CrisisReport) -> bool:
    """The lines of the countries are for people in a crisis of their own; the directories know those for victims, too."""
    raised = report.detected or report.endangered
    return not raised and any(danger.kind in _BY_OTHERS for danger in report.dangers)


def _is_only_of_the_body(report: CrisisReport) -> bool:
    """Somebody swallowed a thing: no crisis line can help there."""
    dangers = report.dangers
    return bool(dangers) and all(danger.swallowed for danger in dangers) and not report.signals


def _has_begun(report: CrisisReport) -> bool:
    """Whether something was done already, or is being done."""
    return any(
        signal.category == "attempt" and signal.severity == "immediate" and not signal.lowered
        for signal in report.signals
    )


def _call(words: Mapping[str, str], helping: Help, own: str, anywhere: str) -> str:
    numbers = [country.emergency for country in helping.countries.values()]
    return words[own].format(number=" / ".join(numbers)) if helping.own and numbers else words[anywhere]


def _police(words: Mapping[str, str], helping: Help) -> str:
    """Against violence the police helps: it is named where the emergency number is not known, or not that of the police."""
    numbers = [country.emergency for country in helping.countries.values() if not country.ambulance]
    return " / ".join(numbers) if helping.own and numbers else words["police"]


def _emergency(words: Mapping[str, str], helping: Help) -> list[str]:
    if not helping.own:
        return [words["emergency_anywhere"]]
    return [words["emergency"].format(number=country.emergency) for country in helping.countries.values()]


def _country_row(code: str, country: Country) -> dict[str, Any]:
    row: dict[str, Any] = {"country": code, **json.decode(json.encode(country))}
    return {name: row[name] for name in ("country", "name", "emergency", "lines", "checked", "incomplete")}


def _risk_line(risk: str, report: CrisisReport) -> str:
    if report.raised and risk != "high":
        own = report.detected or not report.endangered
        whose = "the writer's own danger" if own else "another person's danger"
        return f"Risk level: high (raised from {risk}: the message speaks of {whose})"
    return f"Risk level: {risk} (as given by the caller)"


def _place_line(helping: Help) -> str:
    if helping.own:
        return "Country: " + ", ".join(helping.countries)
    return "Country: not told by the locale; the largest countries of the language are shown as examples"
