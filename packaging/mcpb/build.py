"""Pack Comity as an MCPB bundle, which Claude Desktop and others install with a click.

    python packaging/mcpb/build.py [FOLDER]      (build/ when none is given)

The bundle holds the manifest, and of the node and its skills `pyproject.toml` and the sources; `uv` fetches the dependencies where it is
installed. The version comes from the package. The same sources give the same bytes, whenever they are packed.
"""  # noqa: INP001 - a script: the name `packaging` belongs to a library

import json
import re
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = Path(__file__).with_name("manifest.json")

_EARLIEST = (1980, 1, 1, 0, 0, 0)  # the first date that a zip archive can hold
_PLAIN_FILES = ("LICENSE", "README.md", "hatch_build.py", "pyproject.toml")
_PACKED = (("", "src/comity"), ("packages/comity-skills", "packages/comity-skills/src"))
"""The folder of each distribution, and its sources."""


def version() -> str:
    """Where the wheel has it from, too."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    source = ROOT / project["tool"]["hatch"]["version"]["path"]
    found = re.search(r'^__version__ = "([^"]+)"', source.read_text("utf-8"), re.MULTILINE)
    if found is None:
        raise SystemExit(f"{source} names no version")
    return found[1]


def manifest() -> dict[str, Any]:
    template = json.loads(MANIFEST.read_text("utf-8"))
    return {"manifest_version": template.pop("manifest_version"), "version": version(), **template}


def contents() -> Iterator[tuple[str, bytes]]:
    """Names and bytes, in the order in which they are packed."""
    yield "manifest.json", (json.dumps(manifest(), indent=2, ensure_ascii=False) + "\n").encode()
    for folder, sources in _PACKED:
        plain = [path for name in _PLAIN_FILES if (path := ROOT / folder / name).exists()]
        for path in (*plain, *sorted((ROOT / sources).rglob("*"))):
            if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".bin":
                yield path.relative_to(ROOT).as_posix(), path.read_bytes()


def build(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    bundle = folder / f"comity-{version()}.mcpb"
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in contents():
            entry = zipfile.ZipInfo(name, _EARLIEST)
            entry.create_system = 3  # as on Unix, so that the mode counts
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return bundle


if __name__ == "__main__":
    sys.stdout.write(f"bundle: {build(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / 'build')}\n")
