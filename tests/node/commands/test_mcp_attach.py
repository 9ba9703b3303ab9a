"""`comity mcp` beside a running node: it joins it, and ends with it."""

import asyncio
import contextlib
import json
import os
import signal
import stat
import sys
from functools import partial

import pytest
from msgspec import to_builtins

from comity.http.owner_socket import socket_path
from comity.mcp.socket import SOCKET_FILE, McpSocket, Opening, line_of
from comity.mcp.stdio import PATIENCE
from comity.mcp.stream import CLOSE_SECONDS
from comity.node.commands.mcp_attach import attach
from comity.rooms.protocol.tool_table import Demands
from comity.rooms.tools import select
from comity.runtime.settings import AgentSettings
from comity.store.claim import running_node as announced
from comity.testing.nodes import running_node
from comity.vcp.part import Vcp
from comity.wire.errors import ComityError
from tests.mcp.conversing import call, frame, initialize, line, notify, request
from tests.mcp.processes import SECONDS, comity_mcp, started
from tests.mcp.workshop import Workshop
from tests.waiting import eventually

HELLO = {"type": "vcp-hello", "version": "3.1", "extensions": []}
ECHO = AgentSettings(behaviour="echo", capability="echoes")


@pytest.fixture
async def node(data):
    async with running_node(data, agent=ECHO) as node:
        yield node


def connected(node):
    """How many clients have said hello and are still there."""
    return len(node.runtime.find(Vcp).service.sessions)


@contextlib.asynccontextmanager
async def by_hand(node, opening=None):
    """A connection to the socket of a node, without `comity mcp` in between."""
    reader, writer = await asyncio.open_unix_connection(
        socket_path(node.settings.data, SOCKET_FILE), limit=1 << 24
    )
    try:
        if opening is not None:
            writer.write(line_of(opening))
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def read_message(reader):
    async with asyncio.timeout(5):
        return json.loads(await reader.readline())


async def test_a_client_joins_the_node_and_has_its_identity(data, node):
    async with comity_mcp(data) as client:
        welcome = await client.ask(initialize(vcp=HELLO))
        assert welcome["result"]["vcp"]["type"] == "vcp-ack"
        assert connected(node) == 1
        described = await client.ask(call(1, "vacant_describe"))
        assert described["result"]["structuredContent"]["vacant_id"] == node.vacant_id.hex()
        assert described["result"]["structuredContent"]["capability_text"] == "echoes"
        client.end()
        assert await client.over() == (0, b"", "")
    await eventually(lambda: connected(node) == 0)


async def test_the_socket_is_closed_to_others(node):
    path = socket_path(node.settings.data, SOCKET_FILE)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_two_clients_at_once_have_each_their_own_profile(data, node):
    async with (
        comity_mcp(data, "--tool-profile", "core") as one,
        comity_mcp(data, "--tool-profile", "state", "--rooms", "vdo", "--max-message-bytes", "1000") as two,
    ):
        for client, profile, others in ((one, "core", True), (two, "state", False)):
            await client.ask(initialize(vcp=HELLO))
            listed = (await client.ask(request(1, "tools/list")))["result"]
            assert listed["_meta"]["tool_profile"] == profile
            assert ("vacant_call" in [tool["name"] for tool in listed["tools"]]) is others
        two.say(request(2, "ping", {"x": "y" * 1000}))
        assert (await two.hear())["error"]["data"]["code"] == "message_too_large"
        assert connected(node) == 2


async def test_exit_ends_what_the_connection_opened_and_the_client_without_a_word(data, node):
    async with comity_mcp(data) as client:
        await client.ask(initialize(vcp=HELLO))
        client.say(call(1, "vcp_status"), notify("exit"))
        code, out, err = await client.over()
    assert (code, err) == (0, "")
    assert json.loads(out)["id"] == 1
    assert connected(node) == 0


@pytest.mark.parametrize("flags", [(), ("--vcp", "personal")])
async def test_what_was_asked_before_the_input_ended_is_answered(data, node, flags):
    async with comity_mcp(data, *flags) as client:
        client.say(initialize(vcp=HELLO), *(call(number, "vdo_list_sessions") for number in (1, 2, 3)))
        client.end()
        code, out, err = await client.over()
    assert (code, err) == (0, "")
    assert sorted(json.loads(one)["id"] for one in out.splitlines()) == [0, 1, 2, 3]


