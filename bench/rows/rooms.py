"""What two nodes in a room send each other through their tools, beside plain loops over the bare links.

A file is read from a disk and is on the other disk, checked and confirmed, when its turn ends. The loops keep nothing;
beside the WebSocket link stands one that keeps the file as well. A message is shown to its receiver while it is made
durable, and receipted after that; who sends it is answered when it is durable there. So each node makes a commit in a
round trip, and the bare link stands there once more, with two commits.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.baselines.file_loops import answer_each, send_counted, send_hashed, stop_and_wait
from bench.baselines.raw_links import RawLink
from bench.harness.bars import AtLeast
from bench.harness.loops import Loop
from bench.harness.room_nodes import Member, joined_member, node_of
from bench.harness.row import Contender, Row, Setting, UnavailableError, Unit
from bench.harness.slow_links import SlowLink, slow_pair
from bench.rows.links import MIB, go_and_return, joined
from comity.node.node import Node
from comity.rooms.links.webrtc import available_libraries
from comity.rooms.paths import FilePaths
from comity.rooms.protocol.effects import SignallingReady
from comity.rooms.protocol.hosted_room import HostedRoom
from comity.rooms.protocol.invite import Invite
from comity.rooms.protocol.signalling import Listed
from comity.rooms.protocol.tool_table import Demands
from comity.rooms.sessions import Rooms
from comity.rooms.storage import KeptSession, RoomStore
from comity.rooms.tool_handlers import RoomTools
from comity.runtime.system_clock import SystemClock
from comity.store.interface import Put
from comity.store.sqlite import SqliteStore
from comity.wire.link import LinkClosed, LinkOpened

ROUND_TRIP = 0.05
FILE_MIB_PER_SECOND = 160  # of a turn: 64 MiB where a turn has 0.4 s
OURS = "a file through the tools"
TRIP = "a message through the tools"
BARE_WRTC = "its raw channel"
HASHED = "a loop with one SHA-256 at each end"
KEPT = "the same loop, and the file on a disk"
STOP_AND_WAIT = "stop and wait"
BARE_LINK = "bare websocket"
DURABLE_LINK = "bare websocket and two commits"


def _file(setting: Setting, mib: int, name: str = "file.bin") -> Path:
    file = setting.folder / name
    with file.open("wb") as out:
        for _ in range(mib):
            out.write(os.urandom(MIB))
    return file


def _mib_per_second(file: Path, send: Callable[[Path], Awaitable[None]]) -> Callable[[], Any]:
    size = file.stat().st_size / MIB

    async def turn() -> float:
        start = perf_counter()
        await send(file)
        return size / (perf_counter() - start)

    return turn


@contextlib.contextmanager
def _loop() -> Iterator[Loop]:
    loop = Loop()
    try:
        yield loop
    finally:
        loop.close()


def _files_over(
    kind: str, send: Callable[[RawLink, Path], Awaitable[None]], **baselines: str
) -> Callable[[Setting], contextlib.AbstractContextManager[Sequence[Contender]]]:
    """`baselines` are named by how their other side answers."""

    @contextlib.contextmanager
    def open_row(setting: Setting) -> Iterator[Sequence[Contender]]:
        if kind != "websocket" and kind not in available_libraries():
            raise UnavailableError(f"{kind} is not installed")
        file = _file(setting, max(8, int(FILE_MIB_PER_SECOND * setting.seconds)))
        with (
            _loop() as loop,
            loop.hold(joined_member(kind, setting.folder)) as (member, _),
            contextlib.ExitStack() as links,
        ):

            def contender(name: str, send_file: Callable[[Path], Awaitable[None]]) -> Contender:
                turn = _mib_per_second(file, send_file)
                return Contender(name, lambda: loop.run(turn()))

            raw = {
                name: links.enter_context(joined(kind, setting.folder, loop, answers))
                for answers, name in baselines.items()
            }
            yield [
                contender(OURS, member.send_file),
                *(contender(name, partial(send, link)) for name, link in raw.items()),
            ]

    return open_row


@contextlib.contextmanager
def _trips(setting: Setting) -> Iterator[Sequence[Contender]]:
    async def ours(member: Member) -> float:
        rounds, start = 0, perf_counter()
        while (elapsed := perf_counter() - start) < setting.seconds:
            await member.go_and_return()
            rounds += 1
        return elapsed / rounds

    async def durable(link: RawLink, store: SqliteStore) -> float:
        rounds, start = 0, perf_counter()
        while (elapsed := perf_counter() - start) < setting.seconds:
            await link.send("x" * 32)
            message = str(await link.receive()).encode()
            for _ in range(2):
                await store.commit(Put(space="bench", key=str(rounds), value=message))
            rounds += 1
        return elapsed / rounds

    with (
        _loop() as loop,
        loop.hold(joined_member("websocket", setting.folder)) as (member, _),
        joined("websocket", setting.folder, loop) as raw,
        loop.hold(_store(setting.folder / "plain.db")) as store,
    ):
        yield [
            Contender(TRIP, lambda: loop.run(ours(member))),
            Contender(BARE_LINK, lambda: loop.run(go_and_return(raw, setting.seconds))),
            Contender(DURABLE_LINK, lambda: loop.run(durable(raw, store))),
        ]


@contextlib.asynccontextmanager
async def _store(file: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(file, SystemClock())
    try:
        yield store
    finally:
        await store.close()


class _OneLink:
    """A room in which there is one peer, to whom there is a link already."""

    def __init__(self, peer: str, link: SlowLink) -> None:
        self.peers: tuple[Listed, ...] = ()
        self._news: list[Any] = [
            SignallingReady(()),
            LinkOpened(attempt=1, uuid=f"uuid_{peer}", stream=peer, link=link),
        ]
        self._closed = asyncio.Event()

    def start(self) -> None:
        """It is here."""

    def view(self, stream: str) -> None:
        """There is a link."""

    def unview(self, stream: str) -> None:
        """The link stays."""

    def handle_channel_signal(self, attempt: int, message: dict[str, Any]) -> None:
        """Nothing is to be agreed about the link."""

    async def next_event(self) -> Any:
        if self._news:
            return self._news.pop(0)
        await self._closed.wait()
        raise LinkClosed("the room was left")

    async def close(self, reason: str = "") -> None:
        self._closed.set()


class _Relays:
    """Every session has this one link."""

    own = None
    default = "ws://127.0.0.1/signal"

    def __init__(self, peer: str, link: SlowLink) -> None:
        self._peer = peer
        self._link = link

    def is_own(self, _host: str) -> bool:
        return False

    def pin_of(self, _host: str) -> str | None:
        return None

    def door(self) -> dict[str, Any]:
        return {}

    def invite_of(self, _rooms: Rooms, _hosted: HostedRoom) -> Invite:
        raise NotImplementedError

    def open_links(self, _kept: KeptSession) -> _OneLink:
        return _OneLink(self._peer, self._link)


@contextlib.asynccontextmanager
async def _tools(node: Node, peer: str, link: SlowLink) -> AsyncIterator[RoomTools]:
    """The tools of a node, whose sessions have this link."""
    runtime = node.runtime
    keeping = RoomStore(
        runtime.store, runtime.record, runtime.clock, runtime.current_vault, "bench", runtime.restored_at
    )
    paths = FilePaths(runtime.settings.data, ())
    rooms = Rooms(runtime, keeping, paths=paths, demands=Demands(), relays=_Relays(peer, link))
    try:
        yield RoomTools(rooms, runtime.clock, _no_invite)
    finally:
        await rooms.close()


async def _no_invite(_given: dict[str, Any]) -> dict[str, Any]:
    raise NotImplementedError


@contextlib.asynccontextmanager
async def _far_member(folder: Path) -> AsyncIterator[Member]:
    """A member of a room whose other member is 50 ms away; both are in this process."""
    left, right = slow_pair(ROUND_TRIP)
    async with (
        node_of("websocket", folder / "here") as here,
        node_of("websocket", folder / "there") as there,
        _tools(here, "there", left) as our_tools,
        _tools(there, "here", right) as their_tools,
    ):
        ours, theirs = Member(our_tools, folder), Member(their_tools, folder)
        await ours.join("bench", "here")
        await theirs.join("bench", "there")
        await ours.wait_peer()
        yield ours


@contextlib.asynccontextmanager
async def _far_link() -> AsyncIterator[RawLink]:
    left, right = slow_pair(ROUND_TRIP)
    answering = asyncio.create_task(answer_each(right.control))
    try:
        yield left.control
    finally:
        answering.cancel()
        await left.close()
        await right.close()


@contextlib.contextmanager
def _far(setting: Setting) -> Iterator[Sequence[Contender]]:
    large, small = _file(setting, 32), _file(setting, 1, "small.bin")
    with (
        _loop() as loop,
        loop.hold(_far_member(setting.folder)) as member,
        loop.hold(_far_link()) as raw,
    ):
        ours = _mib_per_second(large, member.send_file)
        plain = _mib_per_second(small, lambda path: stop_and_wait(raw, path))
        yield [
            Contender(OURS, lambda: loop.run(ours())),
            Contender(STOP_AND_WAIT, lambda: loop.run(plain())),
        ]


ROWS = (
    Row(
        name="room-file-wrtc",
        title="a file between two nodes over wrtc: MiB a second",
        unit=Unit.RATE,
        open=_files_over("wrtc", send_counted, counting=BARE_WRTC),
        bars=(AtLeast(0.7, BARE_WRTC),),
    ),
    Row(
        name="room-file-websocket",
        title="a file between two nodes on one host: MiB a second",
        unit=Unit.RATE,
        open=_files_over("websocket", send_hashed, hashing=HASHED, keeping=KEPT),
        bars=(AtLeast(0.7, HASHED),),
    ),
    Row(
        name="room-file-far",
        title="a file between two nodes that are 50 ms apart: MiB a second",
        unit=Unit.RATE,
        open=_far,
        bars=(AtLeast(10, STOP_AND_WAIT),),
    ),
    Row(
        name="room-message-trip",
        title="a message to another node and its answer, both kept",
        unit=Unit.TIME,
        open=_trips,
        bars=(AtLeast(0.2, BARE_LINK),),
    ),
)
