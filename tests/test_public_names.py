"""What `import comity` promises, and what it costs."""

import ast
import subprocess
import sys
from pathlib import Path

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
    assert found.stdout.strip() == "['comity.release']"


def test_type_checkers_are_told_the_same_names():
    tree = ast.parse(Path(comity.__file__).read_text("utf-8"))
    told = {
        (statement.module, alias.name)
        for branch in tree.body
        if isinstance(branch, ast.If)
        for statement in branch.body
        for alias in statement.names
    }
    assert told == {(home, name) for name, home in comity._HOMES.items()}
