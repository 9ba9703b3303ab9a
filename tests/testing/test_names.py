"""What `comity.testing` offers, and what it costs to ask."""

import subprocess
import sys

import pytest

import comity.testing


def test_every_name_can_be_had():
    for name in comity.testing.__all__:
        assert getattr(comity.testing, name) is not None
    assert dir(comity.testing) == sorted(comity.testing.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nothing_here"):
        comity.testing.nothing_here  # noqa: B018 - asking is the test


def test_it_works_without_pytest():
    program = (
        "import sys; sys.modules['pytest'] = None\n"
        "import comity.testing\n"
        "assert not any(name.startswith('comity.testing.') for name in sys.modules)\n"
        "from comity.testing import *\n"
        "vectors_folder(); VirtualClock(); Randomness(1)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
