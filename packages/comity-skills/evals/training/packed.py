"""The texts that are learned from, packed: an archive for each set below `training/` of the package, with the hash of each file.

    python -m evals.training.packed unpack [FOLDER]   write them as files, to read or change them (build/training)
    python -m evals.training.packed pack [FOLDER]     pack them again

What trains reads the archives as they are.
"""

import io
import json
import lzma
import sys
import tarfile
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path

ARCHIVES = Path(__file__).resolve().parents[2] / "training"
MANIFEST = ARCHIVES / "manifest.json"
SETS = ("texts", "long_texts", "messages", "tone")
_FOLDER = Path(__file__).resolve().parents[4] / "build" / "training"


@cache
def files_of(name: str) -> Mapping[str, str]:
    """The files of a set by their names without the ending. ValueError if one is not what the manifest says."""
    wanted: Mapping[str, str] = json.loads(MANIFEST.read_bytes())[name]
    found: dict[str, str] = {}
    with tarfile.open(ARCHIVES / f"{name}.tar.xz") as archive:
        for member in archive:
            file = archive.extractfile(member)
            content = file.read() if file is not None else b""
            if sha256(content).hexdigest() != wanted.get(member.name):
                raise ValueError(
                    f"{member.name} in {name}.tar.xz is not the file of the manifest; pack the set again"
                )
            found[Path(member.name).stem] = content.decode()
    if len(found) != len(wanted):
        raise ValueError(f"{name}.tar.xz has {len(found)} of {len(wanted)} files; pack the set again")
    return found


def unpack(folder: Path) -> None:
    for name in SETS:
        for stem, text in files_of(name).items():
            path = folder / name / f"{stem}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def pack(folder: Path) -> None:
    """The same files give the same bytes."""
    ARCHIVES.mkdir(exist_ok=True)
    manifest: dict[str, dict[str, str]] = {}
    for name in SETS:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for path in sorted((folder / name).glob("*.jsonl")):
                content = path.read_bytes()
                member = tarfile.TarInfo(path.name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
                manifest.setdefault(name, {})[path.name] = sha256(content).hexdigest()
        (ARCHIVES / f"{name}.tar.xz").write_bytes(
            lzma.compress(packed.getvalue(), preset=9 | lzma.PRESET_EXTREME)
        )
    MANIFEST.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    {"pack": pack, "unpack": unpack}[sys.argv[1]](Path(sys.argv[2]) if len(sys.argv) > 2 else _FOLDER)
