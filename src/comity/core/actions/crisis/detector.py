"""The detector: folds the text, looks every word up once, and reads the small grammars around what it found.

- A match is lowered, never erased, by its context: a negation in the same clause, another person, a past that
  is over, a quotation or story. It then counts as a mention.
- A first-person statement keeps its weight whatever stands elsewhere in the text: only what touches the
  statement itself (its clause, its quotation marks) lowers it.
- Every look around a match goes a bounded number of characters, so the work is linear in the text. A report
  holds at most `MOST_SIGNALS` signals.
"""

import itertools
import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from comity.core.actions.crisis.data import LANGUAGES, LEXICONS, RULES, SIGNS
from comity.core.actions.crisis.folding import Folded, fold
from comity.core.actions.crisis.lexicon import Bag, Language, Lexicon, Rule, read_lexicon
from comity.core.actions.crisis.report import QUIET, RANK, CrisisReport, Severity, Signal, Subject, Tense

MOST_SIGNALS = 50
_ENOUGH = 3  # points of weak signs that say together what none says alone
_WEAK = 2  # points of any other weak signal
_GUARDED = 10  # gaps around a sign in which a guard explains it
_REACH = 160  # characters on each side of a match that may say something about it
_QUOTED = re.compile(
    '"[^"]{2,300}"|“[^”]{2,300}”|«[^»]{2,300}»|„[^“”]{2,300}[“”]|「[^」]{2,300}」|『[^』]{2,300}』|《[^》]{2,100}》'
    "|(?<!\\w)['\u2018](?=\\w)[^\n]{2,300}?['\u2019](?!\\w)"
)
_LAUGHING = re.compile("[\U0001f602\U0001f923\U0001f605\U0001f606\U0001f639\U0001f604]")
_KANA = re.compile("[\u3041-\u3096]")
_DANGERS = frozenset({"intent", "ideation", "plan", "attempt", "euphemism", "self_harm", "goodbye", "method"})

_STATEMENTS = frozenset({"intent", "ideation", "self_harm", "topic"})  # what a "not" inside turns round
_IN_EARNEST = frozenset({"intent", "plan", "attempt", "method"})  # no figure of speech weakens these
_WISHES = frozenset({"ideation", "hopelessness"})  # what is also said in jest
_PERSONS = frozenset({"I", "MINE", "THEY"})

Hit = tuple[int, int, int]  # start, end, concept
Spans = tuple[tuple[int, int], ...]
Match = tuple[Spans, Rule]
Found = tuple[Signal, Rule]
Near = Sequence[tuple[str, int, int]]  # name of the context, start, end


def crisis_detector(data: Mapping[str, bytes]) -> "CrisisDetector":
    """`data` holds the files that `DATA` names, by those names."""
    return CrisisDetector(
        _lexicon(*(tuple(data[name] for name in names) for names in (LEXICONS, SIGNS, RULES)))
    )


@lru_cache(maxsize=1)
def _lexicon(files: tuple[bytes, ...], signs: tuple[bytes, ...], rules: tuple[bytes, ...]) -> Lexicon:
    """Several skills ask for the same one."""
    return read_lexicon(files, signs, *rules)


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
        most = max(map(len, hits.values()))
        signals: list[Found] = []
        quoted: list[tuple[int, int]] | None = None
        for index, found in hits.items():
            language = self._languages[index]
            shown = _unhidden(language, found)
            matches = _matches(language, shown, folded.text, spoken=2 * len(found) >= most)
            if not matches:
                continue
            if quoted is None:
                quoted = [place.span() for place in _QUOTED.finditer(text)]
            reader = _Reader(language, shown, folded, quoted, laughing=bool(_LAUGHING.search(text)))
            signals += _read(reader, _unguarded(language, shown, matches))
        return _report(signals) if signals else QUIET


def _read(reader: "_Reader", matches: list[Match]) -> list[Found]:
    """All that is lowered, and of what is not as much as a report holds: nobody hides a statement behind many others."""
    signals: list[Found] = []
    plain = 0
    for match in matches:
        signal = reader.signal(*match)
        signals.append((signal, match[1]))
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


def _matches(language: Language, hits: list[Hit], text: str, *, spoken: bool) -> list[Match]:
    """Per category the widest of the overlapping matches, with the greatest severity among them. The shared
    grammar is read only in a language that the text is `spoken` in: its words are everyday ones.
    """
    best: list[Match] = []
    latest: dict[int, tuple[int, int]] = {}
    for index, (start, end, concept) in enumerate(hits):
        for rule in language.rules.get(concept, ()):
            if rule.own and not spoken:
                continue
            slots = _match_back(hits, index, rule, len(rule.slots) - 1, text)
            if slots:
                _keep(best, slots, rule)
        bags = language.bags.get(concept) if spoken else None
        if bags:
            latest[concept] = (start, end)
            for bag in bags:
                slots = _match_bag(latest, concept, bag, text)
                if slots:
                    _keep(best, slots, bag.rule)
    return best


