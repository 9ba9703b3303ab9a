"""The client that loads a server, against servers that behave and servers that do not."""

import asyncio

import pytest

from bench.harness.http_load import request_bytes, requests_per_second


class Server:
    """Answers every request with the same pieces, written one by one; closes where a piece is None."""

    def __init__(self, *pieces):
        self.requests = []
        self.connections = 0
        self._pieces = pieces

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader, writer):
        self.connections += 1
        try:
            while True:
                self.requests.append(await reader.readuntil(b"\r\n\r\n"))
                for piece in self._pieces:
                    if piece is None:
                        return
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def load(server, connections=3):
    request = request_bytes("GET", f"{server.url}/x")
    return await requests_per_second(server.url, request, 0.02, connections=connections)


@pytest.mark.parametrize(
    "pieces",
    [
        [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"],
        [b"HTTP/1.1 200 OK\r\nContent-Le", b"ngth:2\r\n\r", b"\n", b"o", b"k"],
        [b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"],
    ],
    ids=["whole", "in pieces", "without a body"],
)
async def test_every_connection_asks_again_when_it_was_answered(pieces, patience):
    async with Server(*pieces) as server:
        rate = await load(server)

        assert rate > 0
        assert server.connections == 3
        assert len(server.requests) >= 3


async def test_answers_are_counted_and_not_pieces(patience):
    """In no time at all each connection asks exactly once."""
    async with Server(b"HTTP/1.1 200 OK\r\n", b"content-length: 2\r\n\r\no", b"k") as server:
        rate = await requests_per_second(server.url, request_bytes("GET", server.url), 0.0, connections=4)

        assert rate > 0
        assert len(server.requests) == 4


async def test_an_answer_that_is_not_200_ends_the_measurement(patience):
    async with Server(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n") as server:
        with pytest.raises(ConnectionError, match="401 Unauthorized"):
            await load(server)


async def test_a_server_that_closes_ends_the_measurement(patience):
    async with Server(b"HTTP/1.1 200 OK\r\n", None) as server:
        with pytest.raises(ConnectionError, match="the server closed it"):
            await load(server)


async def test_a_server_that_is_not_there_ends_the_measurement(unused_tcp_port, patience):
    with pytest.raises(OSError, match=str(unused_tcp_port)):
        await requests_per_second(f"http://127.0.0.1:{unused_tcp_port}", b"", 0.02)


def test_a_request_names_its_host_and_the_length_of_its_body():
    request = request_bytes("POST", "http://127.0.0.1:8420/v1/ping", headers=[("X-A", "b")], body=b"{}")

    assert request == (
        b"POST /v1/ping HTTP/1.1\r\nHost: 127.0.0.1:8420\r\nX-A: b\r\nContent-Length: 2\r\n\r\n{}"
    )
