"""Actions over HTTP, for the owner of the node: the guard has seen his token before anything gets here.

`GET /v1/actions` lists them with their schemas, `POST /v1/actions/{name}` calls one with the JSON object of
its input and answers with the data of its reply, `GET /v1/actions/openapi.json` describes all of it. Every
refusal is a status and `{"detail": sentence, "code": code}`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.routing import BaseRoute, Route

from comity.core.errors import ComityError, InvalidError
from comity.core.wire import strict_json
from comity.doors.actions.openapi import ACTIONS_PATH, openapi
from comity.doors.http.asgi import (
    Disconnected,
    Receive,
    Scope,
    Send,
    answer_error,
    answer_json,
    header,
    read_body,
)
from comity.doors.http.guard import peer_of
from comity.pipeline.actions.room import ActionsRoom, Invocation
from comity.pipeline.actions.runner import Runner
from comity.pipeline.room import Arrival
from comity.pipeline.walk import Walk

OPENAPI_PATH: Final = f"{ACTIONS_PATH}/openapi.json"

_Take = Callable[[Scope, Receive], Awaitable[Any]]


def action_routes(runner: Runner, walk: Walk, *, body_limit: int, version: str) -> list[BaseRoute]:
    room = ActionsRoom(runner)
    registry = runner.library.registry

    # in a thread: the first look at the skills imports them
    async def listing(_scope: Scope, _receive: Receive) -> Any:
        return {"actions": await asyncio.to_thread(registry.descriptions)}

    async def document(_scope: Scope, _receive: Receive) -> Any:
        return await asyncio.to_thread(openapi, registry, version)

    async def call(scope: Scope, receive: Receive) -> Any:
        asked = Invocation(scope["path_params"]["name"], await _input(scope, receive, body_limit))
        return await walk.take(room, Arrival(door="http", peer=peer_of(scope), body=asked, owner=True))

    return [
        Route(ACTIONS_PATH, _Endpoint("GET", listing)),
        Route(OPENAPI_PATH, _Endpoint("GET", document)),
        Route(f"{ACTIONS_PATH}/{{name}}", _Endpoint("POST", call)),
    ]


class _Endpoint:
    def __init__(self, method: str, take: _Take) -> None:
        self._method = method
        self._take = take

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != self._method:
            refusal = {"detail": f"use {self._method}", "code": "method_not_allowed"}
            await answer_json(send, refusal, 405, [(b"allow", self._method.encode())])
            return
        try:
            reply = await self._take(scope, receive)
        except ComityError as refused:
            await answer_error(send, refused)
        except Disconnected:
            return
        else:
            await answer_json(send, reply)


async def _input(scope: Scope, receive: Receive, limit: int) -> Any:
    body = await read_body(scope, receive, limit)
    kind = (header(scope, b"content-type") or "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise InvalidError("the input of an action is JSON; send it with Content-Type: application/json")
    return strict_json.loads(body, lone_surrogates=True)
