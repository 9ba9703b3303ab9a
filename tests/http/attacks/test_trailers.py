"""What follows a chunked body is read, counted and thrown away: it is never a header of the request."""

import pytest

from tests.http.attacks.peers import GET, GROWTH_MB, PING, child_node, memory_is_told, open_door

pytestmark = pytest.mark.usefixtures("patience")

CHUNKED = b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
LAST = GET + b"connection: close\r\n\r\n"


@pytest.mark.parametrize("size", [1, 100_000])
async def test_a_host_after_the_body_does_not_pass_the_guard(size):
    head = b"POST /v1/ping HTTP/1.1\r\nauthorization: Bearer right\r\ncontent-type: application/json\r\n"
    async with open_door() as door, door.peer() as peer:
        await peer.send_in_pieces(head + CHUNKED + b"host: localhost\r\n\r\n" + LAST, size)
        assert (await peer.answer()).status in (400, 403)
        assert all(b"host" not in headers for _, path, headers in door.seen if path == "/v1/ping")


@pytest.mark.parametrize("size", [1, 100_000])
async def test_a_token_after_the_body_lets_nobody_in(size):
    head = b"POST /v1/ping HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    async with open_door() as door, door.peer() as peer:
        await peer.send_in_pieces(head + CHUNKED + b"Authorization: Bearer right\r\n\r\n" + LAST, size)
        assert (await peer.answer()).status == 401


@pytest.mark.parametrize("name", [b"content-length", b"transfer-encoding", b"origin", b"cookie", b"expect"])
async def test_no_other_header_can_be_added_after_the_body(name):
    async with open_door() as door, door.peer() as peer:
        await peer.send(PING + CHUNKED + name + b": 100-continue\r\n\r\n" + LAST)
        statuses = [answer.status for answer in await peer.answers()]
        assert statuses in ([200, 200], [400])
        assert all(headers.get(name, b"") != b"100-continue" for _, _, headers in door.seen)


@pytest.mark.parametrize("size", [1, 100_000])
async def test_a_small_trailer_is_thrown_away_and_the_request_is_answered(size):
    async with open_door() as door, door.peer() as peer:
        await peer.send_in_pieces(PING + CHUNKED + b"x-checksum: 1\r\nx-more: 2\r\n\r\n" + LAST, size)
        assert [answer.status for answer in await peer.answers()] == [200, 200]
        assert len(door.seen) == 2
        assert not any(name.startswith(b"x-") for _, _, headers in door.seen for name in headers)


TOO_MANY = {
    "many trailers": b"a: b\r\n" * 300 + b"\r\n",
    "a long trailer": b"a: " + b"b" * 70_000 + b"\r\n\r\n",
    "a trailer with a long name": b"a" * 70_000 + b": b\r\n\r\n",
}


@pytest.mark.parametrize("what", TOO_MANY)
async def test_trailers_have_the_limits_of_a_head(what):
    async with open_door() as door, door.peer() as peer:
        await peer.send(PING + CHUNKED + TOO_MANY[what] + LAST)
        assert [answer.status for answer in await peer.answers()] in ([400], [431])
        assert await door.still_serves()


@pytest.mark.parametrize("size", [1, 100_000])
@pytest.mark.parametrize("fault", [b"a: b\n\r\n", b"a: b\r\n\n", b"a: b\r\r\n\r\n", b"\n", b"\n\r\n"])
async def test_where_trailers_end_is_never_in_doubt(fault, size):
    async with open_door() as door, door.peer() as peer:
        await peer.send_in_pieces(PING + CHUNKED + fault + LAST, size)
        assert [answer.status for answer in await peer.answers()] == [400]
        assert await door.still_serves()


@pytest.mark.parametrize("line", [b"a b: c", b" a: b", b"a : b", b"a", b": b"])
async def test_a_trailer_that_is_no_header_is_refused_however_it_is_cut(line):
    data, result = PING + CHUNKED + b"x: y\r\n" + line + b"\r\n\r\n" + LAST, []
    async with open_door() as door:
        for size in (1, 7, len(data)):
            async with door.peer() as peer:
                await peer.send_in_pieces(data, size)
                result.append([answer.status for answer in await peer.answers()])
    assert result == [[400]] * 3


@pytest.mark.slow
@memory_is_told
@pytest.mark.parametrize("answered", ["before them", "after them"])
@pytest.mark.parametrize(
    "more", [b"a: b\r\n", b"a: " + b"b" * 8000 + b"\r\n", b"b"], ids=["many", "large", "one"]
)
async def test_trailers_without_end_are_refused_and_cost_no_memory(answered, more, tmp_path):
    """`/healthz` does not wait for a body, signed calls do."""
    path = b"/healthz" if answered == "before them" else b"/a2a/message/send"
    head = b"POST %b HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n" % path
    async with child_node(tmp_path, "--agent", "echo") as node, node.peer() as peer:
        await peer.send(head + CHUNKED)
        await peer.push(more * (65_536 // len(more)), 64 * 1024 * 1024)
        await peer.rest()  # until the node closes
        assert node.growth < GROWTH_MB
        assert (await node.get()).status == 200
