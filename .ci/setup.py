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
    quiet = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_REQUIRE_VIRTUALENV": "0"}
    if uv:
        install = [uv, "pip", "install", "--quiet", "--python", str(python)]
    else:
        if subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False).returncode:
            subprocess.run([python, "-m", "ensurepip"], check=True, capture_output=True)
        install = [str(python), "-m", "pip", "install", "--quiet"]
    print(f"installing {lock} with {'uv' if uv else 'pip'}", flush=True)
    for step in (
        ["--require-hashes", "-r", lock],
        ["--no-deps", "--no-build-isolation", "--editable", "packages/comity-skills", "--editable", "."],
    ):
        if subprocess.run([*install, *step], env=quiet, check=False).returncode:
            sys.exit(f"installing {lock} failed; the lines above say why. Run the same make command again.")


if __name__ == "__main__":
    main(*sys.argv[1:])
