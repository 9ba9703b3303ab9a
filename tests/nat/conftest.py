"""A network for each module of tests; without root, or what a network needs, its tests are skipped."""

import pytest

from tests.nat.network import missing, open_network


@pytest.fixture(scope="module")
def network():
    why_not = missing()
    if why_not is not None:
        pytest.skip(why_not)
    with open_network() as opened:
        yield opened