@pytest.mark.parametrize(("gone", "patience"), [(False, PATIENCE), (True, CLOSE_SECONDS)])
async def test_a_client_that_ends_its_input_is_answered_as_on_stdio_and_one_that_is_gone_for_a_moment(
    tmp_path, gone, patience
):
    shop, waited = Workshop(), []

    def opened(_selection, _limit, write):
        stream = shop.stream(write)
        wait = stream.wait_for_answers

        async def noted(seconds):
            waited.append(seconds)
            shop.gate.set()
            await wait(seconds)

        stream.wait_for_answers = noted
        return stream

    served = McpSocket(tmp_path / "mcp.sock", opened, partial(select, Demands()))
    await served.start()
    try:
        reader, writer = await asyncio.open_unix_connection(tmp_path / "mcp.sock")
        writer.write(line_of(Opening()) + line(initialize()) + line(call(1, "wait")))
        await eventually(lambda: shop.called)
        if gone:
            writer.close()
        else:
            writer.write_eof()
        await eventually(lambda: waited)
        async with asyncio.timeout(SECONDS):
            answers = (await reader.read()).splitlines()
        assert waited[0] == patience
        assert gone or [json.loads(one).get("id") for one in answers] == [None, 0, 1]
        writer.close()
    finally:
        await served.stop()


async def test_a_client_that_is_killed_leaves_nothing_behind(data, node):
    async with comity_mcp(data) as client:
        await client.ask(initialize(vcp=HELLO))
        assert connected(node) == 1
        client.signal(signal.SIGKILL)
        await client.over()
        await eventually(lambda: connected(node) == 0)
    async with comity_mcp(data) as client:
        assert "result" in await client.ask(initialize())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_an_attached_client_in_order(data, node, number):
    async with comity_mcp(data) as client:
        await client.ask(initialize(vcp=HELLO))
        client.signal(number)
        client.signal(number)
        assert await client.over() == (0, b"", "")
    await eventually(lambda: connected(node) == 0)


async def test_a_node_that_stops_is_told_to_the_person_and_not_to_the_stream(data, node):
    async with comity_mcp(data) as client:
        await client.ask(initialize())
        await node.stop()
        code, out, err = await client.over()
    assert (code, out) == (1, b"")
    assert "the node that this client was connected to has stopped" in err
    assert err.count("\n") == 1
    async with comity_mcp(data) as client:
        assert "result" in await client.ask(call(1, "vcp_status"))


async def test_many_requests_in_flight_pass_both_ways_without_a_jam(data, node):
    """More is on its way in each direction than any buffer holds."""
    number = 1200
    async with comity_mcp(data) as client:
        padding = {"_meta": {"x": "y" * 2000}}
        client.say(b"".join(line(request(n, "tools/list", padding)) for n in range(number)))
        for n in range(number):
            assert (await client.hear())["id"] == n
        client.end()
        code, _, _ = await client.over()
    assert code == 0


async def test_framing_passes_through(data, node):
    async with comity_mcp(data) as client:
        client.say(frame(request(1, "ping")))
        client.end()
        _, out, _ = await client.over()
    assert out == b'Content-Length: 36\r\n\r\n{"jsonrpc":"2.0","id":1,"result":{}}'


async def test_the_socket_of_a_node_that_died_is_history(data):
    async with running_node(data):
        pass
    socket_path(data, SOCKET_FILE).touch()
    (data / "node.json").write_text('{"pid":1,"url":"x","vacant_id":"x","mcp_socket":"x"}', encoding="utf-8")
    async with comity_mcp(data) as client:
        assert not (await client.ask(call(1, "vcp_status")))["result"]["isError"]
    async with running_node(data), comity_mcp(data) as client:
        assert "result" in await client.ask(initialize())


async def test_a_node_that_stops_announces_itself_no_more(data):
    async with running_node(data) as node:
        assert announced(data).mcp_socket == str(socket_path(data, SOCKET_FILE))
        stopping = asyncio.create_task(node.stop())
        await eventually(lambda: announced(data) is None)
        await stopping
    assert not socket_path(data, SOCKET_FILE).exists()


UNOPENED = [
    b"",
    b"\n",
    b"garbage\n",
    b"\xff\n",
    b"[]\n",
    b'{"comity":2}\n',
    b'{"comity":1,"profile":"everything"}\n',
    b'{"comity":1,"max_message_bytes":0}\n',
    b'{"comity":1,"burn":true}\n',
    b'{"comity":1,"demands":{"enforce_join_token":true}}\n',
    b'{"comity":1,"demands":{"enforce_join_token":"yes"}}\n',
    b'{"comity":1,"demands":[]}\n',
    b"[" * 20_000 + b"\n",
    b"x" * 600_000,
]


