"""A tool of another MCP server as a substrate, over any transport, in the contract's own shape.

The contract sends one `tools/call` without a handshake and reads `text`. Results of servers that follow MCP are
understood too: content blocks, `isError`, structured content, JSON-RPC errors. Whole sessions with a handshake
are held by `comity.agents.mcp_tool`.
"""

from typing import Any

from comity.agents.substrate import SubstrateError, SubstrateRequest, SubstrateResponse, substrate_failure
from comity.envelopes.client.calls import DispatchTransport
from comity.wire import strict_json
from comity.wire.errors import ComityError

MCPTransport = DispatchTransport
"""Carries one JSON-RPC request to the server and brings back its answer."""


class MCPClientSubstrate:
    def __init__(self, server_url: str, tool_name: str, transport: DispatchTransport) -> None:
        self.server_url = server_url
        self.tool_name = tool_name
        self.transport = transport

    @property
    def name(self) -> str:
        return f"mcp:{self.server_url}:{self.tool_name}"

    async def infer(self, request: SubstrateRequest) -> SubstrateResponse:
        body = {
            "jsonrpc": "2.0",
            "id": "mcp-call",
            "method": "tools/call",
            "params": {
                "name": self.tool_name,
                "arguments": {
                    "system_prompt": request.system_prompt,
                    "user_prompt": request.user_prompt,
                    "tools": list(request.tools),
                    "metadata": dict(request.metadata),
                },
            },
        }
        try:
            answer: object = await self.transport(self.server_url, body)
        except ComityError as failure:
            raise substrate_failure(self.name, failure) from None
        return SubstrateResponse(
            text=_text_in(answer, self.name), model_id=self.tool_name, proof={"server_url": self.server_url}
        )


def _text_in(answer: object, name: str) -> str:
    """`text` of the answer, else of its `result`, else the text of their content blocks, else nothing."""
    if not isinstance(answer, dict):
        return ""
    if answer.get("error") is not None:
        raise SubstrateError(f"{name} answered with an error: {_reason(answer['error'])}")
    holders = [holder for holder in (answer, answer.get("result")) if isinstance(holder, dict)]
    for holder in holders:
        if holder.get("isError") is True:
            raise SubstrateError(
                f"{name} failed: {_content(holder) or holder.get('text') or 'it does not say why'}"
            )
    for holder in holders:
        if "text" in holder:
            return str(holder["text"])
    return next((text for text in map(_content, holders) if text), "")


def _content(result: dict[str, Any]) -> str:
    blocks = result.get("content")
    texts = [
        block["text"]
        for block in (blocks if isinstance(blocks, list) else ())
        if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
    ]
    if not texts and result.get("structuredContent") is not None:
        return strict_json.dumps(result["structuredContent"]).decode()
    return "\n".join(texts)


def _reason(error: Any) -> str:
    if isinstance(error, dict):
        return f"{error.get('message') or 'it does not say why'} (code {error.get('code')})"
    return str(error)
