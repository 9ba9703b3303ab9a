"""What the signals of a text amount to. One of weight that nothing lowers is a crisis; so are weak ones together."""

from collections.abc import Sequence

from comity.skills.crisis.lexicon import Rule
from comity.skills.crisis.report import GRAVE, MOST_SIGNALS, RANK, CrisisReport, Severity, Signal

ENOUGH = 3  # points of weak signs that say together what none says alone
_WEAK = 2  # points of any other weak signal

Found = tuple[Signal, Rule]


def weighed(found: Sequence[Found]) -> CrisisReport:
    signals = [signal for signal, _ in found]
    worst: Severity = max(
        (signal.severity for signal in signals if not signal.lowered), key=RANK.__getitem__, default="none"
    )
    if RANK[worst] < GRAVE and together(found) >= ENOUGH:
        worst = "moderate"
    told = _told(signals) if len(signals) > 1 else tuple(signals)
    if RANK[worst] < GRAVE:
        return CrisisReport(severity="low", signals=told, mention=True)
    return CrisisReport(detected=True, severity=worst, signals=told)


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
    """The points of what is not lowered. Every kind of sign counts once, and of two that share their words the
    heavier one.
    """
    counted: dict[str | tuple[int, int], tuple[int, tuple[int, int]]] = {}
    for signal, rule in found:
        kind = rule.kind or signal.span
        if signal.lowered or signal.category == "topic" or kind in counted:
            continue
        points, span = points_of(rule), signal.span
        same = next((k for k, (_, at) in counted.items() if at[0] < span[1] and span[0] < at[1]), None)
        if same is None:
            counted[kind] = (points, span)
        elif counted[same][0] < points:
            counted[same] = (points, span)
    return sum(points for points, _ in counted.values())


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
