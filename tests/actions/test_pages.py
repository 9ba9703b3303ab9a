"""Pages of others: what is fetched, and what is not."""

import asyncio

import pytest

from comity.actions import client as module
from comity.actions.client import Pages
from comity.http.client import HttpResponse
from comity.wire.errors import UnreachableError
from tests.http.local_server import reply, serving

HTML = {"content-type": "text/html; charset=utf-8"}


class Web:
    """Answers by URL; counts how many are asked at once."""

    def __init__(self, **answers):
        self.answers = answers
        self.asked = []
        self.now = self.most = 0

    async def request(self, method, url, json=None, headers=None):
        assert (method, json) == ("GET", None)
        self.asked.append(url)
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        answer = self.answers.get(url.rpartition("/")[2], HttpResponse(200, HTML, b"<p>"))
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def aclose(self):
        pass


async def fetched(web, *names):
    return await Pages(http=web).fetch([f"https://a.example/{name}" for name in names])


async def test_pages_come_in_the_order_they_were_asked_for():
    reports = []
    pages = Pages(
        http=Web(a=HttpResponse(200, HTML, b"A"), b=HttpResponse(200, HTML, b"B")), report=reports.append
    )
    found = await pages.fetch(["https://x.example/b", "https://x.example/a"])
    assert [(page.url, page.html, page.failure) for page in found] == [
        ("https://x.example/b", "B", ""),
        ("https://x.example/a", "A", ""),
    ]
    assert reports[0] == "fetching page 1 of 2: https://x.example/b"


async def test_no_more_than_four_are_fetched_at_once():
    web = Web()
    await fetched(web, *map(str, range(40)))
    assert web.most == 4


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (HttpResponse(404, {}, b""), "status 404"),
        (HttpResponse(200, {"content-type": "image/png"}, b""), "image/png"),
        (UnreachableError("a.example could not be reached"), "could not be reached"),
        (HttpResponse(302, {"location": "https://a.example/a"}, b""), "redirects"),
        (HttpResponse(302, {"location": "https://[x"}, b""), "cannot be read"),
    ],
)
async def test_a_page_that_cannot_be_had_says_why_and_the_others_go_on(answer, why):
    bad, good = await fetched(Web(a=answer), "a", "b")
    assert why in bad.failure
    assert bad.html == ""
    assert good.html == "<p>"


async def test_a_redirect_is_followed_by_the_guarded_client():
    web = Web(a=HttpResponse(301, {"location": "/b"}, b""), b=HttpResponse(200, HTML, b"there"))
    (page,) = await fetched(web, "a")
    assert (page.url, page.html) == ("https://a.example/a", "there")
    assert web.asked == ["https://a.example/a", "https://a.example/b"]


async def test_all_pages_together_have_a_limit(monkeypatch):
    monkeypatch.setattr(module, "ALL_LIMIT", 5)
    pages = await fetched(
        Web(a=HttpResponse(200, HTML, b"1234"), b=HttpResponse(200, HTML, b"1234")), "a", "b"
    )
    assert sorted(bool(page.failure) for page in pages) == [False, True]


async def test_all_pages_together_have_a_time(monkeypatch):
    monkeypatch.setattr(module, "ALL_TIMEOUT", 0.05)

    class Silent(Web):
        async def request(self, method, url, json=None, headers=None):
            await asyncio.Event().wait()

    pages = await fetched(Silent(), "a", "b")
    assert all("did not come within" in page.failure for page in pages)


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        ("é".encode("latin-1"), "text/html; charset=iso-8859-1", "é"),
        (b'<meta charset="windows-1252">\x93', "text/html", '<meta charset="windows-1252">“'),
        (b"\xff", "text/html; charset=nonsense", "\ufffd"),
        (b"ab", "text/html; charset=hex", "ab"),
        (b"\xef\xbb\xbfx", "text/html; charset=latin-1", "x"),
        ("x".encode("utf-16"), "text/html", "x"),
    ],
)
async def test_text_is_read_in_the_charset_it_names(body, kind, text):
    (page,) = await fetched(Web(a=HttpResponse(200, {"content-type": kind}, body)), "a")
    assert page.html == text


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a.example/",
        "file:///etc/hostname",
        "http://127.0.0.1:9/",
        "http://[::1]:9/",
        "http://10.0.0.1/",
        "http://169.254.169.254/latest",
        "http://0x7f000001/",
        "javascript:alert(1)",
        "",
        "http://a.example:22/",
    ],
)
async def test_what_should_not_be_called_is_not_called(url):
    pages = Pages()
    (page,) = await pages.fetch([url])
    await pages.aclose()
    assert page.failure
    assert page.html == ""


async def test_private_pages_need_the_word_of_the_owner_and_link_local_ones_stay_out():
    async with serving(lambda _: reply(b"<p>hi", headers="Content-Type: text/html\r\n")) as server:
        refused, allowed = Pages(), Pages(allow_private=True)
        assert "loopback" in (await refused.fetch([server.url("/")]))[0].failure
        here, cloud = await allowed.fetch([server.url("/"), "http://169.254.169.254/"])
        assert here.html == "<p>hi"
        assert "link-local" in cloud.failure
        await refused.aclose()
        await allowed.aclose()


async def test_a_redirect_to_a_private_page_is_refused_too():
    headers = "Location: http://10.0.0.1/\r\n"
    async with serving(lambda _: reply(b"", status="302 Found", headers=headers)) as server:
        pages = Pages(allow=["127.0.0.1"])
        (page,) = await pages.fetch([server.url("/")])
        await pages.aclose()
    assert "private" in page.failure
