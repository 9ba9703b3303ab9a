import itertools
import json
import os
import re
import shlex
import subprocess
import sys
import time

import pytest

import comity as package
from comity.cli.app import COMMANDS, load_command
from comity.terminal.help import HelpfulCommand

HEAVY = ("rich", "msgspec", "nacl", "apsw", "starlette", "uvicorn", "orjson", "asyncio", "pydantic")
LOADED_BY_HELP = {
    "comity.cli.app",
    "comity.terminal.output",
    "comity.terminal.help",
    "comity.wire.errors",
    "comity.release",
}
LOOK_AT_MODULES = """
import sys
from comity.cli.app import run
code = run(sys.argv[1:])
sys.stderr.write(" ".join(sorted(sys.modules)))
sys.exit(code)
"""


def modules_after(program, *arguments):
    outcome = program(*arguments, python=[sys.executable, "-c", LOOK_AT_MODULES])
    assert outcome.code == 0, outcome.err
    return set(outcome.err.split())


def test_help_loads_no_room_and_no_heavy_library(program):
    loaded = modules_after(program, "--help")
    assert not loaded & set(HEAVY)
    ours = {name for name in loaded if name.startswith("comity.")}
    packages = {name for name in ours if any(other.startswith(f"{name}.") for other in ours)}
    assert ours - packages == LOADED_BY_HELP


def test_a_command_loads_its_own_module_and_no_other_command(program):
    loaded = modules_after(program, "version", "--help")
    assert "comity.cli.version" in loaded
    for entry in COMMANDS:
        assert entry.name == "version" or entry.module not in loaded
    assert not loaded & {"rich", "msgspec", "pydantic"}


def test_no_command_loads_a_validation_framework(program, identity):
    assert "pydantic" not in modules_after(program, "id", "show")


