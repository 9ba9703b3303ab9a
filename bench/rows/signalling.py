"""Handshakes through the relay of a node, beside strangers who flood it.

One node, `comity up`, with the usual limits, for this machine's own addresses too. Honest pairs, each in a room and from an
address of its own, pass descriptions on at a fixed rate, each due at its own moment; the figure is the 99th percentile of the time
from then until the other one has it. Beside them a hostile process (`bench.hostile relay`) holds 500 sockets from eight addresses
with fresh budgets and does its worst, or does not: the two take turns on the same node.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import count
from time import perf_counter
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from bench.harness.bars import AtMostTimes
from bench.harness.row import Contender, Row, Setting, UnavailableError, Unit
from bench.harness.servers import serving
from bench.harness.steady_load import percentile, steady_runner
from bench.hostile import RELAY_SOCKETS
from bench.rows.hostile import HAS_ADDRESSES, QUIET
from comity.rooms.part import SIGNAL_PATH

PAIRS = 8
PER_SECOND = 200
SECONDS_OF_TURN = 12.5
"""In relation to an ordinary turn: five seconds."""
DESCRIPTION = "x" * 2000
SETTINGS = "[rate]\nlimit_loopback = true\n"
ANSWER_SECONDS = 30.0


class _Pair:
    """Two peers in a room of their own."""

    def __init__(self, sender: ClientConnection, receiver: ClientConnection, to: str) -> None:
        self._sender = sender
        self._receiver = receiver
        self._to = to

    @classmethod
    async def meet(cls, url: str, room: str, address: str) -> "_Pair":
        joining = json.dumps({"request": "joinroom", "roomid": room})
        sender, receiver = [
            await connect(url, local_addr=(address, 0), proxy=None, compression=None) for _ in range(2)
        ]
        await sender.send(joining)
        await _next(sender, "listing")
        await receiver.send(joining)
        joined = await _next(sender, "someonejoined")
        await _next(receiver, "listing")
        return cls(sender, receiver, joined["UUID"])

    async def send(self, due: float) -> None:
        await self._sender.send(json.dumps({"UUID": self._to, "description": DESCRIPTION, "due": due}))

    async def times(self, messages: int) -> list[float]:
        times = []
        for _ in range(messages):
            message = json.loads(await self._receiver.recv())
            times.append(perf_counter() - message["due"])
        return times

    async def close(self) -> None:
        await self._sender.close()
        await self._receiver.close()


async def _next(peer: ClientConnection, request: str) -> dict[str, Any]:
    async with asyncio.timeout(ANSWER_SECONDS):
        while True:
            message: dict[str, Any] = json.loads(await peer.recv())
            if message.get("request") == request:
                return message


async def _times_at_rate(pairs: Sequence[_Pair], messages: int) -> list[float]:
    """Seconds from the moment each message was due until it was received."""
    each = messages // len(pairs)
    receiving = asyncio.gather(*(pair.times(each) for pair in pairs))
    start = perf_counter() + 0.05
    for number in range(each * len(pairs)):
        due = start + number / PER_SECOND
        await asyncio.sleep(max(0.0, due - perf_counter()))
        await pairs[number % len(pairs)].send(due)
    async with asyncio.timeout(ANSWER_SECONDS):
        return [taken for times in await receiving for taken in times]


@contextlib.contextmanager
def _flooded(setting: Setting) -> Iterator[Sequence[Contender]]:
    if not HAS_ADDRESSES:
        raise UnavailableError("only Linux has all of 127.0.0.0/8, for strangers from several addresses")
    folder = setting.folder
    config = folder / "limits.toml"
    config.write_text(SETTINGS, encoding="utf-8")
    up = [sys.executable, "-m", "comity", "up", "--json", "--port", "0"]
    up += ["--config", str(config), "--data", str(folder / "data")]
    messages = max(PAIRS, round(PER_SECOND * SECONDS_OF_TURN * setting.seconds))
    fresh = count(1)
    with serving(up, folder / "node.stderr") as node, steady_runner() as runner:
        signal = node.replace("http", "ws", 1) + SIGNAL_PATH
        numbers = count()

        async def measure() -> float:
            pairs = [
                await _Pair.meet(signal, f"honest{(number := next(numbers))}", f"127.0.1.{number % 200 + 1}")
                for _ in range(PAIRS)
            ]
            try:
                await _times_at_rate(pairs, max(PAIRS, messages // 8))  # the node is itself again
                return percentile(await _times_at_rate(pairs, messages), 0.99)
            finally:
                for pair in pairs:
                    await pair.close()

        def quiet() -> float:
            return runner.run(measure())

        def hostile() -> float:
            attack = [
                sys.executable,
                "-m",
                "bench.hostile",
                "relay",
                node,
                "0" * 64,
                f"127.1.{next(fresh)}.1",
            ]
            with serving(attack, folder / "hostile.stderr"):
                return quiet()

        yield [Contender(f"beside {RELAY_SOCKETS} sockets", hostile), Contender(QUIET, quiet)]


ROWS = (
    Row(
        name="relay-flood",
        title=f"99th percentile of honest handshakes through the relay, {PER_SECOND} a second, beside {RELAY_SOCKETS} hostile sockets",
        unit=Unit.TIME,
        open=_flooded,
        bars=(AtMostTimes(3, QUIET),),
    ),
)
