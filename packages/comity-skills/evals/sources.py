"""Everyday and technical texts of other people, for counting false alarms. None of them is kept in this repository.

`python -m evals.sources` fetches the packages below by name into `build/eval-sources` of the repository; nothing is installed on the
system. A table that needs a package which is not there says so and is left out.
"""

import gzip
import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "build" / "eval-sources"
HOW = "skipped: fetch the sources first (python -m evals.sources in packages/comity-skills)"

PYTHON = ("django", "sphinx")
NODE = ("nlp-corpus",)
MANUALS: Mapping[str, str] = {
    "manpages": "",
    "manpages-de": "de",
    "manpages-fr": "fr",
    "manpages-es": "es",
    "manpages-it": "it",
    "manpages-pt-br": "pt",
    "manpages-ja": "ja",
    "manpages-zh": "zh",
}
FORTUNES: Mapping[str, str] = {
    "fortunes-min": "en",
    "fortunes-de": "de",
    "fortunes-es": "es",
    "fortunes-it": "it",
    "fortunes-br": "pt",
    "fortunes-zh": "zh",
}
LOCALES: Mapping[str, tuple[str, ...]] = {
    "en": (),
    "es": ("es",),
    "fr": ("fr",),
    "de": ("de",),
    "pt": ("pt", "pt_BR", "pt_PT"),
    "it": ("it",),
    "zh": ("zh_Hans", "zh_CN"),
    "ja": ("ja",),
    "ko": ("ko",),
    "ar": ("ar",),
    "hi": ("hi", "hi_IN"),
}
Found = tuple[str, str]
"""The language of a text, and the text."""

_ENTRY = re.compile(r"^msgid (.*?)^msgstr (?:\[0\])?(.*?)(?=^\s*$|\Z)", re.DOTALL | re.MULTILINE)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ROFF = re.compile(r"\\f.|\\[&|%/,^]|\\\(..|\\s[-+]?\d|\\-")
_LENGTHS = range(20, 1501)


def strings() -> list[Found]:
    """What the translations of Django and Sphinx say, each string a text."""
    found: dict[str, str] = {}
    for path in sorted((FOLDER / "python").glob("*/**/LC_MESSAGES/*.po")):
        locale = path.parent.parent.name
        language = next((tag for tag, names in LOCALES.items() if locale in names), None)
        if language is None:
            continue
        for original, translated in _ENTRY.findall(path.read_text("utf-8")):
            found[_joined(translated)] = language
            found[_joined(original)] = "en"
    return _usable((language, text) for text, language in found.items())


def manuals() -> list[Found]:
    """Paragraphs of manual pages."""
    found: dict[str, str] = {}
    for package, language in MANUALS.items():
        for path in sorted((FOLDER / package).glob("usr/share/man/**/*.gz")):
            page = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
            for paragraph in _paragraphs(page):
                found[paragraph] = language or "en"
    return _usable((language, text) for text, language in found.items())


def sentences() -> list[Found]:
    """Sentences of films, forums, news and letters (English)."""
    folder = FOLDER / "nlp-corpus" / "package" / "builds"
    return _usable(
        ("en", sentence)
        for path in sorted(folder.glob("*.json"))
        for sentence in json.loads(path.read_bytes())
    )


def fortunes() -> list[Found]:
    found: list[Found] = []
    for package, language in FORTUNES.items():
        for path in sorted((FOLDER / package).glob("usr/share/games/fortunes/**/*")):
            if path.is_file() and path.suffix not in {".dat", ".u8"}:
                parts = path.read_bytes().decode("utf-8", "replace").split("\n%")
                found += [(language, " ".join(part.split())) for part in parts]
    return _usable(iter(found))


def sample(found: list[Found], most: int) -> list[Found]:
    """The same ones every time, of every language: those whose hash comes first."""
    chosen: list[Found] = []
    for language in sorted({language for language, _ in found}):
        own = [one for one in found if one[0] == language]
        chosen += sorted(own, key=lambda one: sha256(one[1].encode()).digest()[1:])[:most]
    return chosen


def _usable(found: Iterator[Found]) -> list[Found]:
    return [(language, text) for language, text in found if len(text) in _LENGTHS and "\ufffd" not in text]


def _joined(quoted: str) -> str:
    text = "".join(_QUOTED.findall(quoted.split("\nmsgstr[", maxsplit=1)[0]))
    return text.replace("\\n", " ").replace('\\"', '"').replace("\\\\", "\\").strip()


def _paragraphs(page: str) -> Iterator[str]:
    """The running text of a page: no requests, no examples."""
    lines: list[str] = []
    for line in page.splitlines():
        if line.startswith((".", "'")):
            request, _, rest = line.partition(" ")
            if request in {".B", ".I", ".BR", ".IR", ".RB", ".RI", ".BI", ".IB"}:
                lines.append(rest.replace('"', ""))
                continue
            yield _ROFF.sub(lambda m: "-" if m[0] == "\\-" else "", " ".join(lines)).strip()
            lines = []
        else:
            lines.append(line)


def fetch() -> None:
    """Fetch every package by its name."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    _run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(FOLDER / "python"),
        *PYTHON,
    )
    for package in NODE:
        _run("npm", "pack", "--silent", package)
        (archive,) = FOLDER.glob(f"{package}-*.tgz")
        with tarfile.open(archive) as packed:
            packed.extractall(FOLDER / package, filter="data")
    for package in (*MANUALS, *FORTUNES):
        _run("apt-get", "download", "--quiet", package)
        (archive,) = FOLDER.glob(f"{package}_*.deb")
        _run("dpkg", "-x", str(archive), str(FOLDER / package))


def _run(*command: str) -> None:
    subprocess.run(command, cwd=FOLDER, check=True)  # noqa: S603 -- the names above


if __name__ == "__main__":
    fetch()
