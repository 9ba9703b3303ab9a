"""What handlers answer with, and how it looks on the wire in each era."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET, Struct

from comity.wire import strict_json

Json = dict[str, Any]


class ToolResult(Struct, frozen=True):
    """`content` are content blocks as they go out; `structured` is any JSON, left out unless given."""

    content: Sequence[Json]
    structured: Any = UNSET
    is_error: bool = False
    meta: Mapping[str, Any] | None = None

    def to_json(self) -> Json:
        answer: Json = {"content": list(self.content)}
        if self.structured is not UNSET:
            answer["structuredContent"] = self.structured
        answer["isError"] = self.is_error
        if self.meta:
            answer["_meta"] = dict(self.meta)
        return answer


class InputRequest(Struct, frozen=True):
    """One question to the client: `elicitation/create`, `sampling/createMessage` or `roots/list`."""

    method: str
    params: Mapping[str, Any] = {}

    def to_json(self) -> Json:
        return {"method": self.method, "params": dict(self.params)}


class InputRequired(Struct, frozen=True):
    """The work cannot go on without these answers. `state` is any JSON that comes back with them, sealed."""

    requests: Mapping[str, InputRequest]
    state: Any = UNSET


class Contents(Struct, frozen=True):
    """What reading a resource gives. `ttl` is in milliseconds; `private` means for this asker only."""

    contents: Sequence[Json]
    ttl: int = 0
    private: bool = True


class PromptResult(Struct, frozen=True):
    messages: Sequence[Json]
    description: str = ""

    def to_json(self) -> Json:
        answer: Json = {"description": self.description} if self.description else {}
        return {**answer, "messages": list(self.messages)}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def said(words: str, *, error: bool = False) -> ToolResult:
    return ToolResult([text(words)], is_error=error)


def structured(value: Mapping[str, Any], *, error: bool = False) -> ToolResult:
    """The value as structured content, and as text for clients that read only that."""
    return ToolResult([text(strict_json.dumps(value).decode())], value, error)


def failed(words: str) -> ToolResult:
    """An error of the tool's own: the model reads it and can do better."""
    return said(words, error=True)
