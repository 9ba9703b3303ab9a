"""What only a stream of lines can do wrong, and where the door may stand."""

import asyncio
import contextlib
import json
import socket
import struct

import pytest

from comity.http.server import bind
from comity.vcp.doors import TcpDoor
from comity.wire.errors import ConfigError
from tests.vcp.doors import open_doors
from tests.vcp.runtime import WIRE, SlowChecker, hello, token

pytestmark = pytest.mark.usefixtures("patience")

HELLO = json.dumps(hello(identity=token())).encode()


@contextlib.asynccontextmanager
async def opened(**named):
    async with open_doors(**named) as doors, doors.client("tcp") as client:
        yield doors, client


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\n\n\r\n"])
async def test_a_line_ends_with_lf_or_crlf_and_blank_ones_are_nothing(end):
    async with opened() as (_, client):
        client.writer.write(b"\r\n\n" + HELLO + end + b'{"categorical": "' + WIRE.encode() + b'"}' + end)
        assert (await client.hear())["type"] == "vcp-ack"
        assert (await client.hear())["accepted"] == ["categorical"]


async def test_the_last_line_needs_no_end_and_is_answered_before_we_close():
    async with opened() as (_, client):
        client.writer.write(HELLO)
        client.writer.write_eof()
        assert json.loads(await client.reader.read())["type"] == "vcp-ack"


async def test_an_answer_that_takes_a_moment_is_waited_for_too():
    async with opened(checker=SlowChecker(0.2)) as (_, client):
        client.writer.write(HELLO)
        client.writer.write_eof()
        assert json.loads(await client.reader.read())["type"] == "vcp-ack"


async def test_the_reason_is_not_taken_back_from_a_peer_that_was_still_sending():
    async with opened() as (doors, client):
        client.writer.write(b"x" * 200_000)
        while doors.runtime.service.connections == 0:  # noqa: ASYNC110 - a peer is not told when it is noticed
            await asyncio.sleep(0.01)
        while doors.runtime.service.connections:  # noqa: ASYNC110 - nor when it is forgotten
            await asyncio.sleep(0.01)
        assert (await client.hear())["type"] == "vcp-error"


async def reset_after(said):
    async with open_doors() as doors:
        async with doors.client("tcp") as client:
            client.writer.write(said)
            await client.writer.drain()
            service = doors.runtime.service
            while service.connections == 0:  # noqa: ASYNC110 - a peer is not told when it is noticed
                await asyncio.sleep(0.01)
            raw = client.writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.writer.transport.abort()
        while service.connections:  # noqa: ASYNC110 - nor when it is forgotten
            await asyncio.sleep(0.01)
        return (
            doors.runtime.metrics.exposition()
            .decode()
            .count('comity_calls_total{outcome="hung_up",room="vcp"} 1.0')
        )


# the two loops tell of a broken connection in different ways
@pytest.mark.parametrize("loop", [asyncio, pytest.importorskip("uvloop")])
@pytest.mark.parametrize("said", [b"\n", HELLO[:20], HELLO + b"\n", HELLO + b"\n" + b"x\n" * 500])
def test_a_connection_that_is_reset_is_counted_and_no_fault(said, loop, caplog):
    with asyncio.Runner(loop_factory=loop.new_event_loop) as runner:
        assert runner.run(reset_after(said)) == 1
    assert "failed" not in caplog.text


async def test_bytes_may_come_one_at_a_time():
    async with opened() as (_, client):
        for byte in HELLO + b"\n":
            client.writer.write(bytes([byte]))
            await client.writer.drain()
            await asyncio.sleep(0)
        assert (await client.hear())["type"] == "vcp-ack"


async def test_invalid_utf8_is_no_hello_and_gets_one_answer():
    async with opened() as (_, client):
        client.writer.write(b'{"type": "vcp-hello", "version": "\xff"}\n')
        assert (await client.hear())["error"]["code"] == "MALFORMED"


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
async def test_the_end_of_a_line_does_not_count_for_the_limit(end):
    line = json.dumps(hello(note="")).encode()
    line = line.replace(b'"note": ""', b'"note": "' + b"x" * (65_536 - len(line)) + b'"')
    assert len(line) == 65_536
    async with opened() as (_, client):
        client.writer.write(line + end)
        assert (await client.hear())["type"] == "vcp-ack"


async def test_the_byte_too_many_is_refused_without_waiting_for_the_end_of_the_line():
    async with opened() as (_, client):
        client.writer.write(b"x" * 65_537)
        assert (await client.hear())["type"] == "vcp-error"
        assert await client.ended()


async def test_in_a_session_exactly_the_line_that_is_too_long_is_skipped():
    async with opened() as (_, client):
        await client.ask(hello())
        client.writer.write(b"x" * 3_000_000 + b"\n" + b'{"generation_preferences": {"depth": 2}}\n')
        assert (await client.hear())["error"]["code"] == "TOO_LARGE"
        assert (await client.hear())["generation_preferences"]["depth"] == 2


async def test_a_peer_that_resets_takes_nobody_with_it():
    async with opened() as (doors, client):
        await client.say(hello())
        client.writer.transport.abort()
        async with doors.client("tcp") as other:
            assert (await other.ask(hello()))["type"] == "vcp-ack"


async def test_a_peer_that_reads_nothing_is_held_back_and_others_are_served():
    async with opened() as (doors, client):
        await client.say(hello())
        flood = asyncio.create_task(client.say("\n".join(["7"] * 500_000)))
        async with doors.client("tcp") as other:
            assert (await other.ask(hello()))["type"] == "vcp-ack"
        await doors.tcp.stop()
        flood.cancel()
        await asyncio.wait([flood])
        assert doors.runtime.service.connections == 0


async def test_other_machines_need_tls():
    async with open_doors() as doors:
        with pytest.raises(ConfigError, match=r"tls\.cert"):
            TcpDoor(doors.runtime.service, bind("0.0.0.0", 0), None)


async def test_stopping_ends_the_connections():
    async with opened() as (doors, client):
        await client.ask(hello())
        await doors.tcp.stop()
        assert await client.ended()
        assert len(doors.runtime.service.sessions) == 0
