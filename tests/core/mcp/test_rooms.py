"""The rooms a client may choose among."""

import pytest

from comity.core.errors import ConfigError
from comity.core.mcp.rooms import ROOMS, check_rooms


def test_known_rooms_are_taken_in_any_order():
    assert check_rooms(reversed(ROOMS)) == tuple(reversed(ROOMS))
    assert check_rooms([]) == ()


@pytest.mark.parametrize("name", ["core", "VCP", "", "x" * 5000])
def test_another_name_is_refused_with_those_there_are(name):
    with pytest.raises(ConfigError, match="vcp, vacant, actions, vdo") as caught:
        check_rooms(["vcp", name])
    assert len(caught.value.message) < 200
