"""The OpenAPI document: valid, whole, and true of a running node with everything on."""

import asyncio
import json
import subprocess
import sys

import httpx
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from starlette.responses import JSONResponse
from starlette.routing import Route

import comity.node.http_server
from comity.runtime.lazy import PARTS
from comity.runtime.part import Part
from comity.runtime.settings import AgentSettings
from comity.testing import bearer, running_node
from tests.docs.reference import OPENAPI_PAGE, openapi
from tests.docs.test_reference import _paths

AGENT = AgentSettings(behaviour="echo", capability="repeats what it hears")
SECONDS = 60


@pytest.fixture
def doors(monkeypatch):
    made = []

    class Door(comity.node.http_server.HttpDoor):
        def __init__(self, **given):
            super().__init__(**given)
            made.append(self)

    monkeypatch.setattr(comity.node.http_server, "HttpDoor", Door)
    return made


async def document_of(node):
    async with httpx.AsyncClient(base_url=node.url, headers=bearer(node), timeout=SECONDS) as owner:
        return (await owner.get("/openapi.json")).json()


def command(node, *words):
    finished = subprocess.run(
        [sys.executable, "-m", "comity", *words, "--json", "--data", str(node.settings.data)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


async def mcp_session(client):
    """The headers of a session, without which MCP has nothing to follow or to end."""
    params = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    accept = {"accept": "application/json, text/event-stream"}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    begun = await client.post("/mcp", json=begin, headers=accept)
    return {"mcp-session-id": begun.headers["mcp-session-id"], **accept}


async def test_it_is_valid_and_has_every_path_of_the_node(doors):
    async with running_node(agent=AGENT) as node:
        document = await document_of(node)
    OpenAPIV31SpecValidator(document).validate()
    assert set(document["paths"]) == _paths(doors[0].app)
    names = [
        operation["operationId"]
        for item in document["paths"].values()
        for method, operation in item.items()
        if method != "parameters"
    ]
    assert len(names) == len(set(names))


async def test_the_reference_holds_the_document_of_this_release():
    written = json.loads(OPENAPI_PAGE.read_text("utf-8"))
    assert written == await openapi(), "run `python -m tests.docs.reference`"


async def test_every_operation_is_answered_and_who_may_use_it_is_true(tmp_path):
    async with running_node(tmp_path / "data", agent=AGENT) as node:
        await asyncio.to_thread(command, node, "card", "publish")
        await asyncio.to_thread(command, node, "id", "token", "issue", "dora", "--issuer", "acme")
        document = await document_of(node)
        values = {
            "ticket": node.entry_link.rpartition("/")[2],
            "vid": node.vacant_id.hex(),
            "seq": "1",
            "name": "audit",
            "issuer": "acme",
        }
        stop = document["paths"].pop("/v1/stop")
        async with (
            httpx.AsyncClient(base_url=node.url, timeout=SECONDS) as stranger,
            httpx.AsyncClient(base_url=node.url, timeout=SECONDS, headers=bearer(node)) as owner,
        ):
            session = await mcp_session(owner)
            for path, item in {**document["paths"], "/v1/stop": stop}.items():
                filled = {**values, "name": "supportive_reply"} if "actions" in path else values
                for method, operation in item.items():
                    if method == "parameters":
                        continue
                    asked = {"json": {}} if method == "post" else {"headers": session}
                    if operation.get("security") != []:
                        refused = await stranger.request(method, path.format(**filled), **asked)
                        assert refused.status_code == 401, (method, path)
                    async with owner.stream(method, path.format(**filled), **asked) as answer:
                        assert answer.status_code not in {401, 404, 405}, (method, path)


class Toy(Part):
    name = "toy"

    async def serve(self, runtime):
        async def play(_request):
            return JSONResponse({})

        self.routes = [Route("/toy/{size}", play, methods=["PUT"])]


async def test_a_path_of_another_part_is_listed_too(monkeypatch):
    monkeypatch.setitem(PARTS, "toy", f"{__name__}:Toy")
    async with running_node() as node:
        document = await document_of(node)
    OpenAPIV31SpecValidator(document).validate()
    assert set(document["paths"]["/toy/{size}"]) == {"put", "parameters"}
