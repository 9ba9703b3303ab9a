"""Actions over HTTP, for the owner of the node: the guard has checked the token before a request gets here.

`GET /v1/actions` lists them with their schemas, `POST /v1/actions/{name}` calls one with the JSON object of
its input and answers with the data of its reply, `GET /v1/actions/openapi.json` describes all of it. Every
refusal is a status and `{"detail": sentence, "code": code}`.
"""

import asyncio
from functools import partial
from typing import Any, Final

from starlette.routing import BaseRoute, Route

from comity.actions.handler import ActionsRoom, Invocation
from comity.actions.protocol.registry import RegisteredAction, Registry, embedded, reply_schema
from comity.actions.runner import Runner
from comity.http.asgi import Receive, Scope
from comity.http.endpoint import Endpoint, read_json_body
from comity.http.guard import caller_of
from comity.requests.handler import Arrival
from comity.requests.pipeline import Walk
from comity.wire import strict_json

ACTIONS_PATH: Final = "/v1/actions"

_REFUSALS: Final = {
    "400": "The input breaks the contract; the sentence says where.",
    "401": "The token of the node is missing or wrong.",
    "404": "There is no action of that name.",
    "504": "The work took too long.",
}


def openapi(registry: Registry, version: str) -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Comity actions",
            "version": version,
            "description": "Skills for humane communication. Show each boundary notice, and say how sure "
            "an answer is.",
        },
        "security": [{"token": []}],
        "paths": {
            ACTIONS_PATH: {"get": _listing()},
            **{f"{ACTIONS_PATH}/{entry.name}": {"post": _operation(entry)} for entry in registry.entries()},
        },
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Refusal": _refusal()},
        },
    }


def _listing() -> dict[str, Any]:
    return {
        "operationId": "list_actions",
        "summary": "List the actions and their contracts",
        "responses": {
            "200": {
                "description": "The actions, in order.",
                "content": {"application/json": {"schema": {"type": "object", "required": ["actions"]}}},
            },
            "401": _refused("401"),
        },
    }


def _operation(entry: RegisteredAction) -> dict[str, Any]:
    contract = entry.contract
    return {
        "operationId": entry.name,
        "summary": contract.description or entry.name,
        "description": contract.boundary,
        "tags": [contract.skill],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": embedded(contract.input_schema)}},
        },
        "responses": {
            "200": {
                "description": "What the action has to say.",
                "content": {"application/json": {"schema": reply_schema(entry)}},
            },
            **{status: _refused(status) for status in _REFUSALS},
        },
    }


def _refusal() -> dict[str, Any]:
    text = {"type": "string"}
    return {"type": "object", "required": ["detail", "code"], "properties": {"detail": text, "code": text}}


def _refused(status: str) -> dict[str, Any]:
    reference = {"$ref": "#/components/schemas/Refusal"}
    return {"description": _REFUSALS[status], "content": {"application/json": {"schema": reference}}}


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
