"""What the signals of a text amount to. One of weight that nothing lowers is a crisis; so are weak ones together.

- *Together* means near each other, within a few sentences: what stands pages apart does not add up.
- A mention is of suicide or self-harm. A farewell, an apology or a lament alone is none (ruling 53).
"""

from collections.abc import Sequence

from msgspec.structs import replace

from comity_skills.crisis.lexicon import Rule
from comity_skills.crisis.report import GRAVE, MOST_SIGNALS, QUIET, RANK, CrisisReport, Severity, Signal

ENOUGH = 3  # points of weak signs that say together what none says alone
_WEAK = 2  # points of any other weak signal
_NEAR = 320  # characters in which weak signs add up, and fewer where one says more
_NEAR_UNSPACED = 120
_UNSPACED = frozenset({"zh", "ja", "ko"})  # languages that also leave out who it is
_POLITE = frozenset({"BYEALL", "THANKED", "SORRY", "LOVEDYOU"})  # kinds of signs
_SPOKEN = frozenset({"topic", "ideation", "intent", "attempt", "method", "self_harm"})

Found = tuple[Signal, Rule]


def weighed(found: Sequence[Found]) -> CrisisReport:
    signals = [signal for signal, _ in found]
    worst: Severity = max(
        (signal.severity for signal in signals if not signal.lowered), key=RANK.__getitem__, default="none"
    )
    if RANK[worst] < GRAVE and together(found) >= ENOUGH:
        worst = "moderate"
    if RANK[worst] < GRAVE and not any(is_mention(rule) for _, rule in found):
        return QUIET
    told = _told(signals) if len(signals) > 1 else tuple(signals)
    if RANK[worst] < GRAVE:
        return CrisisReport(severity="low", signals=told, mention=True)
    return CrisisReport(detected=True, severity=worst, signals=told)


def is_mention(rule: Rule) -> bool:
    """Whether a match of it speaks of suicide or self-harm."""
    return rule.grave or rule.category in _SPOKEN


def is_soft(found: Sequence[Found]) -> bool:
    """Whether nothing but everyday words says it, or it is not said of the writer (where a language names who it is).
    Where a report is full, more may have been said.
    """
    return len(found) < MOST_SIGNALS and not any(
        rule.grave
        and not rule.soft
        and (signal.subject == "self" or signal.language in _UNSPACED)
        and not signal.lowered
        and RANK[signal.severity] >= GRAVE
        for signal, rule in found
    )


def softened(report: CrisisReport) -> CrisisReport:
    """A report of everyday words in a calm text. Those that speak of suicide or self-harm mention it, no others."""
    if not any(signal.category in _SPOKEN for signal in report.signals):
        return QUIET
    signals = tuple(replace(signal, severity="low") for signal in report.signals)
    return CrisisReport(severity="low", signals=signals, mention=True)


def weighs(rule: Rule) -> bool:
    """Whether it can be more than a mention."""
    return rule.category != "topic" or rule.grave


def joined(report: CrisisReport, signal: Signal) -> CrisisReport:
    """A report of the rules that somebody else's signal makes a crisis."""
    signals = sorted((*report.signals[: MOST_SIGNALS - 1], signal), key=lambda one: one.span)
    return CrisisReport(detected=True, severity=signal.severity, signals=tuple(signals))


def points_of(rule: Rule) -> int:
    return 0 if rule.category == "topic" else rule.points or _WEAK


def together(found: Sequence[Found]) -> int:
    """The points of what is not lowered, where most of them are near each other."""
    counted = [(signal, rule) for signal, rule in found if not signal.lowered and signal.category != "topic"]
    if len(counted) < 2:
        return sum(points_of(rule) for _, rule in counted)
    counted.sort(key=lambda one: one[0].span)
    most = 0
    for at, (signal, _) in enumerate(counted):
        reach = signal.span[0] + (_NEAR_UNSPACED if signal.language in _UNSPACED else _NEAR)
        most = max(most, _points([one for one in counted[at:] if one[0].span[1] <= reach]))
    return most


def _points(found: Sequence[Found]) -> int:
    """Every kind of sign counts once, and of two that share their words the heavier one."""
    counted: dict[str | tuple[int, int], tuple[int, tuple[int, int]]] = {}
    for signal, rule in found:
        kind = rule.kind or signal.span
        if kind in counted:
            continue
        points, span = points_of(rule), signal.span
        same = next((k for k, (_, at) in counted.items() if at[0] < span[1] and span[0] < at[1]), None)
        if same is None:
            counted[kind] = (points, span)
        elif counted[same][0] < points:
            counted[same] = (points, span)
    total = sum(points for points, _ in counted.values())
    return total - 1 if counted.keys() <= _POLITE else total  # what every leaving speech has


def _told(found: Sequence[Signal]) -> tuple[Signal, ...]:
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
