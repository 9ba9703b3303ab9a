"""An MCP client with a session over HTTP, whose `initialize` says a VCP hello."""

import json
from contextlib import asynccontextmanager

from comity.testing import bearer
from tests.mcp.conversing import initialize, request
from tests.mcp.http_talk import Http


def hello(*extensions, identity=None):
    return {"type": "vcp-hello", "version": "3.1", "extensions": list(extensions), "identity": identity}


class ToolError(Exception):
    def __init__(self, result):
        super().__init__(result["content"][0]["text"])
        self.code = result.get("structuredContent", {}).get("code")


class ToolClient:
    """`ask` is of the carrier."""

    async def tools(self):
        return {tool["name"]: tool for tool in (await self.ask("tools/list"))["result"]["tools"]}

    async def call(self, name, **arguments):
        answer = await self.ask("tools/call", name=name, arguments=arguments)
        result = answer["result"]
        if result["isError"]:
            raise ToolError(result)
        return result["structuredContent"]

    async def read(self, uri):
        answer = await self.ask("resources/read", uri=uri)
        if "error" in answer:
            return answer["error"]["message"]
        [content] = answer["result"]["contents"]
        return json.loads(content["text"])

    async def listed(self):
        return [one["uri"] for one in (await self.ask("resources/list"))["result"]["resources"]]

    async def templates(self):
        found = (await self.ask("resources/templates/list"))["result"]["resourceTemplates"]
        return [one["uriTemplate"] for one in found]


class StdioClient(ToolClient):
    """A process that speaks MCP over its pipes."""

    def __init__(self, process):
        self._process = process
        self._ids = iter(range(1, 1 << 30))

    async def ask(self, method, **params):
        return await self._process.ask(request(next(self._ids), method, params))


class LegacyClient(ToolClient):
    """A session over HTTP."""

    def __init__(self, http):
        self._http = http
        self._ids = iter(range(1, 1 << 30))

    async def begin(self, hello=None):
        answer = await self._http.post(initialize(**({} if hello is None else {"vcp": hello})))
        self._headers = {
            "mcp_session_id": answer.headers["Mcp-Session-Id"],
            "mcp_protocol_version": "2025-11-25",
        }
        self.ack = answer.json()["result"].get("vcp")
        return self.ack

    async def ask(self, method, **params):
        answer = await self._http.post(request(next(self._ids), method, params), **self._headers)
        return answer.json()


@asynccontextmanager
async def over_http(scene, greeting=None):
    async with Http(f"{scene.node.url}/mcp", **bearer(scene.node)) as http:
        client = LegacyClient(http)
        await client.begin(greeting)
        yield client
