"""Peers who send more than one connection is for: what they cost is bounded, and others are served meanwhile."""

import asyncio
import contextlib

import pytest

from tests.http.attacks.peers import GET, GROWTH_MB, child_node, connected, memory_is_told, open_door

try:
    import resource
except ImportError:  # Windows knows no such limit
    resource = None

REQUEST = b"GET /healthz HTTP/1.1\r\nhost:localhost\r\n\r\n"
MANY = REQUEST * 1500
ROUNDS = 30
IDLE = 2000


@pytest.mark.slow
@memory_is_told
async def test_requests_without_end_from_a_peer_that_reads_cost_no_memory(tmp_path):
    async with asyncio.timeout(120), child_node(tmp_path) as node, node.peer() as peer:
        answered = asyncio.create_task(_count_answers(peer, ROUNDS * 1500))
        sending = asyncio.create_task(peer.send(*[MANY] * ROUNDS))
        assert (await node.get()).status == 200  # beside it
        await sending
        assert await answered == ROUNDS * 1500
        assert node.growth < GROWTH_MB


async def _count_answers(peer, wanted):
    count, before = 0, b""
    while count < wanted and (piece := await peer.reader.read(65_536)):
        both = before + piece
        count += both.count(b"HTTP/1.1 200")
        before = both[-11:]
    return count


@pytest.mark.slow
@memory_is_told
@pytest.mark.parametrize("connections", [1, 8])
async def test_requests_without_end_from_a_peer_that_does_not_read_cost_no_memory(connections, tmp_path):
    async with asyncio.timeout(120), child_node(tmp_path) as node, contextlib.AsyncExitStack() as open_peers:
        peers = [await open_peers.enter_async_context(node.peer(limit=1024)) for _ in range(connections)]
        stopped = await asyncio.gather(*(peer.push(MANY, 32 * 1024 * 1024) for peer in peers))
        assert all(stopped)  # nobody is read for ever
        assert node.growth < GROWTH_MB
        assert (await node.get()).status == 200


@pytest.mark.slow
@memory_is_told
async def test_bodies_without_end_behind_a_request_that_is_answered_cost_no_memory(tmp_path):
    """Calls with bodies within the limit, one behind the other, and nobody who reads the answers."""
    body = b"x" * 60_000
    call = (
        b"POST /a2a/message/send HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n" % len(body)
    ) + body
    async with (
        asyncio.timeout(120),
        child_node(tmp_path, "--agent", "echo") as node,
        node.peer(limit=1024) as peer,
    ):
        await peer.send(call)
        assert (await peer.answer()).status == 400
        node.look()
        await peer.push(call, 64 * 1024 * 1024)
        assert node.growth < GROWTH_MB
        assert (await node.get()).status == 200


async def test_while_a_request_is_answered_the_next_ones_wait_outside():
    """What is read ahead is a small, fixed amount: the rest stays with the peer."""
    go_on = asyncio.Event()

    async with open_door(patience=20.0) as door:
        door.before_answering = go_on.wait
        async with door.peer() as peer:
            assert await peer.push(REQUEST * 1000, 32 * 1024 * 1024)
            assert len(door.seen) == 1  # one at a time
            go_on.set()
            door.before_answering = None
            assert b"HTTP/1.1 200" in await peer.hears(5.0)
        assert await door.still_serves()


@pytest.mark.slow
@pytest.mark.skipif(resource is None, reason="files are not limited here")
async def test_two_thousand_idle_connections_keep_nobody_out(tmp_path):
    with _room_for_files(IDLE + 500):
        async with asyncio.timeout(60), child_node(tmp_path) as node, contextlib.AsyncExitStack() as idle:
            peers = [await idle.enter_async_context(connected(node.port)) for _ in range(IDLE)]
            assert (await node.get()).status == 200
            await peers[0].send(GET + b"\r\n")
            assert (await peers[0].answer()).status == 200  # they were let in, and not turned away
            await peers[-1].send(GET + b"\r\n")
            assert (await peers[-1].answer()).status == 200
            assert node.growth < 2 * GROWTH_MB


@contextlib.contextmanager
def _room_for_files(wanted):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"this system allows {hard} open files, the test needs {wanted}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
