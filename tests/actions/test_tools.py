import asyncio
import importlib.metadata
import json
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import httpx
import jsonschema
import pytest

from comity.actions.handler import ActionsHandler, action_tools
from comity.actions.library import GROUP, Library, load_plugins, registry_of
from comity.actions.part import Actions
from comity.actions.runner import Runner
from comity.mcp.protocol.catalog import Catalog
from comity.mcp.protocol.results import TASKS
from comity.runtime.settings import DispatchSettings
from comity.testing import bearer, running_node
from comity.wire.errors import ActionError
from tests.callers import OWNER, named, visitor
from tests.http.local_server import read_request, reply, serving
from tests.mcp.conversing import modern
from tests.mcp.http_talk import Http, repeated


def told_nothing(_done, _total=None, _message=None):
    pass


CONTEXT = SimpleNamespace(
    client=SimpleNamespace(caller=OWNER), connection="local stream 1", progress=told_nothing
)


async def nobody():
    raise AssertionError("listing opens no room")


@pytest.fixture
async def tools():
    library = Library("enhanced", load_plugins(["tests.actions.sample_plugin"]))
    runner = Runner(library)
    async with running_node() as node:

        async def opened():
            return ActionsHandler(runner), node.pipeline

        yield {tool.name: tool for tool in action_tools(library.registry, opened)}
    await runner.aclose()


def test_every_listed_action_is_a_tool_of_the_room():
    registry = registry_of("enhanced")
    tools = action_tools(registry, nobody)
    Catalog().add_tools(tools)
    assert [tool.name for tool in tools] == list(registry.listed)
    for tool in tools:
        assert tool.group == "actions"
        assert tool.annotations["readOnlyHint"] is True
        assert tool.title
        assert tool.description
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        jsonschema.Draft202012Validator.check_schema(tool.output_schema)


async def test_a_tool_answers_with_structured_content_that_keeps_its_schema(tools):
    tool = tools["cognitive_accessibility_audit"]
    result = await tool.handler(CONTEXT, {"content": "Read this."})
    jsonschema.validate(result.structured, tool.output_schema)
    assert not result.is_error


async def test_a_tool_says_what_is_wrong_in_the_words_of_the_contract(tools):
    with pytest.raises(
        ActionError, match="Input validation failed for action 'greet': 'name' must be a string"
    ):
        await tools["greet"].handler(CONTEXT, {"name": 5})
    assert tools["greet"].complain({"name": 5}) is None


async def test_each_client_of_the_owner_takes_turns_and_a_visitor_is_one_caller(monkeypatch):
    callers = []

    async def call(_runner, _name, _given, caller, client, _tell):
        callers.append((caller, client))
        return {}

    monkeypatch.setattr(Runner, "call", call)
    library = Library("enhanced", load_plugins(["tests.actions.sample_plugin"]))
    async with running_node() as node:

        async def opened():
            return ActionsHandler(Runner(library)), node.pipeline

        (greet,) = (tool for tool in action_tools(library.registry, opened) if tool.name == "greet")
        for owner, connection in (("local", "a"), ("local", "b"), ("oauth:x:y", "a"), ("oauth:x:y", "b")):
            client = SimpleNamespace(caller=named(owner))
            await greet.handler(
                SimpleNamespace(client=client, connection=connection, progress=told_nothing), {"name": "Ada"}
            )
    assert callers == [(OWNER, "a"), (OWNER, "b"), *[(visitor("x:y"), "")] * 2]


async def test_slow_audits_of_one_client_do_not_keep_another_waiting():
    page = "<p style='color:#777'>hello <a href='/x'>link</a></p>" * 8000
    arguments = {"pages": [{"url": "https://a.example/", "html": page}]}
    async with (
        running_node() as node,
        httpx.AsyncClient(base_url=node.url, headers=bearer(node), timeout=60) as http,
    ):

        async def session():
            begun = await http.post("/mcp", json=asked("initialize", {"protocolVersion": "2025-06-18"}))
            return {"mcp-session-id": begun.headers["mcp-session-id"]}

        async def audit(client, number):
            call = asked("tools/call", {"name": "accessibility_audit", "arguments": arguments}, number)
            return await http.post("/mcp", json=call, headers=client)

        greedy, other = await session(), await session()
        many = [asyncio.ensure_future(audit(greedy, number)) for number in range(2, 10)]
        await asyncio.wait(many, return_when=asyncio.FIRST_COMPLETED)
        assert (await audit(other, 2)).status_code == 200
        assert sum(one.done() for one in many) < len(many) - 1
        for one in many:
            one.cancel()
        await asyncio.wait(many)


