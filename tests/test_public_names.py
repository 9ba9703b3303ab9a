"""What `import comity` promises, and what it costs."""

import subprocess
import sys

import pytest

import comity


@pytest.mark.parametrize("name", comity.__all__)
def test_every_public_name_is_there(name):
    assert getattr(comity, name) is not None


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        _ = comity.nonsense


def test_importing_the_package_loads_nothing_else():
    loaded = "import comity, sys; print([m for m in sys.modules if m.startswith('comity.') or m in ('msgspec', 'nacl')])"
    found = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
