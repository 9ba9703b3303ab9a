"""Modules that are loaded late exist, and are the ones that the checker of types sees."""

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import comity
from comity.runtime.lazy import NODE, PARTS, late, load, load_parts

_SOURCES = Path(comity.__file__).parent


def test_a_late_module_is_imported_when_a_name_is_read() -> None:
    sys.modules.pop("comity.envelopes.protocol.resident", None)
    module = late("comity.envelopes.protocol.resident")
    assert "comity.envelopes.protocol.resident" not in sys.modules
    assert module.ResidentForm is importlib.import_module("comity.envelopes.protocol.resident").ResidentForm


def test_a_name_that_a_late_module_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError):
        _ = late("comity.release").nothing


def test_every_module_that_is_named_late_loads_and_is_imported_for_the_checker_under_the_same_name() -> None:
    wrong = []
    for place, name, module in _late_modules():
        importlib.import_module(module)
        if (name, module) not in _checked_imports(place):
            wrong.append(f"{place.relative_to(_SOURCES)}: {name} = late({module!r})")
    assert not wrong


def test_every_listed_part_and_the_node_load_under_their_names() -> None:
    assert [part.name for part in load_parts()] == [*PARTS]
    assert load(NODE).__name__ == "Node"


def _late_modules() -> Iterator[tuple[Path, str, str]]:
    for place in sorted(_SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(place.read_bytes())):
            match node:
                case ast.Assign(
                    targets=[ast.Name(name)],
                    value=ast.Call(func=ast.Name("late"), args=[ast.Constant(str(module))]),
                ):
                    yield place, name, module


def _checked_imports(place: Path) -> set[tuple[str, str]]:
    return {
        (alias.asname or alias.name, f"{getattr(block, 'module', '')}.{alias.name}".lstrip("."))
        for test in ast.parse(place.read_bytes()).body
        if isinstance(test, ast.If) and isinstance(test.test, ast.Name) and test.test.id == "TYPE_CHECKING"
        for block in test.body
        if isinstance(block, ast.Import | ast.ImportFrom)
        for alias in block.names
    }
