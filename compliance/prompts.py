"""Prompts: plain, with arguments, with a resource, with an image."""

from collections.abc import Mapping, Sequence
from typing import Final

from comity.mcp.protocol.catalog import Prompt
from comity.mcp.protocol.context import Context
from comity.mcp.protocol.results import Json, PromptResult, text
from compliance.content import IMAGE, ROOM, embedded

_WORDS: Final = ("paris", "park", "party", "testValue1", "testValue2")


def _from_user(*contents: Json) -> PromptResult:
    return PromptResult([{"role": "user", "content": content} for content in contents])


def simple(_context: Context, _arguments: dict[str, str]) -> PromptResult:
    return _from_user(text("This is a simple prompt for testing."))


def with_arguments(_context: Context, arguments: dict[str, str]) -> PromptResult:
    first, second = arguments["arg1"], arguments["arg2"]
    return _from_user(text(f"Prompt with arguments: arg1='{first}', arg2='{second}'"))


def with_resource(_context: Context, arguments: dict[str, str]) -> PromptResult:
    content = embedded(arguments["resourceUri"], "text/plain", "Embedded resource content for testing.")
    return _from_user(content, text("Please process the embedded resource above."))


def with_image(_context: Context, _arguments: dict[str, str]) -> PromptResult:
    return _from_user(IMAGE, text("Please analyze the image above."))


def complete(_context: Context, _argument: str, typed: str, _others: Mapping[str, str]) -> Sequence[str]:
    return [word for word in _WORDS if word.startswith(typed)]


def fixture_prompts() -> list[Prompt]:
    def argument(name: str, description: str) -> Json:
        return {"name": name, "description": description, "required": True}

    return [
        Prompt(name="test_simple_prompt", handler=simple, description="A prompt", group=ROOM),
        Prompt(
            name="test_prompt_with_arguments",
            handler=with_arguments,
            description="A prompt with two arguments",
            arguments=[argument("arg1", "First test argument"), argument("arg2", "Second test argument")],
            complete=complete,
            group=ROOM,
        ),
        Prompt(
            name="test_prompt_with_embedded_resource",
            handler=with_resource,
            description="A prompt that holds a resource",
            arguments=[argument("resourceUri", "Address of the resource to embed")],
            group=ROOM,
        ),
        Prompt(
            name="test_prompt_with_image",
            handler=with_image,
            description="A prompt that holds an image",
            group=ROOM,
        ),
    ]
