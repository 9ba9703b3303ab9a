"""What the surroundings of a match say about it: who, when, denied, in jest, or not in the writer's own voice.

- A match is lowered, never erased, by its context, and only by what touches the statement itself: its clause,
  its sentence, its quotation marks.
- Every look around a match goes a bounded number of characters. No question is asked whose words are nowhere near.
"""

from collections.abc import Sequence
from typing import NamedTuple

from comity_skills.crisis.context import (
    BACK,
    BUT,
    CONTEXT,
    FRAME,
    HYPERBOLE,
    IF,
    JEST,
    LAUGH,
    MEANS,
    MINE,
    NEG,
    NEG_AFTER,
    NEG_FAR,
    NOJOKE,
    NOW,
    OBJECT,
    PAST,
    PASTVERB,
    RECOVERY,
    SAY,
    THEY,
    TIME,
    WAYOUT,
    WELL,
    WHYQ,
    I,
    bits,
)
from comity_skills.crisis.lexicon import Rule
from comity_skills.crisis.matching import Spans
from comity_skills.crisis.page import REACH, Page
from comity_skills.crisis.report import RANK, Severity, Subject, Tense
from comity_skills.crisis.sighting import Hit, Sighting

_DANGERS = frozenset({"intent", "ideation", "plan", "attempt", "euphemism", "self_harm", "goodbye", "method"})
_STATEMENTS = frozenset({"intent", "ideation", "self_harm", "topic"})  # what a "not" inside turns round
_IN_EARNEST = frozenset({"intent", "plan", "attempt", "method"})  # no figure of speech weakens these
_WISHES = frozenset({"ideation", "hopelessness"})  # what is also said in jest
_ASKED = frozenset({"intent", "ideation", "method"})

_PERSONS = bits(I, MINE, THEY)
_NEGATIONS = bits(NEG, NEG_FAR, NEG_AFTER)
_FIGURES = bits(JEST, HYPERBOLE)
_TIMES = bits(PAST, PASTVERB, TIME)
_PRESENT = bits(NOW, TIME)
_URGENT = bits(MEANS, TIME)
_VOICES = bits(FRAME, SAY)

_CONTEXT = frozenset(range(len(CONTEXT)))
_NOBODY = (-1, THEY)

Near = Sequence[Hit]


class Reading(NamedTuple):
    """What a signal says, apart from where it stands."""

    severity: Severity
    subject: Subject
    negated: bool
    tense: Tense
    framed: bool
    lowered: bool


class Reader:
    """Reads the surroundings of the matches of one language."""

    def __init__(self, sighting: Sighting, page: Page) -> None:
        language = sighting.language
        self._gap = language.gap
        # a language that leaves its subjects out names one close by when it means it
        self._subject_reach = 2 * REACH if language.spaced else language.gap
        self._hits = sighting.hits(_CONTEXT)
        self._names = _names(self._hits)
        self._page = page
        self._from = 0

    def read(self, slots: Spans, rule: Rule) -> Reading:
        start, end = slots[0][0], slots[-1][1]
        if len(slots) > 1:
            end = max([b for _, b in slots])
        around, about = self._around(start, end)
        near, names = around, about
        left, right = self._page.sentence(start, end)
        if left > 0 or right <= len(self._page.text):
            near = [hit for hit in around if hit[0] >= left and hit[1] <= right]
            names = _names(near)
        subject: Subject = "unknown"
        if names & _PERSONS:
            subject = _subject(near, start, end, rule, self._subject_reach)
        negated = hyperbole = framed = False
        if names & _NEGATIONS:
            negated = _negated(near, slots, end, self._page.text, self._gap, rule)
        if about >> IF & 1 and not negated:
            negated = self._in_jest(around, about, start, end)
        if names >> OBJECT & 1 and not negated and rule.category == "method":
            negated = any(name == OBJECT and start <= a <= end + self._gap for a, _, name in near)
        if names & _FIGURES:
            hyperbole = self._figure(near, about, slots, end, rule)
        if names & _VOICES:
            framed = self._framed(near, start, end, subject)
        if names >> WHYQ & 1 and not framed:
            framed = _asked_of_others(names, rule, subject)
        other = subject == "other"
        severity = "low" if hyperbole else _severity(names, rule, lowered=negated or other)
        tense = _tense(near, around, start, end, self._page.text) if names & _TIMES else "present"
        denied = negated or hyperbole
        lowered = denied or framed or other or tense == "past"
        return Reading(severity, subject, denied, tense, framed, lowered)

    def _around(self, start: int, end: int) -> tuple[Near, int]:
        hits = self._hits
        if len(self._page.text) <= REACH:
            return hits, self._names
        while self._from < len(hits) and hits[self._from][1] < start - 2 * REACH:
            self._from += 1
        around = []
        for at in range(self._from, len(hits)):
            if hits[at][0] > end + REACH:
                break
            around.append(hits[at])
        return around, _names(around)

    def _in_jest(self, around: Near, about: int, start: int, end: int) -> bool:
        """If he says it once more I jump out of the window, haha."""
        if about >> NOJOKE & 1 or not (about >> LAUGH & 1 or self._page.laughs()):
            return False
        low, high = start - 4 * self._gap, end + 2 * self._gap
        return any(name == IF and low <= a <= high for a, _, name in around)

    def _figure(self, near: Near, about: int, slots: Spans, end: int, rule: Rule) -> bool:
        """Whether it is said in jest, or something is what one dies of in jest."""
        if rule.category in _IN_EARNEST:
            return False
        wished = rule.category in _WISHES and not about >> NOJOKE & 1
        start, behind = slots[0][0], end + self._gap // 2 + 2
        return any(
            (name == JEST and wished)
            or (name == HYPERBOLE and start <= a <= behind and not _covered(a, b, slots))
            for a, b, name in near
        )

    def _framed(self, near: Near, start: int, end: int, subject: Subject) -> bool:
        if self._page.quotes(start, end):
            return True
        frames = [b for _, b, name in near if name == FRAME]
        if subject == "self":
            says = [b for _, b, name in near if name == SAY]
            return any(b <= start and any(f <= b for f in frames) for b in says)
        return bool(frames)


