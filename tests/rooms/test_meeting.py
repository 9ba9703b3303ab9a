"""A room under asyncio: against our own relay, and against relays that misbehave."""

import asyncio
import contextlib
import json

import pytest
from websockets.asyncio.server import serve

from comity.rooms.client import LinkOpened, RoomMeeting, read_relay
from comity.rooms.links.joining import LinkMaker, LinkSettings
from comity.rooms.protocol.effects import (
    AttemptFailed,
    PeerSeen,
    SignallingFault,
    SignallingLost,
    SignallingProblem,
    SignallingReady,
)
from comity.rooms.protocol.meeting import Attending
from comity.rooms.protocol.relay import SignallingRelay
from comity.rooms.protocol.signalling import RoomCipher, effective_password
from comity.runtime.system_clock import SystemClock
from comity.wire.link import LinkClosed
from tests.ports import unused_port
from tests.rooms.relay_scene import running_relay

pytestmark = pytest.mark.usefixtures("patience")


class People:
    """Rooms of several peers that share one folder of tickets, so that no WebRTC is needed."""

    def __init__(self, url, folder):
        self.url = url
        self.folder = folder
        self.rooms = []
        self.makers = []

    def come(self, stream, *views, password="secret", url=None, settings=None):
        maker = LinkMaker(settings or LinkSettings(tickets=self.folder))
        cipher = RoomCipher(effective_password(password))
        attending = Attending(room="lab", stream=stream, cipher=cipher, first_delay=0.02, longest_delay=0.1)
        room = RoomMeeting(attending, (read_relay(url or self.url),), maker, SystemClock())
        self.rooms.append(room)
        self.makers.append(maker)
        room.start()
        for view in views:
            room.view(view)
        return room


@contextlib.asynccontextmanager
async def people(url, folder):
    people = People(url, folder)
    try:
        yield people
    finally:
        for room in people.rooms:
            await room.close()
        for maker in people.makers:
            await maker.close()


async def news(room, kind):
    while True:
        result = await room.next_event()
        if isinstance(result, kind):
            return result


async def linked(room):
    return (await news(room, LinkOpened)).link


async def test_two_peers_are_linked_and_know_each_others_streams(tmp_path):
    async with running_relay() as scene, people(scene.url, tmp_path) as crowd:
        anna, bert = crowd.come("anna"), crowd.come("bert", "anna")
        one, two = await news(anna, LinkOpened), await news(bert, LinkOpened)
        assert (one.stream, two.stream) == ("bert", "anna")
        assert (one.link.is_offerer, two.link.is_offerer) == (True, False)
        await one.link.control.send("hello")
        assert await two.link.control.receive() == "hello"
        assert {peer.stream for peer in anna.peers} == {"bert"}
        assert anna.joined


async def test_who_views_nobody_is_linked_to_nobody(tmp_path):
    async with running_relay() as scene, people(scene.url, tmp_path) as crowd:
        anna, bert = crowd.come("anna"), crowd.come("bert")
        seen = await news(anna, PeerSeen)
        assert seen.peer.stream in (None, "bert")
        await news(bert, SignallingReady)
        bert.view("anna")
        await linked(bert)


async def test_three_in_a_star_and_one_that_comes_late(tmp_path):
    async with running_relay() as scene, people(scene.url, tmp_path) as crowd:
        bert, carl = crowd.come("bert", "anna"), crowd.come("carl", "anna")
        await news(bert, SignallingReady)
        await news(carl, SignallingReady)
        anna = crowd.come("anna")
        streams = {(await news(anna, LinkOpened)).stream for _ in range(2)}
        assert streams == {"bert", "carl"}
        await linked(bert)
        await linked(carl)


async def test_another_password_is_another_room(tmp_path):
    async with running_relay() as scene, people(scene.url, tmp_path) as crowd:
        anna, bert = crowd.come("anna", password="one"), crowd.come("bert", "anna", password="two")
        assert (await news(bert, SignallingReady)).peers == ()
        assert (await news(anna, SignallingReady)).peers == ()
        assert scene.relay.counts.rooms == 2


async def test_a_link_that_ends_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setattr("comity.rooms.protocol.meeting.VIEW_SECONDS", (0.05, 0.1))
    async with running_relay() as scene, people(scene.url, tmp_path) as crowd:
        anna, bert = crowd.come("anna"), crowd.come("bert", "anna")
        first = await linked(anna)
        await linked(bert)
        await first.close("by accident")
        again = await linked(bert)
        await (await linked(anna)).control.send("again")
        assert await again.control.receive() == "again"


async def test_a_relay_that_comes_back_is_joined_again_and_the_link_never_ends(tmp_path):
    port = unused_port()
    async with running_relay(port=port) as scene, people(scene.url, tmp_path) as crowd:
        anna, bert = crowd.come("anna"), crowd.come("bert", "anna")
        one, two = await linked(anna), await linked(bert)
        await asyncio.gather(news(anna, SignallingLost), news(bert, SignallingLost), scene.stop())
        assert not anna.joined
        await one.control.send("without")
        assert await two.control.receive() == "without"
        async with running_relay(port=port):
            await asyncio.gather(news(anna, SignallingReady), news(bert, SignallingReady))
            assert one.end is None
            carl = crowd.come("carl", "anna")
            await linked(carl)
            await two.control.send("with")
            assert await one.control.receive() == "with"


