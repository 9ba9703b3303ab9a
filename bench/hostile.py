"""Peers who mean no good, in a process of their own: `python -m bench.hostile KIND URL TARGET ADDRESS`.

It runs until it is ended, at the lowest priority: what it takes of the processor is what server and honest callers
leave over, so that on two cores the server is measured and not the lack of a third one. On Linux it comes from `ADDRESS`,
which is another one of this machine than those of the honest callers, as a stranger would: the node counts it on a
budget of its own. What it is answered is read and thrown away. `TARGET` is the id of the node's agent.
"""

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from itertools import cycle, repeat
from urllib.parse import urlsplit

import uvloop

from bench.harness.http_load import request_bytes
from bench.harness.processes import allow_files
from comity.envelopes.protocol.envelope import EMPTY_PREV_HASH, signed_envelope, to_a2a_jsonrpc
from comity.envelopes.protocol.message import A2AMessage, A2APart
from comity.identity.protocol.keys import SigningKey, VacantId
from comity.wire import strict_json

CONNECTIONS = 64
SOCKETS = 4
HALF_OPEN = 3_000
RELAY_SOCKETS = 500
RELAY_ADDRESSES = 8
ROOM_PEERS = 80
BODY_BYTES = 1_000_000
BRACKETS = 5_000
CALL_CHARACTERS = 20_000
TOO_MANY_REQUESTS = b"429"
ROUNDS_PER_SECOND = 2_000
"""Connections or requests, all peers together; with bodies of 1 MB a tenth of it."""

_MASKED_SEVEN = b"\x81\x81\0\0\0\0" + b"7"
_GARBAGE = bytes((7 * n * n + 3 * n) % 251 for n in range(512)) + b"\r\n\r\n"

