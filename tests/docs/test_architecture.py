"""The page on the architecture names files that exist."""

import re

from tests.places import ROOT

PAGE = ROOT / "docs" / "architecture.md"


def test_the_files_it_names_are_there():
    named = set(re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", PAGE.read_text("utf-8")))
    assert len(named) > 20
    missing = {
        name
        for name in named
        if not (ROOT / "src" / "comity" / name).is_file() and not (ROOT / name).is_file()
    }
    assert not missing
