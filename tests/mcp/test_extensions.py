"""The extensions through MCP: tools and resources while they are active, what a model may see, whose state it is."""

import json
import sys
from contextlib import AsyncExitStack

import pytest

from comity.extensions.protocol.operations import input_schema
from comity.extensions.tools import extension_tools
from comity.runtime.system_clock import SystemClock
from comity.testing import bearer
from comity.vcp.protocol.built_in import operations
from comity.vcp.protocol.signals import CATEGORIES
from tests.mcp.conversing import initialize, modern, request
from tests.mcp.extension_clients import ToolError, hello, over_http
from tests.mcp.http_talk import Http, repeated
from tests.mcp.processes import comity_mcp
from tests.vcp.extension_scene import (
    CONSENSUS,
    FOUR,
    INTENT,
    NORM,
    PAIN,
    PERSONAL,
    RELATIONAL,
    TORCH,
    extension_scene,
)

pytestmark = pytest.mark.usefixtures("patience")

WIRE = "🧑⚕️:💬:🔒:🌙:🏠:👤:📱:🧘:🇬🇧"
MODERN_HELLO = "space.creed/vcp-hello"
OPERATIONS = operations()
TOOLS = {row.tool for row in OPERATIONS.values()}
WORDS = {word for categories in CATEGORIES.values() for word in categories} - {"critical"}


async def stateless(scene, name, arguments, greeting, **meta):
    """One modern request; its result."""
    message = modern(
        1, "tools/call", {"name": name, "arguments": arguments}, **{MODERN_HELLO: greeting}, **meta
    )
    return await sent(scene, message)


async def sent(scene, message):
    async with Http(f"{scene.node.url}/mcp", **bearer(scene.node)) as http:
        return (await http.post(message, **repeated(message))).json()["result"]


def test_a_tool_says_whether_it_changes_anything():
    hints = {tool.name: tool.annotations["readOnlyHint"] for tool in extension_tools(None, "vcp")}
    writing = {row.tool for row in OPERATIONS.values() if row.writes} | {
        "vcp_send_context",
        "vcp_consensus_join",
    }
    assert {name for name, reads in hints.items() if not reads} == writing


def test_all_tools_of_the_room_fit_a_list():
    tools = [tool.to_json(modern=True) for tool in extension_tools(None, "vcp")]
    assert len(json.dumps(tools, separators=(",", ":"))) < 25_000


