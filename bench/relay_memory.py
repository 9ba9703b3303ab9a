"""`python -m bench.relay_memory`: the memory of a node whose signalling relay is full of peers that never read.

So many peers join rooms on the relay of one node. One in each room reads, so that all of them know the ids of the others;
then every one sends long messages to the others of its room, as fast as they are taken, and none reads. It fails if the
node has grown by `MOST_GROWTH` at any moment, or does not answer its own user meanwhile.
"""

import asyncio
import contextlib
import json
import re
import sys
import tempfile
import urllib.request
from pathlib import Path
from time import perf_counter, sleep
from typing import cast
from urllib.parse import urlsplit

import uvloop

from bench.harness.http_load import request_bytes
from bench.harness.processes import Memory, allow_files, memory_of
from bench.harness.servers import serving_with
from comity.rooms.part import SIGNAL_PATH

BUILD = Path(__file__).resolve().parents[1] / "build"
PEERS, ROOM = 2_000, 80
MESSAGE_BYTES = 250_000
SECONDS = 60.0
MOST_GROWTH = 150_000_000

_UUID = re.compile(rb'"UUID":"([0-9a-f-]{36})"')


def frame(text: bytes) -> bytes:
    """One message of a client; a mask of zeros changes nothing."""
    size = len(text)
    length = bytes([0x80 | size]) if size < 126 else b"\xff" + size.to_bytes(8, "big")
    return b"\x81" + length + bytes(4) + text


class Peer:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def join(cls, url: str, room: str) -> "Peer":
        target = urlsplit(url)
        reader, writer = await asyncio.open_connection(target.hostname, target.port, limit=65_536)
        upgrade = [
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="),
        ]
        writer.write(request_bytes("GET", url + SIGNAL_PATH, headers=upgrade))
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 101 " not in head:
            raise ConnectionError(f"the relay refused a peer: {head[:200]!r}")
        writer.write(frame(json.dumps({"request": "joinroom", "roomid": room}).encode()))
        return cls(reader, writer)

    async def flood(self, ids: list[bytes]) -> None:
        """To each of the others in turn; who is let go is silent from then on."""
        with contextlib.suppress(OSError):
            while True:
                for other in ids:
                    start = b'{"UUID":"%b","description":"' % other
                    self.writer.write(frame(start + b"x" * (MESSAGE_BYTES - len(start) - 2) + b'"}'))
                    await self.writer.drain()


async def fill_room(url: str, room: str) -> tuple[list[Peer], list[bytes]]:
    """The first one is told of all others that join."""
    peers = [await Peer.join(url, room)]
    ids: set[bytes] = set()
    while len(peers) < ROOM:
        peers.append(await Peer.join(url, room))
    async with asyncio.timeout(60):
        while len(ids) < ROOM - 1:
            ids.update(_UUID.findall(await peers[0].reader.read(65_536)))
    for peer in peers:
        cast("asyncio.ReadTransport", peer.writer.transport).pause_reading()
    return peers, sorted(ids)


def watch(url: str, pid: int, before: Memory) -> int:
    """By how many bytes it had grown when it was largest. In a thread: the floods keep the loop busy."""
    begun, most, told, slowest = perf_counter(), 0, 0.0, 0.0
    while (passed := perf_counter() - begun) < SECONDS:
        memory = memory_of(pid)
        most = max(most, memory.own - before.own)
        if passed >= told:
            told += 5
            print(f"after {passed:3.0f} s  {memory}", flush=True)
        asked = perf_counter()
        with urllib.request.urlopen(url + "/healthz", timeout=30) as answer:
            answer.read()
        slowest = max(slowest, perf_counter() - asked)
        sleep(0.2)
    print(f"the slowest answer meanwhile took {slowest:.1f} s")
    return most


async def attack(url: str, pid: int) -> int:
    before = memory_of(pid)
    print(f"at rest      {before}", flush=True)
    rooms = [await fill_room(url, f"room{number}") for number in range(PEERS // ROOM)]
    print(f"{PEERS:,} peers  {memory_of(pid)}", flush=True)
    floods = [asyncio.create_task(peer.flood(ids)) for peers, ids in rooms for peer in peers]
    try:
        return await asyncio.to_thread(watch, url, pid, before)
    finally:
        for task in floods:
            if task.done():
                task.result()
            task.cancel()
        for peers, _ in rooms:
            for peer in peers:
                peer.writer.transport.abort()


def main() -> int:
    allow_files(PEERS + 200)
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="relay-", dir=BUILD) as name:
        folder = Path(name)
        up = [sys.executable, "-m", "comity", "up", "--json", "--port", "0", "--data", str(folder / "data")]
        with serving_with(up, folder / "stderr") as told:
            most = uvloop.new_event_loop().run_until_complete(attack(told["url"], int(told["pid"])))
    fits = most < MOST_GROWTH
    print(f"it grew by {most / 1e6:.0f} MB; {'less' if fits else 'MORE'} than {MOST_GROWTH / 1e6:.0f} MB")
    return int(not fits)


if __name__ == "__main__":
    sys.exit(main())
