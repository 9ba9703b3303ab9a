"""One connection in simulated time: how slow a peer may be, and how long nothing may happen."""

import asyncio

import pytest

from comity.http.connection import BODY_BYTES
from tests.http.wires import GET, KEEP_ALIVE, PATIENCE, POST, NodeRuntime, code_of
from tests.requests.pipelines import settle, simulated


@simulated
async def test_a_connection_that_says_nothing_is_closed_without_a_word():
    runtime = NodeRuntime()
    _, wire = runtime.connect()
    await asyncio.sleep(PATIENCE - 0.1)
    assert not wire.gone
    await asyncio.sleep(PATIENCE / 3)
    assert wire.gone
    assert wire.got == b""
    assert runtime.refused == []


@simulated
async def test_a_head_that_comes_byte_by_byte_is_given_up():
    runtime = NodeRuntime()
    connection, wire = runtime.connect()
    began = asyncio.get_running_loop().time()
    for byte in b"GET / HTTP/1.1\r\nhost: localhost\r\nx-slow: " + b"a" * 1000:
        if wire.over:
            break
        connection.data_received(bytes([byte]))
        await asyncio.sleep(1)
    assert wire.over
    assert asyncio.get_running_loop().time() - began <= PATIENCE * 1.3
    assert wire.answers[-1][0] == 408
    assert code_of(wire) == "deadline"
    assert runtime.refused == ["deadline"]


@pytest.mark.parametrize("dripped", [b"\r\n", b"G"])
@simulated
async def test_the_head_of_a_later_request_has_no_more_time(dripped):
    """Also where what is dripped is no head at all: empty lines between requests."""
    runtime = NodeRuntime()
    connection, wire = runtime.connect()
    connection.data_received(GET)
    await asyncio.sleep(70)
    assert not wire.gone
    for _ in range(100):
        if wire.over:
            break
        connection.data_received(dripped)
        dripped = dripped if dripped == b"\r\n" else b"E"
        await asyncio.sleep(1)
    assert wire.over
    assert asyncio.get_running_loop().time() <= 70 + PATIENCE * 1.3


@pytest.mark.parametrize("form", ["announced", "chunked"])
@simulated
async def test_a_body_that_comes_byte_by_byte_is_given_up(form):
    runtime = NodeRuntime()
    connection, wire = runtime.connect()
    announced = b"content-length: 100000\r\n\r\n"
    connection.data_received(
        POST + (announced if form == "announced" else b"transfer-encoding: chunked\r\n\r\n")
    )
    for _ in range(1000):
        if wire.over:
            break
        connection.data_received(b"x" if form == "announced" else b"1\r\nx\r\n")
        await asyncio.sleep(1)
    await settle()
    assert wire.over
    assert asyncio.get_running_loop().time() <= PATIENCE * 1.3
    assert wire.answers[-1][0] == 408
    assert runtime.heard == ["gone"]
    assert runtime.refused == ["deadline"]


@simulated
async def test_a_body_that_keeps_coming_is_waited_for():
    runtime = NodeRuntime()
    connection, wire = runtime.connect()
    seconds = 600
    per_second = BODY_BYTES * 4 // int(PATIENCE)
    connection.data_received(POST + b"content-length: %d\r\n\r\n" % (seconds * per_second))
    for _ in range(seconds):
        connection.data_received(b"x" * per_second)
        await asyncio.sleep(1)
    await settle()
    assert wire.answers[0][0] == 200
    assert runtime.heard == [("/", seconds * per_second)]


@simulated
async def test_a_peer_that_we_hold_back_is_not_blamed_for_it():
    runtime = NodeRuntime(lambda _scope: asyncio.sleep(1000))
    connection, wire = runtime.connect()
    connection.data_received(POST + b"content-length: 200000\r\n\r\n" + b"x" * 100_000)
    await asyncio.sleep(999)
    assert not wire.reading
    assert not wire.gone
    await asyncio.sleep(2)
    assert wire.reading
    connection.data_received(b"x" * 100_000)
    await settle()
    assert runtime.heard == [("/", 200_000)]


@simulated
async def test_a_connection_on_which_nothing_happens_is_closed_in_the_end():
    runtime = NodeRuntime()
    connection, wire = runtime.connect()
    for _ in range(3):
        connection.data_received(GET)
        await asyncio.sleep(KEEP_ALIVE - 1)
        assert not wire.gone
    await asyncio.sleep(1 + PATIENCE / 2)
    assert wire.gone
    assert [status for status, _ in wire.answers] == [200] * 3
    assert runtime.refused == []


@simulated
async def test_one_that_waits_for_its_answer_is_not_taken_for_idle():
    runtime = NodeRuntime(lambda _scope: asyncio.sleep(10 * KEEP_ALIVE))
    connection, wire = runtime.connect()
    connection.data_received(GET)
    await asyncio.sleep(10 * KEEP_ALIVE + KEEP_ALIVE / 2)
    assert not wire.gone
    assert wire.answers == [(200, b"/hello ")]
    await asyncio.sleep(KEEP_ALIVE)
    assert wire.gone


@simulated
async def test_work_that_takes_long_is_not_cut_short():
    runtime = NodeRuntime(lambda _scope: asyncio.sleep(3600))
    connection, wire = runtime.connect()
    connection.data_received(GET)
    await asyncio.sleep(3601)
    assert wire.answers == [(200, b"/hello ")]


@simulated
async def test_a_peer_that_takes_nothing_of_what_we_send_is_given_up():
    runtime = NodeRuntime()
    connection, wire = runtime.connect()
    wire.stuck = True
    connection.pause_writing()
    connection.data_received(GET)
    await asyncio.sleep(PATIENCE - 1)
    assert not wire.gone
    await asyncio.sleep(PATIENCE / 3)
    assert wire.gone
    assert not runtime.state.tasks


@simulated
async def test_a_peer_that_takes_it_in_time_is_not():
    runtime = NodeRuntime()
    connection, wire = runtime.connect()
    connection.data_received(GET)
    await settle()
    for _ in range(2):
        connection.pause_writing()
        await asyncio.sleep(PATIENCE - 8)
        connection.resume_writing()
    await asyncio.sleep(PATIENCE * 2)
    assert not wire.gone


@simulated
async def test_a_connection_that_does_not_end_when_it_is_closed_is_cut():
    runtime = NodeRuntime()
    connection, wire = runtime.connect()
    wire.stuck = True
    connection.data_received(GET[:-2] + b"connection: close\r\n\r\n")
    await asyncio.sleep(PATIENCE - 1)
    assert wire.closing
    assert not wire.gone
    await asyncio.sleep(PATIENCE)
    assert wire.gone