def _names(hits: Near) -> int:
    names = 0
    for _, _, name in hits:
        names |= 1 << name
    return names


def _severity(names: int, rule: Rule, *, lowered: bool) -> Severity:
    if rule.category == "hopelessness" and rule.severity == "moderate":
        # who cannot go on and looks for another job is worn out
        return "low" if names >> WAYOUT & 1 else rule.severity
    if names & _URGENT and not lowered and rule.category in _DANGERS and RANK[rule.severity] >= RANK["high"]:
        return "immediate"
    return rule.severity


def _subject(near: Near, start: int, end: int, rule: Rule, reach: int) -> Subject:
    """Whom the last word of person inside the match names, else the last one before it."""
    if rule.own or rule.category == "burden":
        return _own_subject(near, start, end, rule)
    within = before = _NOBODY
    method = rule.category == "method"  # how does one do it: of nobody else
    for a, b, concept in near:
        if concept > THEY:
            continue
        inside = start <= a and b <= end and not (method and concept == THEY)
        if inside and (b, concept) > within:
            within = (b, concept)
        if concept != MINE and start - reach <= b <= start and (b, concept) > before:
            before = (b, concept)
    if within is _NOBODY and before is _NOBODY:
        return "unknown"
    _, last = before if within is _NOBODY else within
    return "other" if last == THEY else "self"


def _own_subject(near: Near, start: int, end: int, rule: Rule) -> Subject:
    """Somebody who writes farewell letters names others; the match is not about those."""
    inside = 0
    before = _NOBODY
    for a, b, concept in near:
        if concept > THEY:
            continue
        if start <= a and b <= end:
            inside |= 1 << concept
        if concept != MINE and b <= start and (b, concept) > before:
            before = (b, concept)
    if inside >> I & 1:
        return "self"
    if before is not _NOBODY:
        return "self" if before[1] == I else "other"
    if inside >> MINE & 1:
        return "self"
    return "other" if inside >> THEY & 1 and not rule.own else "unknown"


def _asked_of_others(names: int, rule: Rule, subject: Subject) -> bool:
    """Why did the poet drown himself: a question about somebody who is not in the conversation."""
    return subject != "self" and not rule.own and rule.category in _ASKED and not names & bits(I, MINE)


def _negated(near: Near, slots: Spans, end: int, text: str, gap: int, rule: Rule) -> bool:
    start = slots[0][0]
    own = [(a, b) for a, b, name in near if name == NEG and _covered(a, b, slots)]
    # "I don't want to live" is no denial, and hardly ever denied
    reach = gap // 2 if own or rule.own else gap + gap // 3
    for a, b, name in near:
        if name == NEG_AFTER and not rule.points and end - 2 <= a <= end + gap // 2:
            return True
        if name == NEG and start - b > 1 and (own or rule.own) and rule.category in _WISHES:
            continue  # "non ho nessun motivo": its negations say one thing together
        if name not in {NEG, NEG_FAR} or a >= end or b < start - reach or (a, b) in own:
            continue
        if own and a < start < b:  # "ya no" where the match begins with "no" is one negation, not two
            continue
        if a >= start:
            if not own and rule.category in _STATEMENTS:
                return True
            continue
        if "," in text[b:start] or any(other == BUT and b <= c < start for c, _, other in near):
            continue
        # a new subject begins a new clause, even where nobody set a comma; the verb of "no quiero" is none
        if (
            name == NEG_FAR
            or _leads_to(near, b, start)
            or not any(other == I and b <= c <= start for c, _, other in near)
        ):
            return True
    return False


def _leads_to(near: Near, end: int, start: int) -> bool:
    """Whether nothing but words of the first person stands between: "non | voglio | farmi male"."""
    for a, b, name in near:
        if name == I and a <= end + 1:
            end = max(end, b)
    return end >= start - 1


def _covered(start: int, end: int, slots: Spans) -> bool:
    return any(a <= start and end <= b for a, b in slots)


def _tense(near: Near, around: Near, start: int, end: int, text: str) -> Tense:
    """A time word counts for the clause it stands in. What was, and is over or long ago, is past, unless it is
    said to have come back.
    """
    left, right = text.rfind(" , ", max(0, start - REACH), start), text.find(" , ", end - 1, end + REACH)
    clause = _names([hit for hit in near if hit[0] >= left and (right < 0 or hit[1] <= right + 1)])
    names = _names(near)
    over = any(name == WELL and a >= start - REACH for a, _, name in around)
    told = max((b for _, b, name in near if name == PASTVERB), default=start)
    since = min(start, told)  # ten years ago I tried, it is back, I want to die
    back = any(name == BACK and a >= since for a, _, name in around)
    past = clause >> PAST & 1 or any(name == PAST and b <= start for _, b, name in near)
    if not back:
        if past and (over or names >> RECOVERY & 1 or not clause & _PRESENT):
            return "past"
        if over and clause >> PASTVERB & 1 and not clause & _PRESENT:
            return "past"
        if names >> PAST & 1 and names >> RECOVERY & 1:
            return "past"
    return "future" if clause >> TIME & 1 else "present"
