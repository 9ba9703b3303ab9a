"""What to type to add an optional package to this very installation, whichever way Comity was installed."""

import importlib.util
import shlex
import sys


def install_command(*packages: str) -> str:
    python, named = shlex.quote(sys.executable), shlex.join(packages)
    if importlib.util.find_spec("pip") is not None:
        return f"{python} -m pip install {named}"
    return f"uv pip install --python {python} {named}"
