"""Many callers at once, each asking again as soon as it is answered."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter

Ask = Callable[[], Awaitable[object]]


async def answers_per_second(
    callers: Sequence[Ask], seconds: float, *, timer: Callable[[], float] = perf_counter
) -> float:
    """All callers together; the last answers are waited for, and their time counts."""
    start = timer()
    deadline = start + seconds

    async def keep_asking(ask: Ask) -> int:
        answers = 0
        while timer() < deadline:
            await ask()
            answers += 1
        return answers

    answers = sum(await asyncio.gather(*(keep_asking(ask) for ask in callers)))
    return answers / (timer() - start)
