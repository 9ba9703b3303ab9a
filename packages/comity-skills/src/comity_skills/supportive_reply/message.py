"""What a message tells: its language, its topic, and whether it is certain that nothing calls for support.

- The language is told by the script; where that is Latin, by the letters in a row and by the words that are known. The small
  words of languages that are not read, and letters that no language has which is read, speak against all of them.
- Small talk is where every sentence asks how one is, greets or speaks of the weather, and none has a word of trouble.
- Nothing calls for support where every sentence asks, orders, greets or names a thing of offices and machines, and none
  speaks of the writer or has a word that may be said of trouble; or where that is likely by far. Of anything else it is not
  certain.
- An idiom (`this heat is killing me`) and a good mood are read only where no word of trouble stands beside them; the plot of a
  story only where nothing says that it comes close to the writer.
- What is likely (`matter`) overrules a topic of the rules only where it has a clear lead. A danger is answered where enough speaks
  for one, and asked after where a little less does.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import inf
from typing import Final, Literal, NamedTuple

import msgspec

from comity_skills.crisis.opinion import CATEGORY as PHRASING
from comity_skills.crisis.report import CrisisReport, Danger, Kind, Signal
from comity_skills.crisis.unread import Unread, UnreadFile
from comity_skills.reading.latin import Latin
from comity_skills.supportive_reply.matter import Matters, Ranking
from comity_skills.supportive_reply.topics import (
    DEATHS,
    GLAD,
    ILL,
    LIGHT,
    SITUATIONS,
    has_cheerful_sign,
    is_celebrated,
    is_laughing,
    is_wept,
    speaks_of_death,
    topic_of,
    unquoted,
)
from comity_skills.supportive_reply.wordings import LATIN, Mark, Marks, Said, Wordings

_SCRIPTS: Final = {
    "ja": re.compile("[\u3040-\u30ff]"),
    "zh": re.compile("[\u3400-\u9fff]"),
    "ko": re.compile("[\u1100-\u11ff\uac00-\ud7a3]"),
    "ar": re.compile("[\u0600-\u06ff\u0750-\u077f]"),
    "hi": re.compile("[\u0900-\u097f]"),
}
_LATIN: Final = re.compile("[A-Za-z\u00aa-\u024f\u1e00-\u1eff\uff21-\uff5a]")
_WORD: Final = re.compile(r"[^\W\d_]+")
# letters of no language that is read: Polish, Czech, Turkish, Nordic, Romanian, Vietnamese; Persian, Urdu
_STRANGE: Final = re.compile("[ąćęłńśźżěščřžůďťňőűğışøåðþășțţđơưạ-ỹپچژگکیںہےٹڈڑ]")
_READ: Final = 20_000  # characters; what comes later changes no topic
_LOOKED_AT: Final = 2000  # characters
_FEW: Final = 2  # words that make a language clear, or fields that make a matter clear
_SEVERAL: Final = 3
_KNOWN: Final = 15  # what a known word weighs beside the letters of a language
_CLEAR: Final = 30  # what makes a language clear
_QUESTION: Final = ("?", "؟", "？")  # noqa: RUF001
_BARE: Final = 12  # words of a question that tells nothing else
_LONG_WORD: Final = 10  # characters; more in each are words written without blanks
_CODE: Final = re.compile(
    r"\b\w+(?:Error|Exception)\b|\bTraceback\b|\bexit code\b|\w\(\)|[=!]==?|=>|::|[{};]\s*$|</?[a-z]+>|`[^`]+`|\bundefined\b"
    r"|\b[a-z]{2,20}[A-Z][a-z]{2}\w*"
    r"|\b\w+\.(?:py|js|ts|json|java|rs|go|cpp|yaml|yml|toml|html|css|sh)\b"
    r"|\b(?i:null ?pointer|segmentation fault|segfault|stack ?trace|merge conflict|syntax error|compiler error)\b"
    r"|\b(?:npm|pip|git|docker|cargo|apt|brew|yarn) (?:install|run|build|push|pull|clone|commit|merge|rebase|update)\b",
    re.MULTILINE,
)


_BEHIND: Final = 150  # what a topic of the rules may weigh less than the likeliest matter
_AHEAD: Final = 80  # the lead that makes a topic likely
_FAR_AHEAD: Final = 90  # and a light one
_CALM: Final = 40  # and nothing at all
_SURE: Final = 100  # the lead that leaves no doubt
_UNEASY: Final = -60  # so much for a danger, and it is not certain that nothing calls for support
_OF_ANOTHER: Final = 50  # the lead of a danger that is clearly somebody else's
_SHORT: Final = 250  # characters of a message that has one matter
_NEAR: Final = 3  # places from the top in which a matter is likely at all
_MATTERS: Final = {"harmed": "self_violence"}
"""The names of topics that are matters under another name."""


class _Kind(NamedTuple):
    kind: Kind
    subject: Literal["self", "other"]
    certain: bool = False

    @property
    def to_another(self) -> bool:
        return self.subject == "other" and self.kind != "threat"


LIKELY: Final = 35  # what speaks for a danger that is answered
ASKED: Final = 5  # what speaks for a danger that is asked after
DANGERS: Final[Mapping[str, _Kind | None]] = {
    "self_crisis": None,  # the detector tells it; what it has not seen is asked after
    "self_violence": _Kind("violence", "self"),
    "self_emergency": _Kind("body", "self"),
    "other_suicide": _Kind("suicide", "other"),
    "other_violence": _Kind("violence", "other"),
    "other_emergency": _Kind("body", "other", certain=True),
    "threat": _Kind("threat", "other"),
}
_HAPPENING: Final = 100  # what speaks for one that is happening now, if anything says so
_DONE: Final = frozenset(("OVERDOSE", "BLEEDING"))
_BY_THE_WRITER: Final = frozenset(("KILL", "WEAPON", "HIT", "BLOOD", "RAGE", "ARMED", "BEATEN"))


class About(NamedTuple):
    """`language` is empty where it cannot be told. `death` says that the message is about one, `calm` that it is certain
    that nothing calls for support, `unclear` that perhaps nothing does. `danger` is what is likely by how it is told, `sure` that
    it is clearly somebody else's; `uneasy` says that the writer is likely in danger without having said so, `alarm` that somebody
    may be, `now` that it is happening. `mood` is `idiom` or `cheerful`, or empty. `story` says that the message speaks of suicide only as of what happens in a story, `young` that a child or a
    teenager wrote it.
    """

    language: str = ""
    unread: bool = False
    topic: str | None = None
    death: bool = False
    calm: bool = False
    unclear: bool = False
    danger: Danger | None = None
    sure: bool = False
    uneasy: bool = False
    alarm: bool = False
    now: bool = False
    mood: str = ""
    story: bool = False
    young: bool = False


class MessageReader:
    def __init__(self, wordings: Wordings, matters: Matters, latin: Latin, unread: bytes) -> None:
        self.languages = wordings.languages
        self._matters = matters
        self._wordings = wordings
        self._latin = latin
        self._is_unread = Unread(unread)
        self._content = unread

    def said(self, text: str) -> Said:
        """The wordings in a text."""
        return self._wordings.find(text[:_READ])

    def about(self, text: str, report: CrisisReport | None = None) -> About:
        """What the rules tell; with a report of the crisis detector also what is likely."""
        text = text[:_READ]
        said = self._wordings.find(text)
        language = self._language(text[:_LOOKED_AT], said)
        if language is None or self._is_unread(text):
            return About(unread=True)
        rest = unquoted(text)
        own = said if rest == text else self._wordings.find(rest)
        spoken = language or "en"
        topic = topic_of(said, own, spoken, text)
        if topic is None and self._is_small_talk(text, said, spoken):
            topic = "small_talk"
        marks = said.marks(spoken)
        code = (_is_code(text) or _is_technical(text, marks)) and not _is_personal(marks)
        calm = topic is None and (code or (bool(language) and self._is_calm(text, said, language)))
        about = About(
            language=language,
            topic=topic,
            death=speaks_of_death(said, spoken),
            calm=calm,
            young=bool(marks.get("young")) and not marks.get("adult"),
        )
        if report is None or (calm and code) or not self._matters.reads(spoken):
            return about
        return self._likely(about, text, said, report)

    def _likely(self, about: About, text: str, said: Said, report: CrisisReport) -> About:
        language = about.language or "en"
        ranking = self._matters.ranked(text, said, language, report)
        best, second = ranking.matters[:2]
        if about.calm and ranking.danger < ASKED:
            return about
        lead = ranking.lead_over(GLAD) if best.name in GLAD else ranking.lead
        weights = dict(ranking.matters)
        topic = about.topic
        behind = (
            best.weight - weights.get(_MATTERS.get(topic, topic), best.weight) if topic is not None else 0
        )
        marks = said.marks(language)
        told = self._can_be_told(best.name, about, said, language)
        if best.name == "small_talk" and (marks.get("idioms") or (marks.get("heavy") and is_laughing(text))):
            told = False
        clear = lead >= _AHEAD and len(ranking.fields) >= (_SEVERAL if best.name in SITUATIONS else _FEW)
        healed = topic == "relief" and bool(marks.get("healed"))
        certain = healed or (topic in GLAD and (best.name in ILL or is_celebrated(text)))
        if clear and not certain and behind >= _BEHIND and (told or best.name == "told"):
            topic = None
        if (
            topic is None
            and told
            and (lead >= _FAR_AHEAD and bool(ranking.fields) if best.name in LIGHT else clear)
        ):
            topic = best.name
        danger = self._danger(ranking, text, language, report)
        unmeant = {"suicide": about.death, "threat": bool(marks.get("idioms"))}  # it is over, or a saying
        if danger is not None and (topic in LIGHT or unmeant.get(danger.kind, False)):
            danger = None
        greets = (best.name, second.name) == ("small_talk", "nothing") and text.rstrip().endswith(_QUESTION)
        plainly = ranking.lead_over(("nothing",)) if greets else lead  # a greeting before a question
        light = not ranking.close and (plainly >= _SURE or not marks.get("heavy"))
        nothing = (greets or best.name == "nothing") and plainly >= _CALM and len(ranking.fields) >= _FEW
        calm = topic is None and danger is None and ranking.danger < _UNEASY and nothing and light
        asks = text.rstrip().endswith(_QUESTION) and not ranking.close
        unclear = (best.name == "nothing" and light) or (best.name == "told" and asks)
        asked = ranking.danger >= ASKED
        uneasy = asked and _danger_of(ranking) == "self_crisis"
        silent = topic is None and danger is None and not uneasy and not report.close
        looked = silent and not report.dangers and len(text) <= _LOOKED_AT
        mood = _mood(text, said, language, ranking) if looked else ""
        return about._replace(
            topic=topic,
            calm=calm,
            unclear=topic is None and not calm and unclear,
            danger=danger,
            sure=_lead_of_others(ranking) >= _OF_ANOTHER and len(text) <= _SHORT,
            uneasy=uneasy,
            now=_is_happening(ranking),
            alarm=asked and not uneasy and danger is None and not mood,
            mood=mood,
            story=silent and _is_story(marks, report),
        )

    def _can_be_told(self, name: str, about: About, said: Said, language: str) -> bool:
        """Condolence needs more than a likelihood, and of two deaths the rules tell the right one. What they saw and let pass
        (`not jealous`) is no topic.
        """
        if name in DEATHS:
            return about.death and about.topic not in DEATHS
        seen = about.topic is None and bool(said.marks(language).get(name))
        return name in self._wordings.of(language).topics and not seen

    @staticmethod
    def _danger(ranking: Ranking, text: str, language: str, report: CrisisReport) -> Danger | None:
        """What is likely; or the danger that the words tell of somebody else, where that is likely at all."""
        name = _danger_of(ranking)
        known = DANGERS[name]
        agreed = ranking.matters[0].name == name and ranking.lead >= _AHEAD
        if known is None or ranking.danger < (ASKED if agreed else LIKELY):
            known = DANGERS["other_suicide"]
            near = any(one.name == "other_suicide" for one in ranking.matters[:_NEAR])
            told = ranking.matters[0].name == "told" and ranking.lead >= _SURE
            if known is None or told or not (near and any(map(_is_of_somebody, report.signals))):
                return None
        return Danger(
            kind=known.kind,
            subject=known.subject,
            span=(0, len(text)),
            language=language,
            certain=known.certain or (known.to_another and _is_happening(ranking)),
        )

    def spoken(self, text: str, named: str) -> str:
        """The language that the message is certainly written in, else the one that is named. What has no kana may be Japanese."""
        text = text[:_LOOKED_AT]
        script = _script(text)
        if script is None or (script, named) == ("zh", "ja"):
            return named
        if script:
            return script
        weights = self._weights(text, self._wordings.find(text))
        best = max(weights, key=weights.__getitem__)
        return best if weights[best] >= max(_CLEAR, weights.get(named, 0) + _CLEAR) else named

    def form(self, text: str, language: str) -> str:
        """The language, or its form in Latin letters where the message is written so."""
        latin = self._wordings.of(language).latin is not None and _script(text[:_LOOKED_AT]) == ""
        if not latin:
            return language
        weights = self._weights(text[:_LOOKED_AT], self._wordings.find(text[:_LOOKED_AT]))
        return language + LATIN if weights.get(language, 0) == max(weights.values()) else language

    def reply(self, language: str, topic: str) -> str:
        return self._wordings.of(language).topics[topic]

    def words(self, language: str) -> Mapping[str, str]:
        """The reply for each risk and mode, and the sentences of the guidance."""
        return self._wordings.of(language).replies

    @cached_property
    def _small(self) -> Mapping[str, frozenset[str]]:
        """The small words of each language that is not read, without those that it shares."""
        file = msgspec.json.decode(self._content, type=UnreadFile)
        return {language: small - file.read for language, small in file.languages.items()}

    def _language(self, text: str, said: Said) -> str | None:
        """Empty where it cannot be told, None where it is not one that is read."""
        script = _script(text)
        if script is None:
            return None
        weights = {} if script else self._weights(text, said)
        best = script or max(weights, key=weights.__getitem__)
        most = _count(said, best)
        words = set(_WORD.findall(unicodedata.normalize("NFC", text).lower()))
        strange = {word for word in words if _STRANGE.search(word)}
        others = max(len(words & small | strange) for small in self._small.values())
        if others > most and (others >= _FEW or (not most and len(words) >= _FEW)):
            return None
        return best if script or weights[best] >= _CLEAR else ""

    def _weights(self, text: str, said: Said) -> dict[str, int]:
        """What speaks for each language in Latin letters."""
        letters = self._latin.weights(text)
        return {language: weight + _KNOWN * _count(said, language) for language, weight in letters.items()}

    def _is_small_talk(self, text: str, said: Said, language: str) -> bool:
        marks = said.marks(language)
        if not marks.get("small_talk") or len(text) > _LOOKED_AT:
            return False
        light = [mark for name in ("small_talk", "greetings") for mark in marks.get(name, ())]
        serious = [mark for name in ("heavy", "others", *SITUATIONS) for mark in marks.get(name, ())]
        if any(not _is_within(mark, light) for mark in serious):
            return False
        return all(any(map(one.touches, light)) for one in said.sentences())

    def _is_calm(self, text: str, said: Said, language: str) -> bool:
        marks = said.marks(language)
        topics = {name for name in self._wordings.of(language).topics if marks.get(name)}
        if len(text) > _LOOKED_AT or is_celebrated(text) or is_wept(text):
            return False
        if marks.get("heavy") or marks.get("others") or topics.difference(SITUATIONS):
            return False
        if any(not _is_within(mark, marks.get("requests", ())) for mark in marks.get("self", ())):
            return False
        if marks.get("we") and not marks.get("matters"):
            return False
        sentences = list(said.sentences())
        found = said.found.get(language, {})
        return bool(sentences) and all(_is_matter_of_fact(said.text, one, found) for one in sentences)


def _mood(text: str, said: Said, language: str, ranking: Ranking) -> str:
    """What hides a topic (`died laughing`) may be an idiom itself."""
    marks, found = said.marks(language), said.found.get(language, {})
    idioms, cheers = found.get("idioms", ()), found.get("cheerful", ())
    best = ranking.matters[0].name
    light = best in GLAD or best in {"nothing", "told", "small_talk"}
    heavy = [mark for mark in marks.get("heavy", ()) if not _is_within(mark, idioms)]
    if len(heavy) > len(cheers) or is_wept(text) or (ranking.lead >= _AHEAD and not light):
        return ""
    laughs, signs = is_laughing(text), has_cheerful_sign(text)
    if idioms:
        return "cheerful" if cheers or signs else "idiom"
    if text.rstrip().endswith(_QUESTION):
        return ""
    glad = bool(cheers) or (best in GLAD and ranking.lead >= _CALM)
    return "cheerful" if signs or (glad and (laughs or is_celebrated(text))) else ""


def _is_story(marks: Marks, report: CrisisReport) -> bool:
    """Whether the report speaks of nothing but the plot of one."""
    near = any(marks.get(name) for name in ("touched", "family", "friends"))
    told = all(
        signal.category != PHRASING
        and signal.subject != "self"
        and (signal.framed or signal.category == "topic")
        for signal in report.signals
    )
    return report.mention and not report.dangers and told and bool(marks.get("stories")) and not near


def _danger_of(ranking: Ranking) -> str:
    """The danger that is likeliest, if there is one. A threat of somebody else is no threat by the writer. Who bleeds or has
    taken something needs help for the body first.
    """
    name = ranking.dangers[0].name
    if name == "threat" and _BY_THE_WRITER.isdisjoint(ranking.own):
        return "other_violence"
    done = ranking.danger >= _HAPPENING and not _DONE.isdisjoint(ranking.own)
    return "self_emergency" if name == "self_crisis" and done else name


def _is_happening(ranking: Ranking) -> bool:
    return ranking.acute and ranking.danger >= _HAPPENING


def _lead_of_others(ranking: Ranking) -> float:
    """By how much a danger to somebody else is likelier than one to the writer."""
    most = {"other": -inf, "self": -inf}
    for name, weight in ranking.dangers:
        kind = DANGERS[name]
        subject = "self" if kind is None else kind.subject
        most[subject] = max(most[subject], weight)
    return most["other"] - most["self"]


def _is_of_somebody(signal: Signal) -> bool:
    """Whether it is said of another person, now and in earnest."""
    return (
        signal.subject == "other" and signal.tense == "present" and not signal.negated and not signal.framed
    )


def _script(text: str) -> str | None:
    """The language that the script tells, empty if it is Latin or there are no letters, None if it is not one that is read."""
    counts = {language: len(script.findall(text)) for language, script in _SCRIPTS.items()}
    latin = len(_LATIN.findall(text))
    letters = sum(map(str.isalpha, text))
    if letters > 2 * (latin + sum(counts.values())):
        return None
    if counts["ja"]:
        counts["ja"] += counts.pop("zh")
    language = max(counts, key=counts.__getitem__)
    return language if 2 * counts[language] >= max(latin, 1) else ""


def _count(said: Said, language: str) -> int:
    """How many wordings of a language were found."""
    return len({mark.wording for marks in said.found.get(language, {}).values() for mark in marks})


def _is_code(text: str) -> bool:
    return _CODE.search(text[:_LOOKED_AT]) is not None


def _is_technical(text: str, marks: Marks) -> bool:
    """A question about a machine, or two words of machines, and nobody else is spoken of."""
    if any(marks.get(name) for name in ("others", "friends", "family")):
        return False
    words = {mark.wording for mark in marks.get("technical", ())}
    return len(words) > 1 or (bool(words) and text.rstrip().endswith(_QUESTION))


def _is_personal(marks: Mapping[str, Sequence[Mark]]) -> bool:
    """Whether somebody is spoken of, with a word that is said of trouble and not of machines ("KeyError. Nobody calls me")."""
    mild = {mark.wording for mark in marks.get("mild", ())}
    heavy = any(mark.wording not in mild for mark in marks.get("heavy", ()))
    return heavy and any(marks.get(name) for name in ("self", "we", "others"))


def _is_within(mark: Mark, others: Sequence[Mark]) -> bool:
    return any(other.start <= mark.start and mark.end <= other.end for other in others)


def _is_matter_of_fact(text: str, sentence: Mark, marks: Marks) -> bool:
    inside = {
        name: [mark for mark in marks.get(name, ()) if sentence.touches(mark)]
        for name in ("orders", "commands", "matters", "greetings")
    }
    said = text[sentence.start : sentence.end].strip()
    if inside["orders"] or inside["matters"] or _is_bare_question(said):
        return True
    if any(not text[sentence.start : mark.start].strip() for mark in inside["commands"]):
        return True
    greeted = sum(len(wording) for wording in {mark.wording for mark in inside["greetings"]})
    return 2 * greeted >= len(said)


def _is_bare_question(said: str) -> bool:
    """It asks and tells nothing before."""
    words = said.split()
    short = len(words) <= _BARE and len(said) <= len(words) * _LONG_WORD
    return said.endswith(_QUESTION) and short and not any(mark in said for mark in ",:")
