from typing import Annotated

import typer

from comity.terminal.help import HelpfulApp, examples, section
from comity.terminal.output import colour_wanted, paint


class Terminal:
    def isatty(self):
        return True


def test_arguments_are_listed_before_options():
    app = HelpfulApp()

    @app.add("")
    def greet(name: Annotated[str, typer.Argument(help="Whom.")]):
        """Greet somebody."""

    command = typer.main.get_command(app)
    lines = command.get_help(command.make_context("greet", ["x"])).splitlines()
    assert lines[0] == "Greet somebody."
    assert lines.index("Arguments") < lines.index("Options")
    assert any("Whom." in line for line in lines)


def test_what_may_be_given_several_times_is_shown_as_such():
    app = HelpfulApp()

    @app.add("")
    def greet(names: Annotated[list[str], typer.Argument(metavar="NAME")]):
        """Greet somebody."""

    command = typer.main.get_command(app)
    shown = command.get_help(command.make_context("greet", ["x"]))
    assert "Usage: greet [OPTIONS] NAME...\n" in shown


def test_a_long_name_has_its_meaning_on_the_next_line():
    shown = section("Title", [("short", "one"), ("x" * 40, "two")])
    assert shown.splitlines() == [
        "Title",
        "  short                       one",
        "  " + "x" * 40,
        " " * 30 + "two",
    ]


def test_nothing_to_list_is_no_section():
    assert section("Title", []) == ""
    assert examples("") == ""


def test_colour_is_for_terminals_whose_owner_wants_it(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert colour_wanted(Terminal())
    monkeypatch.setenv("TERM", "dumb")
    assert not colour_wanted(Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colour_wanted(Terminal())
    assert not colour_wanted()


def test_paint_adds_and_takes_away_its_own_codes_only():
    assert paint("x", "bold red", wanted=True) == "\x1b[1;31mx\x1b[0m"
    assert paint("x", "bold red", wanted=False) == "x"
    assert paint("", "bold red", wanted=True) == ""
