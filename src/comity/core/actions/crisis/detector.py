"""The detector: folds the text, looks every word up once, and reads the small grammars around what it found.

- A match is lowered, never erased, by its context: a negation in the same clause, another person, a past that
  is over, a quotation or story. It then counts as a mention.
- A first-person statement keeps its weight whatever stands elsewhere in the text: only what touches the
  statement itself (its clause, its quotation marks) lowers it.
- Every look around a match goes a bounded number of characters, so the work is linear in the text. A report
  holds at most `MOST_SIGNALS` signals.
"""

import re
import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from comity.core.actions.crisis.folding import Folded, fold
from comity.core.actions.crisis.lexicon import LANGUAGES, Language, Lexicon, Rule, read_lexicon
from comity.core.actions.crisis.report import QUIET, RANK, CrisisReport, Severity, Signal, Subject, Tense

DATA: tuple[str, ...] = tuple(f"crisis/lexicon/{language}.json" for language in LANGUAGES)

MOST_SIGNALS = 50
_REACH = 160  # characters on each side of a match that may say something about it
_QUOTED = re.compile(
    '"[^"]{2,300}"|“[^”]{2,300}”|«[^»]{2,300}»|„[^“”]{2,300}[“”]|「[^」]{2,300}」|『[^』]{2,300}』|《[^》]{2,100}》'
    "|(?<!\\w)['\u2018](?=\\w)[^\n]{2,300}?['\u2019](?!\\w)"
)
_KANA = re.compile("[\u3041-\u3096]")
_DANGERS = frozenset({"intent", "ideation", "plan", "attempt", "euphemism", "self_harm", "goodbye", "method"})

_STATEMENTS = frozenset({"intent", "ideation", "self_harm", "topic"})  # what a "not" inside turns round
_IN_EARNEST = frozenset({"intent", "plan", "attempt", "method"})  # no figure of speech weakens these
_WISHES = frozenset({"ideation", "hopelessness"})  # what is also said in jest
_PERSONS = frozenset({"I", "MINE", "THEY"})

Hit = tuple[int, int, int]  # start, end, concept
Spans = tuple[tuple[int, int], ...]
Match = tuple[Spans, Rule]
Near = Sequence[tuple[str, int, int]]  # name of the context, start, end


def crisis_detector(data: Mapping[str, bytes]) -> "CrisisDetector":
    """`data` holds the files that `DATA` names, by those names."""
    return CrisisDetector(_lexicon(tuple(data[name] for name in DATA)))


@lru_cache(maxsize=1)
def _lexicon(files: tuple[bytes, ...]) -> Lexicon:
    """Several skills ask for the same one."""
    return read_lexicon(files)


class CrisisDetector:
    def __init__(self, lexicon: Lexicon) -> None:
        self._find = lexicon.automaton.iter
        self._languages = lexicon.languages
        self._vocabulary = lexicon.vocabulary
        # the two share their characters; kana tells them apart
        self._chinese, self._japanese = LANGUAGES.index("zh"), LANGUAGES.index("ja")

    def detect(self, text: str) -> CrisisReport:
        folded = fold(text, self._vocabulary)
        hits: dict[int, list[Hit]] = {}
        endings = False
        for last, (length, blank, meanings, ends) in self._find(folded.text):
            start, end = last + 1 - length + blank, last + 1 - blank
            endings = endings or ends
            for language, concept in meanings:
                hits.setdefault(language, []).append((start, end, concept))
        if not endings:
            return QUIET
        if self._chinese in hits and self._japanese in hits:
            del hits[self._chinese if _KANA.search(folded.text) else self._japanese]
        signals: list[Signal] = []
        quoted: list[tuple[int, int]] | None = None
        for index, found in hits.items():
            language = self._languages[index]
            shown = _unhidden(language, found)
            matches = _matches(language, shown, folded.text)
            if not matches:
                continue
            if quoted is None:
                quoted = [place.span() for place in _QUOTED.finditer(text)]
            signals += _read(_Reader(language, shown, folded, quoted), matches)
        return _report(signals) if signals else QUIET


def _read(reader: "_Reader", matches: list[Match]) -> list[Signal]:
    """All that is lowered, and of what is not as much as a report holds: nobody hides a statement behind many others."""
    signals: list[Signal] = []
    plain = 0
    for match in matches:
        signal = reader.signal(*match)
        signals.append(signal)
        plain += not signal.lowered
        if plain == MOST_SIGNALS:
            break
    return signals


