"""What every link with channels does, whatever carries it."""

import asyncio
import hashlib

import pytest

from comity.rooms.links.channels import MAX_CHANNELS
from comity.wire.errors import InvalidError, TooLargeError
from comity.wire.link import CONTROL, SEND_MARK, LinkClosed

pytestmark = pytest.mark.usefixtures("patience")

AWKWARD = [
    "",
    b"",
    "a",
    b"\0",
    "grüß dich \U0001f600 \u2028",
    b"\xff\xfe",
    '{"pipe":null}',
    bytes(range(256)),
    "\0nul",
]


async def test_text_and_bytes_arrive_as_what_they_are_in_order_both_ways(joined):
    left, right = joined
    for message in AWKWARD:
        await left.control.send(message)
        await right.control.send(message)
    assert [await right.control.receive() for _ in AWKWARD] == AWKWARD
    assert [await left.control.receive() for _ in AWKWARD] == AWKWARD


async def test_a_message_of_the_largest_size_arrives_and_one_byte_more_is_refused(joined):
    left, right = joined
    for sender, receiver in ((left, right), (right, left)):
        largest = sender.max_message_bytes
        with pytest.raises(TooLargeError, match=f"{largest:,} bytes"):
            await sender.control.send(bytes(largest + 1))
        with pytest.raises(TooLargeError, match=f"{largest:,} bytes"):
            await sender.control.send("é" * (largest // 2 + 1))
        await sender.control.send(b"\xab" * largest)
        await sender.control.send("é" * (largest // 2))
        assert await receiver.control.receive() == b"\xab" * largest
        assert await receiver.control.receive() == "é" * (largest // 2)


async def test_both_ends_know_which_of_them_made_the_offer_and_what_names_the_connection(joined):
    left, right = joined
    assert (left.is_offerer, right.is_offerer) == (True, False)
    assert left.binding == right.binding[::-1]
    assert left.binding[0] != left.binding[1]
    assert all(left.binding)
    assert left.control.label == right.control.label == CONTROL


async def test_channels_are_opened_by_label_from_either_side(joined):
    left, right = joined
    for opener, other in ((left, right), (right, left)):
        mine = await opener.open_channel("x-comity")
        theirs = await other.accept_channel()
        assert (mine.label, theirs.label) == ("x-comity", "x-comity")
        await mine.send(b"forth")
        await theirs.send("back")
        assert await theirs.receive() == b"forth"
        assert await mine.receive() == "back"


async def test_channels_do_not_mix(joined):
    left, right = joined
    labels = [f"x-{number}" for number in range(20)]
    mine = [await left.open_channel(label) for label in labels]
    theirs = {channel.label: channel for channel in [await right.accept_channel() for _ in labels]}
    for count in range(3):
        for channel in mine:
            await channel.send(f"{channel.label} {count}")
        await left.control.send(f"control {count}")
    for label in labels:
        assert [await theirs[label].receive() for _ in range(3)] == [f"{label} {count}" for count in range(3)]
    assert [await right.control.receive() for _ in range(3)] == [f"control {count}" for count in range(3)]


@pytest.mark.parametrize("label", ["", "x" * 65, "new\nline", "ümlaut"])
async def test_a_label_that_cannot_be_used_is_refused(joined, label):
    left, _ = joined
    with pytest.raises(InvalidError, match="label"):
        await left.open_channel(label)


async def test_channels_are_limited(joined):
    left, right = joined
    for number in range(MAX_CHANNELS - 1):
        await left.open_channel(f"x-{number}")
        await right.accept_channel()
    with pytest.raises(InvalidError, match="at most 64 channels"):
        await left.open_channel("one too many")
    await left.control.send("still here")
    assert await right.control.receive() == "still here"


async def test_what_is_buffered_never_grows_far_beyond_the_mark(joined, randomness):
    """16 MiB are sent as fast as they are taken. The sender is held back, and every byte arrives in its place."""
    left, right = joined
    channel = await left.open_channel("x-comity")
    other = await right.accept_channel()
    piece = randomness.bytes(65_536)
    total, most = 256, 0
    arrived = hashlib.sha256()

    async def read():
        for _ in range(total):
            arrived.update(await other.receive())

    reading = asyncio.create_task(read())
    sent = hashlib.sha256()
    for number in range(total):
        message = number.to_bytes(4, "big") + piece[4:]
        sent.update(message)
        await channel.send(message)
        most = max(most, channel.buffered)
    await channel.wait_buffered(0)
    assert channel.buffered == 0
    await reading
    assert arrived.digest() == sent.digest()
    assert most <= SEND_MARK + 65_536 + 64
    assert (await left.stats()).bytes_sent == (await right.stats()).bytes_received == total * 65_536


async def test_a_channel_that_nobody_reads_does_not_hold_up_the_others(joined):
    left, right = joined
    channel = await left.open_channel("x-unread")
    await right.accept_channel()
    stuck = asyncio.create_task(send_all(channel, [bytes(65_536)] * 80))
    for number in range(20):
        await left.control.send(str(number))
        assert await right.control.receive() == str(number)
    stuck.cancel()
    await asyncio.gather(stuck, return_exceptions=True)


async def send_all(channel, messages):
    for message in messages:
        await channel.send(message)


async def test_many_may_send_on_one_channel_at_once(joined):
    left, right = joined
    await asyncio.gather(*(left.control.send(f"{number}") for number in range(200)))
    assert {await right.control.receive() for _ in range(200)} == {f"{number}" for number in range(200)}


async def test_a_sender_that_gave_up_leaves_the_channel_usable(joined):
    left, right = joined
    channel = await left.open_channel("x-comity")
    other = await right.accept_channel()
    for _ in range(10):
        sending = asyncio.create_task(send_all(channel, [bytes(100_000)] * 100))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    await left.control.send("enough")
    await right.control.receive()
    sending = asyncio.create_task(channel.send("last"))
    while await other.receive() != "last":
        pass
    await sending


async def test_a_reader_that_gave_up_takes_nothing(joined):
    left, right = joined
    reading = asyncio.create_task(right.control.receive())
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await left.control.send(b"kept")
    assert await right.control.receive() == b"kept"


async def test_the_end_reaches_everybody_who_waits_on_either_side(joined):
    left, right = joined
    channel = await left.open_channel("x-comity")
    other = await right.accept_channel()
    waiting = [
        asyncio.create_task(work)
        for work in (
            left.control.receive(),
            right.control.receive(),
            channel.receive(),
            other.receive(),
            left.accept_channel(),
            right.accept_channel(),
        )
    ]
    ends = [asyncio.create_task(end.wait_closed()) for end in (left, right)]
    await asyncio.sleep(0)
    await left.close("done here")
    for outcome in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(outcome, LinkClosed)
    mine, theirs = await asyncio.gather(*ends)
    assert (mine.by, mine.reason) == ("us", "done here")
    assert theirs.by == "peer"
    assert theirs.reason


async def test_the_end_reaches_a_sender_that_waits(joined):
    left, right = joined
    channel = await left.open_channel("x-comity")
    await right.accept_channel()

    async def send_for_ever():
        while True:
            await channel.send(bytes(65_536))
            await asyncio.sleep(0)

    sending = asyncio.create_task(send_for_ever())
    await left.control.send("go")
    await right.control.receive()
    await right.close("enough")
    with pytest.raises(LinkClosed):
        await sending


async def test_a_closed_link_does_nothing_more(joined):
    left, right = joined
    await right.control.send("unread")
    await left.close("mine")
    await left.close("again")
    with pytest.raises(LinkClosed, match="mine"):
        await left.control.send("x")
    with pytest.raises(LinkClosed, match="mine"):
        await left.control.receive()
    with pytest.raises(LinkClosed, match="mine"):
        await left.open_channel("x-comity")
    with pytest.raises(LinkClosed, match="mine"):
        await left.accept_channel()
    with pytest.raises(LinkClosed, match="mine"):
        await left.control.wait_buffered(0)


async def test_what_arrived_before_the_end_can_still_be_read(joined):
    left, right = joined
    await left.control.send("one")
    await left.control.send(b"two")
    await left.control.send("mark")
    channel = await right.open_channel("x-answer")
    other = await left.accept_channel()
    while right.control.inbox.unread < 3 * 64:  # noqa: ASYNC110 - until all three have arrived
        await asyncio.sleep(0.005)
    await channel.send("they are there")
    await other.receive()
    await left.close("bye")
    await right.wait_closed()
    assert [await right.control.receive() for _ in range(3)] == ["one", b"two", "mark"]
    with pytest.raises(LinkClosed):
        await right.control.receive()


async def test_statistics_tell_path_round_trip_and_limit(joined):
    left, right = joined
    await left.control.send("12345")
    await right.control.receive()
    while (stats := await left.stats()).round_trip is None:  # noqa: ASYNC110 - nobody tells when it is measured
        await asyncio.sleep(0.01)
    assert 0 <= stats.round_trip < 5
    assert stats.path in ("loopback", "websocket", "direct")
    assert (stats.bytes_sent, stats.bytes_received) == (5, 0)
    assert stats.max_message_bytes == left.max_message_bytes >= 262_144
    assert (await right.stats()).bytes_received == 5
