"""Every carrier of peer links, as a function that joins two ends."""

import pytest

from comity.testing.links import Faults, simulated_pair
from comity.testing.loopback import loopback_pair
from tests.rooms.links.carriers import CARRIERS as CHANNELLED

LIMIT = 1000
ROOM = 4


def _loopback(clock, randomness):
    return loopback_pair(capacity=ROOM, max_message_bytes=LIMIT)


def _simulated(clock, randomness):
    at_once = Faults(min_delay=0, max_delay=0)
    return simulated_pair(
        clock=clock, randomness=randomness, faults=at_once, capacity=ROOM, max_message_bytes=LIMIT
    )


CARRIERS = {"loopback": _loopback, "simulated": _simulated}


@pytest.fixture(params=CARRIERS)
async def pair(request, virtual_clock, randomness):
    """Two ends that take messages of at most 1,000 bytes, and few of them before somebody reads."""
    left, right = CARRIERS[request.param](virtual_clock, randomness)
    yield left, right
    await left.close()
    await right.close()


@pytest.fixture
def only_loopback(monkeypatch):
    """Both WebRTC libraries leave 127.0.0.1 out unless told otherwise; here it is all there is to be used."""
    import aioice.ice

    monkeypatch.setenv("WRTC_ALLOW_LOOPBACK", "1")
    monkeypatch.setattr(aioice.ice, "get_host_addresses", lambda **_kinds: ["127.0.0.1"])


@pytest.fixture(params=CHANNELLED)
async def joined(request, only_loopback, tmp_path):
    """Two ends of a link with channels."""
    async with CHANNELLED[request.param](tmp_path) as (left, right):
        yield left, right
        await left.close()
        await right.close()
