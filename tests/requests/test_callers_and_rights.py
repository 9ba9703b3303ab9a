"""What each kind of caller may do: every path and every tool of a node, asked as every kind, beside the table."""

import contextlib
import json
import re
import time

import httpx
import pytest

from comity.http.owner_socket import socket_path
from comity.identity.protocol.rights import GRANTS, KINDS, OWN, RIGHT_WORDS, RIGHTS_OF
from comity.identity.secrets import make_token
from comity.requests.caller import MODEL, Caller
from comity.runtime.settings import AgentSettings, McpSettings
from comity.testing import bearer, running_node
from tests.docs.markdown import ROOT
from tests.identity.protocol.authorization_server import ISSUER, RESOURCE, Signer
from tests.mcp.conversing import initialize
from tests.mcp.http_talk import Http
from tests.mcp.processes import comity_mcp

AGENT = AgentSettings(behaviour="echo")
PAGE = {
    "/",
    "/v1/status",
    "/v1/events",
    "/v1/views",
    "/v1/views/{name}",
    "/v1/audit/verify",
    "/v1/pairs/verify",
    "/v1/actions",
    "/v1/actions/openapi.json",
    "/v1/actions/{name}",
}
READING = {"/", "/v1/status", "/v1/events", "/v1/views", "/v1/views/{name}"}
EVERYTHING = PAGE | {
    "/metrics",
    "/openapi.json",
    "/mcp",
    "/v1/ping",
    "/v1/stop",
    "/v1/link",
    "/v1/browsers/end",
    "/v1/vault/rotate",
    "/v1/state",
    "/v1/rooms",
    "/v1/contacts",
    "/v1/outside",
    "/v1/outside/renew",
}
MAY = {
    "terminal": EVERYTHING,
    "admin": EVERYTHING,
    "act": PAGE | {"/mcp"},
    "read": READING | {"/metrics"},
    "metrics": {"/metrics"},
    "browser": PAGE,
    "unknown": set(),
}
"""Besides the open paths. Written by hand, so that the table in the code is compared with something."""
AGENT_TOOLS = {"find_agents", "call_agent"}


@contextlib.asynccontextmanager
async def callers(node):
    """An HTTP client for each kind that comes over HTTP."""
    data, now = node.settings.data, node.runtime.clock.now()
    headers = {"unknown": {}, "admin": bearer(node)}
    for grant in GRANTS:
        _, token = make_token(data, f"for-{grant}", grant, now=now, days=1)
        headers.setdefault(grant, {"authorization": f"Bearer {token}"})
    async with contextlib.AsyncExitStack() as stack:
        found = {}
        for kind, proof in headers.items():
            found[kind] = await stack.enter_async_context(httpx.AsyncClient(base_url=node.url, headers=proof))
        socket = httpx.AsyncHTTPTransport(uds=str(socket_path(data)))
        found["terminal"] = await stack.enter_async_context(
            httpx.AsyncClient(base_url="http://localhost", transport=socket)
        )
        found["browser"] = await stack.enter_async_context(httpx.AsyncClient(base_url=node.url))
        entered = await found["browser"].get(node.runtime.new_entry_link())
        assert entered.status_code == 303
        yield found


async def may(client, method, path):
    """Whether the node would do it: the body is wrong everywhere, so that nothing is done."""
    filled = path.replace("{name}", "supportive_reply").replace("{issuer}", "x").replace("{ticket}", "x")
    filled = re.sub(r"\{[a-z]+\}", "0", filled)
    body = {"json": {"no such member": 1}} if method == "post" else {}
    async with client.stream(method.upper(), filled, **body) as answer:
        if answer.status_code == 401:
            return False
        if answer.status_code == 403:
            return b"this needs the right to" not in await answer.aread()
        return True


