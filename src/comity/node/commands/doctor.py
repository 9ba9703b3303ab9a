"""`comity doctor`: what is wrong here, and what to do.

A check changes nothing and never raises. Its result says what to do.
"""

import asyncio
import contextlib
import errno
import importlib.util
import os
import shlex
import shutil
import socket
import stat
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from comity.identity.secrets import TOKEN_FILE, read_token
from comity.runtime.lazy import late, load_parts
from comity.runtime.part import CheckResult, Part
from comity.runtime.settings import Settings
from comity.runtime.settings_file import DEFAULT, Loaded, load_settings
from comity.runtime.system_clock import SystemClock
from comity.store.claim import running_node
from comity.system import install_command
from comity.terminal.help import HelpfulApp
from comity.terminal.options import HomeOptions, Json, settings_of
from comity.terminal.output import FAILED, Cell, print_json, print_line, print_table, with_flags
from comity.wire.errors import ComityError, ConfigError, KeyRefusedError
from comity.wire.machine import size_words

if TYPE_CHECKING:
    from comity.identity import key_files
    from comity.runtime import opening
else:
    key_files = late("comity.identity.key_files")
    opening = late("comity.runtime.opening")

app = HelpfulApp()

RELEASED = datetime(2026, 1, 1, tzinfo=UTC)
PYTHON = (3, 11)
DISK_LOW = 1024**3
DISK_EMPTY = 64 * 1024**2
FUTURE_SECONDS = 300
EXTRAS = {
    "mcp": (("mcp",), "agents that are tools of an MCP server"),
    "p2p": (("aiortc",), "WebRTC where the package wrtc has no wheel"),
    "keyring": (("keyring",), "the key in the keyring of the operating system"),
}
_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@app.add("""
    comity doctor  check everything that a node here needs
    comity doctor --data /srv/node  check another data folder
    comity doctor --json  print JSON; exit code 1 if a check fails
""")
def doctor(home: HomeOptions = HomeOptions(), as_json: Json = False) -> None:
    """Check this machine: settings, folder, keys, database, disk, clock, port, extras.

    This command changes nothing. Each result is ok, warn or fail. A warning or failure says what to do.
    """
    loaded, found = _settings(home)
    if loaded is not None:
        found += findings(loaded.settings, loaded.sources)
    failed = sum(finding.mark == "fail" for finding in found)
    warned = sum(finding.mark == "warn" for finding in found)
    if as_json:
        print_json({"ok": not failed, "checks": [finding._asdict() for finding in found]})
    else:
        print_table(("", "check", "finding"), [_row(finding) for finding in found])
        print_line()
        print_line(_verdict(failed, warned))
    if failed:
        raise typer.Exit(FAILED)


def _settings(home: HomeOptions) -> tuple[Loaded | None, list[CheckResult]]:
    """Load the settings. If they are invalid, check at least the data folder with default settings."""
    try:
        loaded = settings_of(home)
    except ConfigError as refusal:
        return _without_settings(home.data), [CheckResult("settings", "fail", refusal.message)]
    where = f"read from {loaded.file}" if loaded.file else "there is no settings file, and you need none"
    changed = sum(source != DEFAULT for source in loaded.sources.values())
    count = "1 setting" if changed == 1 else f"{changed or 'no'} settings"
    return loaded, [CheckResult("settings", "ok", f"valid; {count} changed from the default; {where}")]


def _without_settings(data: str | None) -> Loaded | None:
    """Take only the data folder from flags and variables, and defaults for everything else."""
    environ = {
        name: value
        for name, value in os.environ.items()
        if name == "COMITY_DATA" or not (name.startswith("COMITY_") or name == "ENVIRONMENT")
    }
    try:
        return load_settings({"data": data, "config": os.devnull}, environ)
    except ConfigError:
        return None


def _row(finding: CheckResult) -> tuple[Cell, ...]:
    text = f"{finding.finding}. To do: {finding.remedy}" if finding.remedy else finding.finding
    return (finding.mark, _STYLES[finding.mark]), finding.check, with_flags(text)


