"""`/v1/views` lists what can be looked at, `/v1/views/NAME` shows it. Reading is no act: nothing of it is written down."""

from collections.abc import Iterable
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from comity.core.errors import InvalidError, NotFoundError
from comity.doors.http.guard import caller_of
from comity.pipeline.events import ACT_WORDS
from comity.pipeline.views import MOST, PAGE, View, ViewQuery

VIEWS_PATH: Final = "/v1/views"

_TEXT: Final = 200
_HEADERS: Final = {
    "content-type": "application/json",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
}
_encode = msgspec.json.Encoder().encode


def view_routes(views: Iterable[View]) -> list[Route]:
    known = {view.name: view for view in views}
    listed = [{"name": view.name, "title": view.title, "kind": view.kind} for view in known.values()]

    async def all_views(request: Request) -> Response:
        read_only = caller_of(request.scope).reads_only
        told = {"views": listed, "read_only": read_only, "acts": ACT_WORDS}
        return Response(_encode(told), headers=_HEADERS)

    async def one_view(request: Request) -> Response:
        view = known.get(request.path_params["name"])
        if view is None:
            raise NotFoundError(f"there is no such view; {VIEWS_PATH} lists them")
        return Response(_encode(await view.read(_query(request))), headers=_HEADERS)

    return [Route(VIEWS_PATH, all_views), Route(VIEWS_PATH + "/{name}", one_view)]


def _query(request: Request) -> ViewQuery:
    given = request.query_params
    limit = given.get("limit", str(PAGE))
    if not limit.isdecimal() or len(limit) > 4 or not 1 <= int(limit) <= MOST:
        raise InvalidError(f"limit must be a number from 1 to {MOST}")
    text, after = given.get("text", ""), given.get("after", "")
    if len(text) > _TEXT or len(after) > _TEXT:
        raise InvalidError(f"text and after have at most {_TEXT} characters")
    return ViewQuery(after=after, limit=int(limit), text=text)
