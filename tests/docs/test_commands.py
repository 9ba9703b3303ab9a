"""Every command that a page shows is run, and says what the page shows."""

import re
from pathlib import Path

import pytest

from tests.docs.markdown import blocks, named, pages
from tests.docs.terminal import Terminal, fits, missing_tools, steps
from tests.places import ROOT

# A block may be left out for a thing that no test machine has, or that runs these tests itself.
REASONS = {
    "the landing script runs it",
    "installs packages",
    "needs systemd",
    "needs a container engine",
    "needs a keyring",
    "needs a terminal",
    "the tests run inside the virtual environment",
    "needs another machine",
}

WITH_COMMANDS = [page for page in pages() if any(block.language == "console" for block in blocks(page))]


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=named)
def test_the_commands_of_a_page_say_what_it_shows(page, tmp_path):
    shown = [block for block in blocks(page) if block.no_run is None and block.machine is None]
    commands = [step.command for block in shown if block.language == "console" for step in steps(block)]
    if missing := missing_tools(commands):
        pytest.skip(f"{named(page)} needs {' and '.join(missing)}")
    home = tmp_path / "home"
    home.mkdir()
    terminal = Terminal(home)
    try:
        for block in shown:
            if block.file is not None:
                terminal.save(block.file, block.text)
            elif block.language == "console":
                _follow(page, block, terminal)
    finally:
        terminal.close()


def _follow(page, block, terminal):
    for step in steps(block):
        told, ended_well = terminal.run(step)
        shown = step.shown if step.command else ["…", *step.shown]
        wanted, said = "\n".join(shown), "\n".join(told)
        where = f"{named(page)}:{step.line}: {step.command or '^C'}"
        assert fits(shown, told), f"{where}\nshows\n{wanted}\nbut it says\n{said}"
        assert ended_well, f"{where}\nended otherwise than the page shows, saying\n{said}"


@pytest.mark.parametrize("page", pages(), ids=named)
def test_a_block_that_is_not_run_says_why(page):
    reasons = {block.no_run for block in blocks(page) if block.no_run is not None}
    assert reasons <= REASONS


@pytest.mark.parametrize("page", pages(), ids=named)
def test_commands_are_shown_in_blocks_that_are_run(page):
    hidden = [
        block.line
        for block in blocks(page)
        if block.language in {"", "sh", "bash", "shell"} and "$ " in block.text
    ]
    assert not hidden, f"{named(page)}: the blocks at {hidden} show commands; mark them `console`"


def test_the_make_targets_that_pages_name_exist():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    wanted = {
        target
        for page in pages()
        for target in re.findall(r"(?:`|\$ |^ {4})make ([a-z]+)", page.read_text("utf-8"), re.MULTILINE)
    }
    assert wanted
    assert wanted <= targets


def test_the_two_commands_stand_in_the_readme():
    shown = [
        step.command
        for block in blocks(ROOT / "README.md")
        if block.language == "console"
        for step in steps(block)
    ]
    assert "make run" in shown
    assert "make test" in shown


def _fitting(shown: str, told: str) -> bool:
    return fits(shown.splitlines(), told.splitlines())


def test_a_page_that_shows_something_else_is_noticed():
    assert _fitting("chain  entries\nmain   3", "chain  entries\nmain   3")
    assert not _fitting("chain  entries\nmain   3", "chain  entries\nmain   4")
    assert not _fitting("chain  entries", "chain  entries\nmain   3")
    assert not _fitting("chain  entries\nmain   3", "chain  entries")
    assert _fitting("id … here\n…\nlast", "id 17 here\na\nb\nlast")
    assert _fitting("first\n…\nlast", "first\nlast")
    assert not _fitting("id … here", "id 17 there")
    assert _fitting("(a) [b] *", "(a) [b] *")


def test_a_command_that_fails_must_be_shown_failing(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```console\n$ false\n$ comity bogus\nerror: …\n$ echo fine\nfine\n```\n", "utf-8")
    (block,) = blocks(Path(page))
    terminal = Terminal(tmp_path)
    try:
        assert [terminal.run(step)[1] for step in steps(block)] == [False, True, True]
    finally:
        terminal.close()
