"""The signalling door, against real clients, silent ones and garbage."""

import asyncio
import contextlib
import json
import struct
import sys

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from comity.requests.budget import Budget, Figures
from comity.rooms import doors
from comity.rooms.doors import SIGNAL_PATH, SignallingDoor
from comity.rooms.protocol.relay import MESSAGE_LIMIT, RelayCounts, RelayLimits, SignallingRelay
from comity.runtime.system_clock import SystemClock
from comity.testing.loop import VirtualClock
from tests.rooms.relay_scene import running_relay
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("patience")


async def say(socket, **message):
    await socket.send(json.dumps(message))


async def receive(socket):
    return json.loads(await socket.recv())


async def join(socket, room="room"):
    await say(socket, request="joinroom", roomid=room)
    return await receive(socket)


async def come_deaf(scene):
    """A peer that joins the room and never reads."""
    reader, writer = await asyncio.open_connection("127.0.0.1", scene.port, limit=1024)
    key = "dGhlIHNhbXBsZSBub25jZQ=="
    writer.write(
        f"GET {SIGNAL_PATH} HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
        f"sec-websocket-version: 13\r\nsec-websocket-key: {key}\r\n\r\n".encode()
    )
    await reader.readuntil(b"\r\n\r\n")
    text = b'{"request":"joinroom","roomid":"room"}'
    writer.write(bytes([0x81, 0x80 | len(text)]) + bytes(4) + text)
    return writer


async def test_two_peers_find_each_other_and_exchange_a_handshake():
    async with running_relay() as scene, scene.come() as a, scene.come() as b:
        assert await join(a) == {"request": "listing", "list": []}
        await say(a, request="seed", streamID="sa")
        listing = await join(b)
        (entry,) = listing["list"]
        assert entry["streamID"] == "sa"
        joined = await receive(a)
        assert joined["request"] == "someonejoined"
        await say(b, request="play", streamID="sa")
        wanted = await receive(a)
        assert wanted == {"request": "offerSDP", "UUID": joined["UUID"], "streamID": "sa"}
        await say(a, UUID=wanted["UUID"], description="é" * 1000, session="s")
        assert await receive(b) == {"UUID": entry["UUID"], "description": "é" * 1000, "session": "s"}


async def test_who_closes_leaves_its_room_and_its_stream():
    async with running_relay() as scene:
        async with scene.come() as a:
            await join(a)
            await say(a, request="seed", streamID="s")
            await eventually(lambda: scene.relay.counts.streams == 1)
        await eventually(lambda: scene.relay.counts == RelayCounts(0, 0, 0))


async def test_who_is_cut_off_leaves_too():
    async with running_relay() as scene:
        a = await scene.come()
        await join(a)
        a.transport.abort()
        await eventually(lambda: scene.relay.counts.peers == 0)


async def test_garbage_is_answered_and_the_connection_lives_on():
    async with running_relay() as scene, scene.come() as a:
        for garbage in ("", "{", "[]", "nonsense", '{"request":"dance"}', "[" * 100_000, '{"UUID":"nobody"}'):
            await a.send(garbage)
            assert (await receive(a))["request"] == "error"
        assert (await join(a))["request"] == "listing"


async def test_binary_frames_and_messages_too_long_end_the_connection():
    async with running_relay() as scene:
        for message, code in ((b"\0", 1003), ("x" * (MESSAGE_LIMIT + 5000), 1009)):
            async with scene.come() as a:
                with contextlib.suppress(ConnectionClosed):
                    await a.send(message)
                with pytest.raises(ConnectionClosed) as closed:
                    await a.recv()
                assert closed.value.rcvd.code == code
        async with scene.come() as a:
            await join(a)
        await eventually(lambda: scene.relay.counts.peers == 0)


async def test_who_sends_too_much_is_let_go_with_a_reason():
    relay = SignallingRelay(RelayLimits(messages=10))
    async with running_relay(relay=relay) as scene, scene.come() as a, scene.come() as b:
        await join(b)
        for _ in range(10):
            await join(a)
        with pytest.raises(ConnectionClosed) as closed:
            await join(a)
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1008, "too many messages; send fewer")
        assert (await receive(b))["request"] == "someonejoined"
        assert (await join(b))["request"] == "listing"


async def test_a_relay_that_is_full_says_so_before_the_upgrade():
    relay = SignallingRelay(RelayLimits(peers=1))
    async with running_relay(relay=relay) as scene, scene.come():
        with pytest.raises(InvalidStatus) as refused:
            await scene.come()
        assert refused.value.response.status_code == 503
        assert json.loads(refused.value.response.body)["code"] == "overloaded"


async def test_a_token_is_taken_as_bearer_or_in_the_address_and_a_wrong_one_never():
    options = {"knows_token": "right".__eq__, "needs_token": True}
    async with running_relay(**options) as scene:
        for query, headers, status in (
            ("", {}, 401),
            ("?token=wrong", {}, 403),
            ("", {"Authorization": "Bearer wrong"}, 403),
            ("", {"Authorization": "Basic right"}, 401),
            ("?" + "&".join(f"a{number}=b" for number in range(100)), {}, 401),
        ):
            with pytest.raises(InvalidStatus) as refused:
                await scene.come(query, additional_headers=headers)
            assert refused.value.response.status_code == status
        assert scene.relay.counts.peers == 0
        async with (
            scene.come("?token=right") as a,
            scene.come(additional_headers={"Authorization": "Bearer right"}) as b,
        ):
            await join(a)
            assert len((await join(b))["list"]) == 1


