"""The contract's own way to a tool of another MCP server."""

import pytest

from comity.agents.mcp_tool import MCPClientSubstrate
from comity.agents.substrate import (
    SubstrateError,
    SubstrateRateLimitError,
    SubstrateRequest,
    SubstrateResponse,
    SubstrateUnavailableError,
)
from comity.envelopes.client.calls import CallRefusedError
from comity.wire.errors import UnreachableError

ASKED = SubstrateRequest(system_prompt="s", user_prompt="u", tools=["calculator"], metadata={"trace": "t"})


class Transport:
    def __init__(self, answer):
        self.answer = answer

    async def __call__(self, url, body):
        self.called = (url, body)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def test_the_tool_is_called_as_the_contract_says():
    transport = Transport({"text": "hello"})
    substrate = MCPClientSubstrate("https://a.example/mcp", "think", transport)
    assert substrate.name == "mcp:https://a.example/mcp:think"
    assert await substrate.infer(ASKED) == SubstrateResponse(
        text="hello", model_id="think", usage={}, proof={"server_url": "https://a.example/mcp"}
    )
    assert transport.called == (
        "https://a.example/mcp",
        {
            "jsonrpc": "2.0",
            "id": "mcp-call",
            "method": "tools/call",
            "params": {
                "name": "think",
                "arguments": {
                    "system_prompt": "s",
                    "user_prompt": "u",
                    "tools": ["calculator"],
                    "metadata": {"trace": "t"},
                },
            },
        },
    )


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"text": "a", "result": {"text": "b"}}, "a"),
        ({"result": {"text": "b"}}, "b"),
        ({"result": {"content": [{"type": "text", "text": "c"}]}}, "c"),
        (
            {"content": [{"type": "text", "text": "c"}, {"type": "image"}, {"type": "text", "text": "d"}]},
            "c\nd",
        ),
        ({"result": {"content": [], "structuredContent": {"a": 1}}}, '{"a":1}'),
        ({"result": {"content": "no list", "isError": False}}, ""),
        ({"result": {"text": "t", "content": [{"type": "text", "text": "c"}]}}, "t"),
        ({"result": "b"}, ""),
        ({"result": None}, ""),
        ({"text": ""}, ""),
        ({"text": 7}, "7"),
        ({}, ""),
        ([], ""),
        (None, ""),
    ],
)
async def test_the_text_is_read_where_the_contract_has_it(answer, text):
    substrate = MCPClientSubstrate("https://a.example/mcp", "think", Transport(answer))
    assert (await substrate.infer(ASKED)).text == text


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            {"result": {"content": [{"type": "text", "text": "no quota"}], "isError": True}},
            "failed: no quota",
        ),
        ({"isError": True, "content": []}, "does not say why"),
        ({"error": {"code": -32601, "message": "no such tool"}}, "no such tool \\(code -32601\\)"),
        ({"error": "odd"}, "error: odd"),
    ],
)
async def test_an_error_of_the_tool_is_never_taken_for_its_text(answer, words):
    with pytest.raises(SubstrateError, match=words):
        await MCPClientSubstrate("https://a.example/mcp", "think", Transport(answer)).infer(ASKED)


def test_it_shows_what_it_was_made_of():
    transport = Transport({})
    substrate = MCPClientSubstrate(server_url="u", tool_name="t", transport=transport)
    assert (substrate.server_url, substrate.tool_name, substrate.transport) == ("u", "t", transport)


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (UnreachableError("x"), SubstrateUnavailableError),
        (CallRefusedError(429, ""), SubstrateRateLimitError),
    ],
)
async def test_a_failure_of_the_transport_is_one_of_the_substrate(failure, kind):
    with pytest.raises(kind):
        await MCPClientSubstrate("https://a.example/mcp", "think", Transport(failure)).infer(ASKED)
