"""A client's own command: no shell, the exact words shown, a deadline, and nothing believed without looking.

A secret is never put on a command line: every user of the machine can read it there.
"""

import json
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

from comity.hosts.clients import Computer, Program
from comity.hosts.launch import Launch

DEADLINE_SECONDS = 60.0


def found_program(program: Program | None, scope: str, machine: Computer) -> str | None:
    """The path of the command, when it is there and of use in this scope."""
    if program is None or scope not in program.scopes:
        return None
    path = shutil.which(program.name, path=machine.environ.get("PATH", ""))
    if path is not None and machine.system == "windows" and not path.lower().endswith(".exe"):
        return None  # a batch file is run by a shell, which reads our words in its own way
    return path


def add_call(path: str, program: Program, name: str, scope: str, launch: Launch) -> list[str]:
    plain = {"name": name, "command": launch.command, "args": list(launch.args), "env": dict(launch.env)}
    pairs = [f"{key}={value}" for key, value in launch.env.items()]
    filled: dict[str, Sequence[str]] = {
        "{name}": [name],
        "{scope}": [scope],
        "{env...}": [part.replace("{pair}", pair) for pair in pairs for part in program.env],
        "{call...}": launch.call,
        "{args...}": launch.args,
        "{command}": [launch.command],
        "{json}": [json.dumps(plain)],
    }
    return [path, *(part for word in program.add for part in filled.get(word, [word]))]


def remove_call(path: str, program: Program, name: str, scope: str) -> list[str]:
    filled = {"{name}": name, "{scope}": scope}
    return [path, *(filled.get(word, word) for word in program.remove)]


def run_program(call: Sequence[str], machine: Computer) -> str:
    """An empty text if the program succeeded, else its error output."""
    try:
        ended = subprocess.run(  # noqa: S603 - the words come from our table and the command line's own checks
            call,
            cwd=machine.project,
            env=dict(machine.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it took longer than {DEADLINE_SECONDS:g} seconds"
    except OSError as fault:
        return str(fault.strerror or fault).lower()
    said = " ".join(ended.stdout.decode("utf-8", "replace").split())[:300]
    return f"it ended with {ended.returncode}{': ' + said if said else ''}" if ended.returncode else ""


def same_entry(have: Any, want: Any) -> bool:
    """Whether an entry does what ours would: more members are its owner's, an empty one may be missing."""
    if not isinstance(have, dict):
        return False
    return all(have.get(key, type(value)()) == value for key, value in want.items())