async def test_a_caller_with_the_token_may_join_what_strangers_may_not():
    relay = SignallingRelay(serves=lambda _room: False)
    async with (
        running_relay(relay=relay, knows_token="right".__eq__) as scene,
        scene.come() as stranger,
        scene.come("?token=right") as owner,
    ):
        assert (await join(stranger))["code"] == "ROOM_REFUSED"
        assert (await join(owner))["request"] == "listing"


async def test_a_peer_that_never_reads_is_let_go_and_holds_up_nobody():
    async with running_relay(relay=SignallingRelay(RelayLimits(messages=100_000, bytes=1 << 30))) as scene:
        writer = await come_deaf(scene)
        async with scene.come() as a, scene.come() as b:
            (deaf,) = (await join(a))["list"]
            await join(b)
            talker = (await receive(a))["UUID"]
            sent = 0
            while scene.relay.counts.peers == 3:
                await say(a, UUID=deaf["UUID"], filler="x" * 200_000)
                sent += 1
                await say(a, UUID=talker, number=sent)
                while (heard := await receive(b)).get("number") != sent:
                    assert heard["request"] == "someonejoined"
            assert sent < 100
        writer.close()


async def test_many_peers_that_never_read_do_not_fill_the_memory_together(monkeypatch):
    monkeypatch.setattr("comity.rooms.doors.QUEUE_BYTES", 1 << 30)  # no queue is full by itself
    limits = RelayLimits(messages=100_000, bytes=1 << 30)
    async with running_relay(relay=SignallingRelay(limits), all_queues_bytes=1_000_000) as scene:
        writers = [await come_deaf(scene) for _ in range(4)]
        async with scene.come() as a:
            await eventually(lambda: scene.relay.counts.peers == 5)
            deaf = (await join(a))["list"]
            assert len(deaf) == 4
            for _ in range(200):
                for each in deaf:
                    await say(a, UUID=each["UUID"], filler="x" * 100_000)
                await say(a, UUID="nobody")
                assert (await receive(a))["code"] == "PEER_GONE"
                if scene.relay.counts.peers < 5:
                    break
            assert 1 < scene.relay.counts.peers < 5
        for writer in writers:
            writer.close()


