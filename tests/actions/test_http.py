import importlib.metadata
from importlib.metadata import EntryPoint

import httpx
import jsonschema
import pytest
from starlette.routing import Router

from comity.actions.doors import action_routes
from comity.actions.library import GROUP, Library, load_plugins
from comity.actions.runner import Runner
from comity.http.guard import CALLER
from comity.testing import bearer, running_node
from tests.callers import OWNER

SAMPLE = "tests.actions.sample_plugin"


@pytest.fixture
async def http():
    """The routes alone, as behind the guard, with a plugin among the actions."""
    runner = Runner(Library("enhanced", load_plugins([SAMPLE])))
    async with running_node() as node:
        routes = Router(action_routes(runner, node.pipeline, body_limit=100_000, version="0"))

        async def app(scope, receive, send):
            await routes({**scope, CALLER: OWNER}, receive, send)

        transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://node") as client:
            yield client
    await runner.aclose()


async def test_an_action_is_called_and_answers_with_its_data(http):
    answer = await http.post("/v1/actions/greet", json={"name": "Ada"})
    assert answer.status_code == 200
    assert list(answer.json()) == ["action", "boundaryNotice", "uncertainty", "assumptions", "output"]
    assert answer.json()["output"]["mode"] == "enhanced"


@pytest.mark.parametrize(
    ("path", "sent", "status", "code", "word"),
    [
        ("nobody", {"json": {}}, 404, "not_found", "Unknown action: 'nobody'"),
        ("greet", {"json": {}}, 400, "action_refused", "Required field 'name'"),
        ("greet", {"json": {"name": "x", "more": 1}}, 400, "action_refused", "more"),
        ("greet", {"json": []}, 400, "action_refused", "JSON object"),
        ("greet", {"content": b"{"}, 400, "malformed", "JSON"),
        (
            "greet",
            {"content": b"{}", "headers": {"content-type": "text/plain"}},
            400,
            "invalid",
            "Content-Type",
        ),
        ("greet", {"json": {"name": "x" * 100_000}}, 413, "too_large", "100,000"),
        ("work_hard", {"json": {"do": "refuse"}}, 400, "action_refused", "nothing to work on"),
        ("work_hard", {"json": {"do": "raise"}}, 500, "internal", "its log says why"),
    ],
)
async def test_each_refusal_has_its_status_and_a_sentence(http, path, sent, status, code, word):
    sent.setdefault("headers", {"content-type": "application/json"})
    answer = await http.post(f"/v1/actions/{path}", **sent)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert word in answer.json()["detail"]
    assert "secret" not in answer.text


async def test_another_method_is_refused_with_the_right_one(http):
    for method, path, right in (
        ("GET", "/greet", "POST"),
        ("POST", "", "GET, HEAD"),
        ("POST", "/openapi.json", "GET, HEAD"),
    ):
        answer = await http.request(method, f"/v1/actions{path}")
        assert (answer.status_code, answer.headers["allow"]) == (405, right)


async def test_what_can_be_read_can_be_looked_at_by_head(http):
    answer = await http.request("HEAD", "/v1/actions")
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) == len((await http.get("/v1/actions")).content)


async def test_a_node_lists_its_actions_and_describes_them_for_its_owner_only():
    async with running_node() as node, httpx.AsyncClient(base_url=node.url) as client:
        for path in ("/v1/actions", "/v1/actions/openapi.json"):
            assert (await client.get(path)).status_code == 401
        assert (await client.post("/v1/actions/greet", json={})).status_code == 401
        listed = (await client.get("/v1/actions", headers=bearer(node))).json()["actions"]
        document = (await client.get("/v1/actions/openapi.json", headers=bearer(node))).json()
        assert len(listed) == 9
        assert list(document["paths"]) == ["/v1/actions"] + [f"/v1/actions/{one['action']}" for one in listed]
        for one in listed:
            for schema in (one["inputSchema"], one["outputSchema"]):
                jsonschema.Draft202012Validator.check_schema(schema)


async def test_the_document_is_openapi_and_its_references_lead_somewhere():
    async with running_node() as node, httpx.AsyncClient(base_url=node.url) as client:
        document = (await client.get("/v1/actions/openapi.json", headers=bearer(node))).json()
    assert document["openapi"] == "3.1.0"
    for path, item in document["paths"].items():
        for operation in item.values():
            assert operation["responses"]["200"]
            for response in operation["responses"].values():
                schema = response["content"]["application/json"]["schema"]
                assert schema.get("$ref", "#/components/schemas/Refusal") == "#/components/schemas/Refusal", (
                    path
                )
    assert "Refusal" in document["components"]["schemas"]


async def test_a_reply_keeps_the_schema_that_the_document_gives_it():
    async with running_node() as node, httpx.AsyncClient(base_url=node.url) as client:
        document = (await client.get("/v1/actions/openapi.json", headers=bearer(node))).json()
        path = "/v1/actions/cognitive_accessibility_audit"
        reply = (await client.post(path, json={"content": "Read this."}, headers=bearer(node))).json()
    responses = document["paths"][path]["post"]["responses"]
    jsonschema.validate(reply, responses["200"]["content"]["application/json"]["schema"])


async def test_a_node_offers_what_installed_packages_announce_and_tells_what_it_left_out(monkeypatch):
    points = [EntryPoint("a", SAMPLE, GROUP), EntryPoint("b", "no.such.module", GROUP)]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points)
    async with running_node() as node, httpx.AsyncClient(base_url=node.url, headers=bearer(node)) as client:
        answer = await client.post("/v1/actions/greet", json={"name": "Ada"})
        assert answer.json()["output"]["greeting"] == "Hello, Ada"
        assert len((await client.get("/v1/actions")).json()["actions"]) == 13
        (notice,) = node.notices
        assert "no.such.module" in notice
