"""Tools that ask the client, in the way of either era: the handler simply waits for the answer."""

from typing import Any, Final

from comity.mcp.protocol.catalog import Tool
from comity.mcp.protocol.context import Context
from comity.mcp.protocol.results import InputRequest, Json, ToolResult, said
from comity.wire import strict_json
from compliance.content import ROOM

_CHOICES: Final = ("active", "inactive", "pending")
_DEFAULTS: Final[Json] = {
    "name": {"type": "string", "description": "A name", "default": "John Doe"},
    "age": {"type": "integer", "description": "An age", "default": 30},
    "score": {"type": "number", "description": "A score", "default": 95.5},
    "status": {
        "type": "string",
        "description": "A status",
        "enum": [*_CHOICES],
        "default": _CHOICES[0],
    },
    "verified": {"type": "boolean", "description": "Whether it was verified", "default": True},
}
_OPTIONS: Final = ("option1", "option2", "option3")


def _titled(word: str) -> list[Json]:
    numbers = ("First", "Second", "Third")
    return [{"const": f"value{n}", "title": f"{number} {word}"} for n, number in enumerate(numbers, 1)]


_ENUMS: Final[Json] = {
    "untitledSingle": {"type": "string", "enum": [*_OPTIONS]},
    "titledSingle": {"type": "string", "oneOf": _titled("Option")},
    "legacyEnum": {
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": [*_OPTIONS]}},
    "titledMulti": {"type": "array", "items": {"anyOf": _titled("Choice")}},
}


def form(message: str, properties: Json, required: tuple[str, ...] = ()) -> InputRequest:
    schema: Json = {"type": "object", "properties": properties}
    if required:
        schema["required"] = [*required]
    return InputRequest("elicitation/create", {"message": message, "requestedSchema": schema})


def sample(prompt: str, most: int = 100) -> InputRequest:
    message = {"role": "user", "content": {"type": "text", "text": prompt}}
    return InputRequest("sampling/createMessage", {"messages": [message], "maxTokens": most})


def sampled(answer: Any) -> str:
    """The words of a sampling result, whose content is a block or a list of them."""
    content = answer.get("content") if isinstance(answer, dict) else None
    blocks = content if isinstance(content, list) else [content]
    return " ".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))


async def sampling(context: Context, arguments: Json) -> ToolResult:
    answers = await context.ask({"sampling": sample(arguments["prompt"])})
    return said(f"LLM response: {sampled(answers['sampling'])}")


async def elicitation(context: Context, arguments: Json) -> ToolResult:
    fields = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    answers = await context.ask({"user": form(arguments["message"], fields, ("username", "email"))})
    return said(f"User response: {_told(answers['user'])}")


async def defaults(context: Context, _arguments: Json) -> ToolResult:
    answers = await context.ask({"form": form("Please look through these defaults", _DEFAULTS)})
    return said(f"Elicitation completed: {_told(answers['form'])}")


async def enums(context: Context, _arguments: Json) -> ToolResult:
    answers = await context.ask({"form": form("Please choose", _ENUMS)})
    return said(f"Elicitation completed: {_told(answers['form'])}")


async def streaming(context: Context, _arguments: Json) -> ToolResult:
    fields = {"confirmed": {"type": "boolean"}}
    answers = await context.ask({"confirmation": form("Shall this go on?", fields)})
    return said(f"Elicitation completed: {_told(answers['confirmation'])}")


async def needs_sampling(context: Context, _arguments: Json) -> ToolResult:
    answers = await context.ask({"needed": sample("Say anything")})
    return said(sampled(answers["needed"]))


def _told(answer: Any) -> str:
    given = answer if isinstance(answer, dict) else {}
    content = strict_json.dumps(given.get("content", {})).decode()
    return f"action={given.get('action')}, content={content}"


def question_tools() -> list[Tool]:
    def tool(name: str, handler: Any, description: str, argument: str | None = None) -> Tool:
        schema: Json = {"type": "object", "properties": {}}
        if argument is not None:
            schema = {
                "type": "object",
                "properties": {argument: {"type": "string"}},
                "required": [argument],
            }
        return Tool(name=name, handler=handler, description=description, group=ROOM, input_schema=schema)

    return [
        tool("test_sampling", sampling, "Asks the client's model", "prompt"),
        tool("test_elicitation", elicitation, "Asks the user", "message"),
        tool("test_elicitation_sep1034_defaults", defaults, "Asks with defaults of each kind"),
        tool("test_elicitation_sep1330_enums", enums, "Asks with choices of each kind"),
        tool(
            "test_streaming_elicitation", streaming, "Asks the user, and sends no request of its own for it"
        ),
        tool("test_missing_capability", needs_sampling, "Cannot do without sampling"),
    ]
