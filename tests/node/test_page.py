"""The page: sound, self-contained, readable by day and by night, and alive in a browser."""

import re
from html.parser import HTMLParser
from importlib.resources import files

import httpx
import pytest

from comity.node.page import page, refusal_page
from comity.testing import bearer, running_node
from tests.http.runtime import STATUS, TOKEN, NodeRuntime

ASSETS = files("comity.node") / "assets"
FIGURES = ("state", "uptime", "calls", "audit_entries")
VOID = {"meta", "link", "br", "img", "input", "hr"}
NASTY = "</code><script>alert('1')</script>\"&$data"


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
    assert set(references) == {"/assets/page.css", "/assets/page.js", "data:,", "#overview"}
    for name in ("page.css", "page.js", "draw.js"):
        text = (ASSETS / name).read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|//[a-z]|@import|url\(|innerHTML|insertAdjacentHTML", text)


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
    names = re.search(r"FIGURES = \[(.*)\]", (ASSETS / "page.js").read_text("utf-8"))[1]
    document = Document(page(STATUS))
    for name in names.replace('"', "").split(", "):
        assert name in document.ids
        assert name in STATUS


async def test_a_browser_that_is_refused_gets_a_page_and_a_program_gets_json():
    runtime = NodeRuntime()
    shown = await runtime.ask("GET", "/", ("accept", "text/html,application/xhtml+xml"))
    assert (shown.status, shown.headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert "comity open" in shown.body.decode()
    assert shown.headers["content-security-policy"].startswith("default-src 'none'")
    assert (await runtime.ask("GET", "/")).headers["content-type"] == "application/json"
    asked = await runtime.ask("GET", "/v1/status", ("accept", "text/html"))
    assert asked.headers["content-type"] == "application/json"
    used = await runtime.ask("GET", "/enter/used", ("accept", "text/html"))
    assert (used.status, used.headers["content-type"]) == (403, "text/html; charset=utf-8")


def test_the_page_of_a_refusal_is_sound_and_shows_text_as_text():
    document = Document(refusal_page(403, NASTY))
    assert "script" not in document.tags
    assert set(document.references) == {"/assets/page.css", "data:,"}


async def test_the_page_comes_with_a_policy_that_forbids_all_but_its_own_files():
    answer = await NodeRuntime().ask("GET", "/", TOKEN)
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
    css = (ASSETS / "page.css").read_text("utf-8")
    day, night = css.split("@media (prefers-color-scheme: dark)")
    colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", day if scheme == "light" else night))
    assert set(colours) == {"ground", "paper", "ink", "faint", "line", "accent", "bad"}
    for text in ("ink", "faint", "accent", "bad"):
        for ground in ("ground", "paper"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    assert (luminance(colours["ground"]) > luminance(colours["ink"])) == (scheme == "light")


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
