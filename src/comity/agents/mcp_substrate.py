"""A tool of another MCP server as a substrate, over any transport, in the contract's own shape.

The contract sends one `tools/call` without a handshake and reads `text` beside `content`; servers that
follow MCP are called by `comity.agents.mcp_tool`.
"""

from comity.agents.substrate import (
    SubstrateRequest,
    SubstrateResponse,
    substrate_failure,
)
from comity.clients.dispatch import DispatchTransport
from comity.core.errors import ComityError

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
            text=_text_in(answer), model_id=self.tool_name, proof={"server_url": self.server_url}
        )


def _text_in(answer: object) -> str:
    """`text` of the answer, else of its `result`, else nothing."""
    for holder in (answer, answer.get("result") if isinstance(answer, dict) else None):
        if isinstance(holder, dict) and "text" in holder:
            return str(holder["text"])
    return ""
