"""VCP in the catalogue of MCP: the core tools that everybody has, and resources that only their owner reads."""

import asyncio
import json

import pytest

from comity.identity.protocol.revocation import Denylist
from comity.identity.protocol.tokens import IdentityMode, log_prefix
from comity.mcp.calls import McpCalls
from comity.mcp.protocol.catalog import Catalog, Selection
from comity.mcp.protocol.context import McpClient
from comity.mcp.protocol.methods import Server, begin
from comity.mcp.protocol.results import McpError
from comity.mcp.protocol.session import Sealer
from comity.mcp.streams import Changes
from comity.store.memory import MemoryStore
from comity.store.vault import Vault
from comity.testing import VirtualClock
from comity.vcp.contexts import Contexts
from comity.vcp.extension_host import ResourceReader
from comity.vcp.identity import IdentityChecker
from comity.vcp.protocol.agreement import Identity, Session
from comity.vcp.protocol.built_in import addresses
from comity.vcp.protocol.negotiation import ServerPolicy
from comity.vcp.resources import VcpResources
from comity.vcp.sessions import LiveSessions, RunningFeatures
from comity.vcp.tools import VcpTools, core_resources, extension_resources, vcp_tools
from comity.wire import strict_json
from comity.wire.jsonrpc import RpcError, RpcRequest
from tests.mcp.counter import Carrier
from tests.vcp.runtime import ALICE, ISSUERS, PERSONAL, VAULT_KEY, registry, token

CORE = ["vcp_validate_token", "vcp_parse_csm1", "vcp_encode_context", "vcp_status"]
BOB = Identity(issuer="creed", subject="bob", owner="creed:user:bob")
CODE = "N5+F+E"
ERAS = pytest.mark.parametrize("modern", [True, False])


def a_session(id_, identity=None, extensions=()):
    return Session(id=id_, version="3.1", extensions=extensions, identity=identity)


class NodeRuntime:
    def __init__(self):
        clock = VirtualClock()
        store = MemoryStore(clock)
        vault = Vault([VAULT_KEY])
        features = RunningFeatures(clock, vault=lambda: vault)
        self.denied = Denylist()
        checker = IdentityChecker(
            clock, mode=IdentityMode.VERIFIED, issuers=ISSUERS, denylist=lambda: self.denied
        )
        self.sessions = LiveSessions()
        self.resources = VcpResources(
            policy=ServerPolicy(core_features={}, registry=registry(), environment="test", server_id="here"),
            features=features,
            sessions=self.sessions,
            contexts=Contexts(store, clock),
            vault=lambda: vault,
            checker=checker,
        )
        self.opened = 0
        rooms = VcpTools(checker=checker, resources=self.resources, version="1.2.3", uptime=lambda: 7.5)

        async def opened():
            self.opened += 1
            return rooms

        self.catalog = Catalog()
        self.catalog.add_tools(vcp_tools(opened))
        self.catalog.add_resources(*extension_resources(opened, "vcp"), *core_resources(opened))
        self.server = Server(catalog=self.catalog, info={"name": "t", "version": "1"})
        self.calls = McpCalls(
            self.server, clock, sealer=Sealer(bytes(32), bytes), changes=Changes(self.catalog)
        )

    async def ask(self, method, params=None, *, modern=False, session=None, prefix=None, rooms=None):
        client = McpClient(
            version="2026-07-28" if modern else "2025-06-18",
            modern=modern,
            attached=session,
            active=frozenset(() if session is None else session.extensions),
            token_prefix=prefix,
        )
        try:
            found = begin(self.server, Selection(rooms), client, RpcRequest(1, method, params or {}))
        except McpError as refusal:
            return refusal.rpc
        if not isinstance(found, bytes):
            found = self.calls.start(found, Carrier())
            found = await found if asyncio.iscoroutine(found) else found
        return found if isinstance(found, RpcError) else strict_json.loads(found)

    async def call(self, name, arguments=None, **who):
        return await self.ask("tools/call", {"name": name, "arguments": arguments or {}}, **who)

    async def read(self, uri, **who):
        found = await self.ask("resources/read", {"uri": uri}, **who)
        return found if isinstance(found, RpcError) else json.loads(found["contents"][0]["text"])

    async def uris(self, **who):
        return [one["uri"] for one in (await self.ask("resources/list", **who))["resources"]]

    def open(self, session):
        self.sessions.began(session)
        return session


