"""Fixtures for pytest: `pytest_plugins = ["comity.testing.fixtures"]` in the topmost conftest.

`randomness` draws the same for the same test every time; `COMITY_SEED` makes it draw something else,
and the report of a failed test says which seed it had.
"""

import os
import zlib

import pytest

from comity.testing.links import Randomness
from comity.testing.loop import VirtualClock


@pytest.fixture
def randomness(request: pytest.FixtureRequest) -> Randomness:
    given = os.environ.get("COMITY_SEED")
    seed = given or str(zlib.crc32(request.node.nodeid.encode()))
    request.node.add_report_section("setup", "seed", f"repeat with COMITY_SEED={seed}")
    return Randomness(seed)


@pytest.fixture
def virtual_clock() -> VirtualClock:
    return VirtualClock()
