import asyncio
from types import SimpleNamespace

import httpx
import jsonschema
import pytest

from comity.core.errors import ActionError
from comity.core.mcp.catalog import Catalog
from comity.doors.actions.mcp import ActionsDesk, action_tools
from comity.pipeline.actions.built_in import registry_of
from comity.pipeline.actions.library import Library
from comity.pipeline.actions.plugins import load_plugins
from comity.pipeline.actions.room import ActionsRoom
from comity.pipeline.actions.runner import Runner
from comity.testing import bearer, running_node
from tests.callers import OWNER, named, visitor


def told_nothing(_done, _total=None, _message=None):
    pass


CONTEXT = SimpleNamespace(asker=SimpleNamespace(caller=OWNER), client="local stream 1", progress=told_nothing)


async def nobody():
    raise AssertionError("listing opens no room")


@pytest.fixture
async def tools():
    library = Library("enhanced", load_plugins(["tests.pipeline.actions.sample_plugin"]))
    runner = Runner(library)
    async with running_node() as node:

        async def desk():
            return ActionsDesk(ActionsRoom(runner), node.walk)

        yield {tool.name: tool for tool in action_tools(library.registry, desk)}
    await runner.aclose()


def test_every_listed_action_is_a_tool_of_the_room():
    registry = registry_of("enhanced")
    tools = action_tools(registry, nobody)
    Catalog().add_tools(tools)
    assert [tool.name for tool in tools] == list(registry.listed)
    for tool in tools:
        assert tool.room == "actions"
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
    library = Library("enhanced", load_plugins(["tests.pipeline.actions.sample_plugin"]))
    async with running_node() as node:

        async def desk():
            return ActionsDesk(ActionsRoom(Runner(library)), node.walk)

        (greet,) = (tool for tool in action_tools(library.registry, desk) if tool.name == "greet")
        for owner, client in (("local", "a"), ("local", "b"), ("oauth:x:y", "a"), ("oauth:x:y", "b")):
            asker = SimpleNamespace(caller=named(owner))
            await greet.handler(
                SimpleNamespace(asker=asker, client=client, progress=told_nothing), {"name": "Ada"}
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
