"""What a peer may do to a WebSocket, in frames written by hand, against the VCP door."""

import asyncio
import base64
import contextlib
import json
import struct

import pytest
from websockets.asyncio.client import connect

from comity.http.server import HttpServer
from tests.http.attacks.peers import GROWTH_MB, child_node, connected, memory_is_told
from tests.vcp.doors import open_doors
from tests.vcp.runtime import hello

TEXT, BINARY, CONTINUED, CLOSE, PING = 0x1, 0x2, 0x0, 0x8, 0x9
FIN = 0x80
ONE = bytes([FIN | TEXT, 0x81]) + bytes(4) + b"7"
KEY = base64.b64encode(bytes(16))


def frame(first, payload=b"", *, masked=True, length=None):
    """`first` is the first byte, as it is. The mask is zeros, so the payload is legible."""
    size, mask = len(payload) if length is None else length, 0x80 if masked else 0
    if size < 126:
        head = bytes([first, mask | size])
    elif size < 65_536:
        head = bytes([first, mask | 126]) + struct.pack("!H", size)
    else:
        head = bytes([first, mask | 127]) + struct.pack("!Q", size)
    return head + (bytes(4) if masked else b"") + payload


def handshake(port, *more, version=b"HTTP/1.1"):
    lines = [
        b"GET /vcp " + version,
        b"host: localhost:%d" % port,
        b"connection: upgrade",
        b"upgrade: websocket",
        b"sec-websocket-version: 13",
        b"sec-websocket-key: " + KEY,
        *more,
        b"",
        b"",
    ]
    return b"\r\n".join(lines)


@contextlib.asynccontextmanager
async def talking(port, *more):
    async with connected(port) as peer:
        await peer.send(handshake(port, *more))
        head = await peer.answer()
        assert head.status == 101
        peer.head = head
        yield peer


async def honest(port):
    async with connect(f"ws://127.0.0.1:{port}/vcp", proxy=None, compression=None) as socket:
        await socket.send(json.dumps(hello()))
        return json.loads(await socket.recv())["type"] == "vcp-ack"


def close_code(said):
    """That of the last frame, where it is a farewell."""
    at = said.rfind(b"\x88")
    return struct.unpack("!H", said[at + 2 : at + 4])[0] if at >= 0 and len(said) >= at + 4 else None