class TestTools:
    async def test_are_listed_while_their_extension_is_active(self):
        async with extension_scene() as scene:
            async with over_http(scene) as client:
                before = await client.tools()
                assert not before.keys() & {*TOOLS, "vcp_send_context"}
            async with over_http(scene, hello()) as client:
                assert (await client.tools()).keys() - before.keys() == {"vcp_send_context"}
            async with over_http(scene, hello(PERSONAL)) as client:
                assert client.ack["supported"] == [PERSONAL]
                more = (await client.tools()).keys() - before.keys() - {"vcp_send_context"}
                assert more == {row.tool for row in OPERATIONS.values() if row.extension == PERSONAL}
            async with over_http(scene, hello(*FOUR)) as client:
                tools = await client.tools()
                for row in OPERATIONS.values():
                    if row.extension in FOUR:
                        assert tools[row.tool]["inputSchema"] == json.loads(json.dumps(input_schema(row)))

    async def test_of_an_inactive_extension_say_what_to_do(self):
        async with extension_scene() as scene, over_http(scene, hello(TORCH)) as client:
            with pytest.raises(ToolError) as refused:
                await client.call("vcp_set_personal_state", signals=PAIN)
            assert str(refused.value).splitlines()[-1] == (
                f"Extension {PERSONAL} is not active. Re-initialize with the extension in your VCP-Hello"
            )

    async def test_answer_a_model_with_no_more_than_it_may_see(self):
        async with extension_scene() as scene, over_http(scene, hello(*FOUR)) as client:
            for name, arguments in (
                ("vcp_set_personal_state", {"signals": PAIN | {"cognitive_state": {"category": "foggy"}}}),
                ("vcp_get_personal_state", {}),
                ("vcp_personal_pin", {"dimension": "body_signals", "pinned": True}),
                ("vcp_personal_engage", {}),
            ):
                result = await client.call(name, **arguments)
                assert result.keys() == {"protection_level", "formality_level", "domain", "session_active"}
                assert result["protection_level"] == "high"
            assert (await client.call("vcp_infer_intent")).keys() == {"category", "confidence"}
            assert (await client.call("vcp_correct_intent", category="learning"))["confidence"] == 1.0

    async def test_refuse_with_the_code_and_the_argument(self):
        async with extension_scene() as scene, over_http(scene, hello(*FOUR)) as client:
            await client.call("vcp_relational_norm", norm=NORM)
            before = await scene.stored()
            for name, arguments, code in (
                (
                    "vcp_set_personal_state",
                    {"signals": {"energy_level": {"category": "calm"}}},
                    "INVALID_ARGUMENT",
                ),
                ("vcp_personal_preset", {"id": "party"}, "NOT_FOUND"),
                ("vcp_set_personal_state", {"signals": PAIN, "session_id": "ses_0"}, None),
                ("vcp_correct_intent", {"category": "x"}, None),
            ):
                with pytest.raises(ToolError) as refused:
                    await client.call(name, **arguments)
                assert refused.value.code == code, name
            assert await scene.stored() == before

    async def test_send_a_context(self):
        async with extension_scene() as scene, over_http(scene, hello(*FOUR)) as client:
            result = await client.call(
                "vcp_send_context", context={"categorical": WIRE, "personal": PAIN, "trust": "deep"}
            )
            assert result["accepted"] == ["categorical", "personal"]
            assert result["model_safe_context"]["domain"] == "medical"
            assert result["extensions"][PERSONAL] == result["model_safe_context"]
            assert result["extensions"][INTENT].keys() == {"category", "confidence"}
            with pytest.raises(ToolError) as refused:
                await client.call("vcp_send_context", context={"categorical": "x"})
            assert refused.value.code == "INVALID"


