"""What `comity doctor` looks at. Each check answers with one finding and never raises.

Nothing is made, changed or mended here: a finding says what to do.
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
from typing import Literal, NamedTuple

from comity.config import DEFAULT, Settings
from comity.core.errors import ComityError, KeyRefusedError

Mark = Literal["ok", "warn", "fail"]

RELEASED = datetime(2026, 1, 1, tzinfo=UTC)
PYTHON = (3, 11)
DISK_LOW = 1024**3
DISK_EMPTY = 64 * 1024**2
FUTURE_SECONDS = 300
EXTRAS = {
    "mcp": (("mcp",), "agents that are tools of an MCP server"),
    "p2p": (("webrtc", "aiortc"), "direct links between peers"),
    "keyring": (("keyring",), "the key in the keyring of the operating system"),
}


class Finding(NamedTuple):
    check: str
    mark: Mark
    finding: str
    remedy: str = ""


def findings(settings: Settings, sources: dict[str, str]) -> Iterator[Finding]:
    """Every check but the one of the settings themselves, in the order in which one would ask."""
    yield check_python()
    yield check_clock(settings.database)
    yield check_folder(settings.data)
    yield check_disk(settings.data)
    yield check_identity(settings.data)
    yield check_token(settings.data)
    yield check_database(settings)
    yield check_storage(settings)
    yield check_budget(settings)
    yield check_port(settings, asked_for=sources.get("port", DEFAULT) != DEFAULT)
    yield from check_extras()


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    shown = ".".join(map(str, version))
    if version < PYTHON:
        return Finding("python", "fail", f"{shown} is too old", "install Python 3.11 or newer")
    return Finding("python", "ok", shown)


def check_clock(
    database: Path, now: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic
) -> Finding:
    moment = now()
    shown = datetime.fromtimestamp(moment, UTC).isoformat(sep=" ", timespec="seconds")
    remedy = "set the clock, or let a time service do it"
    if moment < RELEASED.timestamp():
        return Finding("clock", "fail", f"{shown} is before this release was made", remedy)
    with contextlib.suppress(OSError):
        ahead = database.stat().st_mtime - moment
        if ahead > FUTURE_SECONDS:
            return Finding(
                "clock", "warn", f"{shown}, and the database was written {ahead:,.0f} s later", remedy
            )
    first = monotonic()
    if monotonic() < first:
        return Finding("clock", "fail", "the monotonic clock runs backwards", "restart the machine")
    return Finding("clock", "ok", shown)


def check_folder(data: Path) -> Finding:
    name = "data folder"
    try:
        status = data.stat()
    except FileNotFoundError:
        return _folder_to_be(data)
    except OSError as reason:
        return Finding(
            name, "fail", f"{data}: {_cause(reason)}", "mend its permissions or name another folder"
        )
    if not stat.S_ISDIR(status.st_mode):
        return Finding(name, "fail", f"{data} is not a folder", "move it away or name another folder")
    if os.name != "posix":
        return Finding(name, "ok", str(data))
    quoted = shlex.quote(str(data))
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid != os.geteuid():
        return Finding(
            name, "fail", f"{data} belongs to user {status.st_uid}", f"chown -R {os.geteuid()} {quoted}"
        )
    if mode & 0o022:
        return Finding(name, "fail", f"{data} may be written by others ({mode:04o})", f"chmod 700 {quoted}")
    if mode != 0o700:
        return Finding(name, "warn", f"{data} has mode {mode:04o}, not 0700", f"chmod 700 {quoted}")
    return Finding(name, "ok", f"{data} (0700, yours)")


def check_disk(data: Path) -> Finding:
    place = _nearest_existing(data)
    try:
        free = shutil.disk_usage(place).free
    except OSError as reason:
        return Finding("disk", "fail", f"{place}: {_cause(reason)}", "look at the disk")
    shown = f"{free / 1024**3:,.1f} GiB free" if free >= 1024**3 else f"{free / 1024**2:,.0f} MiB free"
    if free < DISK_EMPTY:
        return Finding("disk", "fail", shown, "free some space before a node runs here")
    if free < DISK_LOW:
        return Finding("disk", "warn", shown, "free some space soon")
    return Finding("disk", "ok", shown)


def check_identity(data: Path) -> Finding:
    from comity.keys.identity import identity_path, load_identity, needs_passphrase, stored_vacant_id

    try:
        if _missing(identity_path(data)):
            return Finding("identity", "ok", "not made yet; `comity up` makes it")
        vacant_id = stored_vacant_id(data)
        if needs_passphrase(data):
            return Finding("identity", "ok", f"{vacant_id}, sealed with a passphrase")
        load_identity(data)
    except (ComityError, OSError) as refusal:
        return _refused("identity", refusal)
    return Finding("identity", "ok", f"{vacant_id}, file closed to others")


def check_token(data: Path) -> Finding:
    from comity.keys.tokens import TOKEN_FILE, read_token

    path = data / TOKEN_FILE
    try:
        if _missing(path):
            return Finding("token", "ok", "not made yet; `comity up` makes it")
        read_token(path)
    except (KeyRefusedError, OSError) as refusal:
        return _refused("token", refusal)
    return Finding("token", "ok", "present, file closed to others")


def check_database(settings: Settings) -> Finding:
    from comity.store.sqlite import SqliteStore
    from comity.store.sqlite.connection import load_checksums
    from comity.system_clock import SystemClock

    if settings.store.engine == "memory":
        return Finding("database", "warn", "store.engine is memory: nothing survives a restart", "use sqlite")
    if not load_checksums():
        return Finding(
            "database", "warn", "this build of apsw has no page checksums", "install apsw from its wheel"
        )

    async def look() -> None:
        store = await SqliteStore.open_for_reading(settings.database, SystemClock())
        await store.close()

    try:
        size = settings.database.stat().st_size
        asyncio.run(look())
    except FileNotFoundError:
        return Finding("database", "ok", "not made yet; `comity up` makes it")
    except (ComityError, OSError) as refusal:
        return _refused("database", refusal)
    return Finding("database", "ok", f"whole, checksummed, {size / 1024**2:,.1f} MiB")


def check_storage(settings: Settings) -> Finding:
    """What is stored for others, and how much more of it there may be."""
    from comity.pipeline.storage import CARDS
    from comity.store.operations import REPLIES
    from comity.store.sqlite import SqliteStore
    from comity.system_clock import SystemClock

    totals = {REPLIES: settings.storage.replies_bytes, CARDS: settings.storage.cards_bytes}

    async def look() -> dict[str, int] | None:
        store = await SqliteStore.open_for_reading(settings.database, SystemClock())
        try:
            return {name: await store.held(name) for name in totals} if await store.is_current() else None
        finally:
            await store.close()

    name = "quotas"
    try:
        free = shutil.disk_usage(_nearest_existing(settings.data)).free
        held = dict.fromkeys(totals, 0) if _missing(settings.database) else asyncio.run(look())
    except (ComityError, OSError):
        return Finding(
            name, "warn", "not known, for the database cannot be read", "see the check of the database"
        )
    if held is None:
        return Finding(name, "ok", "not counted yet; the next start of the node does")
    shown = ", ".join(f"{_mebibytes(held[one])} of {_mebibytes(most)} {one}" for one, most in totals.items())
    full = [one for one, most in totals.items() if held[one] >= most - most // 4]
    if full:
        keys = " and ".join(f"storage.{one}_bytes" for one in full)
        return Finding(
            name, "warn", f"{shown}; newcomers are refused", f"raise {keys} if the disk has room for more"
        )
    if sum(totals.values()) - sum(held.values()) > free:
        return Finding(
            name, "warn", f"{shown}; more than the disk has room for", "lower storage.replies_bytes"
        )
    return Finding(name, "ok", shown)


def check_budget(settings: Settings) -> Finding:
    """Who is told apart by the budget: behind a proxy that is not named, everybody is one."""
    proxies, rate = settings.http.trusted_proxies, settings.rate
    budget = (
        f"{rate.requests:,} requests and {_mebibytes(rate.bytes)} in {rate.per_seconds:g} s for each address"
    )
    if proxies:
        return Finding("budget", "ok", f"{budget}, told by the proxies {', '.join(proxies)}")
    if settings.agent.endpoint and not rate.limit_loopback:
        return Finding(
            "budget",
            "warn",
            f"{budget}, but agent.endpoint names another address, and what a proxy here passes on has no limit",
            "name the proxy in http.trusted_proxies",
        )
    return Finding("budget", "ok", budget)


def _mebibytes(size: int) -> str:
    return f"{size / 1024**2:,.1f} MiB"


def check_port(settings: Settings, *, asked_for: bool) -> Finding:
    from comity.store.claim import running_node

    running = running_node(settings.data)
    if running is not None:
        return Finding("port", "ok", f"the node of this folder is at {running.url} (process {running.pid})")
    where = f"{settings.port} on {settings.host}"
    if settings.port == 0:
        return Finding("port", "ok", "any free one")
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((settings.host, settings.port))
    except OSError as reason:
        if reason.errno != errno.EADDRINUSE:
            return Finding("port", "fail", f"{where}: {_cause(reason)}", "choose another host or port")
        if asked_for:
            return Finding(
                "port", "fail", f"{where} is taken by another program", "stop it or choose another port"
            )
        return Finding(
            "port", "warn", f"{where} is taken by another program", "nothing; a free one will be used"
        )
    return Finding("port", "ok", f"{where} is free")


def check_extras() -> Iterator[Finding]:
    for extra, (modules, purpose) in EXTRAS.items():
        found = [module for module in modules if _installed(module)]
        if found:
            yield Finding(f"extra {extra}", "ok", f"installed ({', '.join(found)})")
        else:
            yield Finding(f"extra {extra}", "ok", f"not installed; needed only for {purpose}")


def _folder_to_be(data: Path) -> Finding:
    place = _nearest_existing(data)
    if not os.access(place, os.W_OK | os.X_OK):
        return Finding(
            "data folder", "fail", f"{data} cannot be made: {place} is not writable", "name another folder"
        )
    return Finding("data folder", "ok", f"{data} is not made yet; `comity up` makes it")


def _nearest_existing(path: Path) -> Path:
    return next((place for place in (path, *path.parents) if os.path.isdir(place)), Path(path.anchor))  # noqa: PTH112 - never raises


def _missing(path: Path) -> bool:
    """Whether there is nothing by that name; a folder that may not be looked into is another matter."""
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


def _refused(check: str, refusal: ComityError | OSError) -> Finding:
    """A refusal of ours says itself what to do."""
    if isinstance(refusal, OSError):
        return Finding(check, "fail", f"{refusal.filename}: {_cause(refusal)}", "mend its permissions")
    return Finding(check, "fail", refusal.message)


def _cause(reason: OSError) -> str:
    return (reason.strerror or type(reason).__name__).lower()
