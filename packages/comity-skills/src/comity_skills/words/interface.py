"""What a description of an interface tells of barriers: the rules of `interface.json`, and sizes in numbers.

A size counts where it is said of text or of something to hit: `12px labels`, `buttons of 30 px`; not where it is
said of the space between, `icons 20px apart`. Points and rem are turned into pixels. Text under 16 px and targets under 44 px set off the same rules as `small text` does.

A room, an event, an exam, an interview, paper and a machine are no screens (`settings`): there a rule gives its
`place_advice`, and the hints are those of the place. A text that also speaks of an app or of buttons is about a screen;
machines and devices have buttons, and paper has pages.

Some rules hold for children alone (`young_only`), some give other advice where children are meant (`young_advice`), and
what is grave is told first.

What a skill knows of a group in general is left out where the description speaks of it: as a barrier, as absent or
as done (`spoken_of`). What can be turned off only here and there is not under people's control; what somebody can `turn ... off`
is.
"""

import re
from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, convert, structs

from comity_skills.reading.language import Language, language_of
from comity_skills.skill import Uncertainty
from comity_skills.words.negation import is_absent
from comity_skills.words.phrases import Phrases
from comity_skills.words.rules import Measure, Rule, Rules, Trigger, counted
from comity_skills.words.tokens import Token, tokens, word_set

_SIZE: Final = re.compile(
    r"(?<![\w.])(?:\d{1,3} ?(?:px|dp)? ?[x×] ?)?(\d{1,3}(?:\.\d{1,3})?) ?-?(px|pt|pixel|pixels|point|dp|rem)\b",  # noqa: RUF001 the sign people write
    re.IGNORECASE,
)
_TEXT: Final = word_set(
    "text font fonts type body copy label labels caption captions letter letters print paragraph paragraphs written italic times "
    "arial helvetica leaflet leaflets brochure booklet insert printed instructions timetable"
)
_TARGET: Final = word_set(
    "button buttons icon icons target targets link links tap touch checkbox checkboxes control controls handle handles"
)
_SPACE: Final = word_set(
    "spacing padding margin margins gap gaps gutter border borders radius indent apart space spaces offset shadow"
)
_HEIGHT: Final = word_set("tall high wide deep")
_SWITCHES: Final = re.compile(
    r"\b(?:can|may|could) (?:(?:also|easily|always) )?(?:turn|switch) (?:(?:the|all|any|this|each|every) )?$",
    re.IGNORECASE,
)
_OFF: Final = re.compile(r" off\b", re.IGNORECASE)
_NOBODY: Final = re.compile(r"\b(?:nobody|no one|none|only|not|never)\b", re.IGNORECASE)
_BEFORE: Final = 60
_REACH: Final = 4
_PIXELS: Final = {"pt": 4 / 3, "point": 4 / 3, "rem": 16}
_FEW_WORDS: Final = 4
_MANY_WORDS: Final = 25
_HINTS: Final = 2
_NEAR: Final = 30
_SCREEN_DETAILS: Final = "sizes, colours, times, steps, data"
_PLACE_DETAILS: Final = "noise, light, times, breaks, who is there, what is said beforehand"
SMALLEST_TEXT: Final = 16
SMALLEST_TARGET: Final = 44


class InterfaceRule(Rule, frozen=True, kw_only=True):
    young_only: bool = False
    young_advice: tuple[str, ...] = ()
    place_advice: tuple[str, ...] = ()
    grave: bool = False


class Setting(Struct, frozen=True, kw_only=True):
    phrases: tuple[str, ...]
    hints: tuple[str, ...] = ()


class Description(Struct, frozen=True):
    """What was set off, in the order of the text; the language of the text and the number of its words. `place` are the
    hints for what is no screen.
    """

    triggers: list[Trigger]
    language: Language
    words: int
    met: frozenset[str] = frozenset()
    place: tuple[str, ...] = ()

    @property
    def spoken_of(self) -> frozenset[str]:
        """The rules and measures that the description says something about."""
        return self.met.union(each.rule.id for each in self.triggers)

    @property
    def told(self) -> dict[str, list[Trigger]]:
        """What counts, by rule, the grave first."""
        found = counted(self.triggers)
        return dict(sorted(found.items(), key=lambda each: not getattr(each[1][0].rule, "grave", False)))

    def general(self, hints: Sequence[str]) -> list[str]:
        """What to say where nothing was recognised: that it was not, and two hints at most; none where a place is
        said to be in order.
        """
        if self.language == "other":
            said = "Describe it in English: the words of this description could not be read."
        elif self.triggers or self.met:
            said = "No barrier was recognised: what is mentioned is absent, under people's control or done as advised."
            hints = () if self.place else hints
        else:
            said = (
                "Tell more of what people see, hear and have to do "
                f"({_PLACE_DETAILS if self.place else _SCREEN_DETAILS}): nothing in this description was recognised as a "
                "barrier. The hints below are general."
            )
            hints = self.place if self.place and hints else hints
        return [said, *hints[:_HINTS]]

    def not_said(self, lead: str, lines: Sequence[str], covered_by: Sequence[Container[str]]) -> list[str]:
        """What holds in general, marked as such, without what the description already speaks of; where it speaks of
        something at all, two lines at most.
        """
        left = [
            f"{lead}: {line[:1].lower()}{line[1:]}"
            for line, covered in zip(lines, covered_by, strict=True)
            if not any(name in covered for name in self.spoken_of)
        ]
        return left[:_HINTS] if self.spoken_of else left

    @property
    def uncertainty(self) -> Uncertainty:
        """By evidence: words that point somewhere, in a text that is long enough and could be read."""
        found = any(each.standing == "present" for each in self.triggers)
        if self.language == "other" or self.words < _FEW_WORDS or (not found and self.words < _MANY_WORDS):
            return "high"
        return "low" if found and self.words >= _MANY_WORDS and self.language == "english" else "medium"