def _match_bag(latest: Mapping[int, tuple[int, int]], concept: int, bag: Bag, text: str) -> Spans:
    """The spans of a bag that the last hit, of this concept, completes, or none."""
    last = latest[concept]
    spans: list[tuple[int, int]] = []
    for slot in bag.rule.slots:
        if concept in slot:
            spans.append(last)
            continue
        near = [latest[other] for other in slot if other in latest]
        place = max((span for span in near if span[1] <= last[0]), default=None)
        if place is None or place[1] < last[0] - bag.reach:
            return ()
        spans.append(place)
    bound = spans[: bag.bound]
    if _stops(text, min(bound)[1], max(bound)[0]):
        return ()
    spans.sort()
    return () if any(right[0] < left[1] for left, right in itertools.pairwise(spans)) else tuple(spans)


def _unguarded(language: Language, hits: list[Hit], matches: list[Match]) -> list[Match]:
    """The matches without the signs and farewells that something close by explains otherwise."""
    groups = {_group(rule) for _, rule in matches} - {""}
    places = {
        group: [start for start, _, concept in hits if concept in language.guards[group]] for group in groups
    }
    reach = _GUARDED * language.gap
    return [
        (slots, rule)
        for slots, rule in matches
        if not (group := _group(rule))
        or not _within(places[group], slots[0][0] - reach, slots[-1][1] + reach)
    ]


def _group(rule: Rule) -> str:
    return rule.group or ("farewell" if rule.category == "goodbye" and rule.severity == "high" else "")


def _within(places: list[int], start: int, end: int) -> bool:
    at = bisect_left(places, start)
    return at < len(places) and places[at] <= end


