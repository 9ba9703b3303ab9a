"""What the loopback link promises beyond every PeerLink."""

import asyncio

import pytest

from comity.testing.loopback import loopback_pair
from comity.wire.errors import InvalidError
from comity.wire.link import LinkClosed


async def test_messages_taken_before_the_end_can_still_be_read():
    left, right = loopback_pair()
    await left.send(b"one")
    await left.send(b"two")
    await left.close("bye")
    assert [await right.receive(), await right.receive()] == [b"one", b"two"]
    with pytest.raises(LinkClosed, match="bye"):
        await right.receive()


async def test_exactly_its_capacity_is_taken_without_a_reader():
    left, right = loopback_pair(capacity=3)
    sending = [asyncio.create_task(left.send(b"%d" % number)) for number in range(5)]
    await asyncio.sleep(0)
    assert [task.done() for task in sending] == [True, True, True, False, False]
    assert await right.receive() == b"0"
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [task.done() for task in sending] == [True, True, True, True, False]
    await left.close()
    assert isinstance((await asyncio.gather(*sending, return_exceptions=True))[-1], LinkClosed)


async def test_a_message_is_handed_over_uncopied():
    left, right = loopback_pair()
    message = bytes(1000)
    await left.send(message)
    assert await right.receive() is message


def test_its_ends_are_named():
    left, right = loopback_pair(names=("alice", "bob"))
    assert (left.peer, right.peer) == ("loopback:bob", "loopback:alice")


def test_a_link_without_room_is_refused():
    with pytest.raises(InvalidError, match="capacity of 0"):
        loopback_pair(capacity=0)
