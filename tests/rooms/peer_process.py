"""A peer in a process of its own: joins a room, says as JSON lines what happens, does what it is told on stdin.

python -m tests.rooms.peer_process RELAY STREAM [--view STREAM] [--library NAME] [--tickets FOLDER]
"""

import argparse
import asyncio
import hashlib
import json
import random
import sys
import threading
from pathlib import Path

from comity.rooms.client import LinkOpened, RoomMeeting, read_relay
from comity.rooms.links.joining import LinkMaker, LinkSettings
from comity.rooms.protocol.effects import SignallingLost, SignallingReady
from comity.rooms.protocol.meeting import Attending
from comity.rooms.protocol.signalling import RoomCipher, effective_password
from comity.runtime.system_clock import SystemClock
from comity.wire.link import LinkClosed

PIECE = 65_536


def say(event, **more):
    print(json.dumps({"event": event, **more}), flush=True)


class Peer:
    def __init__(self, room):
        self.room = room
        self.link = None
        self.tasks = set()

    def begin(self, work):
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def run(self):
        while True:
            news = await self.room.next_event()
            if isinstance(news, SignallingReady):
                say("up")
            elif isinstance(news, SignallingLost):
                say("down", reason=news.reason)
            elif isinstance(news, LinkOpened):
                self.link = news.link
                self.begin(self.listen(news.link.control))
                self.begin(self.watch(news.link))
                stats = await news.link.stats()
                say("linked", path=stats.path, stream=news.stream, max=stats.max_message_bytes)

    async def listen(self, channel):
        try:
            while True:
                message = await channel.receive()
                say("text", text=message, kind=type(message).__name__)
        except LinkClosed:
            return

    async def watch(self, link):
        self.begin(self.take_channels(link))
        end = await link.wait_closed()
        say("ended", reason=end.reason, by=end.by)

    async def take_channels(self, link):
        try:
            while True:
                self.begin(self.take_bulk(await link.accept_channel()))
        except LinkClosed:
            return

    async def take_bulk(self, channel):
        total = int(await channel.receive())
        digest, count = hashlib.sha256(), 0
        while count < total:
            piece = await channel.receive()
            digest.update(piece)
            count += len(piece)
        say("bulk", label=channel.label, bytes=count, sha256=digest.hexdigest())

    async def do(self, order):
        if order["do"] == "text":
            await self.link.control.send(order["text"])
        elif order["do"] == "bulk":
            channel = await self.link.open_channel(order["label"])
            draw, digest, left = random.Random(order["seed"]), hashlib.sha256(), order["bytes"]
            await channel.send(str(left))
            while left:
                piece = draw.randbytes(min(PIECE, left))
                digest.update(piece)
                await channel.send(piece)
                left -= len(piece)
            say("sent", sha256=digest.hexdigest())
        elif order["do"] == "leave":
            await self.room.close("told to leave")
            say("left")


def hurry():
    """As ever, but on 127.0.0.1 only, and with less patience for a peer that does not answer."""
    import aioice.ice

    import comity.rooms.links.webrtc

    aioice.ice.get_host_addresses = lambda **_kinds: ["127.0.0.1"]
    aioice.ice.CONSENT_INTERVAL = 1
    aioice.ice.CONSENT_FAILURES = 3
    comity.rooms.links.webrtc.GRACE_SECONDS = 1.0


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("relay")
    parser.add_argument("stream")
    parser.add_argument("--view")
    parser.add_argument("--library")
    parser.add_argument("--tickets", type=Path)
    asked = parser.parse_args()
    hurry()
    links = LinkMaker(LinkSettings(library=asked.library, tickets=asked.tickets))
    cipher = RoomCipher(effective_password("pass word"))
    attending = Attending(room="lab", stream=asked.stream, cipher=cipher, first_delay=0.2, longest_delay=1.0)
    room = RoomMeeting(attending, (read_relay(asked.relay),), links, SystemClock())
    peer = Peer(room)
    room.start()
    if asked.view:
        room.view(asked.view)
    peer.begin(peer.run())
    loop = asyncio.get_running_loop()
    orders = asyncio.Queue()
    threading.Thread(
        target=lambda: [loop.call_soon_threadsafe(orders.put_nowait, json.loads(line)) for line in sys.stdin],
        daemon=True,
    ).start()
    while True:
        peer.begin(peer.do(await orders.get()))


if __name__ == "__main__":
    asyncio.run(main())
