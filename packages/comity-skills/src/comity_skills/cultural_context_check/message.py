"""What in a message may be misread elsewhere: words and phrases, dates, days of the week, times, figures, units, colours,
gestures, manners.

Every finding has its place, its reason and a suggestion; the message itself is not touched. What depends on the
audience is found only when it matters there: an idiom of baseball is at home in the United States, white is an
ordinary colour where it does not stand for mourning, alcohol is a question of the place, and of whether it is offered.
Where the message goes everywhere, everything that divides the world is found; where it goes to a place that is not
known, only what holds everywhere.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from comity_skills.cultural_context_check.days import days, fasting, feast, months_named, national_day, season
from comity_skills.cultural_context_check.figures import GIFT, figures
from comity_skills.cultural_context_check.knowledge import Colour, Custom, Finding, Knowledge, Setting, Taboo
from comity_skills.cultural_context_check.manner import Manners
from comity_skills.cultural_context_check.reach import out_of_reach
from comity_skills.cultural_context_check.served import is_offered, is_permitted
from comity_skills.editing.tone import Tone
from comity_skills.words.phrases import Found, Phrases, spellings
from comity_skills.words.tokens import Token, tokens

_DIRECTION: Final = re.compile(
    r"[←→⇐⇒]|\b(?:on|to|at)[ ]the[ ](?:left|right)(?:[ ]hand)?\b|\bleft[ ]to[ ]right\b", re.IGNORECASE
)
# `each user enters his name`; a person who was named before is a person.
_GENERIC: Final = re.compile(
    r"\b(?:everyone|everybody|anyone|anybody|(?:each|every|any)[ ](?:\w{1,20}[ ])?(?:user|person|customer|employee|student|member|client|patient|applicant|"
    r"candidate|developer|driver|doctor|engineer|manager|player|reader|visitor|worker|child))\b"
    r"(?:[ ]\w{1,20}){0,5}?[ ](he|his|him|himself)\b",
    re.IGNORECASE,
)
_TITLED: Final = re.compile(
    r"\b(?:Mr|Mrs|Ms|Miss|Dr|Prof|Professor)\.?[ ][A-Z][a-z]{1,15}(?:-[A-Za-z]{1,15})?[ ](?P<last>[A-Z][a-z]{1,15})\b"
)
# `do not touch heads` warns of it; `do not forget the knives` does not
_WARNED: Final = re.compile(
    r"\b(?:not|never|avoid|avoiding|without|don't|don’t|no|nor|refrain[ ]from|instead[ ]of|rather[ ]than)\b"  # noqa: RUF001
    r"(?![ ](?:only|just|forget|hesitate|worry|wait|be[ ]afraid|be[ ]happier|better|mind|need))[^.!?;,\n]{0,30}\Z",
    re.IGNORECASE,
)
_AROUND: Final = 40
# In an instruction on health slang is never in its place.
_HEALTH: Final = re.compile(
    r"\b(?:pills?|tablets?|dos(?:e|es|age)|medicines?|medication|mg|prescription|insulin|inhaler|blood[ ]pressure)\b",
    re.IGNORECASE,
)
_HEDGES: Final = 2  # from so many in one sentence on a request is over-softened
_NEAR: Final = 8  # words from a thing to the word that makes it a gift


_SUGGEST: Final = {
    "idiom": "Say it plainly",
    "slang": "Say it in full words",
    "gendered": "Better",
    "address": "Better",
    "holiday": "Name the date, and leave room for those who do not keep it",
    "humour": "Leave it out, or say what is meant",
    "food_and_drink": "Offer something that everybody can take part in",
    "individual": "Speak also of family, team or community",
    "exposure": "Ask for it in private or in writing",
    "boast": "Better",
    "hedge": "Say what you want, and by when",
    "direct": "Soften it, give it in private, and say how to put it right; the facts stay",
    "assimilation": "Say what is meant without the label",
    "season": "Better",
    "name_field": "Better",
}
_WORD_KINDS: Final = tuple(_SUGGEST)


_NAMED: Final = re.compile(r"[A-Z][a-z]+ [A-Z]")  # the Black Forest, the White House


class Examiner:
    def __init__(self, known: Knowledge, peoples: Iterable[str]) -> None:
        self._known = known
        entries: list[tuple[str, tuple[str, str] | None]] = [(phrase, None) for phrase in known.hidden]
        for kind in _WORD_KINDS:
            entries += [(phrase, (kind, plain)) for phrase, plain in getattr(known, kind).items()]
        entries += [(colour.words, ("colour", "")) for colour in known.colours]
        entries += [
            (gesture.words, ("gesture", gesture.words)) for gesture in known.gestures if gesture.words
        ]
        entries += [(custom.words, ("custom", custom.words)) for custom in known.customs]
        entries += [(day.words, ("national_day", day.words)) for day in known.national_days]
        self._varieties = {
            phrase: (variety, plain) for variety in known.varieties for phrase, plain in variety.words.items()
        }
        entries += [(phrase, ("variety", phrase)) for phrase in self._varieties]
        self._creeds = {phrase: creed for creed in known.creeds for phrase in creed.words}
        entries += [(phrase, ("faith", phrase)) for phrase in self._creeds]
        self._phrases = Phrases(entries)
        self._manners = Manners(known, peoples)
        self._signs = {sign: food for signs, food in known.food_signs.items() for sign in signs}
        self._national_days = {day.words: day for day in known.national_days}
        self._taboos = [(re.compile(taboo.pattern, re.IGNORECASE), taboo) for taboo in known.taboos]

    def examine(self, message: str, setting: Setting, tone: Tone | None = None) -> list[Finding]:
        """`tone` reads what no rule knows."""
        words = tokens(message.replace("St.", "St "))  # the point ends no sentence
        found = [
            *self._words(message, words, setting),
            *self._pronouns(message),
            *days(message, self._known, setting),
            *fasting(message, words, setting),
            *self._done_there(message, setting),
            *self._titles(message, setting),
            *figures(message, words, self._known, setting),
            *out_of_reach(message, self._known, setting),
            *self._manners.find(message, setting),
            *self._food_signs(message, setting),
            *self._gestures(message, setting),
            *self._directions(message, setting),
        ]
        if tone is not None:
            found += self._manners.hurting(message, setting, tone, found)
        return _told_once(found)

    def _words(self, message: str, words: Sequence[Token], setting: Setting) -> Iterator[Finding]:
        phrases = self._phrases.find(words)
        months = months_named(message)
        hedges = Counter(words[found.first].sentence for found in phrases if found.meaning[0] == "hedge")
        for found in phrases:
            kind, plain = found.meaning
            if kind in {"colour", "gesture", "custom", "food_and_drink"}:
                yield from self._by_place(message, found, words, setting)
            elif kind == "holiday":
                yield from feast(message, found, self._known, setting, _SUGGEST[kind])
            elif kind == "national_day":
                yield from national_day(found, self._national_days[plain], self._known, setting)
            elif kind == "variety":
                yield from self._regional(found, setting)
            elif kind == "faith":
                yield from self._of_another_faith(found, setting)
            elif not self._matters(kind, message, setting):
                continue
            elif kind == "season":
                yield from season(message, found, months, self._known, setting)
            elif kind != "hedge" or hedges[words[found.first].sentence] >= _HEDGES:
                wording = self._wording(plain, setting)
                suggestion = f"{_SUGGEST[kind]}: {wording}" if wording else _SUGGEST[kind]
                partner = kind == "gendered" and plain.startswith("partner")
                yield Finding(
                    kind,
                    found.start,
                    found.end,
                    self._known.why["partner" if partner else kind],
                    suggestion,
                    "partners" if partner else "",
                )

    def _regional(self, found: Found[tuple[str, str]], setting: Setting) -> Iterator[Finding]:
        """Words of one variety of English, for readers who are at home in another or in none."""
        variety, plain = self._varieties[found.meaning[1]]
        learners = "second_language" in setting.readers
        if not learners and setting.countries and setting.countries.keys() <= variety.home:
            return
        advice = f"{_SUGGEST['idiom']}: {plain}"
        if variety.idiom and not setting.fluent:
            yield self._finding("idiom", found.start, found.end, advice)
        else:
            why = f"These words of {variety.of} are not known everywhere"
            yield Finding("idiom", found.start, found.end, why, advice, "regional words")

    def _of_another_faith(self, found: Found[tuple[str, str]], setting: Setting) -> Iterator[Finding]:
        """Found where the audience is of another faith, and in the countries of another one; a country of many is left alone."""
        creed = self._creeds[found.meaning[1]]
        others = {
            faith
            for faith, homes in self._known.homes.items()
            if faith not in creed.of and setting.countries and setting.countries.keys() <= homes
        }
        among = setting.everywhere or bool(others)
        if bool(setting.faiths - creed.of) if setting.faiths else among:
            yield self._finding("faith", found.start, found.end, creed.plain)

    def _food_signs(self, message: str, setting: Setting) -> Iterator[Finding]:
        for at, character in enumerate(message):
            food = self._signs.get(character)
            if food and self._is_minded(food, setting) and not _is_warned(message, at):
                yield self._food(food, at, at + 1, setting)

    def _is_minded(self, food: str, setting: Setting) -> bool:
        where = self._known.care_about_food[food]
        return setting.everywhere or bool(where & setting.areas or setting.here(where))

    def _by_place(
        self, message: str, found: Found[tuple[str, str]], words: Sequence[Token], setting: Setting
    ) -> Iterator[Finding]:
        kind, plain = found.meaning
        if kind == "food_and_drink":
            if self._is_served(plain, found, words, setting):
                yield self._food(plain, found.start, found.end, setting)
        elif kind == "colour":
            meanings = self._colours(message[found.start : found.end].lower(), setting)
            if meanings and not _NAMED.match(message, found.start):
                yield self._finding(kind, found.start, found.end, f"In this audience {meanings}")
        elif not _is_warned(message, found.start):
            if kind == "gesture":
                yield from self._gesture_named(plain, found.start, found.end, setting)
            else:
                yield from self._customs(found, words, setting)

    def _wording(self, plain: str, setting: Setting) -> str:
        for other in self._known.instead:
            if other.plain == plain and setting.here(other.where):
                return other.instead
        return plain

    def _food(self, food: str, start: int, end: int, setting: Setting) -> Finding:
        """Where the law forbids it, that is the reason."""
        here = self._known.forbidden_by_law.get(food, frozenset()) & set(setting.countries)
        law = f"The law forbids {food} in {setting.listed(here)}, with few exceptions"
        why = law if here else self._known.why["food_and_drink"]
        advice = self._known.food_instead.get(food, _SUGGEST["food_and_drink"])
        return Finding("food_and_drink", start, end, why, advice, food)

    def _is_served(
        self, food: str, found: Found[tuple[str, str]], words: Sequence[Token], setting: Setting
    ) -> bool:
        """Whether it is offered, and to people of whom some may not take it."""
        where = self._known.care_about_food[food]
        beef = food == "meat" and bool(setting.here(where))
        if is_permitted(words, found.first) and not beef:
            return False
        return self._is_minded(food, setting) and is_offered(words, found.first, found.last)

    def _customs(
        self, found: Found[tuple[str, str]], words: Sequence[Token], setting: Setting
    ) -> Iterator[Finding]:
        near = [
            token
            for token in words[max(found.first - _NEAR, 0) : found.last + _NEAR]
            if token.sentence == words[found.first].sentence
        ]
        given = bool(GIFT.search(" ".join(token.word for token in near)))
        for custom in self._known.customs:
            if custom.words != found.meaning[1] or (custom.gift and not given):
                continue
            here = setting.here(custom.where)
            if here:
                about = "gifts" if custom.gift else ""
                yield _of_place("custom", found.start, found.end, custom, setting.listed(here), about)

    def _finding(self, issue: str, start: int, end: int, suggestion: str) -> Finding:
        return Finding(issue, start, end, self._known.why[issue], suggestion)

    def _matters(self, kind: str, message: str, setting: Setting) -> bool:
        if kind == "idiom":
            return not setting.fluent
        if kind == "slang":
            old = "older" in setting.readers or _HEALTH.search(message) is not None
            return old or not (setting.fluent or "young" in setting.readers)
        if kind in {"direct", "exposure"}:
            return self._manners.softened(setting)
        if kind == "individual":
            return bool(setting.areas & self._known.care_about_group)
        if kind == "boast":
            return bool(setting.areas & self._known.care_about_modesty)
        if kind == "hedge":
            return bool(setting.here(self._known.care_about_directness))
        if kind == "season":
            return setting.everywhere or bool(set(setting.countries) & self._known.southern_hemisphere)
        return kind != "name_field" or not setting.american

    def _colours(self, word: str, setting: Setting) -> str:
        meanings = [
            f"{colour.meaning} ({', '.join(setting.countries[code].name for code in sorted(here)[:3])})"
            for colour in self._known.colours
            if _names(colour, word) and (here := colour.where & set(setting.countries))
        ]
        return "; ".join(meanings)

    def _pronouns(self, message: str) -> Iterator[Finding]:
        for match in _GENERIC.finditer(message):
            plain = {"he": "they", "his": "their", "him": "them", "himself": "themselves"}[match[1].lower()]
            yield self._finding("gendered", match.start(1), match.end(1), f"Better: {plain}")

    def _gestures(self, message: str, setting: Setting) -> Iterator[Finding]:
        signs = {
            sign: gesture
            for gesture in self._known.gestures
            if setting.everywhere or gesture.where & set(setting.countries)
            for sign in gesture.signs
        }
        for at, character in enumerate(message):
            gesture = signs.get(character)
            if gesture is not None:
                yield self._finding("gesture", at, at + 1, f"Leave it out: {gesture.meaning}")

    def _gesture_named(self, words: str, start: int, end: int, setting: Setting) -> Iterator[Finding]:
        for gesture in self._known.gestures:
            here = gesture.where & set(setting.countries)
            if gesture.words == words and here:
                why = f"{_opened(gesture.meaning)} ({setting.listed(here)})"
                yield Finding("gesture", start, end, why, "Say it without")

    def _done_there(self, message: str, setting: Setting) -> Iterator[Finding]:
        """What is not done there, unless the message says so itself."""
        for pattern, taboo in self._taboos:
            here = setting.here(taboo.where)
            for match in pattern.finditer(message) if here else ():
                if not _is_warned(message, match.start()):
                    yield _of_place(taboo.issue, *match.span(), taboo, setting.listed(here))

    def _titles(self, message: str, setting: Setting) -> Iterator[Finding]:
        here = setting.here(self._known.family_name_first)
        for match in _TITLED.finditer(message) if here else ():
            yield Finding(
                "address",
                *match.span(),
                f"The family name comes first in {setting.listed(here)}, and a title goes with it alone",
                f"Write the title and the family name; check that {match['last']} is the family name",
                "titles and names",
            )

    def _directions(self, message: str, setting: Setting) -> Iterator[Finding]:
        if any(country.direction == "rtl" for country in setting.countries.values()):
            for match in _DIRECTION.finditer(message):
                yield self._finding(
                    "direction", match.start(), match.end(), "Name the thing, not its side, and mirror arrows"
                )


def _told_once(findings: Iterable[Finding]) -> list[Finding]:
    """In order, without what stands inside a finding of the same issue."""
    told: list[Finding] = []
    reached: dict[str, int] = {}
    for finding in sorted(findings, key=lambda each: (each.start, -each.end)):
        if finding.end > reached.get(finding.issue, -1):
            told.append(finding)
            reached[finding.issue] = finding.end
    return sorted(told, key=lambda each: (each.start, each.end))


def _of_place(
    issue: str, start: int, end: int, known: Custom | Taboo, where: str, about: str = ""
) -> Finding:
    return Finding(issue, start, end, f"{_opened(known.meaning)} ({where})", known.instead, about)


def _opened(text: str) -> str:
    return text[:1].upper() + text[1:]


def _is_warned(message: str, start: int) -> bool:
    return _WARNED.search(message, max(start - _AROUND, 0), start) is not None


def _names(colour: Colour, word: str) -> bool:
    """`green hat` names a green hat, and green."""
    parts = colour.words.split()
    if len(parts) == 1:
        return any(one in word.split() for one in parts[0].split("|"))
    return word in spellings(colour.words)