def _verdict(failed: int, warned: int) -> str:
    if failed:
        return f"{failed} {'check' if failed == 1 else 'checks'} failed; fix this before you start a node."
    if warned:
        return f"{warned} {'warning' if warned == 1 else 'warnings'}; a node can run."
    return "Everything is ready for a node."


def findings(settings: Settings, sources: dict[str, str]) -> Iterator[CheckResult]:
    """Run every check except that of the settings."""
    yield check_python()
    yield check_clock(settings.database)
    yield check_folder(settings.data)
    yield check_disk(settings.data)
    yield check_identity(settings.data)
    yield check_token(settings.data)
    yield check_database(settings)
    yield check_parts(settings)
    for part in load_parts():
        if part.is_wanted(settings):
            yield from check_part(part, settings)
    yield check_port(settings, asked_for=sources.get("port", DEFAULT) != DEFAULT)
    yield from check_extras()


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> CheckResult:
    shown = ".".join(map(str, version))
    if version < PYTHON:
        return CheckResult("python", "fail", f"{shown} is too old", "install Python 3.11 or newer")
    return CheckResult("python", "ok", shown)


def check_clock(
    database: Path, now: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic
) -> CheckResult:
    moment = now()
    shown = datetime.fromtimestamp(moment, UTC).isoformat(sep=" ", timespec="seconds")
    remedy = "set the clock, or let a time service do it"
    if moment < RELEASED.timestamp():
        return CheckResult("clock", "fail", f"{shown} is before the date of this release", remedy)
    with contextlib.suppress(OSError):
        ahead = database.stat().st_mtime - moment
        if ahead > FUTURE_SECONDS:
            return CheckResult(
                "clock", "warn", f"{shown}, and the database was written {ahead:,.0f} s later", remedy
            )
    first = monotonic()
    if monotonic() < first:
        return CheckResult("clock", "fail", "the monotonic clock runs backwards", "restart the machine")
    return CheckResult("clock", "ok", shown)


def check_folder(data: Path) -> CheckResult:
    name = "data folder"
    try:
        status = data.stat()
    except FileNotFoundError:
        return _folder_to_be(data)
    except OSError as reason:
        return CheckResult(
            name, "fail", f"{data}: {_cause(reason)}", "fix its permissions or use another folder"
        )
    if not stat.S_ISDIR(status.st_mode):
        return CheckResult(name, "fail", f"{data} is not a folder", "move it away or use another folder")
    if os.name != "posix":
        return CheckResult(name, "ok", str(data))
    quoted = shlex.quote(str(data))
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid != os.geteuid():
        return CheckResult(
            name, "fail", f"{data} belongs to user {status.st_uid}", f"chown -R {os.geteuid()} {quoted}"
        )
    if mode & 0o022:
        return CheckResult(
            name, "fail", f"{data} is writable by other users ({mode:04o})", f"chmod 700 {quoted}"
        )
    if mode != 0o700:
        return CheckResult(name, "warn", f"{data} has mode {mode:04o}, not 0700", f"chmod 700 {quoted}")
    return CheckResult(name, "ok", f"{data} (0700, yours)")


def check_disk(data: Path) -> CheckResult:
    place = _nearest_existing(data)
    try:
        free = shutil.disk_usage(place).free
    except OSError as reason:
        return CheckResult("disk", "fail", f"{place}: {_cause(reason)}", "check the disk")
    shown = f"{size_words(free)} free"
    if free < DISK_EMPTY:
        return CheckResult("disk", "fail", shown, "free some space before a node runs here")
    if free < DISK_LOW:
        return CheckResult("disk", "warn", shown, "free some space soon")
    return CheckResult("disk", "ok", shown)


def check_identity(data: Path) -> CheckResult:
    try:
        if _missing(key_files.identity_path(data)):
            return CheckResult("identity", "ok", "does not exist yet; `comity up` creates it")
        vacant_id = key_files.stored_vacant_id(data)
        if key_files.needs_passphrase(data):
            return CheckResult("identity", "ok", f"{vacant_id}, encrypted with a passphrase")
        key_files.load_identity(data)
    except (ComityError, OSError) as refusal:
        return _refused("identity", refusal)
    return CheckResult("identity", "ok", f"{vacant_id}, only you can read the file")


