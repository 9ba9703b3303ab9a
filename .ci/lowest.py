"""The lowest versions that the node and its skills allow in `pyproject.toml`, in an environment of their own, and a smoke of every door there.

A bound `name>=version` is installed as `name==version`: a bound must name a release that exists, and everything must
work with exactly that one. What the dependencies themselves need is the newest that fits. The attacks on HTTP are run
too: the parser decides what is refused, and older ones let more pass.
"""

import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterable, Iterator
from pathlib import Path

FOLDER = Path("build", "lowest")
OURS = {"comity": Path(), "comity-skills": Path("packages", "comity-skills")}
TESTS = ("tests/smoke", "tests/http/attacks")
TOOLS = ("pytest", "pytest-asyncio", "hypothesis")
"""What the tests need; of these the newest will do."""

_BOUND = re.compile(r"(?P<name>[\w.-]+(?:\[[\w,-]+\])?)>=(?P<version>[\w.]+)(?P<marker>\s*;.*)?")


def main() -> None:
    projects = [tomllib.loads((place / "pyproject.toml").read_text("utf-8")) for place in OURS.values()]
    python = FOLDER / "bin" / "python"
    if not python.exists():
        venv.create(FOLDER, with_pip=True)
    bounds = {bound for project in projects for bound in project["project"]["dependencies"]}
    lowest = sorted(pinned(bounds))
    print("installing", ", ".join(lowest), flush=True)
    _run(
        python, "-m", "pip", "install", "--quiet", *lowest, *TOOLS, *projects[0]["dependency-groups"]["build"]
    )
    ours = [word for place in OURS.values() for word in ("--editable", place)]
    _run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", *ours)
    # Old releases warn of what newer ones have mended; that is no fault of ours.
    _run(python, "-m", "pytest", "-o", "filterwarnings=default", "-p", "no:cacheprovider", "-q", *TESTS)


def pinned(bounds: Iterable[str]) -> Iterator[str]:
    for bound in bounds:
        if bound.partition("==")[0] in OURS:
            continue
        found = _BOUND.fullmatch(bound)
        if found is None:
            sys.exit(f"{bound!r} in pyproject.toml is no bound of the form name>=version; give it one")
        yield f"{found['name']}=={found['version']}{found['marker'] or ''}"


def _run(*command: str | Path) -> None:
    ended = subprocess.run([str(part) for part in command], check=False)
    if ended.returncode:
        sys.exit(ended.returncode)


if __name__ == "__main__":
    main()
