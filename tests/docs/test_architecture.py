"""The page on the architecture fits two screens, and names what exists."""

import re
import tomllib

from comity.runtime.lazy import PARTS
from tests.docs.markdown import DOCS
from tests.places import ROOT

TEXT = (DOCS / "architecture.md").read_text("utf-8")
PACKAGE = ROOT / "src" / "comity"


def _section(title):
    return TEXT.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_it_fits_two_screens():
    assert len(TEXT.splitlines()) <= 130


def test_the_places_that_it_names_exist():
    named = set(
        re.findall(r"`((?:[a-z0-9_-]+/)+(?:[a-z0-9_]+\.py)?|[a-z0-9_]+(?:/[a-z0-9_-]+(?:\.py)?)+)`", TEXT)
    )
    folders = {path.name for path in PACKAGE.iterdir()} | {"tests", "packages"}
    places = {place for place in named if place.partition("/")[0] in folders}
    assert len(places) > 8
    assert not [place for place in places if not ((PACKAGE / place).exists() or (ROOT / place).exists())]


def test_the_folders_are_those_of_the_package_in_the_order_of_their_imports():
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", _section("The folders"), re.MULTILINE)
    shown = [set(re.findall(r"`(\w+)`", row)) for row in rows]
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert set().union(*shown) == folders
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    ranked = [{name for name in layer.split(" | ") if name in folders} for layer in reversed(layers)]
    assert shown == [layer for layer in ranked if layer]


def test_the_parts_are_those_of_a_node_in_the_order_in_which_they_open():
    listed = _section("Parts").partition("In the order in which they open:")[2].partition(".")[0]
    assert re.findall(r"`(\w+)`", listed) == [*PARTS]