Act = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Hostile:
    def __init__(self, url: str, target: str, address: str) -> None:
        self._url = url
        self._address = address
        self._target = VacantId.from_hex(target)
        parts = urlsplit(url)
        self._at = parts.hostname or "127.0.0.1", parts.port or 80

    async def one_byte_websockets(self) -> None:
        """One message of one byte after the other, as many as are taken."""

        async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(_upgrade(f"{self._url}/vcp"))
            await reader.readuntil(b"\r\n\r\n")
            reading = asyncio.create_task(_read_all(reader))
            try:
                while not reading.done():
                    writer.write(_MASKED_SEVEN * 2000)
                    await writer.drain()
            finally:
                reading.cancel()

        await self._keep_on(SOCKETS, flood)

    async def garbage(self) -> None:
        """Something that is no HTTP, on a new connection each time."""

        async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(_GARBAGE)
            await _read_all(reader)

        await self._keep_on(CONNECTIONS, once)

    async def bad_signatures(self) -> None:
        """Calls that are right but for their signature."""
        requests = [self._call(f"stranger {number}") for number in range(CONNECTIONS)]
        await self._keep_on(CONNECTIONS, _asking(cycle(requests), _Pace(ROUNDS_PER_SECOND)))

    async def undecodable(self) -> None:
        """Calls whose body is no JSON: brackets that nobody closes."""
        request = self._post(b"[" * BRACKETS)
        await self._keep_on(CONNECTIONS, _asking(cycle([request]), _Pace(ROUNDS_PER_SECOND)))

    async def valid_calls(self) -> None:
        """Calls of 20 KB that are right in everything, as many as are taken."""
        pace = _Pace(ROUNDS_PER_SECOND)
        callers = iter(range(1_000_000_000))

        async def call(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await _asking(self._calls_of(f"valid {os.getpid()} {next(callers)}"), pace)(reader, writer)

        await self._keep_on(CONNECTIONS, call)

    async def large_bodies(self) -> None:
        """Calls of 1 MB, which is just within the limit, in JSON that has to be read to be refused."""
        start = b'{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"parts":[{"text":"'
        body = start + b"x" * (BODY_BYTES - len(start) - 6) + b'"}]}}}'
        request = self._post(body)
        await self._keep_on(CONNECTIONS, _asking(cycle([request]), _Pace(ROUNDS_PER_SECOND / 10)))

    async def half_open(self) -> None:
        """Heads that never end; a connection that is closed is opened again."""

        async def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"GET /vcp HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            await _read_all(reader)

        await self._keep_on(HALF_OPEN, begin)

    async def relay(self) -> None:
        """Peers of the relay that change between two rooms, which tells all others in them, as fast as they are read. They come
        from several addresses, because each has a limit.
        """
        host, _, last = self._address.rpartition(".")
        addresses = cycle(f"{host}.{int(last) + number}" for number in range(RELAY_ADDRESSES))
        rooms = cycle(range(RELAY_SOCKETS // ROOM_PEERS + 1))

        async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(_upgrade(f"{self._url}/signal"))
            await reader.readuntil(b"\r\n\r\n")
            room = next(rooms)
            messages = b"".join(
                _masked(json.dumps({"request": "joinroom", "roomid": f"hostile{room}{which}"}).encode())
                for which in "ab"
            )
            reading = asyncio.create_task(_read_all(reader))
            try:
                while not reading.done():
                    writer.write(messages * 20)
                    await writer.drain()
            finally:
                reading.cancel()

        await self._keep_on(RELAY_SOCKETS, flood, addresses)

    def _call(self, name: str) -> bytes:
        key = SigningKey.from_seed(name.encode().ljust(32))
        envelope = signed_envelope(
            from_vid=key.vacant_id,
            to_vid=self._target,
            payload=A2AMessage(parts=(A2APart(text="hello"),)),
            sequence_no=1,
            prev_envelope_hash=EMPTY_PREV_HASH,
            idempotency_key=name,
            timestamp=datetime.now(UTC),
            signing_key=SigningKey.from_seed(bytes(32)),
        )
        return self._post(strict_json.dumps(to_a2a_jsonrpc(envelope)))

    def _calls_of(self, name: str) -> Iterator[bytes]:
        """The chain of calls of one caller."""
        key, tip, number = SigningKey.from_seed(name.encode().ljust(32)), EMPTY_PREV_HASH, 0
        payload = A2AMessage(parts=(A2APart(text="x" * CALL_CHARACTERS),))
        while True:
            number += 1
            envelope = signed_envelope(
                from_vid=key.vacant_id,
                to_vid=self._target,
                payload=payload,
                sequence_no=number,
                prev_envelope_hash=tip,
                idempotency_key=f"{name} {number}",
                timestamp=datetime.now(UTC),
                signing_key=key,
            )
            tip = envelope.compute_hash()
            yield self._post(strict_json.dumps(to_a2a_jsonrpc(envelope)))

    def _post(self, body: bytes) -> bytes:
        headers = [("Content-Type", "application/json")]
        return request_bytes("POST", f"{self._url}/a2a/message/send", headers=headers, body=body)

    async def _keep_on(self, connections: int, act: Act, addresses: Iterator[str] | None = None) -> None:
        """So many peers, each of which begins again when its connection ends; tells when all have begun."""
        come_from = addresses or repeat(self._address)
        pace = _Pace(ROUNDS_PER_SECOND)
        begun = asyncio.Semaphore(0)

        async def peer() -> None:
            first, address = True, next(come_from)
            while True:
                await pace.next()
                with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                    reader, writer = await asyncio.open_connection(sock=await self._connected(address))
                    if first:
                        first = False
                        begun.release()
                    try:
                        await act(reader, writer)
                    finally:
                        writer.transport.abort()

        async with asyncio.TaskGroup() as peers:
            for _ in range(connections):
                peers.create_task(peer())
            for _ in range(connections):
                await begun.acquire()
            print(json.dumps({"url": self._url, "connections": connections}), flush=True)

    async def _connected(self, address: str) -> socket.socket:
        connection = socket.socket()
        connection.setblocking(False)
        try:
            if sys.platform == "linux" and self._at[0] == "127.0.0.1":
                connection.bind((address, 0))
            await asyncio.get_running_loop().sock_connect(connection, self._at)
        except OSError:
            connection.close()
            raise
        return connection


class _Pace:
    """So many a second, all together."""

    def __init__(self, per_second: float) -> None:
        self._each = 1 / per_second
        self._due = asyncio.get_running_loop().time()

    async def next(self) -> None:
        now = asyncio.get_running_loop().time()
        self._due = max(self._due + self._each, now - 0.1)
        await asyncio.sleep(self._due - now)


def _upgrade(url: str) -> bytes:
    headers = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="),
    ]
    return request_bytes("GET", url, headers=headers)


def _masked(text: bytes) -> bytes:
    """One short message of a client; a mask of zeros changes nothing."""
    return b"\x81" + bytes([0x80 | len(text)]) + bytes(4) + text


async def _read_all(reader: asyncio.StreamReader) -> None:
    while await reader.read(65_536):
        pass


def _asking(requests: Iterator[bytes], pace: _Pace) -> Act:
    """One request after the other on a connection that stays, for as long as it is answered. One that came too early is
    sent again.
    """

    async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for request in requests:
            status = TOO_MANY_REQUESTS
            while status == TOO_MANY_REQUESTS:
                await pace.next()
                writer.write(request)
                await writer.drain()
                head = await reader.readuntil(b"\r\n\r\n")
                status = head.split(b" ", 2)[1]
                length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
                await reader.readexactly(int(length))

    return ask


KINDS: dict[str, Callable[[Hostile], Awaitable[None]]] = {
    "websockets": Hostile.one_byte_websockets,
    "garbage": Hostile.garbage,
    "bad-signatures": Hostile.bad_signatures,
    "undecodable": Hostile.undecodable,
    "valid-calls": Hostile.valid_calls,
    "large-bodies": Hostile.large_bodies,
    "half-open": Hostile.half_open,
    "relay": Hostile.relay,
}


def main(kind: str, url: str, target: str, address: str) -> None:
    os.nice(19)
    allow_files(HALF_OPEN + 200)

    async def attack() -> None:
        await KINDS[kind](Hostile(url, target, address))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(attack())


if __name__ == "__main__":
    main(*sys.argv[1:])
