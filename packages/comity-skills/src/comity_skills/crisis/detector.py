"""The detector: folds the text, looks every word up, and reads the small grammars around what it found.

- It looks for telling words first; in the languages that have one it looks for everything, matches the rules
  that can match, and reads what stands around the matches.
- A first-person statement keeps its weight whatever stands elsewhere in the text.
- What the rules let pass is asked for a second opinion on its phrasing.
- `detect` tells all there is to tell. `judge` comes to the same verdict, stops as soon as it is certain, and
  reads nothing that cannot change it.
- The work is linear in the text.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from comity_skills.crisis.danger import Dangers
from comity_skills.crisis.data import LANGUAGES
from comity_skills.crisis.folding import Folded, fold
from comity_skills.crisis.lexicon import Language, Lexicon, Rule
from comity_skills.crisis.matching import Match, Spans, has_grave_match, matches, unguarded
from comity_skills.crisis.opinion import Opinion, is_long
from comity_skills.crisis.page import REACH, Page
from comity_skills.crisis.reading import Reader, Reading
from comity_skills.crisis.report import (
    GRAVE,
    MOST_SIGNALS,
    QUIET,
    RANK,
    CrisisReport,
    Danger,
    Signal,
    Verdict,
)
from comity_skills.crisis.sighting import Sighting, sightings_in
from comity_skills.crisis.weighing import (
    ENOUGH,
    Found,
    is_mention,
    is_soft,
    joined,
    points_of,
    softened,
    together,
    weighed,
    weighs,
)
from comity_skills.prepared import once

_CRISIS = Verdict(detected=True)
_MENTION = Verdict(mention=True)
_SIGNS = Verdict()  # weak ones that say nothing alone

Read = tuple[Language, Spans, Rule, Reading]
Weak = tuple[Sighting, Match]


def crisis_detector(data: Mapping[str, bytes], *, phrasing: bool = False) -> "CrisisDetector":
    """The rules of the data alone, or also asked for a second opinion on the `phrasing`."""
    lexicon = once(data, "crisis/lexicon", lambda section: Lexicon(section, LANGUAGES))
    opinion = once(data, "crisis/opinion", Opinion) if phrasing else None
    return CrisisDetector(lexicon, opinion, once(data, "crisis/danger", Dangers))


class CrisisDetector:
    def __init__(
        self, lexicon: Lexicon, opinion: Opinion | None = None, dangers: Dangers | None = None
    ) -> None:
        self._lexicon = lexicon
        self._dangers = dangers
        self._opinion = opinion
        self._vocabulary = lexicon.vocabulary

    def folded(self, text: str) -> Folded:
        return fold(text, self._vocabulary)

    def detect(self, text: str) -> CrisisReport:
        folded = fold(text, self._vocabulary)
        return self._report(Page(text, folded), sightings_in(folded, self._lexicon))

    def judge(self, text: str, folded: Folded | None = None) -> Verdict:
        """The verdict of the report that `detect` would give. Who needs the text `folded`, too, folds it once."""
        folded, opinion = folded or fold(text, self._vocabulary), self._opinion
        sightings = sightings_in(folded, self._lexicon)
        verdict: Verdict = QUIET
        if sightings:  # of a long text the phrasing around them has to be read as well
            page = Page(text, folded)
            judged = None if opinion is not None and is_long(folded) else _judge(sightings, page)
            if judged is None or ((judged is _MENTION or judged is _SIGNS) and opinion is not None):
                return self._report(page, sightings)
            verdict = judged
        dangers = self._dangers.find(folded) if self._dangers is not None else ()
        if dangers:
            return self._report(Page(text, folded), sightings)
        if verdict.detected or opinion is None or not opinion.is_crisis(folded):
            return verdict
        return _CRISIS

    def signs(self, text: str) -> dict[str, bool]:
        """What the second opinion is told of the rules: whether they match, whether in earnest, and whether in everyday
        words alone.
        """
        folded = fold(text, self._vocabulary)
        found = _matches(Page(text, folded), sightings_in(folded, self._lexicon))
        return _signs(found) | {"soft": is_soft(found)}

    def _report(self, page: Page, sightings: Sequence[Sighting]) -> CrisisReport:
        found = _matches(page, sightings)
        dangers = self._dangers.find(page.folded) if self._dangers is not None else ()
        if found and dangers:
            found = [(signal, rule) for signal, rule in found if not _is_a_threat(signal, dangers)]
        others = any(danger.subject == "other" for danger in dangers)
        if found and others:
            found = [(_told_of_another(signal, dangers), rule) for signal, rule in found]
        report = weighed(found) if found else QUIET
        if report.detected and self._opinion is not None:
            if is_soft(found) and self._opinion.is_calm(page.folded):
                report = softened(report)
            elif (
                report.severity == "moderate" and not others
            ):  # a text is no less grave than by its phrasing alone
                signal = self._opinion.signal(page.folded, mention=False, weak=False)
                if signal is not None and RANK[signal.severity] > RANK[report.severity]:
                    report = joined(report, signal)
        elif self._opinion is not None and not others:
            signal = self._opinion.signal(page.folded, **_signs(found))
            if signal is not None:
                close = signal.severity == "none"
                report = replace(report, close=signal.language) if close else joined(report, signal)
        if report.severity == "moderate" and self._is_urgent(page.folded, report.signals):
            report = replace(report, severity="high")
        return _with_dangers(report, dangers) if dangers else report

    def _is_urgent(self, folded: Folded, signals: Sequence[Signal]) -> bool:
        dangers = self._dangers
        return dangers is not None and any(
            dangers.is_urgent(folded, signal.language, signal.span)
            for signal in signals
            if not signal.lowered
        )


def _matches(page: Page, sightings: Sequence[Sighting]) -> list[Found]:
    return [_found(one, page.folded) for sighting in sightings for one in _read(sighting, page)]


def _judge(sightings: Sequence[Sighting], page: Page) -> Verdict | None:
    """None when it takes the whole report to tell."""
    weak: list[Weak] = []
    matched = mentioned = False
    for sighting in sightings:
        if mentioned and not any(weighs(rule) for rule in sighting.rules):
            continue
        if _is_plain(sighting, page) and has_grave_match(sighting, page):
            return _CRISIS
        if page.is_long:
            return None
        found = unguarded(sighting, matches(sighting, page))
        if not found:
            continue
        if len(found) >= MOST_SIGNALS:
            return None
        left = _left_over(sighting, found, page)
        if left is None:
            return _CRISIS
        weak += left
        matched = True
        mentioned = mentioned or any(is_mention(rule) for _, rule in found)
    if sum([points_of(rule) for _, (_, rule) in weak]) >= ENOUGH and _enough(weak, page):
        return _CRISIS
    if mentioned:
        return _MENTION
    return _SIGNS if matched else QUIET


def _with_dangers(report: CrisisReport, dangers: tuple[Danger, ...]) -> CrisisReport:
    threatened = any(danger.deadly for danger in dangers)
    return replace(report, dangers=dangers, endangered=_is_endangered(dangers), threatened=threatened)


def _is_endangered(dangers: Sequence[Danger]) -> bool:
    return any(danger.subject == "other" and danger.certain for danger in dangers)


def _is_a_threat(signal: Signal, dangers: Sequence[Danger]) -> bool:
    """Whether it is what somebody does to the writer: "he said he would kill me" is no wish of one's own."""
    start, end = signal.span
    return any(
        danger.subject == "self" and danger.span[0] <= start and end <= danger.span[1] for danger in dangers
    )


