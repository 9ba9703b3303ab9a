"""Actions over HTTP, for the owner of the node: the guard has checked the token before a request gets here.

`GET /v1/actions` lists them with their schemas, `POST /v1/actions/{name}` calls one with the JSON object of
its input and answers with the data of its reply, `GET /v1/actions/openapi.json` describes all of it. Every
refusal is a status and `{"detail": sentence, "code": code}`.
"""

import asyncio
from functools import partial
from typing import Any, Final

from starlette.routing import BaseRoute, Route

from comity.core.wire import strict_json
from comity.doors.actions.openapi import ACTIONS_PATH, openapi
from comity.doors.http.asgi import Receive, Scope
from comity.doors.http.endpoint import Endpoint, read_json_body
from comity.doors.http.guard import caller_of
from comity.pipeline.actions.room import ActionsRoom, Invocation
from comity.pipeline.actions.runner import Runner
from comity.pipeline.room import Arrival
from comity.pipeline.walk import Walk

OPENAPI_PATH: Final = f"{ACTIONS_PATH}/openapi.json"


def action_routes(runner: Runner, walk: Walk, *, body_limit: int, version: str) -> list[BaseRoute]:
    room = ActionsRoom(runner)
    registry = runner.library.registry

    # in a thread: the first look at the skills imports them
    async def listing(_scope: Scope, _receive: Receive) -> Any:
        return {"actions": await asyncio.to_thread(registry.descriptions)}

    async def document(_scope: Scope, _receive: Receive) -> Any:
        return await asyncio.to_thread(openapi, registry, version)

    async def call(scope: Scope, receive: Receive) -> Any:
        body = await read_json_body(scope, receive, body_limit, "the input of an action")
        given = strict_json.loads(body, lone_surrogates=True)
        asked = Invocation(scope["path_params"]["name"], given)
        return await walk.take(room, Arrival(door="http", caller=caller_of(scope), body=asked))

    endpoint = partial(Endpoint, room=room.name, record=walk.record)
    return [
        Route(ACTIONS_PATH, endpoint("GET", listing)),
        Route(OPENAPI_PATH, endpoint("GET", document)),
        Route(f"{ACTIONS_PATH}/{{name}}", endpoint("POST", call)),
    ]
