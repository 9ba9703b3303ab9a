"""Peers who take their time: each is given up, and none keeps an honest one waiting."""

import asyncio
import socket

import pytest

from tests.http.attacks.peers import GET, PING, Peer, open_door

pytestmark = pytest.mark.usefixtures("patience")

PATIENCE = 0.3

HALF = {
    "the first line": b"GET /heal",
    "a head": GET + b"x: y",
    "a head with its last line missing": GET,
    "a body": PING + b"content-length: 100\r\n\r\n{",
    "a body of which nothing comes": PING + b"content-length: 100\r\n\r\n",
    "a chunk": PING + b"transfer-encoding: chunked\r\n\r\n64\r\n{",
    "a chunk line": PING + b"transfer-encoding: chunked\r\n\r\n6",
    "a chunk extension": PING + b"transfer-encoding: chunked\r\n\r\n6;x=",
    "the trailers": PING + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\na: b\r\n",
    "the very end": PING + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n",
}


@pytest.mark.parametrize("half", HALF)
async def test_one_that_stops_in_the_middle_is_told_and_given_up(half):
    async with open_door(patience=PATIENCE) as door, door.peer() as peer:
        await peer.send(HALF[half])
        assert await door.still_serves()
        answers = await peer.answers()
        assert [answer.status for answer in answers] == [408]
        assert answers[0].ends_the_connection
        assert door.refused == ["deadline"]


DRIPS = {
    "a head": (GET + b"x: ", b"y"),
    "headers": (GET, b"x:y\r\n"),
    "a body": (PING + b"content-length: 1000\r\n\r\n", b" "),
    "chunks": (PING + b"transfer-encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "a chunk extension": (PING + b"transfer-encoding: chunked\r\n\r\n1;x=", b"y"),
    "trailers": (PING + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", b"a:b\r\n"),
    "empty lines before a request": (b"", b"\r\n"),
}


@pytest.mark.parametrize("drip", DRIPS)
async def test_one_that_sends_a_little_now_and_then_is_given_up(drip):
    begin, drop = DRIPS[drip]
    async with open_door(patience=PATIENCE) as door, door.peer() as peer:
        await peer.send(begin)
        answer = None
        while answer is None and not peer.lost:
            await peer.send(drop)
            answer = await peer.hears(PATIENCE / 20)
        assert not answer or answer.startswith(b"HTTP/1.1 408 ")
        assert await door.still_serves()


async def test_one_that_says_nothing_is_closed_without_a_word():
    async with open_door(patience=PATIENCE) as door, door.peer() as peer:
        assert await peer.rest() == b""
        assert door.refused == []


async def test_one_that_asks_and_never_reads_is_given_up():
    """It shows in that it cannot send any more: the system tells it so."""
    request = b"GET /assets/page.css HTTP/1.1\r\nhost: localhost\r\n\r\n"
    async with open_door(patience=PATIENCE) as door:
        asking = socket.socket()
        asking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        asking.setblocking(False)
        await asyncio.get_running_loop().sock_connect(asking, ("127.0.0.1", door.port))
        reader, writer = await asyncio.open_connection(sock=asking, limit=1024)
        peer = Peer(reader, writer)
        await peer.push(request * 100, 32 * 1024 * 1024, pause=5.0)
        assert peer.lost
        writer.transport.abort()
        assert await door.still_serves()
