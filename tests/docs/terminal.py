"""A reader's terminal: the commands of one page, run in order, their output held against what is shown.

- A line that begins with `$ ` is a command; lines up to the next one are its output. A command that ends
  with a backslash goes on in the next line, which begins with `> `.
- `…` stands for any text within a line, and alone on a line for any number of lines.
- A command may fail only where an `error:` line is shown, and there it must.
- `comity up` and `comity relay` stay: they run on while other commands of the page run. A block that begins with `^C` stops the
  one that was started last, and what follows is what it then says.
- Everything happens under a home folder of its own, shown as /home/you, and the ports 8420 and 9000 of the pages are
  others, so that pages can run side by side.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, NamedTuple

from tests.docs.markdown import Block
from tests.ports import unused_port

SHOWN_HOME = "/home/you"
SHOWN_PORT = "8420"
SHOWN_RELAY_PORT = "9000"
STAYS = re.compile(r"^(\w+=\S+ )*(comity (up|relay(?! .*--line))|uvicorn)\b")
DEADLINE_SECONDS = 30.0
_LOOK_SECONDS = 0.01

_MARK = "--- the command ended with"
_PLAIN_VARIABLES = ("LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT")


class Step(NamedTuple):
    """`command` is empty for what a running node says after it was stopped."""

    command: str
    shown: list[str]
    line: int


def steps(block: Block) -> list[Step]:
    found: list[Step] = []
    for number, line in enumerate(block.text.splitlines(), start=block.line + 1):
        if line.startswith("$ "):
            found.append(Step(line[2:], [], number))
        elif line == "^C":
            found.append(Step("", [], number))
        elif line.startswith("> ") and found and found[-1].command.endswith("\\"):
            last = found.pop()
            found.append(Step(last.command + "\n" + line[2:], last.shown, last.line))
        else:
            assert found, f"line {number} shows output before any command"
            found[-1].shown.append(line)
    return found


def fits(shown: list[str], told: list[str]) -> bool:
    pattern = "".join("(.*\n)*?" if line.strip() == "…" else _line(line) for line in shown)
    return re.fullmatch(pattern, "".join(_spaced(line) + "\n" for line in told)) is not None


def _line(shown: str) -> str:
    return ".*".join(map(re.escape, _spaced(shown).split("…"))) + "\n"


def _spaced(line: str) -> str:
    """Columns are as wide as their widest value, which may be a path: how many spaces there are says nothing."""
    return re.sub(" {2,}", "  ", line)


class Terminal:
    """A shell and, at times, a node beside it. Close it: nothing that it started may be left."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._ports = {SHOWN_PORT: str(unused_port()), SHOWN_RELAY_PORT: str(unused_port())}
        self._environment = {
            **{name: os.environ[name] for name in _PLAIN_VARIABLES if name in os.environ},
            "HOME": str(home),
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
            "PYTHONUNBUFFERED": "1",  # so that both streams come in the order in which they were written
            "PYTHONDONTWRITEBYTECODE": "1",
            "NO_COLOR": "1",
            "COLUMNS": "100",
        }
        self._shell = self._start(["bash", "--norc", "--noprofile"], stdin=subprocess.PIPE)
        self._nodes: list[tuple[subprocess.Popen[bytes], Path]] = []
        self._logs = home.parent

    def save(self, name: str, text: str) -> None:
        path = self._home / name.removeprefix("~/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._real(text), "utf-8")

    def run(self, step: Step) -> tuple[list[str], bool]:
        """What was said, and whether the command may have ended as it did."""
        if not step.command:
            return self._stop_node(), True
        if STAYS.match(step.command):
            return self._refused_node(step) if _fails(step) else self._start_node(step)
        told, code = self._in_shell(step.command)
        return told, (code != 0) == _fails(step)

    def close(self) -> None:
        for node, _log in self._nodes:
            if node.poll() is None:
                node.terminate()
                node.wait(DEADLINE_SECONDS)
        assert self._shell.stdin is not None
        self._shell.stdin.close()
        self._shell.wait(DEADLINE_SECONDS)
        assert self._shell.stdout is not None
        self._shell.stdout.close()

    def _start(self, command: list[str], **streams: int | IO[bytes]) -> subprocess.Popen[bytes]:
        streams.setdefault("stdout", subprocess.PIPE)
        return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
            command, cwd=self._home, env=self._environment, stderr=subprocess.STDOUT, **streams
        )

    def _in_shell(self, command: str) -> tuple[list[str], int]:
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{self._real(command)}\nprintf '\\n%s %s\\n' '{_MARK}' $?\n".encode())
        self._shell.stdin.flush()
        told: list[str] = []
        while True:
            line = self._shell.stdout.readline().decode()
            assert line, f"the shell ended in: {command}"
            if line.startswith(_MARK):
                return self._shown(told), int(line.removeprefix(_MARK))
            told.append(line.rstrip("\n"))

    def _start_node(self, step: Step) -> tuple[list[str], bool]:
        """Until the node has said what is shown, or has ended."""
        log = self._logs / f"node{len(self._nodes)}.log"
        node = self._launch(step.command, log)
        self._nodes.append((node, log))
        until = time.monotonic() + DEADLINE_SECONDS
        while True:
            ended = node.poll() is not None
            told = self._read(log)
            if ended or time.monotonic() > until:
                return told, False
            if fits(step.shown, told):
                return told, True
            time.sleep(_LOOK_SECONDS)

    def _refused_node(self, step: Step) -> tuple[list[str], bool]:
        """One that must not start, beside the one that may be running."""
        log = self._logs / "refused.log"
        refused = self._launch(step.command, log)
        try:
            code = refused.wait(DEADLINE_SECONDS)
        finally:
            refused.kill()
        return self._read(log), code != 0

    def _launch(self, command: str, log: Path) -> subprocess.Popen[bytes]:
        """Where the shell is, and with what it exports."""
        exports, _ = self._in_shell("export -p; pwd")
        before = "\n".join(self._real(line) for line in exports[:-1])
        port = "" if _names_port(command) else f"COMITY_PORT={self._ports[SHOWN_PORT]} "
        script = f"{before}\ncd {self._real(exports[-1])} && exec env {port}{self._real(command)}"
        with log.open("wb") as said:
            return self._start(["bash", "-c", script], stdout=said, stdin=subprocess.DEVNULL)

    def _stop_node(self) -> list[str]:
        assert self._nodes, "no node is running"
        node, log = self._nodes.pop()
        node.send_signal(signal.SIGINT)
        node.wait(DEADLINE_SECONDS)
        return self._read(log)

    def _read(self, log: Path) -> list[str]:
        return self._shown([*log.read_text("utf-8").splitlines(), ""])

    def _real(self, text: str) -> str:
        return _replaced(text, {SHOWN_HOME: str(self._home), **self._ports})

    def _shown(self, told: list[str]) -> list[str]:
        """Without the empty line that ends the output, and as a reader would see it."""
        if told and not told[-1]:
            told = told[:-1]
        seen = {str(self._home): SHOWN_HOME, **{real: shown for shown, real in self._ports.items()}}
        return [_replaced(line, seen) for line in told]


def _replaced(text: str, pairs: dict[str, str]) -> str:
    for old, new in pairs.items():
        text = text.replace(old, new)
    return text


def missing_tools(commands: list[str]) -> list[str]:
    """Programs that a page uses and this machine does not have."""
    wanted = {
        tool for command in commands for tool in ("curl", "openssl") if re.search(rf"\b{tool}\b", command)
    }
    return sorted(tool for tool in {"bash", *wanted} if shutil.which(tool) is None)


def _names_port(command: str) -> bool:
    """Whether the page says itself where its node listens."""
    return "--port" in command or "--config" in command


def _fails(step: Step) -> bool:
    return any(line.startswith("error:") for line in step.shown)
