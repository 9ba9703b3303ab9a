"""Links lead somewhere, and pages speak of the product only."""

import re

import pytest

from tests.docs.markdown import DOCS, anchors, links, named, pages
from tests.places import ROOT

FORBIDDEN = re.compile(
    r"pypi\.org|pythonhosted|npmjs|registry\.|ghcr\.io|docker\.io"  # registry hosts
    r"|/(?:work|root|mnt)/|(?<![\w/.])/tmp/",  # paths of one machine
    re.IGNORECASE,
)


@pytest.mark.parametrize("page", pages(), ids=named)
def test_links_lead_to_a_page_and_a_heading_that_exist(page):
    broken = []
    for link in links(page):
        if re.match(r"https?:|mailto:", link.target):
            continue
        path, _, anchor = link.target.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.is_file() or (anchor and anchor not in anchors(target)):
            broken.append(f"line {link.line}: {link.target}")
    assert not broken


@pytest.mark.parametrize("page", [page for page in pages() if DOCS in page.parents], ids=named)
def test_a_page_of_the_site_stays_on_the_site(page):
    """The site holds `docs` only: a link out of it would work in the repository and not there."""
    outside = [
        link.target
        for link in links(page)
        if not re.match(r"https?:|mailto:|#", link.target)
        and DOCS not in (page.parent / link.target.partition("#")[0]).resolve().parents
    ]
    assert not outside


@pytest.mark.parametrize("page", [*pages(), *DOCS.rglob("*.svg")], ids=named)
def test_no_page_names_a_registry_or_a_path_of_one_machine(page):
    text = page.read_text("utf-8")
    assert not [match.group() for match in FORBIDDEN.finditer(text)]


def test_every_page_of_the_site_is_in_its_contents():
    contents = (ROOT / "mkdocs.yml").read_text("utf-8")
    missing = [
        named(page)
        for page in pages()
        if DOCS in page.parents and page.relative_to(DOCS).as_posix() not in contents
    ]
    assert not missing


def test_tests_that_a_page_names_exist():
    """`tests/file.py`, or `tests/file.py::name`."""
    missing = [
        f"{named(page)}: {path} {name}"
        for page in pages()
        for path, name in re.findall(
            r"`((?:tests|src|bench|fuzz)/[\w/.-]+)(?:::(\w+))?`", page.read_text("utf-8")
        )
        if not (ROOT / path).exists() or (name and f"def {name}(" not in (ROOT / path).read_text("utf-8"))
    ]
    assert not missing
