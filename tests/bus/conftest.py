"""Every carrier of hints, with room for four hints per listener."""

import pytest

from comity.bus.in_process import InProcessBus

ROOM = 4
CARRIERS = {"in process": lambda: InProcessBus(capacity=ROOM)}


@pytest.fixture(params=CARRIERS)
async def bus(request):
    bus = CARRIERS[request.param]()
    yield bus
    await bus.close()
