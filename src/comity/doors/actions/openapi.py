"""The OpenAPI 3.1 document of the actions: one path for each, made of their contracts."""

from typing import Any, Final

from comity.core.actions.registry import RegisteredAction, Registry, embedded, reply_schema

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
