"""Just enough Markdown for our own pages: fenced blocks with the note before them, headings, links.

A note is an HTML comment on the line before a fence. It does not show in the page:

    <!-- no-run: needs systemd -->     the block is not run, for this reason
    <!-- file: config.toml -->         the block is saved under that name, for the commands that follow
    <!-- machine: yours -->            the block is typed on one of two machines, by a test of its own
"""

import re
import unicodedata
from pathlib import Path
from typing import NamedTuple

from tests.places import ROOT

DOCS = ROOT / "docs"

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})(?P<language>[\w+-]*)\s*$")
_NOTE = re.compile(r"^\s*<!--\s*(?P<kind>no-run|file|machine):\s*(?P<text>.+?)\s*-->\s*$")
_HEADING = re.compile(r"^#{1,6} +(?P<title>.+?)\s*$")
_LINK = re.compile(
    r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\((?P<target>[^()\s]+)\)|(?:src|href)=\"(?P<attribute>[^\"]+)\""
)
_CODE = re.compile(r"`[^`]*`")


class Block(NamedTuple):
    """`line` is where its fence stands, counted from 1."""

    language: str
    text: str
    line: int
    no_run: str | None
    file: str | None
    machine: str | None = None


class Link(NamedTuple):
    target: str
    line: int


def pages() -> list[Path]:
    """Every page that a reader may open."""
    return sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    lines = page.read_text("utf-8").splitlines()
    number = 0
    while number < len(lines):
        opened = _FENCE.match(lines[number])
        if opened is None:
            number += 1
            continue
        end = next(
            (
                later
                for later in range(number + 1, len(lines))
                if lines[later].strip() == opened["fence"] and lines[later].startswith(opened["indent"])
            ),
            None,
        )
        assert end is not None, f"{named(page)}:{number + 1}: the block is never closed"
        inside = [line.removeprefix(opened["indent"]) for line in lines[number + 1 : end]]
        note = _NOTE.match(lines[number - 1]) if number else None
        text = note["text"] if note else None
        found.append(
            Block(
                opened["language"],
                "\n".join(inside) + "\n",
                number + 1,
                no_run=text if note and note["kind"] == "no-run" else None,
                file=text if note and note["kind"] == "file" else None,
                machine=text if note and note["kind"] == "machine" else None,
            )
        )
        number = end + 1
    return found


def prose(page: Path) -> list[tuple[int, str]]:
    """The numbered lines outside of fenced blocks."""
    inside: str | None = None
    found = []
    for number, line in enumerate(page.read_text("utf-8").splitlines(), start=1):
        fence = _FENCE.match(line)
        if inside is None and fence is not None:
            inside = fence["fence"]
        elif inside is not None:
            inside = None if line.strip() == inside else inside
        else:
            found.append((number, line))
    return found


def links(page: Path) -> list[Link]:
    return [
        Link(match["target"] or match["attribute"], number)
        for number, line in prose(page)
        for match in _LINK.finditer(_CODE.sub("``", line))
    ]


def anchors(page: Path) -> set[str]:
    """Those that both renderers, the site's and the code host's, make of a heading."""
    titles = [match["title"] for _, line in prose(page) if (match := _HEADING.match(line))]
    return set(map(_site_slug, titles)) & set(map(_host_slug, titles))


def _site_slug(title: str) -> str:
    plain = unicodedata.normalize("NFKD", title.replace("`", "")).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def _host_slug(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")
