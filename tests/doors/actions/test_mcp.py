from types import SimpleNamespace

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
from comity.testing import running_node

CONTEXT = SimpleNamespace(asker=SimpleNamespace(peer="127.0.0.1"))


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
