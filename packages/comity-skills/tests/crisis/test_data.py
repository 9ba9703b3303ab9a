"""The names of the data files cost nothing to ask for."""

import subprocess
import sys

import pytest

from comity_skills import crisis


def test_the_names_of_the_files_load_neither_the_detector_nor_its_automaton():
    program = (
        "import sys; from comity_skills.crisis.data import LEXICONS;"
        "print(len(LEXICONS), *sorted(sys.modules.keys() & {'ahocorasick', 'comity_skills.crisis.detector'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["11"]


def test_the_public_names_are_there_and_no_others():
    assert all(getattr(crisis, name) for name in crisis.__all__)
    with pytest.raises(AttributeError):
        getattr(crisis, "nothing")  # noqa: B009 -- asking is what is tested
