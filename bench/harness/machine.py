"""What figures depend on, without saying whose machine it is: no host name, no path, no user."""

import os
import platform
from pathlib import Path

import apsw
from msgspec import Struct

_IN_MEMORY = frozenset(("tmpfs", "ramfs", "devtmpfs"))
_MOUNTS = Path("/proc/self/mounts")


class Machine(Struct, frozen=True, kw_only=True):
    """`load` is the average over a minute; None where the system does not tell."""

    cores: int
    system: str
    processor: str
    python: str
    sqlite: str
    file_system: str | None
    load_before: float | None
    load_after: float | None


def load() -> float | None:
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def describe(data: Path, *, load_before: float | None) -> Machine:
    return Machine(
        cores=os.cpu_count() or 1,
        system=platform.system(),
        processor=platform.machine(),
        python=platform.python_version(),
        sqlite=apsw.sqlite_lib_version(),
        file_system=file_system(data),
        load_before=load_before,
        load_after=load(),
    )


def file_system(path: Path, mounts: Path = _MOUNTS) -> str | None:
    """The kind of file system `path` lies on; None where the system does not tell."""
    try:
        lines = mounts.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    place = path.resolve()
    found: tuple[int, str] | None = None
    for _device, folder, kind, *_rest in (line.split() for line in lines):
        mounted = Path(folder.replace("\\040", " "))
        # of two mounts in one place the later one is seen
        if place.is_relative_to(mounted) and (found is None or len(mounted.parts) >= found[0]):
            found = len(mounted.parts), kind
    return found[1] if found else None


def is_in_memory(path: Path) -> bool:
    """Whether a sync costs nothing there, so that durable work cannot be measured."""
    return file_system(path) in _IN_MEMORY