async def test_a_stream_of_ticking_bytes_costs_nothing_to_others():
    """A peer that announces a long frame and sends a byte now and then is a peer like any other."""
    async with running_relay() as scene, scene.come() as a:
        reader, writer = await asyncio.open_connection("127.0.0.1", scene.port)
        writer.write(
            f"GET {SIGNAL_PATH} HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
            "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"\x81\xfe" + struct.pack("!H", 60_000) + bytes(4) + b"x")
        assert (await join(a))["request"] == "listing"
        writer.close()


async def test_an_address_that_has_used_up_its_budget_waits_and_loses_nothing():
    clock = SystemClock()
    budget = Budget(clock, Figures(requests=20, per_seconds=1.0, limit_loopback=True))
    async with running_relay(budget=budget) as scene, scene.come() as a:
        for _ in range(30):
            await say(a, request="joinroom", roomid="room")
        assert [(await receive(a))["request"] for _ in range(30)] == ["listing"] * 30
        assert budget.refused["address"] > 0


needs_addresses = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8")


@contextlib.asynccontextmanager
async def relay_among_strangers(monkeypatch, pace, **options):
    """A relay whose clock stands still, and for which other addresses of this machine are other machines."""
    monkeypatch.setattr(doors, "PACE", pace)
    clock = VirtualClock()
    budget = Budget(clock, Figures(limit_loopback=True))
    async with running_relay(clock=clock, budget=budget, **options) as scene:
        scene.clock = clock
        yield scene


def come_from(scene, number, query=""):
    return scene.come(query, local_addr=(f"127.0.0.{number}", 0))


@needs_addresses
async def test_the_peers_of_one_address_have_one_pace_together_and_nobody_else_waits_for_them(monkeypatch):
    async with (
        relay_among_strangers(monkeypatch, pace=6) as scene,
        come_from(scene, 9) as a,
        come_from(scene, 9) as b,
        come_from(scene, 10) as other,
    ):
        for _ in range(5):
            await a.send("garbage")
            await b.send("garbage")
        for _ in range(3):
            assert (await join(other))["request"] == "listing"
        # an answer costs as much as a message: three were answered, and of all others only the next one waits
        await eventually(lambda: scene.clock.sleepers == 1)
        answered = asyncio.create_task(_receive_each(5, a, b))

        async def all_are_answered_in_time():
            await scene.clock.advance(1.0)
            return answered.done()

        await eventually(all_are_answered_in_time)


async def _receive_each(count, *peers):
    for peer in peers:
        for _ in range(count):
            await receive(peer)


@needs_addresses
async def test_who_joins_a_room_pays_for_all_who_are_told(monkeypatch):
    async with relay_among_strangers(monkeypatch, pace=10) as scene, contextlib.AsyncExitStack() as peers:
        for number in range(10, 18):
            await join(await peers.enter_async_context(come_from(scene, number)))
        a = await peers.enter_async_context(come_from(scene, 9))
        assert len((await join(a))["list"]) == 8
        await say(a, request="joinroom", roomid="room")  # ten: itself, a listing, and eight who were told
        await eventually(lambda: scene.clock.sleepers == 1)
        await scene.clock.advance(1.0)
        assert (await receive(a))["request"] == "listing"


@needs_addresses
@pytest.mark.parametrize("needs_token", [True, False])
async def test_a_token_that_everybody_needs_is_no_privilege(monkeypatch, needs_token):
    """The line of a public relay is given to many; the token of a node is its user's own."""
    options = {"knows_token": "right".__eq__, "needs_token": needs_token}
    async with (
        relay_among_strangers(monkeypatch, pace=2, **options) as scene,
        come_from(scene, 9, "?token=right") as a,
    ):
        await join(a)
        await say(a, request="joinroom", roomid="room")
        if needs_token:
            await eventually(lambda: scene.clock.sleepers == 1)
        else:
            assert (await receive(a))["request"] == "listing"


@pytest.mark.parametrize(
    "garbage", ["[" * 1000, "[]", '{"request": "fly"}', '{"request": "joinroom", "roomid": "?"}', "{}"]
)
async def test_garbage_is_charged_as_a_fault(garbage):
    budget = Budget(SystemClock(), Figures(requests=1000, per_seconds=1e9, limit_loopback=True))
    async with running_relay(budget=budget) as scene, scene.come() as a:
        for _ in range(10):
            await a.send(garbage)
            assert (await receive(a))["request"] == "error"
        left = 0
        while not budget.take("127.0.0.1"):
            left += 1
    assert left == 1000 - 1 - 10 * (1 + 10)  # the upgrade, and ten messages that are faults


async def test_frames_that_break_the_protocol_are_charged_as_a_fault():
    budget = Budget(SystemClock(), Figures(requests=1000, per_seconds=1e9, limit_loopback=True))
    async with running_relay(budget=budget) as scene:
        reader, writer = await asyncio.open_connection("127.0.0.1", scene.port)
        writer.write(
            f"GET {SIGNAL_PATH} HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
            "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"\x81\x02{}")  # without a mask
        assert await reader.read() != b""
        writer.close()
        left = 0
        while not budget.take("127.0.0.1"):
            left += 1
    assert left == 1000 - (1 + 10)


class Blocked:
    """A peer whose connection takes nothing, as the server would see it."""

    def __init__(self, door):
        self.said = asyncio.Queue()
        self.cut_off = False
        self.taken = []
        self.takes = asyncio.Event()
        scope = {"type": "websocket", "path": SIGNAL_PATH, "headers": [], "query_string": b""}
        scope |= {"client": ("127.0.0.1", 1), "extensions": {"comity.cut_off": self._cut}}
        self.said.put_nowait({"type": "websocket.connect"})
        self.task = asyncio.create_task(door(scope, self.said.get, self._send))

    def _cut(self):
        self.cut_off = True
        self.said.put_nowait({"type": "websocket.disconnect", "code": 1006})

    async def _send(self, message):
        self.taken.append(message)
        if message["type"] == "websocket.send" and "filler" in message["text"]:
            await self.takes.wait()

    def say(self, **message):
        self.said.put_nowait({"type": "websocket.receive", "text": json.dumps(message)})

    def heard(self):
        return [json.loads(message["text"]) for message in self.taken if message["type"] == "websocket.send"]


async def test_what_a_peer_has_not_taken_yet_counts_until_it_has():
    clock = SystemClock()
    door = SignallingDoor(SignallingRelay(), clock, Budget(clock), all_queues_bytes=250_000)
    peers = [Blocked(door) for _ in range(4)]
    for peer in peers:
        peer.say(request="joinroom", roomid="room")
        await eventually(lambda peer=peer: peer.heard())
    ids = [result["UUID"] for result in peers[0].heard()[1:]]

    def send(number, size):
        peers[0].say(UUID=ids[number], filler="x" * size)

    async def blocked(peer):
        await eventually(lambda: any("filler" in result for result in peer.heard()))

    send(0, 100_000)
    send(1, 120_000)
    await blocked(peers[1])
    await blocked(peers[2])
    peers[1].takes.set()
    await eventually(lambda: peers[1].heard()[-1].get("filler"))
    send(2, 100_000)  # one of the three was taken: there is room for it
    await blocked(peers[3])
    assert not any(peer.cut_off for peer in peers)
    send(2, 40_000)
    await eventually(lambda: peers[3].cut_off)
    assert not any(peer.cut_off for peer in peers[:3])
    for peer in peers:
        peer.takes.set()
        peer.said.put_nowait({"type": "websocket.disconnect", "code": 1000})
    await asyncio.gather(*(peer.task for peer in peers))