class Interface:
    """The rules for one skill: those of the shared file for its groups, then its own."""

    def __init__(
        self, shared: Mapping[str, Any], own: Sequence[Mapping[str, Any]], groups: Iterable[str]
    ) -> None:
        known = frozenset(groups)
        rules = [rule for rule in convert(shared["rules"], list[InterfaceRule]) if known & set(rule.groups)]
        rules += convert(own, list[InterfaceRule])
        self._by_id: Final = {rule.id: rule for rule in rules}
        measures = convert(shared["measures"], dict[str, Measure])
        self._met: Final = Phrases((phrase, name) for name, one in measures.items() for phrase in one.phrases)
        self._rules: Final = Rules(rules, shared["ignored"], measures)
        self._places: Final = convert(shared["settings"], dict[str, Setting])
        self._settings: Final = Phrases(
            (phrase, name) for name, one in self._places.items() for phrase in one.phrases
        )

    def read(self, description: str, *, young: bool = False) -> Description:
        """`young`: children use it."""
        words = tokens(description)
        place = self._place(words)
        found = [
            _said(each, young=young, place=bool(place))
            for each in self._rules.triggers(description, words)
            if young or not getattr(each.rule, "young_only", False)
        ]
        taken = {(each.rule.id, at) for each in found for at in (each.start, each.end)}
        found += [
            _said(trigger, young=young, place=bool(place))
            for trigger in self._sizes(description, words)
            if not {(trigger.rule.id, trigger.start), (trigger.rule.id, trigger.end)} & taken
        ]
        found.sort(key=lambda each: (each.start, each.end))
        found = _with_limits(
            [
                structs.replace(each, standing="controlled") if _is_switched(each, description) else each
                for each in found
            ]
        )
        met = frozenset(
            one.meaning for one in self._met.find(words) if not is_absent(words, one.first, one.last)
        )
        return Description(found, language_of(description, words), len(words), met, place)

    def _place(self, words: Sequence[Token]) -> tuple[str, ...]:
        """The hints of the setting, where it is no screen."""
        named = {one.meaning for one in self._settings.find(words)}
        if "online" in named:
            return ()
        if "screen" in named:
            named &= {"machine", "device", "paper"}
        return next((one.hints for name, one in self._places.items() if name in named), ())

    def _sizes(self, text: str, words: Sequence[Token]) -> Iterable[Trigger]:
        at = 0
        for match in _SIZE.finditer(text):
            while at < len(words) - 1 and words[at].start < match.start():
                at += 1
            near = {
                word.word
                for word in words[max(at - _REACH, 0) : at + _REACH + 2]
                if word.sentence == words[at].sentence
            }
            before = {word.word for word in words[max(at - 2, 0) : at] if word.clause == words[at].clause}
            after = next((word.word for word in words[at : at + 3] if word.start >= match.end()), "")
            if after in _SPACE or (before & _SPACE and after not in _TEXT | _TARGET):
                continue
            if after in _HEIGHT:
                near -= _TEXT
            pixels = float(match[1]) * _PIXELS.get(match[2].lower(), 1)
            small = "small_text" if near & _TEXT and pixels < SMALLEST_TEXT else None
            if near & _TARGET and not near & _TEXT and pixels < SMALLEST_TARGET:
                small = "small_target"
            rule = self._by_id.get(small) if small else None
            if rule is not None:
                yield Trigger(rule, match[0], match.start(), match.end(), "present")


def _is_switched(each: Trigger, text: str) -> bool:
    """`the host can turn the timer off`."""
    if each.standing != "present" or not each.rule.negatable or not _OFF.match(text, each.end):
        return False
    before = text[max(each.start - _BEFORE, 0) : each.start].rsplit(".", maxsplit=1)[-1]
    return bool(_SWITCHES.search(before)) and not _NOBODY.search(before)


def _with_limits(found: Sequence[Trigger]) -> list[Trigger]:
    """A control that is said to be limited right after is none."""
    limits = [each.start for each in found if each.rule.id == "no_way_out"]

    def is_limited(each: Trigger) -> bool:
        at = bisect_left(limits, each.end)
        return each.standing == "controlled" and at < len(limits) and limits[at] - each.end <= _NEAR

    return [structs.replace(each, standing="present") if is_limited(each) else each for each in found]


def _said(trigger: Trigger, *, young: bool, place: bool) -> Trigger:
    """With the advice for children, or for what is no screen."""
    for_young = getattr(trigger.rule, "young_advice", ()) if young else ()
    said = for_young or (getattr(trigger.rule, "place_advice", ()) if place else ())
    return structs.replace(trigger, rule=structs.replace(trigger.rule, advice=said)) if said else trigger
