"""A link on which everything takes its time."""

import asyncio

import pytest

from bench.harness.slow_links import slow_pair
from comity.wire.link import LinkClosed

DEADLINE = 20


async def test_messages_keep_their_order_and_are_under_way_together():
    left, right = slow_pair(0.1)
    loop = asyncio.get_running_loop()
    start = loop.time()
    for number in range(50):
        await left.control.send(str(number))
    assert left.control.buffered == 0, "nothing has arrived yet"
    async with asyncio.timeout(DEADLINE):
        assert [await right.control.receive() for _ in range(50)] == [str(number) for number in range(50)]
        await right.control.send("back")
        assert await left.control.receive() == "back"
    assert loop.time() - start >= 0.099
    await left.close()
    await right.close()


async def test_channels_are_as_slow_and_end_with_the_link():
    left, right = slow_pair(0.02)
    channel = await left.open_channel("x-files")
    await channel.send(b"frame")
    async with asyncio.timeout(DEADLINE):
        other = await right.accept_channel()
        assert await other.receive() == b"frame"
        await channel.wait_buffered(0)
        await left.close("done")
        assert (await right.wait_closed()).reason == "done"
        with pytest.raises(LinkClosed):
            await other.receive()
    with pytest.raises(LinkClosed):
        await channel.send(b"more")
    await right.close()