def _keep(best: list[Match], slots: Spans, rule: Rule) -> None:
    start, end = slots[0][0], slots[-1][1]
    for at in range(len(best) - 1, max(len(best) - 9, -1), -1):
        others, other = best[at]
        if (
            other.category == rule.category
            and other.kind == rule.kind
            and others[0][0] < end
            and start < others[-1][1]
        ):
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
        self,
        language: Language,
        hits: Sequence[Hit],
        folded: Folded,
        quoted: Sequence[tuple[int, int]],
        *,
        laughing: bool,
    ) -> None:
        self._language = language.code
        self._gap = language.gap
        # a language that leaves its subjects out names one close by when it means it
        self._subject_reach = 2 * _REACH if language.spaced else language.gap
        self._names = {number: name for name, number in language.context.items()}
        self._hits = [hit for hit in hits if hit[2] in self._names]
        self._folded = folded
        self._quoted = quoted
        self._laughing = laughing
        self._from = 0

    def signal(self, slots: Spans, rule: Rule) -> Signal:
        start, end = slots[0][0], max(b for _, b in slots)
        left, right = self._sentence(start, end)
        around = [(self._names[concept], a, b) for a, b, concept in self._around(start, end)]
        near = [one for one in around if one[1] >= left and one[2] <= right]
        span = self._folded.span(start, end)
        subject = _subject(near, start, end, rule, self._subject_reach)
        negated = (
            _negated(near, slots, self._folded.text, self._gap, rule)
            or self._in_jest(around, start, end)
            or (
                rule.category == "method"
                and any(name == "OBJECT" and start <= a <= end + self._gap for name, a, _ in near)
            )
        )
        in_earnest = any(name == "NOJOKE" for name, _, _ in around)
        hyperbole = rule.category not in _IN_EARNEST and any(
            (name == "JEST" and rule.category in _WISHES and not in_earnest)
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
            tense=_tense(near, around, start, end, self._folded.text),
            framed=self._framed(near, start, span, subject) or _asked_of_others(near, rule, subject),
        )

    def _in_jest(self, around: Near, start: int, end: int) -> bool:
        """If he says it once more I jump out of the window, haha."""
        names = {name for name, _, _ in around}
        if "NOJOKE" in names or not (self._laughing or "LAUGH" in names):
            return False
        return any(
            name == "IF" and start - 4 * self._gap <= a <= end + 2 * self._gap for name, a, _ in around
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
        if rule.category == "hopelessness" and rule.severity == "moderate":
            # who cannot go on and looks for another job is worn out
            return "low" if any(name == "WAYOUT" for name, _, _ in near) else rule.severity
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
    if rule.own or rule.category == "burden":
        return _own_subject(near, start, end, rule)
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


def _own_subject(near: Near, start: int, end: int, rule: Rule) -> Subject:
    """Who leaves letters and takes his leave names others; they are not who it is about."""
    if any(name == "I" and start <= a and b <= end for name, a, b in near):
        return "self"
    before = max(((b, name) for name, _, b in near if name in {"I", "THEY"} and b <= start), default=None)
    if before is not None:
        return "self" if before[1] == "I" else "other"
    inside = {name for name, a, b in near if start <= a and b <= end}
    if "MINE" in inside:
        return "self"
    return "other" if "THEY" in inside and not rule.own else "unknown"


def _asked_of_others(near: Near, rule: Rule, subject: Subject) -> bool:
    """Why did the poet drown himself: a question about somebody who is not in the conversation."""
    return (
        subject != "self"
        and not rule.own
        and rule.category in {"intent", "ideation", "method"}
        and any(name == "WHYQ" for name, _, _ in near)
        and not any(name in {"I", "MINE"} for name, _, _ in near)
    )


def _negated(near: Near, slots: Spans, text: str, gap: int, rule: Rule) -> bool:
    start, end = slots[0][0], max(b for _, b in slots)
    own = [(a, b) for name, a, b in near if name == "NEG" and _covered(a, b, slots)]
    reach = (
        gap // 2 if own or rule.own else gap + gap // 3
    )  # "I don't want to live" is no denial, and hardly ever denied
    for name, a, b in near:
        if name == "NEG_AFTER" and not rule.points and end - 2 <= a <= end + gap // 2:
            return True
        if name == "NEG" and start - b > 1 and (own or rule.own) and rule.category in _WISHES:
            continue  # "non ho nessun motivo": its negations say one thing together
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
        # a new subject begins a new clause, even where nobody set a comma; the verb of "no quiero" is none
        if (
            name == "NEG_FAR"
            or _leads_to(near, b, start)
            or not any(other == "I" and b <= c <= start for other, c, _ in near)
        ):
            return True
    return False


def _leads_to(near: Near, end: int, start: int) -> bool:
    """Whether nothing but words of the first person stands between: "non | voglio | farmi male"."""
    for name, a, b in near:
        if name == "I" and a <= end + 1:
            end = max(end, b)
    return end >= start - 1


def _covered(start: int, end: int, slots: Spans) -> bool:
    return any(a <= start and end <= b for a, b in slots)


def _tense(near: Near, around: Near, start: int, end: int, text: str) -> Tense:
    """A time word counts for the clause it stands in. What was, and is over or long ago, is past, unless it is
    said to have come back.
    """
    left, right = text.rfind(" , ", max(0, start - _REACH), start), text.find(" , ", end - 1, end + _REACH)
    clause = {name for name, a, b in near if a >= left and (right < 0 or b <= right + 1)}
    names = {name for name, _, _ in near}
    over = any(name == "WELL" and a >= start - _REACH for name, a, _ in around)
    back = any(name == "BACK" and a >= start for name, a, _ in around)
    past = "PAST" in clause or any(name == "PAST" and b <= start for name, _, b in near)
    if not back:
        if past and (over or "RECOVERY" in names or not clause & {"NOW", "TIME"}):
            return "past"
        if over and "PASTVERB" in clause and not clause & {"NOW", "TIME"}:
            return "past"
        if "PAST" in names and "RECOVERY" in names:
            return "past"
    return "future" if "TIME" in clause else "present"


def _report(found: list[Found]) -> CrisisReport:
    signals = [signal for signal, _ in found]
    open_signals = [signal for signal in signals if not signal.lowered]
    worst: Severity = max((signal.severity for signal in open_signals), key=RANK.__getitem__, default="none")
    if RANK[worst] < RANK["moderate"] and _points(found) >= _ENOUGH:
        worst = "moderate"
    told = _told(signals)
    if RANK[worst] < RANK["moderate"]:
        return CrisisReport(severity="low", signals=told, mention=True)
    return CrisisReport(detected=True, severity=worst, signals=told)


def _points(found: list[Found]) -> int:
    """Every kind of sign counts once, and of two that share their words the heavier one."""
    counted: dict[str | tuple[int, int], tuple[int, tuple[int, int]]] = {}
    for signal, rule in found:
        kind = rule.kind or signal.span
        if signal.lowered or signal.category == "topic" or kind in counted:
            continue
        points, span = rule.points or _WEAK, signal.span
        same = next((k for k, (_, at) in counted.items() if at[0] < span[1] and span[0] < at[1]), None)
        if same is None:
            counted[kind] = (points, span)
        elif counted[same][0] < points:
            counted[same] = (points, span)
    return sum(points for points, _ in counted.values())


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