async def test_a_connection_that_is_not_opened_well_is_refused_in_a_sentence(node):
    for first in UNOPENED:
        async with by_hand(node) as (reader, writer):
            writer.write(first)
            writer.write_eof()
            answer = await read_message(reader)
            assert answer["ok"] is False, first[:60]
            assert answer["error"]
            with contextlib.suppress(ConnectionResetError):  # what it sent was not even read
                assert await reader.read() == b""
    async with by_hand(node, Opening()) as (reader, writer):
        assert (await read_message(reader))["ok"] is True
        writer.write(line(request(1, "ping")))
        assert (await read_message(reader))["id"] == 1


async def test_demands_of_a_connection_go_on_top_of_those_of_the_node(tmp_path):
    opened = []

    def open_stream(selection, _limit, _write):
        opened.append(selection.demands)
        raise ConnectionError("enough was seen")

    own = Demands(join_token_secret="s", require_session_mac=True, allow_peer_stream_ids=("a", "b"))
    os.chmod(tmp_path, 0o700)  # noqa: PTH101 - pathlib would do the same
    door = McpSocket(tmp_path / "x.sock", open_stream, partial(select, own))
    await door.start()
    answers = []
    try:
        for demands in (
            Demands(),
            Demands(require_session_mac=False, allow_peer_stream_ids=("b", "c"), enforce_join_token=True),
            Demands(allow_peer_stream_ids=("c",)),
            Demands(join_token_secret="another"),
        ):
            reader, writer = await asyncio.open_unix_connection(tmp_path / "x.sock")
            writer.write(line_of(Opening(demands=to_builtins(demands))))
            answers.append((await read_message(reader))["ok"])
            writer.close()
            await writer.wait_closed()
    finally:
        await door.stop()
    assert answers == [True, True, False, False]
    assert opened[0] == own
    assert opened[1] == Demands(
        join_token_secret="s", require_session_mac=True, enforce_join_token=True, allow_peer_stream_ids=("b",)
    )


async def test_flags_that_only_tighten_are_taken(data, node):
    flags = ("--join-token-secret", "hush", "--enforce-join-token", "true", "--allow-peer-stream-ids", "x")
    async with comity_mcp(data, *flags) as client:
        assert "result" in await client.ask(initialize())


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b'{"ok":false,"error":"not today; come back tomorrow"}\n', "not today"),
        (b"HTTP/1.1 400 Bad Request\r\n", "not a node of this version"),
        (b"", "not a node of this version"),
        (b"x" * 100_000, "not a node of this version"),
    ],
)
async def test_what_a_node_says_against_it_is_said_to_the_person(tmp_path, answer, told):
    async def refuse(reader, writer):
        await reader.readline()
        writer.write(answer)
        writer.close()

    async with await asyncio.start_unix_server(refuse, tmp_path / "x.sock"):
        with pytest.raises(ComityError, match=told):
            await asyncio.to_thread(attach, str(tmp_path / "x.sock"), Opening())


def test_where_nobody_listens_there_is_nothing_to_join(tmp_path):
    assert attach(str(tmp_path / "x.sock"), Opening()) is None
    (tmp_path / "x.sock").touch()
    assert attach(str(tmp_path / "x.sock"), Opening()) is None


def test_a_folder_with_a_long_name_has_its_socket_elsewhere_and_closed_to_others(tmp_path):
    long = tmp_path / ("x" * 120)

    async def check():
        async with running_node(long) as node:
            path = socket_path(long, SOCKET_FILE)
            assert len(os.fsencode(path)) <= 100
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
            async with comity_mcp(long) as client:
                await client.ask(initialize(vcp=HELLO))
                assert connected(node) == 1

    asyncio.run(check())


async def test_a_client_that_stops_reading_and_closes_its_input_ends(data, node):
    unread, output = os.pipe()
    try:
        async with comity_mcp(data, stdout=output) as client:
            os.close(output)
            client.say(initialize(vcp=HELLO))
            client.say(*(request(number, "tools/list") for number in range(1, 400)))  # megabytes of answers
            await client.drain()
            client.end()
            async with asyncio.timeout(SECONDS):
                assert await client.wait() == 0
    finally:
        os.close(unread)
    await eventually(lambda: connected(node) == 0)


async def test_a_node_that_was_killed_is_told_to_the_person_with_status_1(tmp_path):
    for _ in range(3):  # the system breaks connections and releases locks in an order of its own
        async with started(
            sys.executable, "-m", "comity", "up", "--data", str(tmp_path / "data"), "--port", "0"
        ) as node:
            await eventually(lambda: getattr(announced(tmp_path / "data"), "pid", None) == node.pid)
            async with comity_mcp(tmp_path / "data") as client:
                await client.ask(initialize())
                node.signal(signal.SIGKILL)
                code, out, err = await client.over()
        assert (code, out) == (1, b"")
        assert "the node that this client was connected to has stopped" in err
        assert err.count("\n") == 1