def asked(method, params, number=1):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


async def test_what_installed_packages_announce_is_listed_as_over_http_and_can_be_called(monkeypatch):
    sample = EntryPoint("a", "tests.actions.sample_plugin", GROUP)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [sample])
    async with (
        running_node() as node,
        httpx.AsyncClient(base_url=node.url, headers=bearer(node), timeout=60) as http,
    ):
        begun = await http.post("/mcp", json=asked("initialize", {"protocolVersion": "2025-06-18"}))
        session = {"mcp-session-id": begun.headers["mcp-session-id"]}
        tools = (await http.post("/mcp", json=asked("tools/list", {}, 2), headers=session)).json()
        over_http = [one["action"] for one in (await http.get("/v1/actions")).json()["actions"]]
        over_mcp = [tool["name"] for tool in tools["result"]["tools"]]
        assert [name for name in over_mcp if name in over_http] == over_http
        call = asked("tools/call", {"name": "greet", "arguments": {"name": "Ada"}}, 3)
        answer = (await http.post("/mcp", json=call, headers=session)).json()["result"]
        assert answer["structuredContent"]["output"]["greeting"] == "Hello, Ada"
        call = asked("tools/call", {"name": "deescalation_plan", "arguments": {"text": "They shout."}}, 4)
        text = (await http.post("/mcp", json=call, headers=session)).text  # a stream, if the call takes long
        assert not json.loads(text.rpartition("\ndata: ")[2])["result"]["isError"]


async def test_an_audit_of_addresses_tells_how_far_it_is():
    steps = []
    context = SimpleNamespace(
        client=SimpleNamespace(caller=OWNER), connection="c", progress=lambda *step: steps.append(step)
    )
    async with (
        serving(lambda _request: reply(b"<html lang=en><title>t</title>")) as pages,
        running_node(dispatch=DispatchSettings(allowed_hosts=("127.0.0.1",))) as node,
    ):
        actions = ActionsHandler(node.runtime.find(Actions).runner), node.pipeline

        async def opened():
            return actions

        (audit,) = (tool for tool in action_tools(registry_of("enhanced"), opened) if tool.task == "optional")
        urls = [pages.url(f"/{number}") for number in range(5)]
        result = await audit.handler(context, {"urls": urls})
    assert audit.name == "accessibility_audit"
    assert len(result.structured["output"]["ranking"]) == 5
    assert [step[:2] for step in steps] == [(number, 6) for number in range(1, 6)]
    assert sorted(step[2].partition(": ")[2] for step in steps) == urls
    assert steps[0][2].startswith("page 1 of 5: ")


async def test_an_audit_becomes_a_task_that_says_how_far_it_is():
    going_on = asyncio.Event()

    async def slow_page(reader, writer):
        path = (await read_request(reader)).split()[1]
        if path != b"/0":
            await going_on.wait()
        writer.write(reply(b"<html lang=en><title>t</title>"))
        await writer.drain()

    extension = {"extensions": {TASKS: {}}}
    async with (
        serving(slow_page) as pages,
        running_node(dispatch=DispatchSettings(allowed_hosts=("127.0.0.1",))) as node,
        Http(f"{node.url}/mcp", **bearer(node)) as http,
    ):

        async def ask(method, **params):
            message = modern(1, method, params, extension)
            return (await http.post(message, **repeated(message))).json()["result"]

        urls = [pages.url("/0"), pages.url("/1")]
        task = await ask("tools/call", name="accessibility_audit", arguments={"urls": urls})
        assert task["resultType"] == "task"
        async with asyncio.timeout(20):
            while "statusMessage" not in (state := await ask("tasks/get", taskId=task["taskId"])):
                assert state["status"] == "working"
            assert state["statusMessage"] == f"1 of 3: page 1 of 2: {urls[0]}"
            going_on.set()
            while (state := await ask("tasks/get", taskId=task["taskId"]))["status"] == "working":
                pass
    assert state["status"] == "completed"
    assert "statusMessage" not in state
    assert len(state["result"]["structuredContent"]["output"]["ranking"]) == 2