def _unhidden(language: Language, hits: list[Hit]) -> list[Hit]:
    """The hits that no idiom covers. An idiom hides what is shorter than itself and lies within it."""
    idiom = language.context.get("IDIOM")
    covers = [(start, end) for start, end, concept in hits if concept == idiom]
    if not covers:
        return hits
    kept: list[Hit] = []
    first = 0
    for hit in hits:
        start, end, _ = hit
        while first < len(covers) and covers[first][1] < start:
            first += 1
        if not any(a <= start and end <= b and b - a > end - start for a, b in covers[first : first + 8]):
            kept.append(hit)
    return kept


def _matches(language: Language, hits: list[Hit], text: str) -> list[Match]:
    """Per category the widest of the overlapping matches, with the greatest severity among them."""
    best: list[Match] = []
    for index, (_, _, concept) in enumerate(hits):
        for rule in language.rules.get(concept, ()):
            slots = _match_back(hits, index, rule, len(rule.slots) - 1, text)
            if slots:
                _keep(best, slots, rule)
    return best


def _keep(best: list[Match], slots: Spans, rule: Rule) -> None:
    start, end = slots[0][0], slots[-1][1]
    for at in range(len(best) - 1, max(len(best) - 9, -1), -1):
        others, other = best[at]
        if other.category == rule.category and others[0][0] < end and start < others[-1][1]:
            heavier = rule if RANK[rule.severity] > RANK[other.severity] else other
            best[at] = (tuple(sorted({*others, *slots})), heavier)
            return
    best.append((slots, rule))


def _match_back(hits: list[Hit], index: int, rule: Rule, slot: int, text: str) -> Spans:
    """The spans of a match that has `hits[index]` in `slot`, or none. Hits are in the order of their ends."""
    start, end, _ = hits[index]
    if slot == 0:
        return ((start, end),)
    for before in range(index - 1, -1, -1):
        _, other_end, concept = hits[before]
        if other_end < start - rule.gaps[slot]:
            return ()
        if concept in rule.slots[slot - 1] and other_end <= start and not _stops(text, other_end, start):
            found = _match_back(hits, before, rule, slot - 1, text)
            if found:
                return (*found, (start, end))
    return ()


def _stops(text: str, start: int, end: int) -> bool:
    between = text[start:end]
    return not between.isalnum() and any(stop in between for stop in ".!?;\n\u0964")


