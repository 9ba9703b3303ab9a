import json
import time
from contextlib import AsyncExitStack

import httpx
import pytest

from comity.envelopes.protocol.envelope import to_a2a_jsonrpc
from comity.mcp.protocol.fence import read_fence
from comity.runtime.settings import AgentSettings, HttpSettings, McpSettings, RateSettings
from comity.testing.nodes import bearer, running_node
from comity.wire.errors import ConfigError
from tests.envelopes.peers import Caller
from tests.identity.protocol.authorization_server import ISSUER, RESOURCE, Signer
from tests.mcp.extension_clients import LegacyClient, ToolError
from tests.mcp.http_talk import Http
from tests.vcp.extension_scene import NORM, PAIN


def initialize(**headers):
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        },
    }
    return {"json": message, "headers": {"Accept": "application/json, text/event-stream", **headers}}


@pytest.fixture
def signer():
    return Signer("ES256")


@pytest.fixture
def settings(signer, tmp_path):
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(signer.jwks), encoding="utf-8")
    return McpSettings(oauth_issuer=ISSUER, oauth_keys=str(keys), resource=RESOURCE)


def token(signer, **claims):
    return {"Authorization": f"Bearer {signer.token(exp=time.time() + 600, aud=RESOURCE, **claims)}"}


async def test_a_visitor_is_told_where_to_get_a_token_and_let_in_with_it(signer, settings):
    async with running_node(mcp=settings) as node, httpx.AsyncClient(base_url=node.url) as client:
        refused = await client.post("/mcp", **initialize())
        assert refused.status_code == 401
        challenge = refused.headers["WWW-Authenticate"]
        assert (
            'resource_metadata="https://node.example/.well-known/oauth-protected-resource/mcp"' in challenge
        )
        assert "error=" not in challenge
        for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"):
            result = (await client.get(path)).json()
            assert result["resource"] == RESOURCE
            assert result["authorization_servers"] == [ISSUER]
        answer = await client.post("/mcp", **initialize(**token(signer)))
        assert answer.status_code == 200
        assert answer.headers["Mcp-Session-Id"]


@pytest.mark.parametrize(
    "claims", [{"aud": "https://other.example"}, {"exp": 1.0}, {"iss": "https://evil.example"}]
)
async def test_a_token_for_somebody_else_is_refused(signer, settings, claims):
    async with running_node(mcp=settings) as node, httpx.AsyncClient(base_url=node.url) as client:
        headers = {
            "Authorization": f"Bearer {signer.token(**{'aud': RESOURCE, 'exp': time.time() + 60, **claims})}"
        }
        answer = await client.post("/mcp", **initialize(**headers))
    assert answer.status_code == 401
    assert 'error="invalid_token"' in answer.headers["WWW-Authenticate"]


async def test_a_missing_scope_is_named(signer, settings):
    async with running_node(mcp=settings) as node, httpx.AsyncClient(base_url=node.url) as client:
        answer = await client.post("/mcp", **initialize(**token(signer, scope="email")))
    assert answer.status_code == 403
    challenge = answer.headers["WWW-Authenticate"]
    assert 'error="insufficient_scope"' in challenge
    assert 'scope="mcp"' in challenge


async def test_a_visitor_gets_nowhere_else_and_into_no_session_of_others(signer, settings):
    async with running_node(mcp=settings) as node, httpx.AsyncClient(base_url=node.url) as client:
        visitor = token(signer)
        assert (await client.get("/v1/status", headers=visitor)).status_code == 401
        own = (await client.post("/mcp", **initialize(**bearer(node)))).headers["Mcp-Session-Id"]
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        theirs = {"Mcp-Session-Id": own, "Accept": "application/json, text/event-stream"}
        assert (await client.post("/mcp", json=ping, headers={**theirs, **visitor})).status_code == 404
        assert (await client.post("/mcp", json=ping, headers={**theirs, **bearer(node)})).status_code == 200


async def test_without_an_authorization_server_there_is_no_word_of_one():
    async with running_node() as node, httpx.AsyncClient(base_url=node.url) as client:
        refused = await client.post("/mcp", **initialize())
        assert "resource_metadata" not in refused.headers["WWW-Authenticate"]
        for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"):
            assert (await client.get(path)).status_code == 404


async def test_an_issuer_without_usable_keys_is_refused_at_the_start(tmp_path):
    for keys in ("", str(tmp_path / "absent.json")):
        with pytest.raises(ConfigError, match=r"mcp\.oauth"):
            async with running_node(mcp=McpSettings(oauth_issuer=ISSUER, oauth_keys=keys)):
                pass


