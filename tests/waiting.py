"""Wait for what nobody reports. A deadline grows with the load of the machine, so that a busy one is no failure."""

import asyncio
import os
import time

INTERVAL = 0.01


def stretched(seconds):
    """Return how long `seconds` of a quiet machine may take on this one now."""
    try:
        load = os.getloadavg()[0] / (os.cpu_count() or 1)
    except OSError:
        load = 1.0
    return seconds * max(1.0, load)


async def eventually(find, seconds=20.0, interval=INTERVAL, what="what is waited for"):
    """Call `find` until it returns something true, and return that. It may be a coroutine function."""
    start = time.monotonic()
    while True:
        found = find()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return found
        assert time.monotonic() - start < stretched(seconds), f"not in time: {what}"
        await asyncio.sleep(interval)


def wait_until(find, seconds=20.0, interval=INTERVAL, what="what is waited for"):
    """Do the same in a test without a loop."""
    start = time.monotonic()
    while not (found := find()):
        assert time.monotonic() - start < stretched(seconds), f"not in time: {what}"
        time.sleep(interval)
    return found
