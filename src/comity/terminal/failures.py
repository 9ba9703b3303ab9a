"""What a person or a program sees when something went wrong: one sentence on stderr and an exit code.

- 2: the call or the settings cannot be used. 1: the operation failed. 130: Ctrl-C.
- With --json, stdout stays empty and stderr gets one JSON line.
- What nobody foresaw is one line too; COMITY_DEBUG=1 shows where it happened.
"""

import json
import os
import sys
import traceback

import typer

from comity.terminal.colour import colour_wanted, paint
from comity.terminal.follow_up import with_flags
from comity.wire.errors import ComityError, ConfigError

DEBUG_VARIABLE = "COMITY_DEBUG"
FAILED = 1
UNUSABLE = 2
INTERRUPTED = 130


def report(failure: Exception, *, as_json: bool) -> int:
    code, message, exit_code = _described(failure)
    if os.environ.get(DEBUG_VARIABLE) and not isinstance(failure, typer.TyperException | typer.Abort):
        traceback.print_exception(failure)
    say(code, message, as_json=as_json)
    _let_go_of_stdout()
    return exit_code


def finish(exit_code: int) -> int:
    """Everything printed must have arrived before success is claimed."""
    if exit_code == INTERRUPTED:
        sys.stderr.write("stopped\n")
    sys.stdout.flush()
    return exit_code


def say(code: str, message: str, *, as_json: bool) -> None:
    """A command that the message names gets the flags that lead to the same node."""
    message = with_flags(message)
    if as_json:
        line = json.dumps({"error": {"code": code, "message": message}}, separators=(",", ":"))
    else:
        line = f"{paint('error:', 'bold red', wanted=colour_wanted(sys.stderr))} {message}"
    sys.stderr.write(line + "\n")


def _described(failure: Exception) -> tuple[str, str, int]:
    match failure:
        case ConfigError():
            return failure.code, failure.message, UNUSABLE
        case ComityError():
            # a refusal by an extension has a code of its own beside that of its class
            return getattr(failure, "wire_code", failure.code).lower(), failure.message, FAILED
        case typer.TyperException():
            return "usage", _sentence(failure), UNUSABLE
        case typer.Abort():
            return "aborted", "stopped before anything was done", FAILED
        case FileNotFoundError(filename=str() as name):
            return "system", f"there is no file or folder {name}; check the path", FAILED
        case OSError(filename=None):
            return "system", f"{failure.strerror or failure}; nothing more was done", FAILED
        case OSError():
            return "system", f"{failure.filename}: {failure.strerror or failure}", FAILED
        case _:
            kind = type(failure)
            # a database speaks of its insides
            told = "" if kind.__module__.startswith("apsw") else str(failure)
            what = f"{kind.__name__}: {told}".strip(": ")
            remedy = f"run it again with {DEBUG_VARIABLE}=1 to see where, and report it"
            return "internal", f"unexpected error ({' '.join(what.split())}); {remedy}", FAILED


def _sentence(refusal: typer.TyperException) -> str:
    """The library's own words, and where to read on."""
    context = getattr(refusal, "ctx", None)
    path = context.command_path if context is not None else "comity"
    words = " ".join(refusal.format_message().split()).rstrip(".")
    said = f"{words[:1].lower()}{words[1:]}"
    return said if said.endswith("?") else f"{said}; `{path} --help` shows how to use it"


def _let_go_of_stdout() -> None:
    """A stdout that could not be written would be tried again at exit, with a traceback."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