class Vacant:
    """Signs calls to a node, each the next of its chain."""

    def __init__(self, node, name):
        self.caller = Caller(name, to_vid=node.vacant_id)

    def call(self):
        envelope = to_a2a_jsonrpc(self.caller.next())
        params = {"name": "vacant_call", "arguments": {"envelope": envelope}}
        return {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}


class Visitor:
    """An MCP client behind a proxy, from an address of its own."""

    def __init__(self, http, address, headers):
        self.http = http
        self.headers = {"X-Forwarded-For": address, **headers}

    async def enter(self):
        answer = await self.http.post("/mcp", **initialize(**self.headers))
        assert answer.status_code == 200, answer.text
        self.headers["Mcp-Session-Id"] = answer.headers["Mcp-Session-Id"]
        return self

    async def call(self, vacant):
        """What came of it: answered, refused by the tool, or refused at the door."""
        accept = {"Accept": "application/json, text/event-stream"}
        answer = await self.http.post("/mcp", json=vacant.call(), headers={**accept, **self.headers})
        if answer.status_code != 200:
            return answer.status_code
        result = answer.json()["result"]
        if result["isError"]:
            return result["content"][0]["text"]
        answered = result["structuredContent"]
        said = "\n".join(part["text"] for part in answered["message"]["parts"])
        assert read_fence(answered["fenced"]) == said
        assert "Verified: yes, this node signed it" in answered["fenced"]
        return "answered"


async def test_calls_of_an_agent_over_mcp_are_charged_to_who_made_them_and_never_to_the_owner(
    signer, settings
):
    limited = {
        "rate": RateSettings(requests=4, per_seconds=3600),
        "http": HttpSettings(trusted_proxies=("127.0.0.1",)),
        "agent": AgentSettings(behaviour="echo"),
    }
    async with running_node(mcp=settings, **limited) as node, httpx.AsyncClient(base_url=node.url) as http:
        ann, bob, own = (Vacant(node, name) for name in ("ann", "bob", "own"))
        first = await Visitor(http, "192.0.2.1", token(signer, sub="first")).enter()
        assert [await first.call(ann) for _ in range(4)] == ["answered"] * 3 + [429]
        second = await Visitor(http, "192.0.2.2", token(signer, sub="second")).enter()
        ann.caller.seq -= 1
        ann.caller.tip = ann.caller.tips[-2]
        assert await second.call(ann) == "answered"
        assert "too many requests of this identity" in await second.call(ann)
        assert await second.call(bob) == "answered"
        elsewhere = Visitor(http, "192.0.2.3", token(signer, sub="second"))
        elsewhere.headers["Mcp-Session-Id"] = second.headers["Mcp-Session-Id"]
        assert await elsewhere.call(bob) == 429, "the visitor has used up its budget, wherever it is"
        owner = await Visitor(http, "192.0.2.1", bearer(node)).enter()
        assert [await owner.call(own) for _ in range(9)] == ["answered"] * 9


async def test_a_visitor_owns_what_its_vcp_sessions_are_told_and_nobody_else_sees_it(signer, settings):
    hello = {"type": "vcp-hello", "version": "3.1", "extensions": ["VCP-X-Relational", "VCP-X-Personal"]}
    async with running_node(mcp=settings) as node, AsyncExitStack() as stack:

        async def session(headers):
            http = await stack.enter_async_context(Http(f"{node.url}/mcp", **headers))
            client = LegacyClient(http)
            await client.begin(hello)
            return client

        alice, again = [await session(token(signer, sub="alice")) for _ in range(2)]
        carol, owner = await session(token(signer, sub="carol")), await session(bearer(node))
        await alice.call("vcp_relational_norm", norm=NORM)
        await alice.call("vcp_set_personal_state", signals=PAIN)
        id_ = alice.ack["session_id"]
        assert (await again.call("vcp_get_relational_context"))["established_norms"]
        assert (await again.call("vcp_get_personal_state", session_id=id_))["protection_level"] == "high"
        for other in (carol, owner):
            assert (await other.call("vcp_get_relational_context"))["established_norms"] == []
            assert "another owner" in await other.read(f"vcp://personal-state/{id_}")
            with pytest.raises(ToolError, match="another owner"):
                await other.call("vcp_get_personal_state", session_id=id_)
            assert id_ not in str(await other.listed())
