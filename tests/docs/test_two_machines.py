"""What the pages tell two people to type, typed on two machines: they meet, talk, and a file arrives whole."""

import os
import re
import shlex
import tempfile
from pathlib import Path

import pytest

from tests.docs.markdown import blocks, named
from tests.docs.terminal import steps
from tests.docs.two_machines import Machines, why_not
from tests.places import ROOT
from tests.waiting import wait_until

PAGES = [ROOT / "README.md", ROOT / "docs/how-to/connect-two-machines.md"]
QUESTION = r"Open it\?"
LINE = r"comity:2:[A-Za-z0-9_-]+"
LONGEST = 300_000


def pattern_of(shown):
    return re.escape(shown.strip()).replace("…", r"[^\n]*")


@pytest.mark.slow
@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
@pytest.mark.parametrize("page", PAGES, ids=named)
def test_two_people_who_type_what_the_page_says_are_connected(page):
    typed = [block for block in blocks(page) if block.machine is not None]
    assert {block.machine for block in typed} == {"yours", "theirs"}
    # a short path: there is a socket in the data folder
    with tempfile.TemporaryDirectory(prefix="two-") as folder, Machines(Path(folder)) as machines:
        (machines.home("yours") / "report.pdf").write_bytes(os.urandom(LONGEST))
        line, pair = "", {}
        waiting = []
        for block in typed:
            [step] = steps(block)
            program = machines.start(block.machine, shlex.split(step.command.replace("comity:2:…", line)))
            pair[block.machine] = program
            if block.machine == "yours":
                if "host" not in pair:  # the door is opened once, and the next command is another node
                    program.says(QUESTION)
                    program.type("y")
                line = program.says(LINE)[0]
                waiting = [
                    (program, shown) for shown in step.shown if not shown.startswith(("…\n", "comity:2:"))
                ]
                continue
            for one, shown in (*waiting, *((program, shown) for shown in step.shown)):
                if shown.strip() != "…":
                    one.says(pattern_of(shown))
            if " join " in step.command:
                talk(pair["yours"], program, machines)
            for one in pair.values():
                one.end()
            pair.clear()
            machines.programs.clear()
        received = machines.home("theirs") / "report.pdf"
        assert received.read_bytes() == (machines.home("yours") / "report.pdf").read_bytes()


def talk(yours, theirs, machines):
    """Each reads what the other types, and a file lands in the folder `shared`."""
    yours.says(r"guest_\w+ is here|bert is here")
    theirs.type("hello from theirs")
    yours.says(r": hello from theirs")
    yours.type("hello from yours")
    theirs.says(r": hello from yours")
    picture = machines.home("theirs") / "picture.png"
    picture.write_bytes(os.urandom(LONGEST))
    theirs.type(f"/file {picture}")

    def arrived():
        return next(machines.home("yours").rglob("shared/picture.png"), None)

    assert wait_until(arrived).read_bytes() == picture.read_bytes()
