"""What others see of this program is what it was."""

import json
import re

import pytest

from tests.golden import files, loaded

REMEDY = "run `python -m tests.golden`, and keep the difference only if it is wanted"
MODULE = re.compile(r"\bcomity\.(core|doors|parts|pipeline|clients|links|keys|agents|cli|store|testing)\.\w+")


@pytest.mark.parametrize("name", files.GOLDEN)
def test_a_golden_file_holds_what_the_code_says(name):
    now = files.made(name)
    if name == files.LOADED:
        assert files.agrees(name, now), f"{REMEDY}: {now}"
    else:
        assert now == files.kept(name), REMEDY


def test_every_file_that_is_kept_is_compared():
    assert {path.name for path in files.FOLDER.iterdir()} == files.GOLDEN.keys()


@pytest.mark.parametrize("name", files.GOLDEN)
def test_no_golden_file_names_a_module_or_a_folder_of_this_machine(name):
    text = files.kept(name)
    assert not MODULE.search(text)
    assert "site-packages" not in text
    assert str(files.FOLDER.parent) not in text


def test_what_is_loaded_may_grow_a_little_and_no_further():
    golden = json.loads(files.kept(files.LOADED))
    assert loaded.fits(golden, golden)
    for unit, times in (("modules", 1.2), ("lines", 1.1)):
        grown = json.loads(files.kept(files.LOADED))
        grown["comity --help"][unit] = int(grown["comity --help"][unit] * times) + 2
        assert not loaded.fits(golden, grown)
    grown = json.loads(files.kept(files.LOADED))
    grown["import comity"]["packages of others"].append("pydantic")
    assert not loaded.fits(golden, grown)
