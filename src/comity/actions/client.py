"""The fetcher of the actions: web pages for an action that reads them.

- It fetches http and https only, through the guarded client: private, loopback and other special addresses are refused at
  every redirect unless the owner allowed them. Up to five redirects are followed.
- A page has 15 seconds and 2 MiB; all pages of one call together 60 seconds and 16 MiB. Four are fetched at a time. If one
  fails, its sentence says why, and the others go on.
- The text is decoded by the charset of the header, else the one that the page names, else UTF-8.
"""

import asyncio
import codecs
import re
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import urljoin

from comity.actions.protocol.action import FetchedPage
from comity.http.client import GuardedHttp, HttpResponse
from comity.wire.errors import ComityError

PAGE_TIMEOUT: Final = 15.0
PAGE_LIMIT: Final = 2 * 1024 * 1024
ALL_TIMEOUT: Final = 60.0
ALL_LIMIT: Final = 16 * 1024 * 1024

# link-local stays out of it: that is where clouds keep the secrets of their machines
PRIVATE_NETWORKS: Final = (
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "::1/128",
    "fc00::/7",
)

_AT_ONCE: Final = 4
_HOPS: Final = 5
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_HEADERS: Final = {"accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.1"}
_CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9._:-]+)", re.IGNORECASE)
_HEAD: Final = 1024
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class Pages:
    def __init__(
        self,
        *,
        allow: Sequence[str] = (),
        allow_private: bool = False,
        report: Callable[[str], None] = lambda _doing: None,
        http: GuardedHttp | None = None,
    ) -> None:
        """`report` is called with a sentence for each page that is fetched."""
        more = PRIVATE_NETWORKS if allow_private else ()
        self._http = http or GuardedHttp(allow=[*allow, *more], timeout=PAGE_TIMEOUT, answer_limit=PAGE_LIMIT)
        self._report = report

    async def fetch(
        self, urls: Sequence[str], fetched: Callable[[str], None] = lambda _url: None
    ) -> list[FetchedPage]:
        """Fetch pages in order. `fetched` is called with each URL that was fetched or failed."""
        late = f"it did not come within the {ALL_TIMEOUT:g} seconds that all pages have together"
        pages = [FetchedPage(url=url, failure=late) for url in urls]
        left = iter(range(len(urls)))
        room = [ALL_LIMIT]

        async def fetch_some() -> None:
            for index in left:
                self._report(f"fetching page {index + 1} of {len(urls)}: {urls[index]}")
                pages[index] = await self._page(urls[index], room)
                fetched(urls[index])

        try:
            async with asyncio.timeout(ALL_TIMEOUT) as limit, asyncio.TaskGroup() as group:
                for _ in range(min(_AT_ONCE, len(urls))):
                    group.create_task(fetch_some())
        except TimeoutError:
            if not limit.expired():
                raise
        return pages

    async def aclose(self) -> None:
        await self._http.aclose()

    async def _page(self, url: str, room: list[int]) -> FetchedPage:
        try:
            answer = await self._follow(url)
        except ComityError as refusal:
            return FetchedPage(url=url, failure=refusal.message)
        if answer.status != 200:
            return FetchedPage(url=url, failure=f"the server answered with status {answer.status}")
        kind = answer.headers.get("content-type", "text/html")
        if not kind.lower().startswith(("text/", "application/xhtml+xml", "application/xml")):
            return FetchedPage(url=url, failure=f"it is {kind[:80]}, which is no HTML")
        room[0] -= len(answer.body)
        if room[0] < 0:
            return FetchedPage(url=url, failure=f"the pages together exceed the limit of {ALL_LIMIT:,} bytes")
        return FetchedPage(url=url, html=_text(answer.body, kind))

    async def _follow(self, url: str) -> HttpResponse:
        for _ in range(_HOPS + 1):
            answer = await self._http.request("GET", url, headers=_HEADERS)
            target = answer.headers.get("location", "")
            if answer.status not in _REDIRECTS or not target:
                return answer
            url = _joined(url, target)
        raise ComityError(f"the page leads on and on; no more than {_HOPS} redirects are followed")


def _joined(url: str, target: str) -> str:
    try:
        return urljoin(url, target)
    except ValueError:
        raise ComityError("the page leads on to an address that cannot be read") from None


def _text(body: bytes, content_type: str) -> str:
    for mark, encoding in _BOMS:
        if body.startswith(mark):
            return body.decode(encoding, "replace")
    found = _CHARSET.search(content_type) or _CHARSET.search(body[:_HEAD].decode("latin-1"))
    try:
        encoding = codecs.lookup(found[1]).name if found else "utf-8"
        return body.decode(encoding, "replace")
    except (LookupError, UnicodeError, ValueError):  # unknown, or no encoding of text
        return body.decode("utf-8", "replace")