FAULTS = {
    "no mask": (frame(FIN | TEXT, b"{}", masked=False), {1002}),
    "the first reserved bit": (frame(FIN | 0x40 | TEXT, b"{}"), {1002}),
    "the second reserved bit": (frame(FIN | 0x20 | TEXT, b"{}"), {1002}),
    "the third reserved bit": (frame(FIN | 0x10 | TEXT, b"{}"), {1002}),
    "a reserved opcode": (frame(FIN | 0x3, b"{}"), {1002}),
    "a reserved control opcode": (frame(FIN | 0xB), {1002}),
    "a ping in fragments": (frame(PING, b"a") + frame(FIN | CONTINUED, b"b"), {1002}),
    "a ping that is too long": (frame(FIN | PING, b"a" * 126), {1002}),
    "a fragment of nothing": (frame(FIN | CONTINUED, b"{}"), {1002}),
    "a message inside another one": (frame(TEXT, b"{") + frame(FIN | TEXT, b"{}"), {1002}),
    "a length with its sign bit": (frame(FIN | TEXT, b"x" * 70_000, length=1 << 63), {1002, 1009}),
    "a farewell of one byte": (frame(FIN | CLOSE, b"\x03"), {1002}),
    "text that is no UTF-8": (frame(FIN | TEXT, b"\xff\xfe"), {1007}),
    "a message in shreds without end": (frame(TEXT) + frame(CONTINUED) * 5000, {1008, 1009}),
    "a message that is too long": (frame(FIN | TEXT, b"x" * 70_000), {1009}),
    "fragments that are too long together": (
        frame(TEXT, b"x" * 40_000) + frame(CONTINUED, b"x" * 40_000),
        {1009},
    ),
    "a length of 7 bits in 16": (bytes([FIN | TEXT, 0x80 | 126, 0, 2]) + bytes(4) + b"{}", {1002}),
    "a length of 7 bits in 64": (
        bytes([FIN | TEXT, 0x80 | 127]) + bytes(7) + b"\2" + bytes(4) + b"{}",
        {1002},
    ),
    "a length of 16 bits in 64": (
        bytes([FIN | TEXT, 0x80 | 127]) + struct.pack("!Q", 300) + bytes(4) + b"x" * 300,
        {1002},
    ),
    "a frame that announces petabytes": (frame(FIN | TEXT, b"x" * 70_000, length=1 << 50), {1009}),
}


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("pieces", ["at once", "in small pieces"])
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_ends_the_connection_with_its_code(fault, pieces):
    frames, codes = FAULTS[fault]
    async with open_doors() as doors, talking(doors.http.port) as peer:
        sending = asyncio.create_task(
            peer.send_in_pieces(frames, len(frames) if pieces == "at once" else max(1, len(frames) // 200))
        )
        assert close_code(await peer.rest()) in codes
        await sending
        assert await honest(doors.http.port)


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize(
    "before", [b"", frame(TEXT, b"{"), frame(FIN | PING)], ids=["", "a fragment", "a ping"]
)
@pytest.mark.parametrize("size", [1 << 40, 70_000])
async def test_a_frame_that_announces_too_much_is_refused_before_any_of_it_has_come(size, before):
    first = FIN | CONTINUED if before.startswith(bytes([TEXT])) else FIN | TEXT
    async with open_doors() as doors, talking(doors.http.port) as peer:
        await peer.send(before + frame(first, length=size))
        assert close_code(await peer.rest()) == 1009
        assert await honest(doors.http.port)


@pytest.mark.usefixtures("patience")
async def test_fragments_that_announce_too_much_together_are_refused_before_the_last_has_come():
    async with open_doors() as doors, talking(doors.http.port) as peer:
        await peer.send(frame(TEXT, b"x" * 40_000) + frame(FIN | CONTINUED, length=40_000))
        assert close_code(await peer.rest()) == 1009


@pytest.mark.usefixtures("patience")
async def test_a_hello_and_a_longer_message_sent_with_it_are_both_taken():
    """The limit moves with the hello, so the message behind it is not measured by the old one."""
    async with open_doors() as doors, talking(doors.http.port) as peer:
        message = json.dumps({"constitution": "Be kind. " * 20_000}).encode()
        await peer.send(frame(FIN | TEXT, json.dumps(hello()).encode()) + frame(FIN | TEXT, message))
        said = await peer.reader.readuntil(b'"accepted":["constitution"]')
        assert b"vcp-ack" in said


@pytest.mark.parametrize(
    ("version", "key", "refusal"),
    [
        (b"12", KEY, (426, "upgrade_required", "Sec-WebSocket-Version: 13")),
        (b"", KEY, (426, "upgrade_required", "Sec-WebSocket-Version: 13")),
        (b"13", b"c2hvcnQ=", (400, "malformed", "Sec-WebSocket-Key")),
    ],
)
async def test_a_handshake_that_is_wrong_is_refused_in_words(version, key, refusal):
    status, code, words = refusal
    async with open_doors() as doors:
        async with connected(doors.http.port) as peer:
            await peer.send(
                handshake(doors.http.port)
                .replace(b"version: 13", b"version: " + version)
                .replace(b"key: " + KEY, b"key: " + key)
            )
            answer = await peer.answer()
            said = json.loads(answer.body)
            assert (answer.status, said["code"]) == (status, code)
            assert words in said["detail"]
            assert (answer.headers.get("sec-websocket-version") == "13") is (status == 426)
        assert await honest(doors.http.port)


async def test_what_was_said_before_a_farewell_is_heard_also_where_all_of_it_comes_at_once():
    heard = []

    async def echo(_scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            heard.append(message["text"])
            await send({"type": "websocket.send", "text": message["text"]})

    server = HttpServer("127.0.0.1", 0, cert=None, key=None)
    await server.start(echo, shutdown_seconds=1, websockets=["/vcp"])
    said = [frame(FIN | TEXT, b"one"), frame(FIN | TEXT, b"two"), frame(FIN | TEXT, b"three")]
    async with talking(server.port) as peer:
        await peer.send(b"".join([*said, frame(FIN | CLOSE, struct.pack("!H", 1000))]))
        assert close_code(await peer.rest()) == 1000
    await server.stop()
    assert heard == ["one", "two", "three"]


OFFERS = [
    b"permessage-deflate",
    b"permessage-deflate; client_max_window_bits; server_no_context_takeover",
    b"x-webkit-deflate-frame, permessage-deflate; server_max_window_bits=8",
]


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("offer", OFFERS, ids=bytes.decode)
async def test_compression_is_not_taken_up_however_it_is_offered(offer):
    async with open_doors() as doors, talking(doors.http.port, b"sec-websocket-extensions: " + offer) as peer:
        assert "sec-websocket-extensions" not in peer.head.headers
        await peer.send(frame(FIN | 0x40 | TEXT, b"\xaaV*\xa9,HU\xb2R*K-*\xce\xcc\xcfS\xaa\x05\x00"))
        assert close_code(await peer.rest()) == 1002


REFUSED = {
    "HTTP/1.0": lambda port: handshake(port, version=b"HTTP/1.0"),
    "no key": lambda port: handshake(port).replace(b"sec-websocket-key", b"x-key"),
    "a key that is none": lambda port: handshake(port).replace(KEY, b"hello"),
    "two keys": lambda port: handshake(port, b"sec-websocket-key: " + KEY),
    "another version": lambda port: handshake(port).replace(b"version: 13", b"version: 8"),
    "a POST": lambda port: handshake(port).replace(b"GET", b"POST"),
    "a page of somebody else": lambda port: handshake(port, b"origin: http://evil.example"),
    "a name that is not ours": lambda port: handshake(port).replace(b"localhost", b"evil.example"),
    "a body": lambda port: handshake(port, b"content-length: 2") + b"{}",
    "chunks": lambda port: handshake(port, b"transfer-encoding: chunked") + b"0\r\n\r\n",
}


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("what", REFUSED)
async def test_a_handshake_that_is_none_is_refused_in_http(what):
    async with open_doors() as doors, connected(doors.http.port) as peer:
        await peer.send(REFUSED[what](doors.http.port))
        answer = await peer.answer()
        assert answer.status != 101
        assert answer.status >= 400 or what == "HTTP/1.0"
        assert await honest(doors.http.port)


async def read_on(peer, heard):
    """Whatever comes is taken and counted, as a peer would that wants to keep its connection."""
    with contextlib.suppress(ConnectionError):
        while piece := await peer.reader.read(65_536):
            heard.append(piece)


@pytest.mark.slow
@memory_is_told
@pytest.mark.parametrize("sockets", [1, 4])
async def test_messages_of_one_byte_without_end_wait_outside_and_nothing_is_closed(sockets, tmp_path):
    async with asyncio.timeout(120), child_node(tmp_path) as node, contextlib.AsyncExitStack() as entered:
        peers = [await entered.enter_async_context(talking(node.port)) for _ in range(sockets)]
        heard = [[] for _ in peers]
        readers = [asyncio.create_task(read_on(*each)) for each in zip(peers, heard, strict=True)]
        held_back = await asyncio.gather(*(peer.push(ONE * 10_000, 32 * 1024 * 1024, 0.2) for peer in peers))
        assert all(held_back)
        async with asyncio.timeout(5):  # beside them
            assert (await node.get()).status == 200
            assert await honest(node.port)
        assert not any(peer.lost for peer in peers)
        assert not any(reader.done() for reader in readers)
        assert node.growth < GROWTH_MB
        so_far = [sum(map(len, said)) for said in heard]
        async with asyncio.timeout(30):  # and they are answered on, in their own time
            while any(sum(map(len, said)) <= before for said, before in zip(heard, so_far, strict=True)):
                await asyncio.wait(readers, timeout=0.05)
                assert not any(reader.done() for reader in readers)
        for reader in readers:
            reader.cancel()


@pytest.mark.slow
@memory_is_told
@pytest.mark.parametrize("reads", [True, False], ids=["reads", "does not read"])
async def test_pings_without_end_are_not_answered_without_end(reads, tmp_path):
    async with asyncio.timeout(120), child_node(tmp_path) as node, talking(node.port) as peer:
        heard = []
        reader = asyncio.create_task(read_on(peer, heard)) if reads else None
        held_back = await peer.push(frame(FIN | PING, b"hey") * 10_000, 32 * 1024 * 1024)
        async with asyncio.timeout(5):
            assert await honest(node.port)
        if reader is None:
            reader = asyncio.create_task(read_on(peer, heard))
        if not held_back:
            await reader  # then it was told farewell, and what it sent after that was thrown away
        assert b"".join(heard).count(b"\x8a\x03hey") < 100_000
        assert node.growth < GROWTH_MB
        reader.cancel()


@pytest.mark.slow
@memory_is_told
async def test_answers_that_nobody_reads_are_not_kept(tmp_path):
    async with asyncio.timeout(120), child_node(tmp_path) as node, talking(node.port) as peer:
        assert await peer.push(ONE * 10_000, 64 * 1024 * 1024)
        assert node.growth < GROWTH_MB
        assert await honest(node.port)


async def test_messages_that_never_end_have_a_limit_together_and_the_longest_goes_first(monkeypatch):
    monkeypatch.setattr("comity.http.websocket.MAX_UNFINISHED", 60_000)
    async with asyncio.timeout(30), open_doors() as doors:
        port = doors.http.port
        async with talking(port) as short, talking(port) as long, talking(port) as last:
            await short.send(frame(FIN | TEXT, b"x" * 10_000, length=40_000))
            await long.send(frame(TEXT, b"x" * 38_000, length=40_000))
            await last.send(frame(FIN | TEXT, b"x" * 20_000, length=40_000))
            assert b"too much is sent here at once; try again later" in await long.rest()
            await last.send(b"x" * 20_000)
            answered = await last.reader.readexactly(2)
            assert answered[0] == FIN | TEXT
            await short.send(b"x" * 30_000)
            assert (await short.reader.readexactly(2))[0] == FIN | TEXT
        assert await honest(port)