def _told_of_another(signal: Signal, dangers: Sequence[Danger]) -> Signal:
    """What is said beside another person's danger, and not of the writer, is said of that person."""
    start, end = signal.span
    near = any(
        danger.subject == "other" and start - REACH <= danger.span[1] and danger.span[0] <= end + REACH
        for danger in dangers
    )
    return replace(signal, subject="other") if near and signal.subject == "unknown" else signal


def _signs(found: Sequence[Found]) -> dict[str, bool]:
    return {"mention": bool(found), "weak": any(not signal.lowered for signal, _ in found)}


def _left_over(sighting: Sighting, found: Sequence[Match], page: Page) -> list[Weak] | None:
    """The matches that may say something together with others; None when one is a crisis by itself."""
    left: list[Weak] = []
    reader = None
    for match in found:
        slots, rule = match
        if rule.grave:
            reader = reader or Reader(sighting, page)
            reading = reader.read(slots, rule)
            if reading.lowered:
                continue
            if RANK[reading.severity] >= GRAVE:
                return None
        if weighs(rule):
            left.append((sighting, match))
    return left


def _enough(weak: Sequence[Weak], page: Page) -> bool:
    """Whether they say together what none of them says alone."""
    found = []
    readers: dict[str, Reader] = {}
    for sighting, (slots, rule) in weak:
        code = sighting.language.code
        if code not in readers:
            readers[code] = Reader(sighting, page)
        reading = readers[code].read(slots, rule)
        found.append(_found((sighting.language, slots, rule, reading), page.folded))
    return together(found) >= ENOUGH


def _is_plain(sighting: Sighting, page: Page) -> bool:
    """Whether nothing is there that might lower a match."""
    language, meanings = sighting.language, sighting.meanings
    if meanings & language.lowering:
        return False
    for one, other in language.lowering_pairs:
        if meanings & one and meanings & other:
            return False
    return not (meanings & language.ifs and page.laughs())


def _read(sighting: Sighting, page: Page) -> Iterator[Read]:
    """The matches with what their surroundings say: all that is lowered, and of what is not as much as a report holds,
    of grave ones and of others apart. Nobody hides a statement behind many others.
    """
    found = matches(sighting, page)
    if not found:
        return
    reader = Reader(sighting, page)
    grave = light = 0
    for slots, rule in unguarded(sighting, found):
        if not rule.grave and light == MOST_SIGNALS:
            continue
        reading = reader.read(slots, rule)
        yield sighting.language, slots, rule, reading
        if not reading.lowered:
            grave += rule.grave
            light += not rule.grave
        if grave == MOST_SIGNALS:
            return


def _found(read: Read, folded: Folded) -> Found:
    language, slots, rule, reading = read
    signal = Signal(
        category=rule.category,
        severity=reading.severity,
        span=folded.span(slots[0][0], max(end for _, end in slots)),
        language=language.code,
        subject=reading.subject,
        negated=reading.negated,
        tense=reading.tense,
        framed=reading.framed,
    )
    return signal, rule