@pytest.fixture
def runtime():
    return NodeRuntime()


@ERAS
@pytest.mark.parametrize("rooms", [None, frozenset(), frozenset({"actions"})])
async def test_the_core_tools_are_always_there_and_opening_waits_for_a_call(runtime, modern, rooms):
    tools = (await runtime.ask("tools/list", modern=modern, rooms=rooms))["tools"]
    assert [tool["name"] for tool in tools] == CORE
    assert all(tool["inputSchema"]["additionalProperties"] is not True for tool in tools)
    assert all(tool["annotations"]["readOnlyHint"] is True for tool in tools)
    assert all(tool["annotations"]["openWorldHint"] is False for tool in tools)
    assert runtime.opened == 0


@ERAS
async def test_a_token_is_checked(runtime, modern):
    result = await runtime.call("vcp_validate_token", {"token": token()}, modern=modern)
    answer = result["structuredContent"]
    assert (result["isError"], answer["valid"], answer["verification"]) == (False, True, "verified")
    assert json.loads(result["content"][0]["text"]) == answer
    assert token() not in str(result)


@pytest.mark.parametrize("odd", ["", "nonsense", "x" * 10_000])
async def test_a_token_that_is_none_is_an_error_whose_last_line_is_the_remedy(runtime, odd):
    result = await runtime.call("vcp_validate_token", {"token": odd})
    assert result["isError"] is True
    assert result["structuredContent"]["valid"] is False
    assert result["content"][0]["text"].splitlines()[-1] == "Re-authenticate with a valid VCP/I token"


@ERAS
async def test_a_code_is_read_and_one_that_is_none_is_an_error(runtime, modern):
    result = await runtime.call("vcp_parse_csm1", {"code": CODE}, modern=modern)
    assert (result["isError"], result["structuredContent"]["adherence"]) == (False, 5)
    refused = await runtime.call("vcp_parse_csm1", {"code": "Q9"}, modern=modern)
    assert (refused["isError"], refused["structuredContent"]["valid"]) == (False, False)
    assert refused["structuredContent"]["error"]
    assert refused["structuredContent"]["error"] in refused["content"][0]["text"]


async def test_a_context_is_written_from_one_object_or_one_by_one(runtime):
    one = await runtime.call("vcp_encode_context", {"dimensions": {"time": "morning"}})
    other = await runtime.call("vcp_encode_context", {"time": "morning"})
    assert one["structuredContent"] == other["structuredContent"]
    assert one["structuredContent"]["wire_format"]
    refused = await runtime.call("vcp_encode_context", {"dimensions": {"time": "never o'clock"}})
    assert refused["isError"] is True


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("vcp_validate_token", {}),
        ("vcp_validate_token", {"token": 7}),
        ("vcp_validate_token", {"token": "a", "more": 1}),
        ("vcp_parse_csm1", {"code": None}),
        ("vcp_encode_context", {"dimensions": "x"}),
        ("vcp_encode_context", {"what": "x"}),
        ("vcp_status", {"x": 1}),
    ],
)
async def test_inputs_are_closed(runtime, name, arguments):
    result = await runtime.call(name, arguments)
    assert result["isError"] is True


@ERAS
async def test_status_tells_what_this_asker_has_agreed_on(runtime, modern):
    nothing = (await runtime.call("vcp_status", modern=modern))["structuredContent"]
    assert (nothing["negotiated"], nothing["negotiated_version"]) == (False, "1.0")
    assert (nothing["server_version"], nothing["uptime_seconds"]) == ("1.2.3", 7.5)
    session = a_session("ses_1", ALICE, (PERSONAL,))
    result = (await runtime.call("vcp_status", modern=modern, session=session))["structuredContent"]
    assert (result["negotiated"], result["active_extensions"]) == (True, [PERSONAL])
    assert result["identity"] == "verified"


async def test_without_a_hello_only_what_everybody_may_see_is_listed(runtime):
    runtime.open(a_session("ses_1", ALICE))
    assert await runtime.uris() == ["vcp://capabilities"]
    assert runtime.opened == 0
    templates = (await runtime.ask("resources/templates/list"))["resourceTemplates"]
    assert [one["uriTemplate"] for one in templates] == [
        "vcp://bundle/{session_id}",
        "vcp://identity/{token}",
        "vcp://constitution/{csm1_code}",
    ]