async def test_a_stream_id_that_is_taken_is_told_and_free_when_its_owner_leaves(tmp_path, monkeypatch):
    monkeypatch.setattr("comity.rooms.protocol.meeting.VIEW_SECONDS", (0.05, 0.1))
    async with running_relay() as scene, people(scene.url, tmp_path) as crowd:
        anna = crowd.come("anna")
        await news(anna, SignallingReady)
        while scene.relay.counts.streams == 0:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)
        other = crowd.come("anna")
        assert (await news(other, SignallingProblem)).code == "STREAMID_IN_USE"
        await anna.close()
        bert = crowd.come("bert", "anna")
        await linked(bert)
        await linked(other)


async def test_a_room_that_is_refused_is_told(tmp_path):
    relay = SignallingRelay(serves=lambda _room: False)
    async with running_relay(relay=relay) as scene, people(scene.url, tmp_path) as crowd:
        anna = crowd.come("anna")
        assert (await news(anna, SignallingProblem)).code == "ROOM_REFUSED"
        assert "does not serve that room" in (await news(anna, SignallingLost)).reason


async def test_a_relay_that_is_not_there_is_told_and_tried_again(tmp_path):
    port = unused_port()
    async with people(f"ws://127.0.0.1:{port}/signal", tmp_path) as crowd:
        anna = crowd.come("anna")
        for _ in range(3):
            assert "nobody listens there" in (await news(anna, SignallingLost)).reason
        async with running_relay(port=port):
            await news(anna, SignallingReady)


async def test_an_attempt_that_cannot_be_made_is_told_with_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr("comity.rooms.links.webrtc.available_libraries", tuple)
    async with running_relay() as scene, people(scene.url, tmp_path) as crowd:
        anna = crowd.come("anna", settings=LinkSettings())
        crowd.come("bert", "anna", settings=LinkSettings())
        failed = await news(anna, AttemptFailed)
        assert "pip install " in failed.reason
        assert [failed.uuid] == [peer.uuid for peer in anna.peers]


async def test_leaving_frees_the_stream_and_ends_the_links(tmp_path):
    async with running_relay() as scene, people(scene.url, tmp_path) as crowd:
        anna, bert = crowd.come("anna"), crowd.come("bert", "anna")
        one, two = await linked(anna), await linked(bert)
        await bert.close("goodbye")
        assert (await one.wait_closed()).by == "peer"
        assert two.end.by == "us"
        with pytest.raises(LinkClosed):
            await news(bert, ())
        await bert.close()
        while scene.relay.counts.peers != 1:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def rude_relay(say):
    """A relay that says what the test wants, whatever it is asked."""
    async with serve(say, "127.0.0.1", 0, compression=None) as server:
        yield f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/"


async def test_who_leaves_says_so(tmp_path):
    said = []

    async def listen(socket):
        await socket.send(json.dumps({"request": "listing", "list": []}))
        async for text in socket:
            said.append(json.loads(text))  # noqa: PERF401 - each as it comes

    async with rude_relay(listen) as url, people(url, tmp_path) as crowd:
        anna = crowd.come("anna")
        await news(anna, SignallingReady)
        await anna.close()
        while {"leave": True} not in said:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)
    assert said[-1] == {"leave": True}


async def test_garbage_of_a_relay_is_a_fault_and_no_crash(tmp_path):
    async def say(socket):
        await socket.recv()
        await socket.send(json.dumps({"request": "listing", "list": []}))
        for garbage in (
            "",
            "{",
            "[]",
            '{"request":"offerSDP"}',
            "[" * 50_000,
            b"\xff\xfe",
            '{"UUID":"u","session":"s","description":7}',
        ):
            await socket.send(garbage)
        await socket.wait_closed()

    async with rude_relay(say) as url, people(url, tmp_path) as crowd:
        anna = crowd.come("anna")
        await news(anna, SignallingReady)
        for _ in range(7):
            assert (await news(anna, SignallingFault)).reason
        assert anna.joined


async def test_a_flood_of_a_relay_is_bounded(tmp_path):
    """Ten thousand peers that come, and as many that ask for offers."""
    done = asyncio.Event()

    async def say(socket):
        await socket.recv()
        await socket.send(json.dumps({"request": "listing", "list": []}))
        for number in range(10_000):
            await socket.send(json.dumps({"request": "someonejoined", "UUID": f"u{number}"}))
            await socket.send(json.dumps({"request": "offerSDP", "UUID": f"u{number}"}))
        done.set()
        await socket.wait_closed()

    async with rude_relay(say) as url, people(url, tmp_path) as crowd:
        anna = crowd.come("anna")
        await done.wait()
        assert len(anna._notices) <= 1000
        assert len(anna._joinings) <= 16
        assert len(anna.peers) <= 1000


@pytest.mark.parametrize("last_word", ["x" * 300_000, b"\0" * 300_000])
async def test_a_message_too_long_loses_the_relay_and_nothing_else(tmp_path, last_word):
    async def say(socket):
        await socket.recv()
        await socket.send(json.dumps({"request": "listing", "list": []}))
        await socket.send(last_word)
        await socket.wait_closed()

    async with rude_relay(say) as url, people(url, tmp_path) as crowd:
        anna = crowd.come("anna")
        await news(anna, SignallingReady)
        await news(anna, SignallingLost)
        await news(anna, SignallingReady)
