"""`comity mcp` by itself: its flags, its profiles, and a data folder that is not as it should be."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys

import pytest

from comity.rooms.protocol.tool_table import PROFILES, TOOLS_OF, allowed_profiles
from comity.terminal.options import read_groups
from comity.testing.nodes import bearer, running_node
from comity.wire.errors import ConfigError
from tests.mcp.conversing import call, initialize, notify, request, said_by
from tests.mcp.http_talk import Http
from tests.mcp.processes import comity_mcp, started

CORE = {"vcp_validate_token", "vcp_parse_csm1", "vcp_encode_context", "vcp_status"}
HELLO = {"type": "vcp-hello", "version": "3.1", "extensions": []}


def names_of(answer):
    return {tool["name"] for tool in answer["result"]["tools"]}


def refusal_of(answer):
    error = answer["result"]["structuredContent"]["error"]
    assert answer["result"]["isError"]
    assert error["type"] == "validation_error"
    return error["message"]


@pytest.mark.parametrize("profile", PROFILES)
async def test_a_profile_decides_which_vdo_tools_there_are(data, profile):
    async with comity_mcp(data, "--tool-profile", profile) as client:
        assert (await client.ask(initialize()))["result"]["serverInfo"]["name"] == "comity"
        listed = await client.ask(request(1, "tools/list"))
        assert listed["result"]["_meta"] == {
            "tool_profile": profile,
            "requested_tool_profile": profile,
            "allowed_tool_profiles": list(allowed_profiles(profile)),
        }
        names = names_of(listed)
        assert names >= CORE
        assert {name for name in names if name.startswith("vdo_")} <= set(TOOLS_OF[profile])
        for number, name in enumerate(TOOLS_OF["full"], 2):
            if name not in TOOLS_OF[profile]:
                refused = refusal_of(await client.ask(call(number, name)))
                assert refused == f"tool '{name}' is disabled by tool profile '{profile}'"
        assert refusal_of(await client.ask(call("u", "vdo_burn"))) == "unknown tool: vdo_burn"
        assert (await client.ask(call("o", "burn")))["error"]["code"] == -32602
        assert not (await client.ask(call("s", "vcp_status")))["result"]["isError"]


@pytest.mark.parametrize(
    ("rooms", "shown", "hidden"),
    [
        ("vacant", {"vacant_call"}, set()),
        (" vcp , vdo ", set(), {"vacant_call"}),
        ("", set(), {"vacant_call"}),
    ],
)
@pytest.mark.parametrize("option", ["--tools", "--rooms"])
async def test_groups_are_chosen_and_the_core_is_always_there(data, option, rooms, shown, hidden):
    async with comity_mcp(data, option, rooms) as client:
        names = names_of(await client.ask(request(1, "tools/list")))
    assert names >= CORE | shown
    assert not names & hidden


async def test_what_a_hello_has_negotiated_is_there_whatever_groups_were_chosen(data):
    personal = "VCP-X-Personal"
    greeting = {"type": "vcp-hello", "version": "3.1", "extensions": [personal]}
    async with comity_mcp(data, "--tools", "vdo") as client:
        begun = await client.ask(initialize(vcp=greeting))
        assert begun["result"]["vcp"]["supported"] == [personal]
        names = names_of(await client.ask(request(1, "tools/list")))
        assert names >= {"vcp_send_context", "vcp_get_personal_state", "vdo_connect"}
        assert not names & {"vacant_call", "vcp_torch_lineage", "find_agents"}
        assert not (await client.ask(call(2, "vcp_get_personal_state")))["result"]["isError"]
        session = begun["result"]["vcp"]["session_id"]
        read = await client.ask(request(3, "resources/read", {"uri": f"vcp://personal-state/{session}"}))
        assert read["result"]["contents"]
    async with comity_mcp(data, "--tools", "actions") as client:
        await client.ask(initialize())
        answer = await client.ask(call(1, "vdo_connect", room="x"))
        assert refusal_of(answer) == "tool 'vdo_connect' is disabled by tool profile 'none'"
        assert "--tool-profile full" in answer["result"]["structuredContent"]["error"]["remedy"]


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--tool-profile", "everything"], "--tool-profile"),
        (["--tool-profile", ""], "--tool-profile"),
        (["--max-message-bytes", "0"], "--max-message-bytes"),
        (["--max-message-bytes", "-1"], "--max-message-bytes"),
        (["--max-message-bytes", "1e6"], "--max-message-bytes"),
        (["--max-message-bytes", "99999999999"], "--max-message-bytes"),
        (["--enforce-join-token", "maybe"], "--enforce-join-token"),
        (["--enforce-join-token", "true"], "--enforce-join-token"),
        (["--require-session-mac", "2"], "--require-session-mac"),
        (["--rooms", "attic"], "--tools"),
        (["--tools", "attic"], "--tools"),
        (["--burn", "1"], "--burn"),
    ],
)
def test_a_flag_that_cannot_be_used_is_named_and_ends_it(comity, flags, named):
    outcome = comity("mcp", *flags)
    assert outcome.code == 2
    assert outcome.out == ""
    assert named in outcome.err
    assert "Traceback" not in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("VDON_MCP_TOOL_PROFILE", "everything"),
        ("VDON_MCP_MAX_MESSAGE_BYTES", "many"),
        ("VDON_MCP_ENFORCE_JOIN_TOKEN", "maybe"),
        ("VDON_MCP_REQUIRE_SESSION_MAC", "5"),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(comity, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    outcome = comity("mcp")
    assert (outcome.code, outcome.out) == (2, "")
    assert name in outcome.err


def test_a_join_secret_is_not_repeated_in_an_error(comity, monkeypatch):
    monkeypatch.setenv("VDON_MCP_JOIN_TOKEN_SECRET", "hush-hush")
    outcome = comity("mcp", "--tool-profile", "x")
    assert "hush" not in outcome.err


async def test_variables_are_heard_and_flags_go_before_them(data):
    env = {
        "VDON_MCP_TOOL_PROFILE": " File ",
        "VDON_MCP_MAX_MESSAGE_BYTES": "1000",
        "VDON_MCP_JOIN_TOKEN_SECRET": "s",
        "VDON_MCP_ENFORCE_JOIN_TOKEN": "YES",
        "VDON_MCP_ALLOW_PEER_STREAM_IDS": "a, b",
        "VDON_MCP_REQUIRE_SESSION_MAC": "",
    }
    async with comity_mcp(data, env=env) as client:
        listed = await client.ask(request(1, "tools/list"))
        assert listed["result"]["_meta"]["tool_profile"] == "file"
        client.say(request(2, "ping", {"x": "y" * 1000}))
        assert (await client.hear())["error"]["data"]["message"] == "line exceeds max size 1000"
    async with comity_mcp(data, "--tool-profile", "core", env=env) as client:
        listed = await client.ask(request(1, "tools/list"))
        assert listed["result"]["_meta"]["tool_profile"] == "core"


def unusable(data, how):
    if how == "a file":
        data.write_text("not a folder", encoding="utf-8")
        return "is not a folder"
    data.mkdir(mode=0o700)
    if how == "open to others":
        os.chmod(data, 0o777)  # noqa: PTH101 - pathlib would do the same
        return "chmod 700"
    (data / "comity.db").write_bytes(b"something else" * 100)
    return "comity.db"


@pytest.mark.parametrize("how", ["a file", "open to others", "another database"])
async def test_a_folder_that_cannot_be_opened_is_told_with_the_call_and_lists_work(data, how):
    result = unusable(data, how)
    async with comity_mcp(data) as client:
        welcome = await client.ask(initialize(vcp=HELLO))
        assert welcome["result"]["vcp"]["type"] == "vcp-error"
        assert names_of(await client.ask(request(1, "tools/list"))) >= CORE
        for method in ("prompts/list", "resources/list", "resources/templates/list"):
            assert "result" in await client.ask(request(method, method))
        for number in (2, 3):
            answer = await client.ask(call(number, "vcp_status"))
            assert answer["result"]["isError"]
            assert result in said_by(answer)
        client.end()
        code, out, err = await client.over()
    assert (code, out) == (0, b"")
    assert "Traceback" not in err
    assert "could not be written" in err


async def test_a_folder_that_is_mended_is_used_by_the_next_call(data):
    unusable(data, "open to others")
    async with comity_mcp(data) as client:
        assert (await client.ask(call(1, "vcp_status")))["result"]["isError"]
        data.chmod(0o700)
        assert not (await client.ask(call(2, "vcp_status")))["result"]["isError"]


async def test_a_locked_identity_is_told_with_the_call(data):
    from comity.identity.key_files import create_identity

    create_identity(data, passphrase="open sesame")
    async with comity_mcp(data) as client:
        answer = await client.ask(call(1, "vcp_status"))
        assert answer["result"]["isError"]
        assert "passphrase" in said_by(answer)
        assert "result" in await client.ask(request(2, "tools/list"))


async def test_an_initialize_without_an_id_is_told_on_stderr(data):
    async with comity_mcp(data) as client:
        asked = initialize()
        del asked["id"]
        client.say(asked)
        assert (await client.ask(request(1, "ping")))["result"] == {}
        client.end()
        code, out, err = await client.over()
    assert (code, out) == (0, b"")
    assert err.count("initialize without an id") == 1


async def test_hellos_that_differ_are_told_on_stderr_and_the_first_counts(data):
    async with comity_mcp(data) as client:
        other = {**HELLO, "version": "2.0"}
        answer = await client.ask(initialize(initializationOptions={"vcp": other}, vcp=HELLO))
        assert answer["result"]["vcp"]["version"] == "2.0"
        client.end()
        _, _, err = await client.over()
    assert "what stands in vcp differs and does not count" in err
    async with comity_mcp(data) as client:
        await client.ask(initialize(initializationOptions={"vcp": HELLO}, vcp=HELLO))
        client.end()
        assert "differs" not in (await client.over())[2]


async def test_a_list_opens_no_folder(data):
    async with comity_mcp(data) as client:
        await client.ask(initialize())
        for method in ("ping", "tools/list", "prompts/list", "resources/templates/list"):
            await client.ask(request(method, method))
        client.end()
        await client.over()
    assert not data.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.parametrize("silenced", [False, True])
def test_a_person_at_a_terminal_is_told_what_it_waits_for(tmp_path, silenced):
    import pty

    leader, follower = pty.openpty()
    environment = {**os.environ, "VDON_MCP_NO_STARTUP_BANNER": "1" if silenced else ""}
    with subprocess.Popen(
        [sys.executable, "-m", "comity", "mcp", "--data", str(tmp_path / "data")],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=environment,
    ) as process:
        os.close(follower)
        os.write(leader, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        said = b""
        while b'"result"' not in said:
            said += os.read(leader, 4096)
        process.terminate()
        assert process.wait(30) == 0
    os.close(leader)
    assert (b"comity install" in said) != silenced


@pytest.mark.parametrize("name", ["core", "VCP", "x" * 5000])
def test_a_room_that_is_none_is_refused_with_those_there_are(name):
    with pytest.raises(ConfigError, match="vcp, vacant, actions, vdo") as caught:
        read_groups(f"vcp,{name}")
    assert len(caught.value.message) < 200
    assert read_groups(" vdo, vcp,vdo ,") == ("vdo", "vcp")


@pytest.mark.parametrize(
    ("flags", "more"), [((), {"vcp": HELLO}), (("--vcp", "personal,torch"), {}), ((), {})]
)
async def test_what_was_asked_before_the_input_ended_is_answered(data, flags, more):
    async with comity_mcp(data, *flags) as client:
        client.say(
            initialize(**more),
            notify("notifications/initialized"),
            *(call(number, "vdo_list_sessions") for number in range(1, 6)),
        )
        client.end()
        code, out, err = await client.over()
    assert (code, err) == (0, "")
    answers = {one["id"]: one for one in map(json.loads, out.splitlines()) if "id" in one}
    assert sorted(answers) == [0, 1, 2, 3, 4, 5]
    assert all("result" in one for one in answers.values())


# What `comity mcp` costs before the first call: it must not load the house for a greeting.


TELLING = """
import atexit, sys
from comity.cli.app import run
atexit.register(lambda: print("\\n".join(sorted(sys.modules)), file=sys.stderr))
sys.exit(run(sys.argv[1:]))
"""
HEAVY = {
    "aiohttp",
    "apsw",
    "cryptography",
    "httpx",
    "jsonschema_rs",
    "mcp",
    "nacl",
    "prometheus_client",
    "pydantic",
    "rich",
    "starlette",
    "uvicorn",
    "yaml",
}
NOT_YET = {"comity.runtime.node_runtime", "comity.node.http_server", "comity.actions.protocol.action"}
MOST_RESIDENT = 40 << 20


async def greeted(data, *more):
    """The modules that were loaded, and the memory in use after the last answer."""
    async with started(sys.executable, "-c", TELLING, "mcp", "--data", str(data)) as client:
        for message in (initialize(), *more):
            assert "result" in await client.ask(message)
        resident = client.resident()
        client.end()
        code, _, err = await client.over()
    assert code == 0
    return set(err.split()), resident


async def test_a_greeting_loads_no_room(data):
    modules, _ = await greeted(data)
    assert "comity.mcp.stdio" in modules
    assert NOT_YET & modules == set()
    assert {name.partition(".")[0] for name in modules} & HEAVY == set()


async def test_lists_load_neither_a_database_nor_a_web_server(data):
    asked = [request(name, name) for name in ("tools/list", "prompts/list", "resources/templates/list")]
    modules, _ = await greeted(data, *asked)
    compiles = {"jsonschema_rs"}  # the table of actions has its schemas compiled
    assert {name.partition(".")[0] for name in modules} & (HEAVY - compiles) == set()


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
async def test_little_memory_is_used_before_the_first_call(data):
    _, resident = await greeted(data, request(1, "tools/list"))
    assert resident <= MOST_RESIDENT


# Whichever way a call comes, it is in the record, and the record is whole.


CALLS = 3


async def alone(data):
    async with comity_mcp(data) as client:
        await called(client)


async def attached(data):
    async with running_node(data), comity_mcp(data) as client:
        await called(client)


async def called(client):
    for number in range(CALLS):
        assert not (await client.ask(call(number, "vcp_status")))["result"]["isError"]
    assert "error" in await client.ask(call("no", "burn"))
    client.end()
    code, _, err = await client.over()
    assert (code, err) == (0, "")


async def over_http(data):
    async with running_node(data) as node, Http(f"{node.url}/mcp", **bearer(node)) as http:
        session = await http.begin()
        for number in range(CALLS):
            assert (await http.post(call(number, "vcp_status"), **session)).status_code == 200
        await http.send("DELETE", **session)


@pytest.mark.parametrize("way", [alone, attached, over_http])
def test_a_call_leaves_its_entry_and_the_record_verifies(data, comity, way):
    asyncio.run(way(data))
    verified = comity("audit", "verify")
    assert verified.code == 0, verified.err
    tail = comity("audit", "tail", "-n", "100", "--json")
    entries = [json.loads(line) for line in tail.out.splitlines()]
    mine = [one for one in entries if one["verification_result"] == "MCP_VCP_STATUS_OK"]
    counted = [check for one in mine for check in one["checks_passed"] if check.startswith("count:")]
    assert sum(int(check.removeprefix("count:")) for check in counted) == CALLS
    events = {one["verification_result"] for one in entries}
    assert ({"MCP_SESSION_BEGUN", "MCP_SESSION_ENDED"} <= events) is (way is over_http)


def test_a_call_that_needs_no_room_is_recorded_too(data, comity):
    async def parse():
        async with comity_mcp(data) as client:
            await client.ask(initialize())
            await client.ask(call(1, "vcp_parse_csm1", code="N5+F+E"))
            client.end()
            await client.over()

    asyncio.run(parse())
    assert comity("audit", "verify").code == 0
    assert "MCP_VCP_PARSE_CSM1_" in comity("audit", "tail", "--json").out


def test_clients_that_share_a_folder_do_not_disturb_each_other_nor_a_node_that_comes_later(data, comity):
    async def share():
        async with contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(comity_mcp(data)) for _ in range(3)]
            await asyncio.gather(*[client.ask(call(1, "vcp_status")) for client in clients])
            async with running_node(data) as node, comity_mcp(data) as guest:
                answers = await asyncio.gather(
                    *[one.ask(call(2, "vacant_describe")) for one in (*clients, guest)]
                )
                ids = {answer["result"]["structuredContent"]["vacant_id"] for answer in answers}
                assert ids == {node.vacant_id.hex()}
            for client in clients:
                client.end()
                assert (await client.over())[0] == 0

    asyncio.run(share())
    assert comity("audit", "verify").code == 0
