"""Run both suites of tests, that of the skills and that of the node.

    .ci/test.py [ARGUMENT…]

Each is run by a pytest of its own, because both have a package named `tests`. The arguments go to pytest. Paths among them choose what is
run of which suite; a suite without any is left out. It is no failure that nothing was selected in one suite when something was in
the other. The exit code is that of the first pytest that failed, and the last lines name every suite that did.
"""

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUITES = ("packages/comity-skills/tests", "tests")

_INTERRUPTED = 130
_NOTHING_SELECTED = 5
_STOPS_AT_A_FAILURE = frozenset({"-x", "--exitfirst"})
_TAKES_A_VALUE = frozenset({"-k", "-m", "--deselect", "--ignore"})


def main(arguments: Sequence[str]) -> int:
    interrupted: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _frame: interrupted.append(number))  # pytest gets it as well
    options, paths = split(arguments)
    ended: dict[str, int] = {}
    for suite, chosen in paths.items():
        command = [sys.executable, "-m", "pytest", "-n", "auto", *options, *chosen]
        ended[suite] = subprocess.run(command, cwd=ROOT, check=False).returncode
        code, failed = verdict(ended)
        if interrupted or (failed and _STOPS_AT_A_FAILURE & {*options}):
            break
    for suite in failed:
        print(f"failed: {suite} (pytest exited with {ended[suite]})", file=sys.stderr)
    return code or (_INTERRUPTED if interrupted else 0)


def split(arguments: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the options, and the paths of each suite that is to be run."""
    options: list[str] = []
    paths: dict[str, list[str]] = {suite: [] for suite in SUITES}
    before = ""
    for argument in arguments:
        suite = None if before in _TAKES_A_VALUE else _suite_of(argument)
        (options if suite is None else paths[suite]).append(argument)
        before = argument
    chosen = {suite: found for suite, found in paths.items() if found}
    return options, chosen or {suite: [suite] for suite in SUITES}


def verdict(ended: Mapping[str, int]) -> tuple[int, list[str]]:
    """Return the exit code for those of the suites, and the suites that failed."""
    failed = [suite for suite, code in ended.items() if code not in {0, _NOTHING_SELECTED}]
    if failed:
        return ended[failed[0]], failed
    return (0 if 0 in ended.values() else _NOTHING_SELECTED), []


def _suite_of(argument: str) -> str | None:
    """Return the suite in which a test or a folder lies; None when the argument is no path in one."""
    path = (ROOT / argument.partition("::")[0]).resolve()
    return next((suite for suite in SUITES if path.is_relative_to(ROOT / suite) and path.exists()), None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
