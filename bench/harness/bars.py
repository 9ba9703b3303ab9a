"""What a row must reach, and whether it did.

A bar is judged on the median of the rounds' ratios, or on our median where the bar is a time. Speed
counts: twice as fast is 2, for rates and for times alike. A bar that names a condition is only
judged where the machine meets it, and says so where it does not.
"""

from enum import Enum

from msgspec import Struct

from bench.harness.figures import Figures, number


class Verdict(Enum):
    MET = "met"
    NOT_MET = "NOT MET"
    NOT_APPLICABLE = "not applicable"


class Judgement(Struct, frozen=True, kw_only=True):
    """`against` is the baseline the bar speaks of, None when it speaks of ours alone."""

    bar: str
    verdict: Verdict
    reason: str
    against: str | None


class WhereBelow(Struct, frozen=True):
    """The condition of a bar: a baseline's median rate lies below a figure on this machine."""

    contender: str
    rate: float


class AtLeast(Struct, frozen=True):
    """Ours is at least `times` as fast as a baseline."""

    times: float
    of: str
    where: WhereBelow | None = None


class AtMostTimes(Struct, frozen=True):
    """Ours takes at most `times` the time of a baseline."""

    times: float
    of: str


class AtMostSeconds(Struct, frozen=True):
    """Ours takes at most so many seconds."""

    seconds: float


Bar = AtLeast | AtMostTimes | AtMostSeconds


def judge(bar: Bar, figures: Figures) -> Judgement:
    match bar:
        case AtMostSeconds(seconds):
            taken = figures.ours.median
            return _judgement(f"≤ {seconds:g} s", f"{taken:.3g} s", taken <= seconds, None)
        case AtMostTimes(times, of):
            taken = 1 / figures.ratio(of).median
            return _judgement(f"≤ {times:g}x the time of {of}", f"{taken:.2f}x", taken <= times, of)
        case AtLeast(times, of, where):
            speed = figures.ratio(of).median
            text = f"≥ {times:g}x {of}"
            if where is not None:
                text += f" where {where.contender} is below {number(where.rate)}/s"
                found = figures.of(where.contender).median
                if found >= where.rate:
                    reason = f"{where.contender} does {number(found)}/s here; reported only: {speed:.2f}x"
                    return Judgement(bar=text, verdict=Verdict.NOT_APPLICABLE, reason=reason, against=of)
            return _judgement(text, f"{speed:.2f}x", speed >= times, of)


def _judgement(bar: str, reason: str, met: bool, against: str | None) -> Judgement:
    verdict = Verdict.MET if met else Verdict.NOT_MET
    return Judgement(bar=bar, verdict=verdict, reason=reason, against=against)