class TestResources:
    async def test_are_there_while_their_extension_is_active(self):
        async with extension_scene() as scene:
            async with over_http(scene, hello()) as client:
                assert not [
                    uri for uri in await client.templates() if "personal-state" in uri or "torch" in uri
                ]
                result = await client.read(f"vcp://personal-state/{client.ack['session_id']}")
                assert result.startswith(f"Extension {PERSONAL} is not active.")
            async with over_http(scene, hello(*FOUR)) as client:
                id_ = client.ack["session_id"]
                assert {f"vcp://{host}/{{session_id}}" for host in HOSTS} <= {*await client.templates()}
                assert {f"vcp://{host}/{id_}" for host in HOSTS} <= {*await client.listed()}
                for host in HOSTS:
                    assert isinstance(await client.read(f"vcp://{host}/{id_}"), dict)

    async def test_hold_no_word_and_no_score_of_a_person(self):
        async with extension_scene() as scene, over_http(scene, hello(*FOUR)) as client:
            id_ = client.ack["session_id"]
            for dimension, categories in CATEGORIES.items():
                for category in categories:
                    signal = {"category": category, "intensity": 4, "extended": "my knee"}
                    await client.call("vcp_set_personal_state", signals={dimension: signal})
                    for uri in (f"vcp://personal-state/{id_}", f"vcp://bundle/{id_}"):
                        result = json.dumps(await client.read(uri))
                        assert not [word for word in WORDS if word in result], result
                        assert "knee" not in result
                    state = await client.read(f"vcp://personal-state/{id_}")
                    assert not [value for value in state.values() if type(value) in {int, float}]

    async def test_may_be_cached_until_the_next_step_and_by_their_reader_alone(self):
        async with extension_scene() as scene:
            result = await stateless(scene, "vcp_set_personal_state", {"signals": PAIN}, hello(PERSONAL))
            id_ = result["_meta"]["space.creed/vcp-ack"]["session_id"]

            async def read():
                params = {"uri": f"vcp://personal-state/{id_}"}
                return await sent(
                    scene, modern(2, "resources/read", params, **{MODERN_HELLO: hello(PERSONAL)})
                )

            answer = await read()
            assert (answer["cacheScope"], answer["ttlMs"]) == ("private", 60_000)
            scene.clock.jump(5970)  # 5 becomes 4 at 14,400 · log2(4/3), after 5,976.6 seconds
            answer = await read()
            assert (answer["cacheScope"], answer["ttlMs"] // 1000) == ("private", 6)

    async def test_that_are_watched_tell_when_they_have_changed(self, tmp_path):
        async with (
            extension_scene(tmp_path / "data") as scene,
            comity_mcp(tmp_path / "data", "--vcp", "personal,relational") as client,
            over_http(scene, hello(RELATIONAL)) as other,
        ):
            await client.ask(initialize())
            status = await client.ask(request(1, "tools/call", {"name": "vcp_status", "arguments": {}}))
            assert status["result"]["structuredContent"]["negotiated"] is True
            listed = (await client.ask(request(2, "resources/list")))["result"]["resources"]
            watched = [
                one["uri"] for one in listed if "personal-state" in one["uri"] or "relational" in one["uri"]
            ]
            watched = [uri for uri in watched if other.ack["session_id"] not in uri]
            assert len(watched) == 2
            for number, uri in enumerate(watched):
                assert "result" in await client.ask(
                    request(f"w{number}", "resources/subscribe", {"uri": uri})
                )
            await other.call("vcp_relational_norm", norm=NORM)
            assert (await heard(client, "notifications/resources/updated"))["uri"] in watched
            call = {"name": "vcp_set_personal_state", "arguments": {"signals": PAIN}}
            client.say(request("set", "tools/call", call))
            assert "personal-state" in (await heard(client, "notifications/resources/updated"))["uri"]


async def heard(client, method):
    """The parameters of the next notification of that method."""
    while (message := await client.hear()).get("method") != method:
        pass
    return message["params"]


HOSTS = ("personal-state", "relational", "torch", "intent")


class TestStatelessRequests:
    async def test_stand_alone(self):
        async with extension_scene() as scene:
            await stateless(scene, "vcp_set_personal_state", {"signals": PAIN}, hello(PERSONAL))
            result = await stateless(scene, "vcp_get_personal_state", {}, hello(PERSONAL))
            assert result["structuredContent"]["protection_level"] == "standard"
            message = modern(1, "tools/list")
            names = {tool["name"] for tool in (await sent(scene, message))["tools"]}
            assert not names & TOOLS

    async def test_go_on_with_a_session_that_they_name(self):
        async with extension_scene() as scene:
            result = await stateless(scene, "vcp_set_personal_state", {"signals": PAIN}, hello(PERSONAL))
            id_ = result["_meta"]["space.creed/vcp-ack"]["session_id"]
            result = await stateless(scene, "vcp_get_personal_state", {"session_id": id_}, hello(PERSONAL))
            assert result["structuredContent"]["protection_level"] == "high"
            scene.clock.jump(86_401)
            result = await stateless(scene, "vcp_get_personal_state", {"session_id": id_}, hello(PERSONAL))
            assert result["isError"]

    async def test_may_tell_their_context_and_a_named_session_counts_instead(self):
        context = {"space.creed.vcp/context": {"personal": PAIN, "categorical": WIRE}}
        async with extension_scene() as scene:
            result = await stateless(scene, "vcp_get_personal_state", {}, hello(PERSONAL), **context)
            assert result["structuredContent"]["protection_level"] == "high"
            assert result["structuredContent"]["domain"] == "medical"
            calm = await stateless(scene, "vcp_personal_purge", {}, hello(PERSONAL))
            id_ = calm["_meta"]["space.creed/vcp-ack"]["session_id"]
            result = await stateless(
                scene, "vcp_get_personal_state", {"session_id": id_}, hello(PERSONAL), **context
            )
            assert result["structuredContent"]["protection_level"] == "standard"

    async def test_name_their_identity_beside_the_hello(self):
        async with extension_scene() as scene, scene.session() as alice:
            await alice.call("relational.norm", norm=NORM)
            meta = {"space.creed.vcp/identity": scene.token()}
            result = await stateless(scene, "vcp_get_relational_context", {}, hello(RELATIONAL), **meta)
            assert result["structuredContent"]["established_norms"][0]["norm_id"] == "n1"


class TestOneCaller:
    async def test_finds_a_session_of_one_door_through_the_other(self):
        async with (
            extension_scene() as scene,
            scene.session() as alice,
            over_http(scene, hello(*FOUR, identity=scene.token())) as client,
        ):
            await alice.call("personal.set", signals=PAIN)
            assert f"vcp://personal-state/{alice.session_id}" in await client.listed()
            assert (await client.read(f"vcp://personal-state/{alice.session_id}"))[
                "protection_level"
            ] == "high"
            result = await client.call("vcp_get_personal_state", session_id=alice.session_id)
            assert result["protection_level"] == "high"
            await client.call("vcp_personal_purge", session_id=alice.session_id)
            assert (await alice.call("personal.get"))["signals"] == {}

    async def test_hands_a_torch_from_a_connection_to_a_model(self):
        async with extension_scene() as scene, scene.session() as alice:
            torch = await alice.call("torch.generate")
            scene.clock.jump(3600)
            async with over_http(scene, hello(*FOUR, identity=scene.token())) as client:
                receipt = await client.call("vcp_receive_torch", torch=torch)
                assert (receipt["signed"], receipt["standing"]) == (True, "advisory")

    async def test_is_the_nodes_own_user_over_http_and_over_the_socket(self, tmp_path):
        async with extension_scene(tmp_path / "data") as scene:
            async with over_http(scene, hello(RELATIONAL)) as client:
                await client.call("vcp_relational_norm", norm=NORM)
            async with comity_mcp(tmp_path / "data", "--vcp", "relational,torch") as attached:
                await attached.ask(initialize())
                call = {"name": "vcp_get_relational_context", "arguments": {}}
                answer = await attached.ask(request(1, "tools/call", call))
                result = answer["result"]["structuredContent"]
                assert result["established_norms"][0]["norm_id"] == "n1"


class TestADeliberation:
    async def test_is_followed_by_its_parties_and_by_nobody_else(self):
        async with extension_scene() as scene:
            bob = hello(CONSENSUS, identity=scene.token("bob"))
            async with over_http(scene, hello(CONSENSUS)) as owner, over_http(scene, bob) as guest:
                made = await owner.call(
                    "vcp_consensus_open",
                    title="Rules",
                    clauses=["A.", "B."],
                    stakeholders=[{"id": scene.owner("bob")}],
                )
                uri = f"vcp://consensus/{made['id']}"
                for party in (owner, guest):
                    assert uri in await party.listed()
                    assert (await party.read(uri))["phase"] == "draft"
                    assert (await party.read(uri.replace("consensus", "deliberation")))["clauses"]
                with pytest.raises(ToolError, match="voter_id must be the caller's own"):
                    await guest.call(
                        "vcp_submit_ballot", delib_id=made["id"], voter_id=scene.owner("eve"), ranking=["x"]
                    )
                eve = hello(CONSENSUS, identity=scene.token("eve"))
                async with over_http(scene, eve) as stranger:
                    assert uri not in await stranger.listed()
                    assert isinstance(await stranger.read(uri), str)
                    with pytest.raises(ToolError) as refused:
                        await stranger.call("vcp_get_election_result", delib_id=made["id"])
                    assert refused.value.code == "FORBIDDEN"

    async def test_that_another_node_keeps_is_joined_and_acted_in_and_waits_while_its_keeper_is_away(self):
        clock = SystemClock()  # whoever calls another node waits between its attempts
        async with extension_scene(clock=clock) as here, over_http(here, hello(CONSENSUS)) as bob:
            async with extension_scene(clock=clock) as there, over_http(there, hello(CONSENSUS)) as ann:
                made = await ann.call(
                    "vcp_consensus_open",
                    title="Rules",
                    clauses=["A."],
                    stakeholders=[{"id": here.node.vacant_id.hex()}],
                )
                one = {"delib_id": made["id"]}
                with pytest.raises(ToolError) as refused:
                    await bob.call("vcp_get_election_result", **one)
                assert refused.value.code == "NOT_FOUND"
                joined = await bob.call("vcp_consensus_join", url=there.node.url, **one)
                assert joined["keeper"] == there.node.vacant_id.hex()
                await ann.call("vcp_consensus_advance", **one, to="deliberation")
                result = await bob.call("vcp_consensus_act", **one, action="amend", text="B.")
                assert len(result["candidates"]) == 2
                assert "waiting" not in result
                seen = await ann.call("vcp_get_election_result", **one)
                assert [variant["text"] for variant in seen["clause"]["variants"]] == ["A.", "B."]
            result = await bob.call("vcp_consensus_act", **one, action="endorse")
            assert result["waiting"]
            assert (await bob.call("vcp_get_election_result", **one))["phase"] == "deliberation"
            with pytest.raises(ToolError):
                await bob.call("vcp_consensus_join", url=there.node.url, delib_id="another")


class TestTheHelloOfAConnection:
    """`comity mcp --vcp`, for a client that cannot say one."""

    @pytest.mark.parametrize("attached", [True, False])
    async def test_holds_for_all_its_requests_of_either_era(self, tmp_path, attached):
        data = tmp_path / "data"
        async with AsyncExitStack() as stack:
            if attached:
                await stack.enter_async_context(extension_scene(data))
            client = await stack.enter_async_context(comity_mcp(data, "--vcp", "personal,intent"))
            call = {"name": "vcp_set_personal_state", "arguments": {"signals": PAIN}}
            result = await client.ask(modern("a", "tools/call", call))
            assert result["result"]["structuredContent"]["protection_level"] == "high"
            await client.ask(initialize())
            names = {tool["name"] for tool in (await client.ask(request(1, "tools/list")))["result"]["tools"]}
            assert "vcp_infer_intent" in names
            assert "vcp_generate_torch" not in names
            call = {"name": "vcp_get_personal_state", "arguments": {}}
            result = await client.ask(request(2, "tools/call", call))
            assert result["result"]["structuredContent"]["protection_level"] == "high"

    async def test_gives_way_to_a_hello_of_the_clients_own(self, tmp_path):
        async with comity_mcp(tmp_path / "data", "--vcp", "personal") as client:
            result = await client.ask(initialize(vcp=hello(TORCH)))
            assert result["result"]["vcp"]["supported"] == [TORCH]
            names = {tool["name"] for tool in (await client.ask(request(1, "tools/list")))["result"]["tools"]}
            assert "vcp_generate_torch" in names
            assert "vcp_set_personal_state" not in names

    async def test_names_extensions_and_nothing_else(self, tmp_path):
        async with comity_mcp(tmp_path / "data", "--vcp", "personal,telepathy") as client:
            code, _, err = await client.over()
            assert code != 0
            assert "personal, relational, consensus, torch, intent" in err


class TestTheOfficialClient:
    @pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
    async def test_declares_signals_and_reads_the_resource(self, tmp_path, mode):
        mcp = pytest.importorskip("mcp.client", reason="the extra `mcp` is not installed")
        from mcp.client.stdio import StdioServerParameters, stdio_client

        command = ["-m", "comity", "mcp", "--data", str(tmp_path / "data")]
        greeting = [mcp.advertise("space.creed/vcp", {"hello": hello(*FOUR)})]
        transport = stdio_client(StdioServerParameters(command=sys.executable, args=command))
        async with mcp.Client(transport, mode=mode, extensions=greeting) as client:
            assert "vcp_set_personal_state" in {tool.name for tool in (await client.list_tools()).tools}
            result = await client.call_tool("vcp_set_personal_state", {"signals": PAIN})
            assert result.structured_content["protection_level"] == "high"
            if mode == "legacy":
                resources = [str(one.uri) for one in (await client.list_resources()).resources]
                [uri] = [uri for uri in resources if "personal-state" in uri]
                [content] = (await client.read_resource(uri)).contents
                assert json.loads(content.text)["protection_level"] == "high"