class _Reader:
    """Reads the surroundings of the matches of one language."""

    def __init__(
        self, language: Language, hits: Sequence[Hit], folded: Folded, quoted: Sequence[tuple[int, int]]
    ) -> None:
        self._language = language.code
        self._gap = language.gap
        # a language that leaves its subjects out names one close by when it means it
        self._subject_reach = 2 * _REACH if language.spaced else language.gap
        self._names = {number: name for name, number in language.context.items()}
        self._hits = [hit for hit in hits if hit[2] in self._names]
        self._folded = folded
        self._quoted = quoted
        self._from = 0

    def signal(self, slots: Spans, rule: Rule) -> Signal:
        start, end = slots[0][0], max(b for _, b in slots)
        left, right = self._sentence(start, end)
        near = [
            (self._names[concept], a, b)
            for a, b, concept in self._around(start, end)
            if a >= left and b <= right
        ]
        span = self._folded.span(start, end)
        subject = _subject(near, start, end, rule, self._subject_reach)
        negated = _negated(near, slots, self._folded.text, self._gap, rule)
        hyperbole = rule.category not in _IN_EARNEST and any(
            (name == "JEST" and rule.category in _WISHES)
            or (name == "HYPERBOLE" and start <= a <= end + self._gap // 2 + 2 and not _covered(a, b, slots))
            for name, a, b in near
        )
        return Signal(
            category=rule.category,
            severity="low"
            if hyperbole
            else self._severity(near, rule, lowered=negated or subject == "other"),
            span=span,
            language=self._language,
            subject=subject,
            negated=negated or hyperbole,
            tense=_tense(near),
            framed=self._framed(near, start, span, subject),
        )

    def _around(self, start: int, end: int) -> Iterator[Hit]:
        hits = self._hits
        while self._from < len(hits) and hits[self._from][1] < start - 2 * _REACH:
            self._from += 1
        for at in range(self._from, len(hits)):
            hit = hits[at]
            if hit[0] > end + _REACH:
                return
            yield hit

    def _sentence(self, start: int, end: int) -> tuple[int, int]:
        text = self._folded.text
        low, high = max(0, start - _REACH), min(len(text), end + _REACH)
        left = max(text.rfind(f" {stop} ", low, start) for stop in ".!?;\n\u0964")
        rights = [at for stop in ".!?;\n\u0964" if (at := text.find(f" {stop} ", end - 1, high)) >= 0]
        return max(left, low), min(rights, default=high) + 1

    def _severity(self, near: Near, rule: Rule, *, lowered: bool) -> Severity:
        danger = rule.category in _DANGERS and RANK[rule.severity] >= RANK["high"] and not lowered
        if danger and any(name in {"MEANS", "TIME"} for name, _, _ in near):
            return "immediate"
        return rule.severity

    def _framed(self, near: Near, start: int, span: tuple[int, int], subject: Subject) -> bool:
        at = bisect_right(self._quoted, (span[0], sys.maxsize)) - 1
        inside = at >= 0 and span[1] <= self._quoted[at][1]
        frames = [b for name, _, b in near if name == "FRAME"]
        says = [b for name, _, b in near if name == "SAY"]
        if inside:
            return bool(frames or says)
        if subject == "self":
            return any(b <= start and any(f <= b for f in frames) for b in says)
        return bool(frames)


def _subject(near: Near, start: int, end: int, rule: Rule, reach: int) -> Subject:
    """Whom the last word of person inside the match names, else the last one before it."""
    persons = (
        _PERSONS - {"THEY"} if rule.category == "method" else _PERSONS
    )  # how does one do it: of nobody else
    within = max(
        ((b, name) for name, a, b in near if start <= a and b <= end and name in persons), default=None
    )
    if within is not None:
        return "other" if within[1] == "THEY" else "self"
    before = max(
        ((b, name) for name, _, b in near if name in {"I", "THEY"} and start - reach <= b <= start),
        default=None,
    )
    if before is None:
        return "unknown"
    return "self" if before[1] == "I" else "other"


def _negated(near: Near, slots: Spans, text: str, gap: int, rule: Rule) -> bool:
    start, end = slots[0][0], max(b for _, b in slots)
    own = [(a, b) for name, a, b in near if name == "NEG" and _covered(a, b, slots)]
    reach = gap // 2 if own else gap + gap // 3  # "I don't want to live" is no denial, and hardly ever denied
    for name, a, b in near:
        if name == "NEG_AFTER" and end - 2 <= a <= end + gap // 2:
            return True
        if name not in {"NEG", "NEG_FAR"} or a >= end or b < start - reach or (a, b) in own:
            continue
        if own and a < start < b:  # "ya no" where the match begins with "no" is one negation, not two
            continue
        if a >= start:
            if not own and rule.category in _STATEMENTS:
                return True
            continue
        if "," in text[b:start] or any(other == "BUT" and b <= c < start for other, c, _ in near):
            continue
        # a new subject begins a new clause, even where nobody set a comma; "no quiero" is none
        last = start if start - b > 1 else start - 1
        if name == "NEG_FAR" or not any(other == "I" and b <= c <= last for other, c, _ in near):
            return True
    return False


def _covered(start: int, end: int, slots: Spans) -> bool:
    return any(a <= start and end <= b for a, b in slots)


def _tense(near: Near) -> Tense:
    names = {name for name, _, _ in near}
    if "PAST" in names and ("RECOVERY" in names or not names & {"NOW", "TIME"}):
        return "past"
    return "future" if "TIME" in names else "present"


def _report(found: list[Signal]) -> CrisisReport:
    open_signals = [signal for signal in found if not signal.lowered]
    worst: Severity = max((signal.severity for signal in open_signals), key=RANK.__getitem__, default="none")
    weak = [signal for signal in open_signals if signal.category != "topic"]
    if RANK[worst] < RANK["moderate"] and len(weak) > 1:
        worst = "moderate"
    signals = _told(found)
    if RANK[worst] < RANK["moderate"]:
        return CrisisReport(severity="low", signals=signals, mention=True)
    return CrisisReport(detected=True, severity=worst, signals=signals)


def _told(found: list[Signal]) -> tuple[Signal, ...]:
    """The signals of a report, the gravest if there are too many, in the order of the text. A bare word that
    several languages share is told once, and not at all where something says more about it.
    """
    said = {signal.span for signal in found if signal.category != "topic"}
    told = {}
    for signal in found:
        if signal.category != "topic":
            told[signal.span, signal.category, signal.language] = signal
        elif signal.span not in said:
            told.setdefault((signal.span, "topic", ""), signal)
    gravest = sorted(told.values(), key=lambda signal: (signal.lowered, -RANK[signal.severity], signal.span))
    return tuple(sorted(gravest[:MOST_SIGNALS], key=lambda signal: signal.span))