def check_token(data: Path) -> CheckResult:
    path = data / TOKEN_FILE
    try:
        if _missing(path):
            return CheckResult("token", "ok", "does not exist yet; `comity up` creates it")
        read_token(path)
    except (KeyRefusedError, OSError) as refusal:
        return _refused("token", refusal)
    return CheckResult("token", "ok", "present, only you can read the file")


def check_database(settings: Settings) -> CheckResult:
    if settings.store.is_volatile:
        said = f"store.engine is {settings.store.engine}: nothing survives a restart"
        return CheckResult("database", "warn", said, "use sqlite")
    if not opening.load_checksums():
        return CheckResult(
            "database", "warn", "this build of apsw has no page checksums", "install apsw from its wheel"
        )

    async def inspect() -> None:
        async with opening.reading(settings, SystemClock()):
            pass

    try:
        size = settings.database.stat().st_size
        asyncio.run(inspect())
    except FileNotFoundError:
        return CheckResult("database", "ok", "does not exist yet; `comity up` creates it")
    except (ComityError, OSError) as refusal:
        return _refused("database", refusal)
    return CheckResult("database", "ok", f"undamaged, with page checksums, {size_words(size)}")


def check_parts(settings: Settings) -> CheckResult:
    if not settings.off:
        return CheckResult("parts", "ok", "none is switched off")
    off = f"switched off by the setting `off`: {', '.join(settings.off)}"
    return CheckResult("parts", "ok", f"{off}; take one out of it and start the node again to switch it on")


def check_part(part: type[Part], settings: Settings) -> list[CheckResult]:
    try:
        return list(part.checks(settings))
    except Exception as reason:  # noqa: BLE001 - the other checks are still wanted
        return [CheckResult(part.name, "fail", f"the check itself failed: {reason}", "report this as a bug")]


def check_port(settings: Settings, *, asked_for: bool) -> CheckResult:
    running = running_node(settings.data)
    if running is not None:
        return CheckResult(
            "port", "ok", f"the node of this folder runs at {running.url} (process {running.pid})"
        )
    where = f"{settings.port} on {settings.host}"
    if settings.port == 0:
        return CheckResult("port", "ok", "the node will use any free port")
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((settings.host, settings.port))
    except OSError as reason:
        if reason.errno != errno.EADDRINUSE:
            return CheckResult("port", "fail", f"{where}: {_cause(reason)}", "choose another host or port")
        taken = f"{where} is taken by another program"
        if asked_for:
            return CheckResult("port", "fail", taken, "stop it or choose another port")
        return CheckResult("port", "warn", taken, "nothing; the node will use a free port")
    return CheckResult("port", "ok", f"{where} is free")


def check_extras() -> Iterator[CheckResult]:
    for extra, (modules, purpose) in EXTRAS.items():
        found = [module for module in modules if _installed(module)]
        if found:
            yield CheckResult(f"extra {extra}", "ok", f"installed ({', '.join(found)})")
        else:
            how = install_command(modules[0])
            yield CheckResult(f"extra {extra}", "ok", f"not installed; needed only for {purpose}: {how}")


def _folder_to_be(data: Path) -> CheckResult:
    place = _nearest_existing(data)
    if not os.access(place, os.W_OK | os.X_OK):
        return CheckResult(
            "data folder", "fail", f"{data} cannot be created: {place} is not writable", "use another folder"
        )
    return CheckResult("data folder", "ok", f"{data} does not exist yet; `comity up` creates it")


def _nearest_existing(path: Path) -> Path:
    return next((place for place in (path, *path.parents) if os.path.isdir(place)), Path(path.anchor))  # noqa: PTH112 - never raises


def _missing(path: Path) -> bool:
    """Return whether the path does not exist. A folder that cannot be read raises an error instead."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    return False


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _refused(check: str, refusal: ComityError | OSError) -> CheckResult:
    """Return a failed check. The message of a ComityError already says what to do."""
    if isinstance(refusal, OSError):
        return CheckResult(check, "fail", f"{refusal.filename}: {_cause(refusal)}", "fix its permissions")
    return CheckResult(check, "fail", refusal.message)


def _cause(reason: OSError) -> str:
    return (reason.strerror or type(reason).__name__).lower()
