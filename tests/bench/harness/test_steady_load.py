"""Requests at a fixed rate: a late answer makes those behind it late, and that is counted."""

import asyncio

import pytest

from bench.harness.http_load import request_bytes
from bench.harness.steady_load import percentile, times_at_rate
from tests.bench.harness.test_http_load import Server

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
REQUEST = request_bytes("GET", "http://localhost/x")


async def test_every_request_is_sent_once_and_has_its_time(patience):
    async with Server(OK) as server:
        times = await times_at_rate(server.url, [[REQUEST] * 5] * 3, 1000)
        assert len(times) == len(server.requests) == 15
        assert server.connections == 3
        assert all(taken > 0 for taken in times)


class Held(Server):
    """Answers nothing before it is let go."""

    def __init__(self):
        super().__init__(OK)
        self.go = asyncio.Event()

    async def _serve(self, reader, writer):
        await self.go.wait()
        await super()._serve(reader, writer)


async def test_time_counts_from_when_a_request_was_due_and_not_from_when_it_could_be_sent(patience):
    async with Held() as server:
        asyncio.get_running_loop().call_later(0.25, server.go.set)
        times = await times_at_rate(server.url, [[REQUEST] * 5], 50)  # 20 ms apart
        assert times == sorted(times, reverse=True)
        assert times[0] - times[-1] > 0.04


@pytest.mark.parametrize("answer", [b"HTTP/1.1 429 Slow\r\ncontent-length: 0\r\n\r\n", None])
async def test_any_other_answer_ends_the_measurement(answer, patience):
    async with Server(answer) as server:
        with pytest.raises(ConnectionError):
            await times_at_rate(server.url, [[REQUEST] * 50], 1000)


def test_the_ninety_ninth_percentile_is_what_one_in_a_hundred_exceeds():
    assert percentile([float(n) for n in range(1000, 0, -1)], 0.99) == 991.0
    assert percentile([3.0], 0.99) == 3.0
