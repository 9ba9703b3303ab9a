"""The first page: sound, self-contained, readable by day and by night, and alive in a browser."""

import asyncio
import re
import shutil
from html.parser import HTMLParser
from importlib.resources import files

import httpx
import pytest

from comity.doors.http.app import page
from comity.parts.http import Http
from comity.testing import bearer, running_node
from tests.doors.http.house import STATUS, TOKEN, House

ASSETS = files("comity.doors.http") / "assets"
FIGURES = ("state", "uptime", "calls", "audit_entries", "store", "encryption")
VOID = {"meta", "link", "br", "img", "input", "hr"}
NASTY = "</code><script>alert('1')</script>\"&$data"

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class Document(HTMLParser):
    """A page that is well formed: every tag is closed by its own end, every id is there once."""

    def __init__(self, html):
        super().__init__()
        self.open = []
        self.tags = []
        self.ids = {}
        self.references = []
        self.text = {}
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.tags.append(tag)
        if "id" in named:
            assert named["id"] not in self.ids
            self.ids[named["id"]] = tag
        self.references += [named[key] for key in ("href", "src", "action") if key in named]
        assert not any(key.startswith("on") or key == "style" for key in named)
        if tag not in VOID:
            self.open.append((tag, named.get("id")))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        for _, name in self.open:
            if name:
                self.text[name] = self.text.get(name, "") + data


def test_the_page_is_well_formed_and_shows_every_figure():
    document = Document(page(STATUS))
    assert document.tags[:2] == ["html", "head"]
    assert {"title", "h1", "main", "header"} <= set(document.tags)
    assert {name: document.text[name] for name in FIGURES} == {
        **{name: str(STATUS[name]) for name in FIGURES},
        "uptime": "1 h 1 min",
    }


def test_the_page_refers_to_nothing_but_this_node():
    references = Document(page(STATUS)).references
    assert set(references) == {"/assets/status.css", "/assets/status.js", "data:,"}
    for name in ("status.css", "status.js"):
        assert not re.search(r"https?:|//[a-z]|@import|url\(", (ASSETS / name).read_text("utf-8"))


def test_what_it_shows_is_text_and_never_markup():
    nasty_panels = {"toy": {"title": NASTY, "rows": [(NASTY, NASTY)]}}
    for key in STATUS.keys() - {"uptime"}:  # that one is a number
        shown = page({**STATUS, key: nasty_panels if key == "panels" else NASTY})
        assert "<script>alert" not in shown
        assert Document(shown).tags == Document(page(STATUS)).tags


def test_the_command_it_shows_survives_any_folder_name():
    shown = page({**STATUS, "data": "/home/o'brien/my data"})
    assert "$(cat &#x27;/home/o&#x27;&quot;&#x27;&quot;&#x27;brien/my data/token&#x27;)" in shown
    assert "$(cat /data/token)" in page(STATUS)


def test_the_commands_it_shows_lead_to_this_node():
    shown = page(STATUS)
    assert "<code>comity doctor --data /data</code>" in shown
    assert "<code>comity audit verify --data /data</code>" in shown


def test_the_script_knows_every_place_that_it_fills():
    names = re.search(r"FIGURES = \[(.*)\]", (ASSETS / "status.js").read_text("utf-8"))[1]
    document = Document(page(STATUS))
    for name in names.replace('"', "").split(", "):
        assert name in document.ids
        assert name in STATUS


def test_a_panel_of_a_part_has_its_title_and_a_place_for_each_row():
    document = Document(page(STATUS))
    assert document.text["panel-toy"] == "Toys"
    assert document.text["panel-toy-0"] == "7"
    assert "`panel-${part}-${row}`" in (ASSETS / "status.js").read_text("utf-8")


async def test_the_page_comes_with_a_policy_that_forbids_all_but_its_own_files():
    answer = await House().ask("GET", "/", TOKEN)
    policy = dict(rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"


def luminance(colour):
    def linear(part):
        return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(int(colour[at : at + 2], 16) / 255) for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_by_day_and_by_night(scheme):
    css = (ASSETS / "status.css").read_text("utf-8")
    day, night = css.split("@media (prefers-color-scheme: dark)")
    colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", day if scheme == "light" else night))
    assert set(colours) == {"ground", "paper", "ink", "faint", "line", "accent", "bad"}
    for text in ("ink", "faint", "accent", "bad"):
        for ground in ("ground", "paper"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    assert (luminance(colours["ground"]) > luminance(colours["ink"])) == (scheme == "light")


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome is installed")
async def test_a_browser_enters_by_the_link_and_the_script_keeps_the_figures_fresh(tmp_path, monkeypatch):
    looks = 0
    real = Http._status

    async def counted(self):
        nonlocal looks
        looks += 1
        return {**await real(self), "calls": looks}

    monkeypatch.setattr(Http, "_status", counted)
    async with running_node() as node:
        browser = await asyncio.create_subprocess_exec(
            CHROMIUM,
            *FLAGS,
            f"--user-data-dir={tmp_path}",
            "--virtual-time-budget=5000",
            "--dump-dom",
            node.entry_link,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            dom, _ = await asyncio.wait_for(browser.communicate(), 30)
        except TimeoutError:
            browser.kill()
            await browser.wait()
            raise
        vacant_id = node.vacant_id.hex()
    document = Document(dom.decode())
    assert document.text["state"] == "ready"
    assert vacant_id in dom.decode()
    assert int(document.text["calls"]) >= 2  # the page itself was the first look
    assert looks >= 2


async def test_the_link_is_used_up_by_the_browser_and_the_token_still_works():
    async with running_node() as node, httpx.AsyncClient(follow_redirects=True) as client:
        first = await client.get(node.entry_link)
        assert first.status_code == 200
        assert node.vacant_id.hex() in first.text
        assert (await client.get(f"{node.url}/v1/status")).json()["ready"]  # by the cookie alone
        async with httpx.AsyncClient(follow_redirects=True) as another:
            assert (await another.get(node.entry_link)).status_code == 403
            assert (await another.get(f"{node.url}/v1/status")).status_code == 401
            assert (await another.get(f"{node.url}/v1/status", headers=bearer(node))).status_code == 200
