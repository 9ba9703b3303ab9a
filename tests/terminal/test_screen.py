import contextlib
import io
import os
import re
import subprocess
import sys

import pytest

from comity.terminal.output import one_line, print_fields, print_foreign, print_json, print_table, waiting

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def test_json_is_one_line(capsys):
    print_json({"a": [1, "ü\udc80"]})
    assert capsys.readouterr().out == '{"a":[1,"\\u00fc\\udc80"]}\n'


def test_in_a_pipe_columns_stand_in_line_and_nothing_is_cut(capsys):
    print_table(("a", "long title"), [("x" * 200, ("styled", "green")), ("y", "")])
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["a" + " " * 201 + "long title", "x" * 200 + "  styled", "y"]


def test_fields_stand_in_line(capsys):
    print_fields([("a", "1"), ("long", "2"), ("", "3")], indent=" ")
    assert capsys.readouterr().out == " a     1\n long  2\n       3\n"


ACTS = "\x1b]0;mine\x07 \x1b[2J \r \x9b31m \u202egnp.exe \u2028"


class Stream(io.TextIOWrapper):
    def __init__(self, encoding="utf-8", *, terminal=False):
        super().__init__(io.BytesIO(), encoding=encoding, newline="")
        self.isatty = lambda: terminal

    def seen(self):
        self.flush()
        return self.buffer.getvalue().decode(self.encoding)


def test_a_terminal_shows_what_a_stranger_wrote_and_does_not_obey_it(monkeypatch):
    stdout = Stream(terminal=True)
    monkeypatch.setattr("sys.stdout", stdout)
    print_foreign(f"first\n\tsecond {ACTS}")
    shown = stdout.seen()
    assert shown.startswith("first\n\tsecond \\u001b]0;mine\\u0007 ")
    assert shown.endswith("\n")
    assert not set(shown) & set("\x1b\x07\r\x9b\u202e\u2028")
    assert one_line(f"a\n\tb {ACTS}").startswith("a b \\u001b")


def test_a_pipe_gets_what_a_stranger_wrote_as_it_is(monkeypatch):
    stdout = Stream()
    monkeypatch.setattr("sys.stdout", stdout)
    print_foreign(f"a\n{ACTS}")
    print_foreign("ends\n")
    assert stdout.seen() == f"a\n{ACTS}\nends\n"


def test_what_stdout_cannot_spell_is_spelled_in_ascii(monkeypatch):
    stdout = Stream("latin-1")
    monkeypatch.setattr("sys.stdout", stdout)
    print_foreign("ü 🙂")
    assert stdout.seen() == "ü \\U0001f642\n"
    assert one_line("ü 🙂 \udcff") == "ü \\U0001f642 \\udcff"


def test_what_is_waited_for_is_shown_at_a_terminal_and_taken_back(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stderr = Stream(terminal=True)
    monkeypatch.setattr("sys.stderr", stderr)
    with pytest.raises(ZeroDivisionError), waiting("calling " + "x" * 100):
        raise ZeroDivisionError
    assert ANSI.sub("", stderr.seen()) == "calling " + "x" * 31 + "\r"
    assert stderr.seen().endswith("\r\x1b[K")
    stderr.isatty = lambda: False
    before = stderr.seen()
    with waiting("calling"):
        pass
    assert stderr.seen() == before


def at_terminal(environ, columns, *arguments):
    """What a person sees at a terminal of that width."""
    pty = pytest.importorskip("pty", reason="there are no pseudo terminals here")
    import fcntl
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-m", "comity", *arguments],
        env={**environ, "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ):
        os.close(theirs)
        seen = b""
        with contextlib.suppress(OSError):  # how Linux says that the other side is gone
            while part := os.read(ours, 65_536):
                seen += part
    os.close(ours)
    return seen.decode()


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("command", ["--help", "doctor", "config show", "call --help", "card publish --help"])
def test_at_a_terminal_there_is_colour_and_every_line_fits(environ, command, columns):
    seen = at_terminal(environ, columns, *command.split())
    assert ANSI.search(seen)
    lines = [ANSI.sub("", line).rstrip() for line in seen.splitlines()]
    too_wide = [line for line in lines if len(line) > columns and " would be read." not in line]
    assert too_wide == []


def test_a_long_path_is_folded_and_never_cut(environ, tmp_path):
    folder = tmp_path / ("x" * 90) / "data"
    seen = ANSI.sub("", at_terminal({**environ, "COMITY_DATA": str(folder)}, 80, "doctor"))
    assert seen.count("x") >= 90
    assert "…" not in seen


def test_who_sets_no_color_gets_none(environ):
    assert not ANSI.search(at_terminal({**environ, "NO_COLOR": "1"}, 80, "--help"))


def test_a_question_at_a_terminal_is_asked_on_it(environ, record, data):
    record(1)
    import pty

    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "comity", "audit", "adopt"],
        env=environ,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as asking:
        os.close(theirs)
        os.write(ours, b"n\n")
        out, err = asking.communicate(timeout=20)
    os.close(ours)
    assert asking.returncode == 1
    assert out == ""
    assert "Adopt it as it is?" in err
    assert "stopped before anything was done" in err


@pytest.mark.parametrize(("columns", "whole"), [("80", True), ("60", False)])
def test_what_people_copy_is_not_folded_while_there_is_room(monkeypatch, columns, whole):
    monkeypatch.setenv("COLUMNS", columns)
    stdout = Stream(terminal=True)
    monkeypatch.setattr("sys.stdout", stdout)
    url = "http://127.0.0.1:38965/a2a/message/send"
    print_table(("offers", "endpoint"), [("many words " * 9, url)], unbroken="endpoint")
    lines = [ANSI.sub("", line) for line in stdout.seen().splitlines()]
    assert max(map(len, lines)) <= int(columns)
    assert any(url in line for line in lines) is whole
    shown = "".join(lines)
    assert "…" not in shown
    assert all(part in shown for part in ("http://127.0.0.1", "send"))
