"""The data of the skills as they are used: small files as they are, large ones prepared in advance (`preparing`).

- Prepared are a file for each language and one that all share. What nobody asks for is not read.
- A file names its format, its length and its checksum. The length is checked when it is opened, the checksum before its first use;
  what does not fit is refused with a sentence that says what to do.
- Each also has the hash of what it was made of, so that a checkout notices when it is old.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from struct import Struct as Layout
from typing import Any, Final, TypeVar
from zlib import crc32

from comity_skills.crisis.data import LANGUAGES
from comity_skills.skill import SkillDataError
from comity_skills.words.tables import Content

SHARED: Final = "shared"
FILES: Final = (SHARED, *LANGUAGES)
_FILE_OF: Final = {"arabic": "ar", "devanagari": "hi", "hangul": "ko", "kana": "ja", "han": "zh"}  # a script

_MAGIC: Final = b"comity skills\n"
_VERSION: Final = 1
_FIRST: Final = Layout("<14sHQI")  # magic, version, length, checksum of the rest
_HEAD: Final = Layout("<14sHQI32sI")  # and then the hash of the sources, and the size of the list of sections
_CHUNK: Final = 1 << 18

T = TypeVar("T")
Read = Callable[[int, int], bytes]  # from a place in a file to another


def file_of(section: str) -> str:
    """The file that has a section: that of the language or script at the end of its name."""
    last = section.rpartition(".")[2]
    return last if last in LANGUAGES else _FILE_OF.get(last, SHARED)


def written(sections: Mapping[str, bytes], sources: bytes) -> bytes:
    """A file with these sections."""
    places: dict[str, tuple[int, int]] = {}
    at = 0
    for name, content in sections.items():
        places[name] = (at, len(content))
        at += len(content)
    listed = json.dumps(places).encode()
    rest = sources + Layout("<I").pack(len(listed)) + listed + b"".join(sections.values())
    return _FIRST.pack(_MAGIC, _VERSION, _FIRST.size + len(rest), crc32(rest)) + rest


class PreparedSection:
    """A stretch of a prepared file."""

    def __init__(self, read: Read, start: int, size: int) -> None:
        self._read = read
        self._start = start
        self._size = size

    def read(self, start: int, end: int) -> bytes:
        return self._read(self._start + start, self._start + end)

    def __bytes__(self) -> bytes:
        return self.read(0, self._size)


class PreparedFile:
    def __init__(self, name: str, whole: int, read: Read) -> None:
        """`whole` is how many bytes there are. Raise SkillDataError if it is no whole file of this version."""
        self._name = name
        self._whole = whole
        self._read = read
        if whole < _HEAD.size:
            raise self._refused("it is cut off")
        magic, version, length, self._checksum, sources, size = _HEAD.unpack(read(0, _HEAD.size))
        self.sources: bytes = sources
        if magic != _MAGIC:
            raise self._refused("it is another kind of file")
        if version != _VERSION:
            raise self._refused(f"it has format {version}, and this program reads {_VERSION}")
        if length != whole or size > length - _HEAD.size:
            raise self._refused(f"it has {whole:,} bytes instead of {length:,}")
        self._start = _HEAD.size + size
        self._places: Mapping[str, tuple[int, int]] | None = None

    def get(self, section: str) -> PreparedSection | None:
        """Raise SkillDataError if the file is damaged."""
        if self._places is None:
            self._check()
            self._places = json.loads(self._read(_HEAD.size, self._start))
        place = self._places.get(section)
        if place is None:
            return None
        return PreparedSection(self._read, self._start + place[0], place[1])

    def _check(self) -> None:
        found = 0
        for start in range(_FIRST.size, self._whole, _CHUNK):
            found = crc32(self._read(start, min(start + _CHUNK, self._whole)), found)
        if found != self._checksum:
            raise self._refused("its content is damaged")

    def _refused(self, why: str) -> SkillDataError:
        return refused(self._name, why)


def refused(name: str, why: str) -> SkillDataError:
    remedy = "install comity-skills again, or in a checkout run python -m comity_skills_data"
    return SkillDataError(f"the data of the skills {name} cannot be used: {why}; {remedy}")


class Data(Mapping[str, bytes]):
    """Files by their names (`crisis/lines.json`), and sections of the prepared ones. They are read when they are asked for."""

    def __init__(self, files: Mapping[str, PreparedFile], read: Callable[[str], bytes]) -> None:
        """`read` gives a file of the package."""
        self._files = files
        self._read = read
        self._own: Mapping[str, bytes] = {}
        self._objects: dict[str, Any] = {}

    def with_own(self, own: Mapping[str, bytes]) -> "Data":
        """The same data with other files in the place of some. What was read is shared."""
        other = Data(self._files, self._read)
        other._own, other._objects = {**self._own, **own}, self._objects
        return other

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What several skills have in common, made once."""
        if name not in self._objects:
            self._objects[name] = make()
        made: T = self._objects[name]
        return made

    def __getitem__(self, name: str) -> Any:
        if name in self._own:
            return self._own[name]
        if name.endswith(".json"):
            return self._read(name)
        section = self._files[file_of(name)].get(name)
        if section is None:
            raise KeyError(name)
        return section

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)


def once(data: Mapping[str, bytes], name: str, make: Callable[[Callable[[str], Content | None]], T]) -> T:
    """What is made of the sections below a name: the same object for all who ask the same data."""

    def section(part: str) -> Content | None:
        return data.get(f"{name}/{part}")

    return data.once(name, lambda: make(section)) if isinstance(data, Data) else make(section)
