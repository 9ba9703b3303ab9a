"""The files of the skills: opens them, and prepares the large ones. `comity_skills` itself touches no file.

The build of the wheel prepares them (`python -m comity_skills_data`). A checkout does it when they are not there, or were made of
something else; whoever has the old ones open goes on with them.
"""

import mmap
import os
import tempfile
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path

from comity_skills.prepared import FILES, Data, PreparedFile, refused
from comity_skills.skill import SkillDataError

FOLDER = Path(__file__).parent
_SOURCE = "crisis/opinion.json"  # one of those that only a checkout has


def read(name: str) -> bytes:
    """A file of the package `comity_skills`."""
    return files("comity_skills").joinpath(name).read_bytes()


@cache
def shipped() -> Data:
    """The data that the skills ship with. Raise SkillDataError if they cannot be used."""
    if files("comity_skills").joinpath(_SOURCE).is_file():
        _prepare_if_old()
    return Data(opened(FOLDER), read)


def opened(folder: Path) -> dict[str, PreparedFile]:
    return {name: _opened(folder / f"{name}.bin") for name in FILES}


def prepare(folder: Path = FOLDER) -> None:
    """Write the files into a folder."""
    from comity_skills.preparing import prepared

    for name, content in prepared(read).items():
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(content)
        written = Path(file.name)
        written.chmod(0o644)
        written.replace(folder / f"{name}.bin")


def _prepare_if_old() -> None:
    from comity_skills.preparing import fingerprint

    wanted = fingerprint(read)
    if any(_sources_of(FOLDER / f"{name}.bin") != wanted for name in FILES):
        try:
            prepare()
        except OSError as fault:
            raise refused(str(FOLDER), f"they have to be prepared anew, and {fault.strerror}") from None


def _sources_of(path: Path) -> bytes:
    """What a file was made of; nothing if it is not there or cannot be used."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return PreparedFile(str(path), os.fstat(file).st_size, _reader(file)).sources
    except SkillDataError:
        return b""
    finally:
        os.close(file)


def _opened(path: Path) -> PreparedFile:
    """Open for as long as the process lives: what is written later in its place is another file."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError as fault:
        raise refused(str(path), str(fault.strerror)) from None
    return PreparedFile(str(path), os.fstat(file).st_size, _reader(file))


def _reader(file: int) -> Callable[[int, int], bytes]:
    if hasattr(os, "pread"):
        return lambda start, end: os.pread(file, end - start, start)
    content = mmap.mmap(
        file, 0, access=mmap.ACCESS_READ
    )  # Windows; what is read of it stays in memory by pages
    return lambda start, end: bytes(content[start:end])
