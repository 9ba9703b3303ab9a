"""A raw HTTP client of the MCP endpoint: what it sends is what the test says, and nothing else."""

import asyncio
import contextlib
import json
from typing import NamedTuple

import httpx

from tests.mcp.conversing import SECONDS, initialize

BOTH = "application/json, text/event-stream"
MODERN = "2026-07-28"


class Event(NamedTuple):
    id: str | None
    data: str
    retry: str | None = None

    @property
    def message(self):
        return json.loads(self.data)


class Http:
    def __init__(self, url, **headers):
        self.url = url
        self._client = httpx.AsyncClient(timeout=SECONDS, headers=headers)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self._client.aclose()

    async def post(self, message, **headers):
        return await self._client.post(self.url, **posted(message, headers))

    async def send(self, method, **headers):
        return await self._client.request(method, self.url, headers=spelled(headers))

    async def begin(self, version="2025-11-25", **more):
        """The headers of a new legacy session."""
        answer = await self.post(initialize(version=version, **more))
        assert answer.status_code == 200, answer.text
        assert answer.json()["result"]["protocolVersion"] == version
        return {"mcp_session_id": answer.headers["Mcp-Session-Id"], "mcp_protocol_version": version}

    @contextlib.asynccontextmanager
    async def streaming(self, message, **headers):
        """The response to a POST, or to a GET where there is no message, while it is being read."""
        if message is None:
            request = {"method": "GET", "headers": spelled({"accept": "text/event-stream", **headers})}
        else:
            request = {"method": "POST", **posted(message, headers)}
        async with self._client.stream(url=self.url, **request) as response:
            yield response


def posted(message, headers):
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return {
        "content": body,
        "headers": spelled({"content_type": "application/json", "accept": BOTH, **headers}),
    }


def spelled(headers):
    return {name.replace("_", "-"): value for name, value in headers.items() if value is not None}


def repeated(message, **more):
    """The headers of a modern request."""
    params = message.get("params") or {}
    name = params.get("name") or params.get("uri") or params.get("taskId")
    result = {"mcp_protocol_version": MODERN, "mcp_method": message["method"], "mcp_name": name}
    return {**result, **more}


async def events(response):
    """Each event as it comes; comments are passed over."""
    fields = {}
    async for line in response.aiter_lines():
        if not line:
            if fields:
                yield Event(fields.get("id"), fields.get("data", ""), fields.get("retry"))
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")


async def next_event(coming):
    async with asyncio.timeout(SECONDS):
        return await anext(coming)
