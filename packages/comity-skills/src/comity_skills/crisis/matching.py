"""Where the rules of a language match: rows of concepts in order, bags of concepts in any order.

- Only the rules of which every slot may be filled are tried, and only where one of them can be complete.
- Of the overlapping matches of a category the widest counts, with the greatest severity among them.
- What an idiom covers is hidden. What a guard explains otherwise is no match.
"""

import itertools
from bisect import bisect_left
from collections.abc import Mapping, Sequence

from comity_skills.crisis.context import NEG
from comity_skills.crisis.lexicon import Rule
from comity_skills.crisis.page import REACH, Page
from comity_skills.crisis.report import MOST_SIGNALS, RANK
from comity_skills.crisis.sighting import Hit, Sighting

_GUARDED = 10  # gaps around a sign in which a guard explains it
_OVERLAPS = 8  # matches that a new one may overlap
_NEGATIONS = frozenset({NEG})
_NOWHERE = (-1, -1)

Spans = tuple[tuple[int, int], ...]
Match = tuple[Spans, Rule]


def matches(sighting: Sighting, page: Page) -> list[Match]:
    """The shared grammar is read only in a language that the text is spoken in: its words are everyday ones."""
    rules = sighting.rules
    concepts = rules[0].concepts
    if len(rules) > 1:
        concepts = concepts.union(*[rule.concepts for rule in rules])
    hits = sighting.hits(concepts)
    completed: dict[int, list[Rule]] = {}  # the rules that a concept can complete
    for rule in rules:
        for concept in rule.ends:
            completed.setdefault(concept, []).append(rule)
    best: list[Match] = []
    latest: dict[int, tuple[int, int]] = {}
    for index, (start, end, concept) in enumerate(hits):
        latest[concept] = (start, end)
        for rule in completed.get(concept, ()):
            slots = _spans(hits, index, latest, rule, page)
            if slots and (not rule.own or sighting.spoken()):
                _keep(best, slots, rule)
    return best


def has_grave_match(sighting: Sighting, page: Page) -> bool:
    """Whether one of the matches is certainly a crisis, if nothing but a negation may lower any of them. A report has no
    room for it if weak ones fill that first; where they might, it is not certain.
    """
    rules = sighting.rules
    grave = [rule for rule in rules if rule.grave]
    if len(grave) < len(rules):
        ends = sum([len(rule.ends) for rule in rules if not rule.grave])
        if ends * sighting.entries >= MOST_SIGNALS:
            return False
    denied = bool(sighting.meanings & sighting.language.negations)
    if not denied and not sighting.meanings & sighting.language.idioms:
        for rule in grave:
            if len(rule.slots) == 1 and not rule.own:
                return True
    return any(_has_match(rule, sighting, page, denied=denied) for rule in grave)


def _has_match(rule: Rule, sighting: Sighting, page: Page, *, denied: bool) -> bool:
    hits = sighting.hits(rule.concepts)
    negations = sighting.hits(_NEGATIONS) if denied else []
    latest: dict[int, tuple[int, int]] = {}
    for index, (start, end, concept) in enumerate(hits):
        latest[concept] = (start, end)
        if concept in rule.ends:
            spans = _spans(hits, index, latest, rule, page)
            if spans and (not denied or _says_no_itself(spans, negations)):
                return not rule.own or sighting.spoken()
    return False


def _says_no_itself(spans: Spans, negations: Sequence[Hit]) -> bool:
    """Whether the match holds a negation of its own, as "I don't want to live" does, and none stands before it:
    then none denies it, nor what it is part of.
    """
    own = False
    first, last = spans[0][0], max([end for _, end in spans])
    for start, end, _ in negations:
        if start < first:
            return False
        if start > last + REACH:
            break
        own = own or any(left <= start and end <= right for left, right in spans)
    return own


def unguarded(sighting: Sighting, found: list[Match]) -> list[Match]:
    """The matches without the signs and farewells that something close by explains otherwise."""
    groups = {rule.group for _, rule in found if rule.group}
    if not groups:
        return found
    guards = sighting.language.guards
    places = {group: [start for start, _, _ in sighting.hits(guards[group])] for group in groups}
    reach = _GUARDED * sighting.language.gap
    return [
        (slots, rule)
        for slots, rule in found
        if not rule.group or not _within(places[rule.group], slots[0][0] - reach, slots[-1][1] + reach)
    ]


def _within(places: Sequence[int], start: int, end: int) -> bool:
    """Whether one of the places, which are in order, is not outside."""
    at = bisect_left(places, start)
    return at < len(places) and places[at] <= end


def _keep(best: list[Match], slots: Spans, rule: Rule) -> None:
    start, end = slots[0][0], slots[-1][1]
    for at in range(len(best) - 1, max(len(best) - _OVERLAPS - 1, -1), -1):
        others, other = best[at]
        if (
            other.category == rule.category
            and other.kind == rule.kind
            and others[0][0] < end
            and start < others[-1][1]
        ):
            heavier = rule if RANK[rule.severity] > RANK[other.severity] else other
            if not set(slots).issubset(others):
                others = tuple(sorted({*others, *slots}))
            best[at] = (others, heavier)
            return
    best.append((slots, rule))


def _spans(
    hits: Sequence[Hit], index: int, latest: Mapping[int, tuple[int, int]], rule: Rule, page: Page
) -> Spans:
    """The spans of a match that `hits[index]` completes, or none. `latest` are the last ones up to there."""
    if len(rule.slots) == 1:
        return (hits[index][:2],)
    if rule.bound:
        return _match_bag(latest, hits[index][2], rule, page)
    found = _match_back(hits, index, rule, len(rule.slots) - 1, page)
    return ((found[0][0], found[-1][1]),) if rule.phrase and found else found


def _match_back(hits: Sequence[Hit], index: int, rule: Rule, slot: int, page: Page) -> Spans:
    """The spans of a match that has `hits[index]` in `slot`, which is not the first, or none."""
    start, end, _ = hits[index]
    wanted, nearest = rule.slots[slot - 1], start - rule.gaps[slot]
    for before in range(index - 1, -1, -1):
        other_start, other_end, concept = hits[before]
        if other_end < nearest:
            return ()
        if concept in wanted and other_end <= start and not page.stops_between(other_end, start):
            if slot == 1:
                return ((other_start, other_end), (start, end))
            found = _match_back(hits, before, rule, slot - 1, page)
            if found:
                return (*found, (start, end))
    return ()


def _match_bag(latest: Mapping[int, tuple[int, int]], concept: int, bag: Rule, page: Page) -> Spans:
    """The spans of a bag that the last hit, of this concept, completes, or none."""
    last = latest[concept]
    first, nearest = last[0], last[0] - bag.reach
    spans: list[tuple[int, int]] = []
    for slot in bag.slots:
        if concept in slot:
            spans.append(last)
            continue
        place = _NOWHERE
        for other in slot:
            if other in latest and latest[other][1] <= first and latest[other] > place:
                place = latest[other]
        if place is _NOWHERE or place[1] < nearest:
            return ()
        spans.append(place)
    bound = spans[: bag.bound]
    if page.stops_between(min(bound)[1], max(bound)[0]):
        return ()
    spans.sort()
    return () if any(right[0] < left[1] for left, right in itertools.pairwise(spans)) else tuple(spans)
