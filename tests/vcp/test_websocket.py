"""What only a WebSocket can do wrong, against a real client and against raw bytes."""

import asyncio
import base64
import contextlib
import json
import os
import struct

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from comity.http.serving import LINGER_SECONDS, ServerLimits
from comity.http.websocket import MAX_FRAGMENTS
from tests.vcp.doors import open_doors
from tests.vcp.runtime import WIRE, hello

pytestmark = pytest.mark.usefixtures("patience")


def frame(opcode, payload=b"", *, fin=True, length=None):
    """A masked frame as a client sends it; the mask is zeros, so the payload is legible."""
    size = len(payload) if length is None else length
    head = bytes([opcode | (0x80 if fin else 0)])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 65_536:
        head += bytes([0x80 | 126]) + struct.pack("!H", size)
    else:
        head += bytes([0x80 | 127]) + struct.pack("!Q", size)
    return head + bytes(4) + payload


@contextlib.asynccontextmanager
async def raw(doors, *headers, path="/vcp"):
    """The bare connection after the upgrade, and the head of the answer to it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", doors.http.port)
    key = base64.b64encode(os.urandom(16)).decode()
    head = [
        f"GET {path} HTTP/1.1",
        f"host: localhost:{doors.http.port}",
        "connection: upgrade",
        "upgrade: websocket",
        "sec-websocket-version: 13",
        f"sec-websocket-key: {key}",
        *headers,
    ]
    writer.write("\r\n".join([*head, "", ""]).encode())
    try:
        yield reader, writer, await reader.readuntil(b"\r\n\r\n")
    finally:
        writer.close()


async def close_code(client):
    with pytest.raises(ConnectionClosed) as closed:
        await client.socket.recv()
    return closed.value.rcvd.code


async def honest(doors):
    async with doors.client("websocket") as client:
        return (await client.ask(hello()))["type"] == "vcp-ack"


async def until_closed(reader):
    with contextlib.suppress(ConnectionError):
        return await reader.read()
    return b""


@pytest.mark.parametrize("frame", [b"\0\1", b"", b'{"type":"vcp-hello","version":"3.1"}'])
async def test_a_binary_frame_is_no_hello_and_is_answered_at_baseline(frame):
    async with open_doors() as doors, doors.client("websocket") as client:
        await client.socket.send(frame)
        error = (await client.hear())["error"]
        assert (error["code"], "send text" in error["message"]) == ("MALFORMED", True)
        assert (await client.ask({"categorical": WIRE}))["version"] == "1.0"
        await client.socket.send(frame)
        assert (await client.hear())["error"]["code"] == "MALFORMED"
        assert (await client.ask(hello()))["type"] == "vcp-error"


async def test_a_binary_frame_after_an_error_is_told_that_there_is_no_session():
    async with open_doors() as doors, doors.client("websocket") as client:
        assert (await client.ask(hello(version="9.0", min_version="9.0")))["code"] == "VERSION_UNSUPPORTED"
        await client.socket.send(b"\0\1")
        assert (await client.hear())["error"]["code"] == "NO_SESSION"
        assert (await client.ask(hello()))["type"] == "vcp-ack"


async def test_text_that_is_no_utf8_ends_with_1007():
    async with open_doors() as doors, raw(doors) as (reader, writer, head):
        assert head.startswith(b"HTTP/1.1 101 ")
        writer.write(frame(0x1, b"\xff\xfe"))
        assert (await until_closed(reader))[:4] == b"\x88\x14\x03\xef"
        assert await honest(doors)


async def test_characters_cut_between_fragments_are_whole_again():
    async with open_doors() as doors, doors.client("websocket") as client:
        await client.ask(hello())
        message = ('{"categorical": "' + WIRE + '"}').encode()
        # the client sends each piece as a fragment of one text message
        half = len(message.decode()) // 2
        await client.socket.send([message.decode()[:half], message.decode()[half:]])
        assert (await client.hear())["accepted"] == ["categorical"]
    async with open_doors() as doors, raw(doors) as (reader, writer, _):
        cut = message.index("🧑".encode()) + 2
        writer.write(frame(0x1, message[:cut], fin=False) + frame(0x0, message[cut:]))
        assert b'"accepted":["categorical"]' in await reader.read(4096)


async def test_a_frame_that_announces_petabytes_is_refused_once_it_is_beyond_the_limit():
    async with open_doors() as doors, raw(doors) as (reader, writer, _):
        writer.write(frame(0x1, b"x" * 66_000, length=1 << 50))
        async with asyncio.timeout(LINGER_SECONDS / 2):  # we do not wait for the rest of it to fall silent
            answer = await until_closed(reader)
        assert b'"vcp-error"' in answer
        assert b"\x03\xf1" in answer  # 1009


async def test_fragments_count_together():
    async with open_doors() as doors, raw(doors) as (reader, writer, _):
        writer.write(frame(0x1, b"x" * 40_000, fin=False) + frame(0x0, b"x" * 40_000, fin=False))
        assert b'"vcp-error"' in await until_closed(reader)


async def test_a_message_in_too_many_shreds_is_refused():
    async with open_doors() as doors, raw(doors) as (reader, writer, _):
        writer.write(frame(0x1, b"", fin=False) + frame(0x0, b"", fin=False) * (MAX_FRAGMENTS + 1))
        assert b"\x03\xf0" in await until_closed(reader)  # 1008
        assert await honest(doors)


async def test_a_flood_of_pings_is_answered_at_its_own_pace_and_costs_nobody_the_connection():
    budget = ServerLimits().messages
    async with open_doors() as doors:
        async with raw(doors) as (reader, writer, _):
            writer.write(frame(0x9, b"hey") * 3 * budget)
            began, answers = asyncio.get_running_loop().time(), 0
            while answers < 3 * budget:
                answers += (await reader.read(65_536)).count(b"\x8a\x03hey")
                if answers < budget:
                    assert await honest(doors)
            assert asyncio.get_running_loop().time() - began > 1  # the first of them came at once
            writer.write(frame(0x1, json.dumps(hello()).encode()))
            assert b"vcp-ack" in await reader.read(65_536)
        assert await honest(doors)


async def test_a_frame_without_a_mask_is_a_fault_of_the_protocol():
    async with open_doors() as doors, raw(doors) as (reader, writer, _):
        writer.write(b"\x81\x02{}")
        assert b"\x03\xea" in await until_closed(reader)  # 1002


async def test_thousands_of_tiny_messages_are_all_answered_while_others_are_served():
    async with open_doors() as doors, raw(doors) as (reader, writer, _):
        writer.write(frame(0x1, b"7") * 1000)
        assert await honest(doors)
        heard = b""
        while heard.count(b'"MALFORMED"') < 1000:
            heard += await reader.read(65_536)


async def test_a_peer_that_says_farewell_is_answered_with_the_same():
    async with open_doors() as doors, doors.client("websocket") as client:
        await client.ask(hello())
        await client.socket.close(1000, "bye")
        assert client.socket.close_code == 1000


@pytest.mark.parametrize("header", ["origin: http://evil.example", "host: evil.example"])
async def test_pages_and_names_of_others_are_refused(header):
    async with open_doors() as doors, raw(doors, header) as (_, _, head):
        assert head.startswith(b"HTTP/1.1 403 ")
        assert doors.runtime.service.connections == 0


async def test_a_page_of_this_node_may_connect_and_no_token_is_needed():
    async with (
        open_doors() as doors,
        raw(doors, f"origin: http://localhost:{doors.http.port}") as (_, _, head),
    ):
        assert head.startswith(b"HTTP/1.1 101 ")


async def test_compression_is_not_agreed_on():
    async with open_doors() as doors, connect(doors.url, compression="deflate", proxy=None) as socket:
        assert socket.protocol.extensions == []


@pytest.mark.parametrize("header", ["sec-websocket-version: 12", "sec-websocket-key: c2hvcnQ="])
async def test_a_head_that_this_protocol_does_not_take_is_refused(header):
    async with open_doors() as doors:
        async with raw(doors, header) as (_, _, head):
            assert head.startswith(b"HTTP/1.1 4")
        assert await honest(doors)


async def test_a_long_head_is_no_hindrance():
    async with open_doors() as doors, raw(doors, "cookie: " + "a" * 7000) as (_, _, head):
        assert head.startswith(b"HTTP/1.1 101 ")


async def test_elsewhere_there_is_no_websocket():
    async with open_doors() as doors:
        with pytest.raises(InvalidStatus):
            await connect(doors.url + "/other", proxy=None)


async def test_stopping_the_server_says_farewell():
    async with open_doors() as doors:
        async with doors.client("websocket") as client:
            await client.ask(hello())
            await doors.http.stop()
            assert await close_code(client) == 1012
        assert len(doors.runtime.service.sessions) == 0
