"""One link of a session."""

import asyncio

import pytest

from comity.rooms.peer_connection import FULL_BYTES, PeerConnection
from comity.rooms.protocol.effects import LinkDrained, TextArrived
from comity.testing.loopback import channel_loopback_pair
from comity.wire.link import LinkOpened


async def no_wait():
    """There is room."""


@pytest.mark.parametrize("fatal", [TextArrived, LinkDrained], ids=["reading", "writing"])
async def test_a_link_that_this_side_cannot_serve_is_closed_and_does_not_stand_still(fatal, caplog):
    here, there = channel_loopback_pair()

    def hear(event):
        assert not isinstance(event, fatal), "a fault of ours"

    opened = LinkOpened(attempt=1, uuid="u", stream=None, link=here)
    line = PeerConnection("bert", opened, opened_at=0.0, notify=hear, wait_room=no_wait)
    line.start()
    for _ in range(2 * FULL_BYTES // 65_536):
        line.send_bytes("x-comity", bytes(65_536))
    await there.control.send("hello")
    async with asyncio.timeout(10):
        end = await there.wait_closed()
    assert (end.by, end.reason) == ("peer", "this side could not go on")
    assert "a fault of ours" in caplog.text
    await line.stop()
