"""What has to be done now and then: write down counted refusals, forget old audit entries."""

import logging
from collections.abc import Awaitable, Callable

from comity.core.clock import Clock
from comity.core.errors import ComityError

log = logging.getLogger("comity.housekeeping")

SOON = 60.0
"""A node that never runs for long has chores too."""

Chore = Callable[[], Awaitable[None]]


async def keep_house(clock: Clock, chores: list[tuple[float, Chore]]) -> None:
    """Each chore every so many seconds, for ever, and soon after the start. One that fails is tried again
    next time.
    """
    due = [clock.monotonic() + min(every, SOON) for every, _ in chores]
    while True:
        await clock.sleep(max(0.0, min(due) - clock.monotonic()))
        for number, (every, chore) in enumerate(chores):
            if due[number] <= clock.monotonic():
                due[number] = clock.monotonic() + every
                try:
                    await chore()
                except ComityError as reason:
                    log.warning("housekeeping is put off: %s", reason)
                except Exception:
                    log.exception("housekeeping failed and is put off")
