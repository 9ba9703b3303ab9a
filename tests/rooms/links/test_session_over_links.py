"""Two sessions over every link with channels: what the machines of a room ask for, done with real links and no more."""

import asyncio
import os
import time

import pytest

from comity.identity.protocol.keys import SigningKey
from comity.rooms.protocol.channel import FILE_CHANNEL
from comity.rooms.protocol.effects import (
    BytesArrived,
    ChannelClosed,
    ChannelOpened,
    CloseLink,
    EmitEvent,
    KeepClock,
    LinkDrained,
    LinkFull,
    SendBytes,
    SendText,
    SessionOptions,
    SignallingReady,
    TextArrived,
)
from comity.rooms.protocol.files import FileSource
from comity.rooms.protocol.hello import SessionKeys
from comity.rooms.protocol.message_dispatch import OpenSignalling
from comity.rooms.protocol.messages import ForgetMessage, KeepMessage, KeepStatus, MarkRead, MessageKept
from comity.rooms.protocol.session import RoomSession
from comity.rooms.protocol.tool_table import Demands
from comity.rooms.protocol.transfers import FileLimits, SendOptions
from comity.wire.link import LinkClosed
from comity.wire.machine import CancelTimer, SetTimer, TimerFired
from tests.rooms.protocol.disk import FILE_EFFECTS, Disk

SECURE = Demands(join_token_secret="s", enforce_join_token=True, require_session_mac=True)
FULL = 64
"""Frames that wait to be written."""


class Shell:
    """Carries out the effects of one session on one link."""

    def __init__(self, name, link, peer):
        self.link = link
        self.uuid = peer
        self.disk = Disk()
        self.outcome = []
        self.changed = asyncio.Event()
        self.timers = {}
        self.channels = {"control": asyncio.Queue(), FILE_CHANNEL: asyncio.Queue()}
        self.tasks = []
        self.is_full = False
        options = SessionOptions(
            room="lab",
            stream_id=name,
            host="ws://x",
            demands=SECURE,
            files=FileLimits(spool_threshold=1 << 40),
        )
        self.session = RoomSession(
            options,
            session_id=f"vdo_{name}",
            keys=SessionKeys(os.urandom(32)),
            node_key=SigningKey.from_seed(os.urandom(32)),
            wall=time.time,
            draw=os.urandom,
        )

    @property
    def now(self):
        return asyncio.get_running_loop().time()

    async def open(self):
        self.spawn(self.read(self.link.control))
        self.spawn(self.write(self.link.control, self.channels["control"]))
        self.spawn(self.accept())
        self.run(self.session.start(self.now))
        role = "publisher" if self.link.is_offerer else "viewer"
        self.hear(ChannelOpened(self.uuid, role, self.link.max_message_bytes, self.link.binding))

    async def close(self):
        for task in self.tasks:
            task.cancel()
        for timer in self.timers.values():
            timer.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def spawn(self, work):
        self.tasks.append(asyncio.create_task(work))

    def hear(self, event):
        self.run(self.session.receive(event, self.now))

    def run(self, effects):
        for effect in effects:
            self.carry_out(effect)

    def carry_out(self, effect):
        if isinstance(effect, FILE_EFFECTS):
            answer = self.disk.carry_out(effect)
            if answer is not None:
                asyncio.get_running_loop().call_soon(self.hear, answer)
        elif isinstance(effect, SetTimer):
            self.stop_timer(effect.name)
            loop = asyncio.get_running_loop()
            self.timers[effect.name] = loop.call_at(effect.at, self.hear, TimerFired(effect.name))
        else:
            self.ACTS[type(effect)](self, effect)

    def stop_timer(self, name):
        if name in self.timers:
            self.timers.pop(name).cancel()

    def send_frame(self, effect):
        queue = self.channels[FILE_CHANNEL]
        if not any(task.get_name() == "frames" for task in self.tasks):
            self.tasks.append(asyncio.create_task(self.write_frames(queue), name="frames"))
        queue.put_nowait(effect.data)
        if queue.qsize() > FULL and not self.is_full:
            self.is_full = True
            self.hear(LinkFull(self.uuid))

    def tell(self, effect):
        self.outcome.append(effect.event)
        self.changed.set()

    def keep(self, effect):
        if effect.box == "in":
            asyncio.get_running_loop().call_soon(self.hear, MessageKept(effect.node, effect.message_id))

    ACTS = {  # noqa: RUF012 - a table
        SendText: lambda self, effect: self.channels["control"].put_nowait(effect.data.decode()),
        SendBytes: send_frame,
        CancelTimer: lambda self, effect: self.stop_timer(effect.name),
        EmitEvent: tell,
        KeepMessage: keep,
        ForgetMessage: lambda _self, _effect: None,
        KeepStatus: lambda _self, _effect: None,
        MarkRead: lambda _self, _effect: None,
        KeepClock: lambda _self, _effect: None,
        CloseLink: lambda self, _effect: self.spawn(self.link.close("told to")),
        OpenSignalling: lambda self, _effect: asyncio.get_running_loop().call_soon(
            self.hear, SignallingReady()
        ),
    }

    async def read(self, channel):
        try:
            while True:
                message = await channel.receive()
                if isinstance(message, str):
                    self.hear(TextArrived(self.uuid, message.encode()))
                else:
                    self.hear(BytesArrived(self.uuid, channel.label, message))
        except LinkClosed:
            if channel is self.link.control:
                self.hear(ChannelClosed(self.uuid))

    async def accept(self):
        try:
            while True:
                self.spawn(self.read(await self.link.accept_channel()))
        except LinkClosed:
            pass

    async def write(self, channel, queue):
        try:
            while True:
                await channel.send(await queue.get())
                if self.is_full and channel is not self.link.control and not queue.qsize():
                    self.is_full = False
                    self.hear(LinkDrained(self.uuid))
        except LinkClosed:
            pass

    async def write_frames(self, queue):
        await self.write(await self.link.open_channel(FILE_CHANNEL), queue)

    async def wait_for(self, true):
        async with asyncio.timeout(30):
            while not true():
                self.changed.clear()
                await self.changed.wait()

    def events(self, kind):
        return [event for event in self.outcome if event["type"] == kind]


