"""A stand-in of the reference peer and a real node: it joins at the node's relay, and the node's tools talk to it.

`role` is the node's: a publisher is viewed by the stand-in, a viewer asks for it.
"""

import asyncio
import base64
import contextlib

import pytest

from comity.rooms.client import RoomMeeting, read_relay
from comity.rooms.links.joining import LinkMaker, LinkSettings
from comity.rooms.links.webrtc import available_libraries
from comity.rooms.links.websocket import ticket_folder
from comity.rooms.protocol.meeting import Attending
from comity.rooms.protocol.signalling import RoomCipher, effective_password
from comity.runtime.system_clock import SystemClock
from comity.wire.link import LinkClosed, LinkOpened
from tests.rooms.protocol.reference_peer import ReferencePeer
from tests.rooms.scene import PATIENCE, Client, rooms_node

ROLES = pytest.mark.parametrize("role", ["publisher", "viewer"])
DATA = bytes(range(256)) * 400
SECRET = "room secret"


@pytest.fixture(params=["websocket", "wrtc"])
def carrier(request, monkeypatch):
    if request.param not in ("websocket", *available_libraries()):
        pytest.skip(f"{request.param} is not installed")
    monkeypatch.setenv("WRTC_ALLOW_LOOPBACK", "1")
    return request.param


class StandIn:
    """The stand-in with a link: what it says leaves at once, and what comes is heard in order."""

    def __init__(self, reference, link):
        self.reference = reference
        self._link = link
        self._changed = asyncio.Event()

    async def live(self):
        with contextlib.suppress(LinkClosed):
            while True:
                with contextlib.suppress(LinkClosed):  # what came before can still be read
                    await self._flush()
                message = await self._link.control.receive()
                self.reference.handle(message)
                self._changed.set()

    async def do(self, act):
        """Let it do something of its own accord."""
        act(self.reference)
        await self._flush()

    async def until_closed(self):
        """Until the node has ended the link; why."""
        async with asyncio.timeout(PATIENCE):
            return (await self._link.wait_closed()).reason

    async def until(self, true):
        async with asyncio.timeout(PATIENCE):
            while not true(self.reference):
                self._changed.clear()
                await self._changed.wait()

    async def _flush(self):
        while self.reference.out:
            await self._link.control.send(self.reference.out.pop(0).decode())


@contextlib.asynccontextmanager
async def meeting(role, carrier, *, connect=None, at_once=lambda _reference: None, **reference):
    """Our client and the stand-in, in one room of the node's relay. What it does `at_once` follows its hello unasked."""
    same_host = carrier == "websocket"
    async with rooms_node(same_host=same_host, webrtc="any" if same_host else carrier) as node:
        client = Client(node)
        more = {"target_stream_id": "nodejs"} if role == "viewer" else {}
        joining = asyncio.create_task(client.join("lab", stream_id="zoe", **more, **(connect or {})))
        cipher = RoomCipher(effective_password(None))
        attending = Attending(room="lab", stream="nodejs", cipher=cipher, first_delay=0.1, longest_delay=1.0)
        relay = read_relay(node.url.replace("http", "ws", 1) + "/signal")
        maker = LinkMaker(
            LinkSettings(
                library=None if same_host else carrier, tickets=ticket_folder() if same_host else None
            )
        )
        room = RoomMeeting(attending, (relay,), maker, SystemClock())
        room.start()
        try:
            if role == "publisher":
                room.view("zoe")
            async with asyncio.timeout(PATIENCE):
                while not isinstance(opened := await room.next_event(), LinkOpened):
                    pass
            assert opened.link.is_offerer == (role == "viewer")
            peer = ReferencePeer("nodejs", **reference)
            peer.opened("viewer" if role == "publisher" else "publisher", "zoe")
            at_once(peer)
            stand_in = StandIn(peer, opened.link)
            living = asyncio.create_task(stand_in.live())
            await joining
            try:
                yield client, stand_in
            finally:
                living.cancel()
                await asyncio.gather(living, return_exceptions=True)
        finally:
            await room.close()
            await maker.close()


