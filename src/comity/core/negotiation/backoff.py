"""How long a client waits before it tries again (vcp 1.9).

The step is 1 s, doubled with each failure, at most 30 s. Each wait is somewhere between half the step and one
and a half of it, so that clients that failed together do not come back together; never above 30 s, never
less than the server asked for.
"""

from typing import Final

FIRST_SECONDS: Final = 1.0
FACTOR: Final = 2.0
LONGEST_SECONDS: Final = 30.0
JITTER: Final = 0.5

_STEPS_TO_LONGEST: Final = 5


def delay(failures: int, random: float, at_least: float = 0.0) -> float:
    """Seconds after this many failures in a row (from 1); `random` is drawn evenly from 0 up to 1."""
    step = min(FIRST_SECONDS * FACTOR ** min(failures - 1, _STEPS_TO_LONGEST), LONGEST_SECONDS)
    wait = min(step * (1 - JITTER + 2 * JITTER * random), LONGEST_SECONDS)
    return max(wait, at_least)
