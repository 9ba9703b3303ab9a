"""The page at `/`, its files and views, and the page that a browser gets instead of an error in JSON.

The shell is made here, with everything that others wrote escaped. Its scripts read `/v1/status`, `/v1/views` and
`/v1/events`, and put what they find into the page as text. `/v1/views` lists what can be looked at, `/v1/views/NAME` shows
it. Reading is no act: nothing of it is written down.
"""

import shlex
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from comity.http.asgi import Send, answer, when_to_retry
from comity.http.guard import HttpAccess, accepts_page, caller_of
from comity.identity.protocol.rights import Right
from comity.node.event_stream import EVENTS_PATH
from comity.requests.events import ACT_WORDS
from comity.runtime.part import MAX_PAGE, PAGE, View, ViewQuery
from comity.wire.errors import ComityError, InvalidError, NotFoundError, http_status, public_message
from comity.wire.machine import duration_words

VIEWS_PATH: Final = "/v1/views"
PAGE_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS: Final = {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": PAGE_POLICY,
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
}

_VIEW_HEADERS: Final = {
    "content-type": "application/json",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
}
_MAX_TEXT_LENGTH: Final = 200
_encode = msgspec.json.Encoder().encode

_FOLDER = files("comity.node") / "assets"
_SCRIPT: Final = "text/javascript; charset=utf-8"
_ASSETS: Final = {"page.css": "text/css; charset=utf-8", "page.js": _SCRIPT, "draw.js": _SCRIPT}
_TITLES: Final = {
    401: "This page needs a link",
    403: "This link does not open the page",
    429: "Too many requests",
}

OPEN_PREFIXES: Final = ("/enter/", "/assets/")
"""What a browser without a cookie asks for."""
RIGHTS: Final[Mapping[str, Right]] = MappingProxyType(
    {"/": "read", EVENTS_PATH: "read", VIEWS_PATH: "read", VIEWS_PATH + "/": "read"}
)

Status = Callable[[], Awaitable[dict[str, Any]]]


class PageDoor(NamedTuple):
    """What the page adds to the HTTP application."""

    routes: Sequence[Route]
    public_prefixes: tuple[str, ...]
    rights: Mapping[str, Right]
    refuse_browser: Callable[[Send, ComityError], Awaitable[None]]


def page_door(entry: HttpAccess, status: Status, views: Iterable[View]) -> PageDoor:
    async def show(_request: Request) -> Response:
        return Response(page(await status()), headers=PAGE_HEADERS)

    async def enter(request: Request) -> Response:
        if request.method != "GET":  # a look at the head does not use the link up
            raise HTTPException(405, headers={"Allow": "GET"})
        cookie = entry.redeem(request.path_params["ticket"])
        if cookie is None:
            sentence = "this link was used or has expired; `comity open` makes a new one"
            if accepts_page(request.scope):
                return Response(refusal_page(403, sentence), 403, headers=PAGE_HEADERS)
            raise HTTPException(403, sentence)
        return RedirectResponse("/", 303, {"set-cookie": cookie, "referrer-policy": "no-referrer"})

    return PageDoor(
        [
            Route("/", show),
            Route("/enter/{ticket}", enter),
            *(Route(f"/assets/{name}", _asset(name, kind)) for name, kind in _ASSETS.items()),
            *view_routes(views),
        ],
        OPEN_PREFIXES,
        RIGHTS,
        _refuse_browser,
    )


async def _refuse_browser(send: Send, refusal: ComityError) -> None:
    status = http_status(refusal)
    body = refusal_page(status, public_message(refusal)).encode()
    headers = {name.encode(): value.encode() for name, value in PAGE_HEADERS.items()}
    kind = headers.pop(b"content-type")
    del headers[b"x-content-type-options"]  # every answer has it
    await answer(send, status, body, kind, [*headers.items(), *when_to_retry(refusal)])


def page(status: dict[str, Any]) -> str:
    shown = {
        **status,
        "uptime": duration_words(status["uptime"]),
        "token_file": shlex.quote(f"{status['data']}/token"),
    }
    template = Template((_FOLDER / "page.html").read_text("utf-8"))
    return template.substitute({key: escape(str(value)) for key, value in shown.items()})


def refusal_page(status: int, sentence: str) -> str:
    template = Template((_FOLDER / "refused.html").read_text("utf-8"))
    title = _TITLES.get(status, "The node does not answer this")
    return template.substitute(title=escape(title), sentence=escape(sentence))


def _asset(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    content = (_FOLDER / name).read_bytes()
    headers = {"content-type": kind, "cache-control": "max-age=300", "x-content-type-options": "nosniff"}

    async def serve(_request: Request) -> Response:
        return Response(content, headers=headers)

    return serve


def view_routes(views: Iterable[View]) -> list[Route]:
    known = {view.name: view for view in views}
    listed = [{"name": view.name, "title": view.title, "kind": view.kind} for view in known.values()]

    async def all_views(request: Request) -> Response:
        read_only = not caller_of(request.scope).may("act")
        listing = {"views": listed, "read_only": read_only, "acts": ACT_WORDS}
        return Response(_encode(listing), headers=_VIEW_HEADERS)

    async def one_view(request: Request) -> Response:
        view = known.get(request.path_params["name"])
        if view is None:
            raise NotFoundError(f"there is no such view; {VIEWS_PATH} lists them")
        return Response(_encode(await view.read(_view_query(request))), headers=_VIEW_HEADERS)

    return [Route(VIEWS_PATH, all_views), Route(VIEWS_PATH + "/{name}", one_view)]


def _view_query(request: Request) -> ViewQuery:
    given = request.query_params
    limit = given.get("limit", str(PAGE))
    if not limit.isdecimal() or len(limit) > 4 or not 1 <= int(limit) <= MAX_PAGE:
        raise InvalidError(f"limit must be a number from 1 to {MAX_PAGE}")
    text, after = given.get("text", ""), given.get("after", "")
    if len(text) > _MAX_TEXT_LENGTH or len(after) > _MAX_TEXT_LENGTH:
        raise InvalidError(f"text and after have at most {_MAX_TEXT_LENGTH} characters")
    return ViewQuery(after=after, limit=int(limit), text=text)