def test_help_appears_within_its_budget(environ, tmp_path):
    """At most 1.5 times an empty typer application, best of several so that a busy machine can show it."""
    empty = tmp_path / "empty.py"
    empty.write_text(
        "import typer\napp = typer.Typer()\n@app.command()\ndef one(): ...\n@app.command()\ndef two(): ...\napp()\n"
    )

    def seconds(*command):
        start = time.perf_counter()
        subprocess.run(command, env=environ, stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - start

    rounds = [
        (seconds(sys.executable, "-m", "comity", "--help"), seconds(sys.executable, str(empty), "--help"))
        for _ in range(5)
    ]
    ours, theirs = min(a for a, _ in rounds), min(b for _, b in rounds)
    assert ours <= 1.5 * theirs


def test_help_names_every_command_with_its_line(comity):
    outcome = comity("--help")
    assert outcome.code == 0
    for entry in COMMANDS:
        assert any(
            line.split()[:1] == [entry.name] and entry.help in line for line in outcome.out.splitlines()
        )
    assert "Examples" in outcome.out
    assert "\x1b" not in outcome.out
    assert max(len(line) for line in outcome.out.splitlines()) <= 100


def test_no_command_at_all_shows_the_help(comity):
    assert comity() == comity("--help")


def every_command(words=(), command=None):
    """Every command and sub-command, by the words that lead to it."""
    for entry in COMMANDS if command is None else ():
        yield from every_command((entry.name,), load_command(entry.name))
    if command is not None:
        yield words, command
        for name, member in getattr(command, "commands", {}).items():
            yield from every_command((*words, name), member)


TREE = dict(every_command())
PRINT_THEIR_OWN_FORMAT = {
    ("id", "recovery"),  # for people at a terminal only
    ("mcp",),
    ("room", "export"),
    ("room", "state", "get"),
    ("room", "state", "watch"),
    ("torch", "give"),
}


@pytest.mark.parametrize("words", TREE, ids=" ".join)
def test_every_command_explains_itself_with_examples_and_takes_json(comity, words):
    outcome = comity(*words, "--help")
    assert outcome.code == 0
    assert f"Usage: comity {' '.join(words)} [OPTIONS]" in outcome.out
    assert f"\n  comity {' '.join(words)}" in outcome.out
    assert outcome.err == ""
    if not hasattr(TREE[words], "commands") and words not in PRINT_THEIR_OWN_FORMAT:
        assert "--json" in outcome.out


@pytest.mark.parametrize("words", TREE, ids=" ".join)
def test_help_is_whole_sentences_and_says_defaults_in_one_way(comity, words):
    shown = comity(*words, "--help").out
    assert shown.split("\n\n")[0].endswith(".")
    assert "[default" not in shown
    assert "[[" not in shown


@pytest.mark.parametrize("words", TREE, ids=" ".join)
def test_every_example_of_the_help_is_a_call_that_the_command_takes(comity, words, monkeypatch):
    monkeypatch.setattr(HelpfulCommand, "invoke", lambda _command, _context: 0)
    monkeypatch.setattr("comity.actions.doors.serve_stdio", lambda *_, **__: None)
    shown = comity(*words, "--help").out.partition("\nExamples\n")[2].splitlines()
    calls = [line for line in shown if re.match(r"  \S", line)]
    assert calls
    for call in calls:
        outcome = comity(*_typed(call))
        assert outcome.code == 0, f"{call}\n{outcome.err}"


def _typed(line):
    """The arguments of the example, without its remark, and without what the shell does around it."""
    lexer = shlex.shlex(line.strip().partition("  ")[0], posix=True, punctuation_chars="|<>")
    lexer.whitespace_split = True
    words = list(lexer)
    typed = words[words.index("comity") + 1 :]
    return list(itertools.takewhile(lambda word: word not in {"|", "<", ">"}, typed))


@pytest.mark.parametrize("columns", ["40", "80", "120"])
def test_help_fits_the_terminal(comity, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    for path in ("--help", "up --help", "id export --help"):
        lines = comity(*path.split()).out.splitlines()
        calls = [line for line in lines if line.startswith(("  comity", "Usage"))]
        assert max(len(line) for line in lines if line not in calls) <= int(columns)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["vesion"], "no such command 'vesion'. Did you mean 'version'?"),
        (["id", "shwo"], "no such command 'shwo'. Did you mean 'show'?"),
        (["zzz"], "no such command 'zzz'; `comity --help` shows how to use it"),
        (["id"], "missing command; `comity id --help` shows how to use it"),
        (["version", "--jsn"], "no such option: --jsn"),
        (["version", "extra"], "unexpected extra argument"),
        (["id", "show", "--data"], "requires an argument"),
        (["audit", "tail", "-n", "many"], "-n must be a whole number from 0 to 999999999, not 'many'"),
        (["audit", "tail", "-n", "-1"], "not '-1'"),
        (["up", "--prot", "1"], "no such option: --prot"),
        (["up", "--port", "abc"], "--port must be a whole number from 0 to 65535, not 'abc'"),
        (["up", "--host", "0.0.0.0"], "host 0.0.0.0 can be reached from other machines"),
        (["up", "--tls-cert", "x.pem"], "tls.cert is set without tls.key"),
        (["up", "--config", "nowhere.toml"], "nowhere.toml does not exist"),
        (
            ["up", "--agent", "nobody"],
            "--agent must be echo, actions, module:function, mcp:… or openai:…, not 'nobody'",
        ),
        (["up", "--name", "a/b"], "--name must be a name of at most 64"),
        (
            ["up", "--capability", "x"],
            "--capability, --name, --endpoint and --directory are about an agent, but no agent is set; add --agent",
        ),
        (["up", "--agent", "echo", "--directory", "x"], "--directory must be an address"),
    ],
)
def test_a_wrong_call_gets_one_sentence_and_exit_code_2(comity, arguments, words):
    outcome = comity(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("error: ")
    assert outcome.err.count("\n") == 1
    assert words in outcome.err


def test_with_json_a_failure_is_a_json_line_on_stderr_and_stdout_stays_empty(comity):
    for arguments, code, exit_code in (
        (["id", "show", "--json"], "not_found", 1),
        (["up", "--port", "abc", "--json"], "config", 2),
        (["version", "--jso", "--json"], "usage", 2),
    ):
        outcome = comity(*arguments)
        assert (outcome.code, outcome.out) == (exit_code, "")
        error = json.loads(outcome.err)["error"]
        assert error["code"] == code
        assert error["message"]


def test_an_unknown_variable_is_refused_by_every_command_that_reads_settings(comity, monkeypatch):
    monkeypatch.setenv("COMITY_PRT", "1")
    for path in ("id show", "config show", "audit verify", "up"):
        outcome = comity(*path.split())
        assert outcome.code == 2
        assert "did you mean COMITY_PORT?" in outcome.err


def test_what_nobody_foresaw_is_one_line_and_debug_shows_the_traceback(comity, monkeypatch):
    def broken(*_):
        raise TypeError("a bug\nin two lines")

    monkeypatch.setattr("comity.runtime.settings_file.load_settings", broken)
    outcome = comity("id", "show")
    assert outcome.code == 1
    assert outcome.err.count("\n") == 1
    assert "TypeError: a bug in two lines" in outcome.err
    assert "COMITY_DEBUG=1" in outcome.err
    monkeypatch.setenv("COMITY_DEBUG", "1")
    assert "Traceback" in comity("id", "show").err


def test_ctrl_c_ends_with_130_and_no_traceback(comity, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("comity.runtime.settings_file.load_settings", interrupted)
    assert comity("id", "show") == (130, "", "stopped\n")


def test_the_version_flag_and_command_agree(comity):
    assert comity("--version").out == f"comity {package.__version__}\n"
    assert json.loads(comity("version", "--json").out)["comity"] == package.__version__
    assert comity("version").out.startswith(f"comity    {package.__version__}\n")


def complete(program, line, shell="bash"):
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    others = {"_TYPER_COMPLETE_ARGS": line}
    outcome = program(env={**words, **others, "_COMITY_COMPLETE": f"complete_{shell}"})
    assert outcome.code == 0, outcome.err
    return outcome.out.split("\n")


def test_the_shell_completes_commands_options_and_members(program):
    assert complete(program, "comity ")[: len(COMMANDS)] == [entry.name for entry in COMMANDS]
    assert complete(program, "comity do") == ["doctor", ""]
    assert complete(program, "comity id ") == [
        "show",
        "new",
        "export",
        "import",
        "recovery",
        "replace",
        "recover",
        "history",
        "follow",
        "token",
        "",
    ]
    assert complete(program, "comity audit verify --js") == ["--json", ""]


def test_the_shell_completes_names_with_their_help_and_loads_no_command(program):
    assert any("Check this machine" in line for line in complete(program, "comity do", shell="zsh"))
    look = LOOK_AT_MODULES.replace(
        "code =", "import atexit; atexit.register(lambda: sys.stderr.write(' '.join(sys.modules))); code ="
    )
    outcome = program(
        python=[sys.executable, "-c", look],
        env={"_COMITY_COMPLETE": "complete_bash", "COMP_WORDS": "comity ", "COMP_CWORD": "1"},
    )
    assert not {entry.module for entry in COMMANDS} & set(outcome.err.split())


def test_completion_can_be_shown_and_installed(program, tmp_path):
    known_shell = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    shown = program("--show-completion", "bash", env=known_shell)
    assert shown.code == 0
    assert "_COMITY_COMPLETE=complete_bash" in shown.out
    installed = program("--install-completion", "bash", env=known_shell)
    assert installed.code == 0
    assert (tmp_path / ".bash_completions" / "comity.sh").read_text().strip() == shown.out.strip()


def test_a_reader_that_goes_away_is_no_traceback(environ):
    read_end, write_end = os.pipe()
    os.close(read_end)
    finished = subprocess.run(
        [sys.executable, "-m", "comity", "config", "show", "--json"],
        env=environ,
        stdout=write_end,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write_end)
    assert finished.returncode != 0
    assert "Traceback" not in finished.stderr
    assert "Exception ignored" not in finished.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")  # noqa: PTH110
def test_a_full_disk_under_stdout_is_a_failure_and_one_sentence(environ):
    with open("/dev/full", "w") as full:  # noqa: PTH123
        finished = subprocess.run(
            [sys.executable, "-m", "comity", "version"],
            env=environ,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert finished.returncode == 1
    assert finished.stderr.startswith("error: ")
    assert finished.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("start", "`comity up`"),
        ("serve", "`comity up --agent mypkg:handle`"),
        ("run", "`comity up`"),
        ("restart", "`comity stop`"),
        ("logs", "`comity watch`"),
    ],
)
def test_what_people_type_who_know_other_programs_is_answered(comity, typed, told):
    said = comity(typed)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"error: there is no command {typed!r}: ")
    assert told in said.err
    assert comity(typed, "--flag", "x").code == 2