@pytest.fixture
async def shells(joined):
    left, right = Shell("alice", joined[0], "bob#1"), Shell("bob", joined[1], "alice#1")
    await left.open()
    await right.open()
    for shell in (left, right):
        await shell.wait_for(
            lambda shell=shell: any(
                one["handshake_state"] == "ready" for one in shell.events("sync_peer_updated")
            )
        )
    yield left, right
    await left.close()
    await right.close()


async def test_two_nodes_prove_who_they_are_and_talk_files_and_state(shells):
    left, right = shells
    [peer] = left.session.sync_peers(left.now)
    assert peer["vacant_id"] == right.session._peers._node_key.vacant_id.hex()
    result, effects = left.session.send({"hello": 0}, "bob", left.now)
    left.run(effects)
    await left.wait_for(lambda: left.events("message_status"))
    assert left.session.messages.status(result["message_ids"][0], left.now) == ("stored", None)
    assert [event["data"] for event in right.events("data_received")] == [{"hello": 0}]
    _, effects = right.session.put_state("k", [1, None])
    right.run(effects)
    await left.wait_for(lambda: left.events("state_updated"))
    assert left.session.state.values() == {"k": [1, None]}


async def test_files_go_both_ways_at_once_and_byte_for_byte(shells):
    left, right = shells
    for shell in shells:
        data = shell.disk.sources["file_1"] = os.urandom(3_000_001)
        _, effects = shell.session.send_file(
            FileSource(kind="memory", total_bytes=len(data)),
            None,
            SendOptions(transfer_id="file_1"),
            shell.now,
        )
        shell.run(effects)
    for here, there in ((left, right), (right, left)):
        await here.wait_for(lambda here=here: here.events("file_transfer_complete"))
        assert bytes(there.disk.files["file_1"]) == here.disk.sources["file_1"]


async def test_a_link_that_ends_is_told_and_leaves_the_transfer_waiting(shells):
    left, right = shells
    data = left.disk.sources["file_1"] = bytes(30_000_000)
    outgoing, effects = left.session.send_file(
        FileSource(kind="memory", total_bytes=len(data)), "bob", SendOptions(transfer_id="file_1"), left.now
    )
    left.run(effects)
    await right.wait_for(lambda: right.events("file_chunk_received"))
    await right.link.close("enough")
    await left.wait_for(lambda: left.events("peer_disconnected"))
    assert outgoing.status == "transferring"
    assert outgoing.last_error == "link lost"