@ROLES
async def test_they_greet_talk_and_what_it_would_lose_arrives_here(role, carrier):
    async with meeting(role, carrier) as (client, stand_in):
        peer = await client.wait_peer("nodejs")
        assert peer["stream_id"] == "nodejs"
        links = (await (await client.live()).link_stats()).values()
        assert [link["path"] for link in links] == ["websocket" if carrier == "websocket" else "direct"]
        await client.call("vdo_send", data={"hello": "reference"}, target="nodejs")
        await stand_in.until(lambda reference: reference.data == [{"hello": "reference"}])
        await stand_in.do(lambda reference: reference.beat())
        said = [0, False, "", None, {"type": "request"}]
        for value in said:
            await stand_in.do(lambda reference, value=value: reference.say(value))
        events = await client.events("data_received", len(said))
        assert [event["data"] for event in events] == said
        assert {event["streamID"] for event in events} == {"nodejs"}
        assert stand_in.reference.auth_failed == 0


@ROLES
async def test_files_go_both_ways_chunk_by_chunk(role, carrier):
    async with meeting(role, carrier) as (client, stand_in):
        await client.wait_peer("nodejs")
        sent = await client.call(
            "vdo_file_send",
            data_base64=base64.b64encode(DATA).decode(),
            name="ours.bin",
            target="nodejs",
            transfer_id="ours",
        )
        assert sent["transfer"]["status"] == "completed"
        assert stand_in.reference.incoming["ours"]["data"] == DATA
        await stand_in.do(lambda reference: reference.send_file(DATA[::-1], "theirs"))
        await client.events("file_received")
        got = await client.call("vdo_file_receive", transfer_id="theirs", encoding="base64")
        assert base64.b64decode(got["data_base64"]) == DATA[::-1]
        await stand_in.until(lambda reference: reference.outgoing["status"] == "completed")


@ROLES
async def test_state_goes_both_ways_and_our_later_write_wins(role, carrier):
    async with meeting(role, carrier) as (client, stand_in):
        await client.wait_peer("nodejs")
        for value in range(5):
            await stand_in.do(lambda reference, value=value: reference.set("k", value))
        async with asyncio.timeout(PATIENCE):
            while (await client.call("vdo_state_get"))["value"] != {"k": 4}:
                await client.call("vdo_state_watch", wait_ms=1000)
        await client.call("vdo_state_set", key="k", value="ours")
        await stand_in.until(lambda reference: reference.entries["k"].get("value") == "ours")


@ROLES
async def test_only_the_right_token_lets_it_in_and_nothing_of_the_refused_is_seen(role):
    token = {"enforce_join_token": True, "join_token_secret": SECRET}
    secure = {**token, "require_session_mac": True}
    async with meeting(role, "websocket", connect=secure, secret=SECRET) as (client, stand_in):
        await client.wait_peer("nodejs")
        await stand_in.do(lambda reference: reference.say("without a MAC"))
        await stand_in.do(lambda reference: reference.set("k", 1, to_one=True))
        async with asyncio.timeout(PATIENCE):
            while (await client.call("vdo_state_get"))["value"] != {"k": 1}:
                await client.call("vdo_state_watch", wait_ms=1000)
        [refused] = await client.events("protocol_auth_failed")
        assert refused["kind"] == "pipe"

    def intrude(reference):
        reference.say("x")
        reference.set("k", 1, to_one=True)
        reference.send_file(DATA, "refused")

    async with meeting(role, "websocket", connect=token, at_once=intrude, secret="wrong") as (
        client,
        stand_in,
    ):
        await stand_in.until(lambda reference: reference.rejected is not None)
        assert stand_in.reference.rejected == "invalid token signature"
        [peer] = (await client.call("vdo_sync_peers"))["peers"]
        assert peer["rejected_reason"] == "invalid token signature"
        assert await stand_in.until_closed() == "not admitted"
        seen = {event["type"] for event in (await client.call("vdo_receive"))["events"]}
        assert "sync_peer_rejected" in seen
        assert not seen & {"data_received", "state_updated", "file_offer_received", "file_received"}
        assert (await client.call("vdo_state_get"))["value"] == {}
        assert (await client.call("vdo_file_transfers"))["incoming"] == []


async def test_its_own_enforcement_takes_the_node_for_itself_where_it_publishes():
    """As recorded: it holds the name of the connection for the peer's, and that is its own."""
    ours = {"join_token_secret": SECRET}
    async with meeting("publisher", "websocket", connect=ours, secret=SECRET, enforce=True) as (
        client,
        stand_in,
    ):
        await client.wait_peer("nodejs")
        await stand_in.until(lambda reference: reference.state == "ready")
    async with meeting("viewer", "websocket", connect=ours, secret=SECRET, enforce=True) as (
        client,
        stand_in,
    ):
        [rejected] = (await client.events("sync_peer_rejected"))[:1]
        assert rejected["reason"] == "join token stream mismatch"
        assert stand_in.reference.state == "rejected"
