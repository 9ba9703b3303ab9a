"""Make a virtual environment from a hash-pinned lock file: uv when it is there, else pip.

The system Python is only asked to create the environment; nothing is installed into it.
"""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

OLDEST = (3, 11)


def main(folder: str, lock: str) -> None:
    if sys.version_info < OLDEST:
        sys.exit(
            f"comity needs Python 3.11 or newer; this is {sys.version.split()[0]}. "
            "Name another one: make PYTHON=python3.12 …"
        )
    python = Path(folder, "bin", "python")
    uv = shutil.which("uv")
    if not python.exists():
        print(f"creating {folder}", flush=True)
        venv.create(folder, with_pip=uv is None, clear=Path(folder).exists())
    environ = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_REQUIRE_VIRTUALENV": "0"}
    if uv:
        install = [uv, "pip", "install", "--python", str(python)]
    else:
        if subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False).returncode:
            subprocess.run([python, "-m", "ensurepip"], check=True, capture_output=True)
        install = [str(python), "-m", "pip", "install"]
    print(f"installing {lock} with {'uv' if uv else 'pip'}; this takes a minute or two", flush=True)
    for step in (
        ["--require-hashes", "-r", lock],
        ["--no-deps", "--no-build-isolation", "--editable", "packages/comity-skills", "--editable", "."],
    ):
        if run_showing_progress([*install, *step], environ):
            sys.exit(f"installing {lock} failed; the lines above say why. Run the same make command again.")


def run_showing_progress(command: list[str], environ: dict[str, str]) -> int:
    """Run an installer. Show how many packages it has collected, and all that it said if it fails; return its exit code."""
    said: list[str] = []
    collected = 0
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as installer:
        assert installer.stdout is not None
        for line in installer.stdout:
            said.append(line)
            if line.startswith("Collecting "):
                collected += 1
                show(f"  {collected} packages collected, now {line.split()[1].partition('=')[0]}", collected)
            elif line.startswith("Installing collected"):
                show("  installing them", 0)
    if sys.stdout.isatty():
        print("\r\033[K", end="", flush=True)
    if installer.returncode:
        sys.stdout.writelines(said)
    return installer.returncode


def show(text: str, number: int) -> None:
    """Replace the line in a terminal; elsewhere write every tenth."""
    if sys.stdout.isatty():
        print(f"\r\033[K{text[: shutil.get_terminal_size().columns - 1]}", end="", flush=True)
    elif number % 10 == 0:
        print(text, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
