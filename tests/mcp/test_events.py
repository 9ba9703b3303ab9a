"""Streams that can be left and taken up again: what they keep, who reads them, and how they end."""

import asyncio
from contextlib import aclosing

import pytest

from comity.mcp import streams as events
from comity.mcp.streams import KEEPALIVE_SECONDS, EventStream
from comity.testing import run_simulated
from comity.wire import jsonrpc
from comity.wire.errors import ConflictError, NotFoundError


def a_stream(*messages):
    stream = EventStream("3")
    for message in messages:
        stream.add(message)
    return stream


async def heard(stream, after=0, **how):
    """All of a stream that ends."""
    async with aclosing(stream.follow(after, **how)) as reading:
        return [event async for event in reading]


def test_a_stream_is_read_from_a_place_on_with_ids():
    async def main():
        stream = a_stream(b"1", b"2", b"3")
        stream.end()
        assert await heard(stream) == [jsonrpc.event(str(n).encode(), f"3.{n}") for n in (1, 2, 3)]
        assert await heard(stream, 2) == [jsonrpc.event(b"3", "3.3")]
        assert await heard(stream, 3) == []
        assert await heard(stream, 2, with_ids=False) == [jsonrpc.event(b"3")]

    run_simulated(main)


def test_what_comes_later_is_read_as_it_comes():
    async def main():
        stream = a_stream(b"1")
        reading = asyncio.ensure_future(heard(stream))
        for message in (b"2", b"3"):
            await asyncio.sleep(1)
            stream.add(message)
        stream.add(b"4")
        stream.end()
        stream.add(b"too late")
        assert len(await reading) == 4
        assert (stream.last, stream.ended) == (4, True)

    run_simulated(main)


def test_a_second_reader_is_refused_at_once_and_welcome_after_the_first():
    async def main():
        stream = a_stream(b"1")
        first = stream.follow()
        assert stream.followed
        with pytest.raises(ConflictError):
            stream.follow()
        await first.aclose()
        assert not stream.followed
        stream.end()
        assert len(await heard(stream)) == 1

    run_simulated(main)


def test_a_reader_that_has_gone_does_not_send_away_its_successor():
    async def main():
        stream = a_stream(b"1")
        first = stream.follow()
        await first.aclose()
        stream.follow()
        await first.aclose()
        assert stream.followed

    run_simulated(main)


def test_a_place_that_never_was_is_refused():
    async def main():
        with pytest.raises(NotFoundError):
            a_stream(b"1").follow(2)

    run_simulated(main)


def test_who_comes_back_takes_over_from_its_former_connection():
    async def main():
        stream = a_stream(b"1", b"2")
        former = stream.follow()
        events_of_former = aiter(former)
        assert await anext(events_of_former) == jsonrpc.event(b"1", "3.1")
        again = stream.follow(1, take_over=True)
        assert await anext(events_of_former, None) is None
        await former.aclose()
        assert stream.followed
        stream.end()
        assert [event async for event in again] == [jsonrpc.event(b"2", "3.2")]
        await again.aclose()
        assert not stream.followed

    run_simulated(main)


def test_a_reader_that_waits_for_more_ends_when_another_takes_over():
    async def main():
        stream = a_stream(b"1")
        waiting = asyncio.ensure_future(anext(aiter(stream.follow(1)), None))
        await asyncio.sleep(0)
        stream.follow(0, take_over=True)
        assert await waiting is None

    run_simulated(main)


def test_a_new_reader_waits_a_moment_for_the_former_one_to_be_gone():
    async def main():
        stream = a_stream(b"1")
        former = stream.follow()
        leaving = asyncio.ensure_future(stream.wait_for_leaving(1.0))
        await asyncio.sleep(0)
        assert not leaving.done()
        await former.aclose()
        await leaving
        stream.follow()
        await stream.wait_for_leaving(1.0)
        assert stream.followed

    run_simulated(main)


def test_the_latest_messages_are_kept_by_number(monkeypatch):
    monkeypatch.setattr(events, "MAX_EVENTS", 3)

    async def main():
        stream = a_stream(*(b"%d" % n for n in range(1, 11)))
        stream.end()
        assert await heard(stream, 2) == [jsonrpc.event(b"%d" % n, f"3.{n}") for n in (8, 9, 10)]

    run_simulated(main)


def test_the_latest_messages_are_kept_by_size_and_the_last_one_always(monkeypatch):
    monkeypatch.setattr(events, "MAX_BYTES", 10)

    async def main():
        stream = a_stream(b"aaaa", b"bbbb", b"cccc", b"d" * 50)
        stream.end()
        assert await heard(stream) == [jsonrpc.event(b"d" * 50, "3.4")]
        small = a_stream(b"aaaa", b"bbbb", b"cc", b"d")
        small.end()
        assert len(await heard(small)) == 3

    run_simulated(main)


def test_silence_is_broken_by_signs_of_life():
    async def main():
        stream = a_stream()
        reading = aiter(stream.follow())
        began = asyncio.get_running_loop().time()
        assert [await anext(reading), await anext(reading)] == [jsonrpc.KEEPALIVE] * 2
        assert asyncio.get_running_loop().time() - began == pytest.approx(2 * KEEPALIVE_SECONDS)
        stream.add(b"1")
        assert await anext(reading) == jsonrpc.event(b"1", "3.1")

    run_simulated(main)


def test_a_released_reader_gets_what_there_is_and_may_come_back():
    async def main():
        stream = a_stream(b"1")
        reading = asyncio.ensure_future(heard(stream))
        await asyncio.sleep(1)
        stream.release()
        assert await reading == [jsonrpc.event(b"1", "3.1")]
        assert not stream.ended
        stream.add(b"2")
        stream.end()
        assert await heard(stream, 1) == [jsonrpc.event(b"2", "3.2")]

    run_simulated(main)


def test_a_release_before_the_first_reader_counts_for_it_and_later_ones_for_nobody():
    async def main():
        stream = a_stream(b"1")
        stream.release()
        assert await heard(stream) == [jsonrpc.event(b"1", "3.1")]
        stream.release()
        reading = asyncio.ensure_future(heard(stream, 1))
        await asyncio.sleep(1)
        assert not reading.done()
        stream.end()
        assert await reading == []

    run_simulated(main)


@pytest.mark.parametrize("what", ["add", "end", "release"])
def test_whoever_waits_is_woken_by_anything_to_read(what):
    async def main():
        stream = a_stream()
        waiting = asyncio.ensure_future(stream.wait())
        await asyncio.sleep(1)
        assert not waiting.done()
        getattr(stream, what)(*([b"1"] if what == "add" else []))
        await waiting
        await stream.wait()

    run_simulated(main)