async def test_every_path_asked_as_every_kind_of_caller(tmp_path):
    async with running_node(tmp_path / "data", agent=AGENT) as node, callers(node) as clients:
        described = (await clients["admin"].get("/openapi.json")).json()["paths"]
        asked = {
            path: sorted(set(methods) & {"get", "post", "delete"}) for path, methods in described.items()
        }
        needs = {path for path, item in described.items() if any("x-right" in str(m) for m in item.values())}
        assert needs == EVERYTHING
        wrong = []
        for kind, client in clients.items():
            for path, methods in asked.items():
                for method in methods:
                    expected = path not in EVERYTHING or path in MAY[kind]
                    if await may(client, method, path) is not expected:
                        wrong.append((kind, method, path, expected))
        assert not wrong
        assert (await clients["admin"].get("/readyz")).json()["ready"] is True


async def test_a_path_that_nobody_named_needs_the_right_to_manage(tmp_path):
    async with running_node(tmp_path / "data") as node, callers(node) as clients:
        for kind, client in clients.items():
            status = (await client.get("/v1/nothing-here")).status_code
            manages = "manage" in RIGHTS_OF[kind]
            assert status == (404 if manages else 401 if kind == "unknown" else 403), kind


async def tools_of(http, **session):
    listed = await http.post({"jsonrpc": "2.0", "id": 7, "method": "tools/list"}, **session)
    return {tool["name"] for tool in listed.json()["result"]["tools"]}


async def test_tools_are_there_for_those_who_have_their_right(tmp_path):
    signer, keys, expires = Signer("ES256"), tmp_path / "keys.json", time.time() + 600
    keys.write_text(json.dumps(signer.jwks))
    mcp = McpSettings(oauth_issuer=ISSUER, oauth_keys=str(keys), resource=RESOURCE)
    async with running_node(tmp_path / "data", agent=AGENT, mcp=mcp) as node:
        seen = {}
        for kind, headers in {
            "admin": bearer(node),
            "act": {
                "authorization": "Bearer " + make_token(node.settings.data, "a", "act", now=0, days=None)[1]
            },
            "oauth": {"authorization": f"Bearer {signer.token(scope='mcp', exp=expires)}"},
            "oauth with agents": {"authorization": f"Bearer {signer.token(scope='mcp agents', exp=expires)}"},
        }.items():
            async with Http(f"{node.url}/mcp", **headers) as http:
                seen[kind] = await tools_of(http, **await http.begin())
        async with comity_mcp(node.settings.data) as client:
            await client.ask(initialize())
            listed = await client.ask({"jsonrpc": "2.0", "id": 9, "method": "tools/list"})
            everything = {tool["name"] for tool in listed["result"]["tools"]}
        assert seen["admin"] == seen["act"] == everything
        rooms = {name for name in everything if name.startswith("vdo_")}
        assert len(rooms) > 10
        assert seen["oauth"] == everything - rooms - AGENT_TOOLS
        assert seen["oauth with agents"] == everything - rooms


@pytest.mark.parametrize("kind", sorted(OWN))
def test_all_ways_of_the_own_user_are_one_owner_and_are_told_apart_in_the_record(kind):
    caller = Caller(kind=kind)
    assert (caller.owner, caller.is_local, caller.family) == ("local", True, "local")
    assert caller.label == f"caller:local:{kind}"


def test_a_model_has_no_way_to_keys_tokens_settings_or_foreign_files():
    assert MODEL.rights == {"mcp", "agents", "rooms"}


def test_a_visitor_has_the_rights_of_its_scopes_and_no_other():
    visitor = Caller(kind="oauth", id="ada", scopes=("mcp", "agents", "admin", "files"))
    assert visitor.rights == {"mcp", "agents"}
    assert Caller(kind="browser", scopes=("mcp",)).rights == {"read", "act"}


def test_the_page_of_the_documents_shows_the_table():
    page = (ROOT / "docs/reference/callers.md").read_text()
    upper, _, lower = page.partition("| right | for |")
    rows, meanings = (
        dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", part, re.MULTILINE)) for part in (upper, lower)
    )
    for kind in KINDS:
        has = ", ".join(f"`{right}`" for right in RIGHT_WORDS if right in RIGHTS_OF[kind]) or "none"
        proof, _, rights = rows[kind].rpartition(" | ")
        assert proof, kind
        assert rights == has, kind
    assert rows.keys() == set(KINDS)
    assert meanings == RIGHT_WORDS