def test_help_is_a_command_too(comity):
    assert comity("help").out == comity("--help").out
    assert comity("help", "config", "set").out == comity("config", "set", "--help").out
    assert comity("help", "nonsense").code == 2


def _completed(program, words):
    line = " ".join(["comity", *words])
    environ = {"_COMITY_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}
    return program(env=environ).out.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["state", "set", "hi"], ["hibernating"]),
        (["install", "claude"], ["claude-code", "claude-desktop"]),
        (["uninstall", "cod"], ["codex"]),
        (["actions", "run", "supp"], ["supportive_reply"]),
        (["config", "set", "http.bo"], ["http.body_limit"]),
        (["back"], ["backup"]),
    ],
)
def test_the_shell_completes_clients_states_actions_and_settings(program, words, offered):
    assert _completed(program, words) == offered


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["audit", "verify"], "`comity up --data {data}`"),
        (["id", "show"], "`comity id new --data {data}`"),
        (["chain", "show"], "`comity call --data {data}`"),
        (["watch"], "`comity up --data {data}`"),
        (["card", "show"], "`comity up --agent echo --data {data}`"),
    ],
)
def test_a_command_that_a_message_names_leads_to_the_same_folder(comity, tmp_path, arguments, told):
    data = tmp_path / "my folder"
    said = comity(*arguments, "--data", data)
    assert said.code != 0
    assert told.format(data=f"'{data}'") in said.err
    config = tmp_path / "my.toml"
    config.write_text("port = 0\n")
    said = comity(*arguments, "--config", config)
    assert f" --config {config}`" in said.err
    assert "--data" not in comity(*arguments).err.replace("with --data", "")