@ERAS
async def test_everybody_reads_capabilities_and_what_a_code_means(runtime, modern):
    assert (await runtime.read("vcp://capabilities", modern=modern))["server_id"] == "here"
    assert (await runtime.read(f"vcp://constitution/{CODE}", modern=modern))["adherence"] == 5


async def test_an_owner_finds_and_reads_its_own_sessions_and_nobody_elses(runtime):
    mine, other = runtime.open(a_session("ses_1", ALICE)), runtime.open(a_session("ses_2", BOB))
    assert await runtime.uris(session=mine) == ["vcp://capabilities", "vcp://bundle/ses_1"]
    assert (await runtime.read("vcp://bundle/ses_1", session=mine))["session_id"] == "ses_1"
    for modern in (True, False):
        refused = await runtime.read("vcp://bundle/ses_2", session=mine, modern=modern)
        assert isinstance(refused, RpcError)
        assert "alice" not in refused.message
        assert "bob" not in refused.message
    assert isinstance(await runtime.read("vcp://bundle/ses_1"), RpcError)
    assert (await runtime.read("vcp://bundle/ses_2", session=other))["session_id"] == "ses_2"


async def test_an_anonymous_session_is_read_by_itself_only(runtime):
    mine, other = runtime.open(a_session("ses_1")), runtime.open(a_session("ses_2"))
    assert (await runtime.read("vcp://bundle/ses_1", session=mine))["session_id"] == "ses_1"
    assert isinstance(await runtime.read("vcp://bundle/ses_1", session=other), RpcError)
    assert "vcp://bundle/ses_1" not in await runtime.uris(session=other)


async def test_an_identity_is_read_by_the_beginning_of_its_own_token(runtime):
    session, prefix = a_session("ses_1", ALICE), log_prefix(token())
    uri = f"vcp://identity/{prefix}"
    assert uri in await runtime.uris(session=session, prefix=prefix)
    assert (await runtime.read(uri, session=session, prefix=prefix))["identity"]["subject"] == "alice"
    assert isinstance(await runtime.read(uri, session=a_session("ses_2", BOB), prefix="0" * 16), RpcError)
    refused = await runtime.read(f"vcp://identity/{token()}", session=session, prefix=prefix)
    assert "credential" in refused.message
    assert token() not in refused.message


@pytest.mark.parametrize("host", addresses())
async def test_a_resource_of_an_extension_appears_with_it_and_is_refused_without(runtime, host):
    async def read(id_, _owner):
        return {"id": id_}

    async def ids(_owner):
        return ["ses_1"]

    runtime.resources.readers[host] = ResourceReader(read, ids)
    extension = addresses()[host].extension
    uri = f"vcp://{host}/ses_1"
    active, without = a_session("ses_1", extensions=(extension,)), a_session("ses_1")
    assert uri in await runtime.uris(session=active)
    assert (await runtime.read(uri, session=active))["id"] == "ses_1"
    assert uri not in await runtime.uris(session=without)
    refused = await runtime.read(uri, session=without)
    assert refused.message == (
        f"Extension {extension} is not active. Re-initialize with the extension in your VCP-Hello"
    )
    if addresses()[host].of_session:
        stranger = a_session("ses_9", extensions=(extension,))
        assert isinstance(await runtime.read(uri, session=stranger), RpcError)


@pytest.mark.parametrize(("modern", "code"), [(True, -32602), (False, -32002)])
@pytest.mark.parametrize(
    "uri", ["vcp://nothing", "vcp://", "vcp://bundle", "vcp://bundle/none", "vcp://x/" + "y" * 3000]
)
async def test_an_address_that_leads_nowhere_has_the_code_of_the_era(runtime, uri, modern, code):
    refused = await runtime.read(uri, modern=modern)
    assert refused.code in (code, -32602)
    if uri in ("vcp://nothing", "vcp://"):
        assert refused.code == code


async def test_what_is_read_is_for_this_asker_only(runtime):
    found = await runtime.ask("resources/read", {"uri": "vcp://capabilities"}, modern=True)
    assert (found["cacheScope"], found["ttlMs"]) == ("private", 0)
