"""What short programs load: how many modules of ours, how many lines, and which packages of others.

Modules move and are merged, so only numbers are stored, as limits that an edit may pass by a twentieth.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.mcp.conversing import initialize, line, request

_TELLING = """
import atexit, json, sys
def tell():
    found = [(name, getattr(module, "__file__", None)) for name, module in list(sys.modules.items())]
    print("\\n" + json.dumps(found), file=sys.stderr)
atexit.register(tell)
"""
_RUN = "from comity.cli.app import run; sys.exit(run(sys.argv[1:]))"
_PROGRAMS: dict[str, tuple[str, list[str], bytes]] = {
    "import comity": ("import comity", [], b""),
    "comity --help": (_RUN, ["--help"], b""),
    "comity mcp, first answer": (_RUN, ["mcp"], line(initialize())),
    "comity mcp, list of tools": (_RUN, ["mcp"], line(initialize()) + line(request(1, "tools/list"))),
}
_OURS = ("comity", "comity_skills")
_BY_VERSION = {"typing_extensions"}
"""Loaded or not as the version of Python wants it."""
_TOLERANCE = 1.05


def measured() -> dict[str, Any]:
    before = _modules("", [], b"")
    found = {}
    for name, (program, arguments, said) in _PROGRAMS.items():
        modules = {key: file for key, file in _modules(program, arguments, said).items() if key not in before}
        ours = [file for key, file in modules.items() if key.partition(".")[0] in _OURS]
        sizes = [_lines(file) for file in ours if file]
        found[name] = {
            "modules": sum(1 for size in sizes if size > 1),  # the first line of a package is its docstring
            "lines": sum(sizes),
            "packages of others": sorted(
                {_package(key) for key, file in modules.items() if _is_foreign(file)} - _BY_VERSION
            ),
        }
    return found


def fits(golden: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether each program loads the same packages, and not clearly more of ours."""
    return golden.keys() == now.keys() and all(
        stored["packages of others"] == now[name]["packages of others"]
        and all(now[name][unit] <= stored[unit] * _TOLERANCE + 1 for unit in ("modules", "lines"))
        for name, stored in golden.items()
    )


def _modules(program: str, arguments: list[str], said: bytes) -> dict[str, str | None]:
    with tempfile.TemporaryDirectory() as folder:
        more = ["--data", str(Path(folder) / "data")] if arguments == ["mcp"] else []
        outcome = subprocess.run(
            [sys.executable, "-c", _TELLING + program, *arguments, *more],
            input=said,
            capture_output=True,
            check=True,
            timeout=300,
        )
    return dict(json.loads(outcome.stderr.decode().rpartition("\n[")[2].join(("[", ""))))


def _lines(file: str) -> int:
    return len(Path(file).read_text("utf-8").splitlines())


def _package(module: str) -> str:
    return module.partition(".")[0]


def _is_foreign(file: str | None) -> bool:
    return file is not None and "site-packages" in Path(file).parts
