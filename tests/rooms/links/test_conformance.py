"""What every PeerLink does, whatever carries it."""

import asyncio

import pytest

from comity.wire.errors import TooLargeError
from comity.wire.link import LinkClosed

pytestmark = pytest.mark.usefixtures("patience")


async def send_until_closed(link):
    """A link that only learns later that its peer is gone takes a few messages more."""
    for _ in range(1000):
        await link.send(b"still there?")
        await asyncio.sleep(0)


async def test_whole_messages_arrive_in_order_both_ways(pair):
    left, right = pair
    messages = [b"", b"a", b"\0" * 1000, b"z"]
    for message in messages:
        await left.send(message)
        await right.send(message[::-1])
    assert [await right.receive() for _ in messages] == messages
    assert [await left.receive() for _ in messages] == [message[::-1] for message in messages]


async def test_each_end_tells_its_limit_and_who_is_there(pair):
    for end in pair:
        assert end.max_message_bytes == 1000
        assert end.peer
    assert pair[0].peer != pair[1].peer


async def test_a_message_over_the_limit_is_refused_and_the_link_lives_on(pair):
    left, right = pair
    with pytest.raises(TooLargeError, match="1,000 bytes"):
        await left.send(b"x" * 1001)
    await left.send(b"x" * 1000)
    assert len(await right.receive()) == 1000


async def test_a_sender_waits_for_a_reader(pair):
    left, right = pair
    taken = 0

    async def send_many():
        nonlocal taken
        for number in range(50):
            await left.send(b"%d" % number)
            taken += 1

    sending = asyncio.create_task(send_many())
    for _ in range(500):
        await asyncio.sleep(0)
    assert 0 < taken < 50
    assert [int(await right.receive()) for _ in range(50)] == list(range(50))
    await sending


async def test_a_reader_waits_for_a_message(pair):
    left, right = pair
    reading = asyncio.create_task(right.receive())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not reading.done()
    await left.send(b"now")
    assert await reading == b"now"


async def test_a_reader_that_gave_up_takes_nothing(pair):
    left, right = pair
    reading = asyncio.create_task(right.receive())
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await left.send(b"kept")
    assert await right.receive() == b"kept"


async def test_closing_ends_a_waiting_reader_on_either_side(pair):
    left, right = pair
    readers = [asyncio.create_task(end.receive()) for end in (left, right, right)]
    await asyncio.sleep(0)
    await left.close("done here")
    for outcome in await asyncio.gather(*readers, return_exceptions=True):
        assert isinstance(outcome, LinkClosed)
        assert outcome.reason == "done here"


async def test_closing_ends_a_waiting_sender_on_either_side(pair):
    left, right = pair
    senders = [asyncio.create_task(send_until_closed(end)) for end in (left, left, right, right)]
    for _ in range(100):
        await asyncio.sleep(0)
    assert not any(sender.done() for sender in senders)
    await right.close("done here")
    for outcome in await asyncio.gather(*senders, return_exceptions=True):
        assert isinstance(outcome, LinkClosed)


async def test_a_closed_end_neither_sends_nor_receives(pair):
    left, right = pair
    await right.send(b"unread")
    await left.close("mine")
    with pytest.raises(LinkClosed, match="mine"):
        await left.send(b"x")
    with pytest.raises(LinkClosed, match="mine"):
        await left.receive()


async def test_the_other_end_learns_of_it(pair):
    left, right = pair
    await left.close("gone")
    with pytest.raises(LinkClosed, match="gone"):
        await right.receive()
    with pytest.raises(LinkClosed, match="gone"):
        await send_until_closed(right)


async def test_closing_again_changes_nothing(pair):
    left, right = pair
    await left.close("first")
    await left.close("second")
    await right.close("third")
    with pytest.raises(LinkClosed, match="first"):
        await left.receive()
    with pytest.raises(LinkClosed, match="first"):
        await right.receive()
