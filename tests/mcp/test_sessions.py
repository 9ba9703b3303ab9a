"""Legacy sessions over HTTP: whose they are, how long they last, and how another process goes on with them."""

import asyncio
import itertools
import json

import pytest
from cryptography.fernet import Fernet

from comity.identity.protocol.keys import SigningKey
from comity.mcp import sessions as module
from comity.mcp.protocol.catalog import Catalog
from comity.mcp.protocol.context import McpClient
from comity.mcp.protocol.results import StreamGoneError
from comity.mcp.protocol.session import McpSession
from comity.mcp.sessions import LOCAL, MAX_AGE, Sessions
from comity.mcp.streams import Changes
from comity.requests.record import Recorder
from comity.store.audit_chain import decode
from comity.store.audit_trail import AuditTrail, log_of
from comity.store.memory import MemoryDisk, MemoryStore
from comity.store.sqlite import SqliteStore
from comity.store.vault import Vault
from comity.testing import VirtualClock
from comity.vcp.protocol.mcp_places import VcpHandshake
from comity.wire.errors import NotFoundError, OverloadedError, StoreUnavailableError
from comity.wire.jsonrpc import RpcRequest
from tests.callers import named
from tests.mcp.protocol.talk import AGREED

IDLE = 60.0
KEY = SigningKey.from_seed(bytes(32))
CHAINS = itertools.count(1)


def a_session(owner="ann", **more):
    return McpSession(McpClient(version="2025-06-18", modern=False, caller=named(owner), **more))


def trail(name=None):
    """Each process that writes has a chain of its own."""
    return AuditTrail(name or f"p{next(CHAINS)}", KEY)


def memory(clock, disk=None):
    return MemoryStore(clock, disk, trail())


VAULT = Vault([Fernet.generate_key()])


class Process:
    def __init__(self, store, clock, **more):
        self.store = store
        self.clock = clock
        self.catalog = Catalog()
        self.changes = Changes(self.catalog)
        self.over = []
        self.sessions = Sessions(
            store,
            Recorder(store, clock),
            clock,
            self.changes,
            vault=lambda: VAULT,
            idle=IDLE,
            ended=lambda held: self.over.append(held.id),
            handshake=VcpHandshake(),
            **more,
        )

    async def begin(self, owner="ann", **more):
        return await self.sessions.begin(a_session(owner, **more))

    async def get(self, id_, owner="ann"):
        return await self.sessions.get(id_, named(owner).owner)

    async def is_gone(self, id_, owner="ann"):
        try:
            await self.get(id_, owner)
        except NotFoundError:
            return True
        return False


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def process(clock):
    return Process(MemoryStore(clock, trail=trail("main")), clock)


async def ended_on_record(disk):
    return sum(b"MCP_SESSION_ENDED" in record for record in disk.records.values())


async def running(held, id_=1):
    task = asyncio.ensure_future(asyncio.Event().wait())
    held.running[id_] = None, task
    await asyncio.sleep(0)
    return task


async def test_a_session_is_found_by_its_owner_and_by_nobody_else(process):
    held = await process.begin("ann")
    assert await process.get(held.id, "ann") is held
    assert await process.is_gone(held.id, "bob")
    assert await process.is_gone("made-up")
    assert await process.get(held.id, "ann") is held


async def test_ids_cannot_be_guessed(process):
    ids = {(await process.begin()).id for _ in range(20)}
    assert len(ids) == 20
    assert all(len(id_) == 32 for id_ in ids)


async def test_a_session_that_is_ended_is_gone_everywhere(process, clock):
    held = await process.begin()
    follower = asyncio.ensure_future(anext(aiter(held.general.follow()), None))
    task = await running(held)
    with pytest.raises(NotFoundError):
        await process.sessions.end(held.id, "oauth:bob")
    await process.sessions.end(held.id, "oauth:ann")
    assert await process.is_gone(held.id)
    assert await follower is None
    await asyncio.wait([task])
    assert task.cancelled()
    assert process.over == [held.id]
    assert await Process(process.store, clock).is_gone(held.id)
    assert len(process.sessions) == 0


async def test_beginning_and_ending_are_on_record(process):
    held = await process.begin()
    await process.sessions.end(held.id, "oauth:ann")
    entries = [decode(found.data) for found in await process.store.read(log_of("main"))]
    assert [one.verification_result for one in entries] == ["MCP_SESSION_BEGUN", "MCP_SESSION_ENDED"]
    assert all("ann" not in str(one.issuer_hash) for one in entries)


async def test_an_idle_session_runs_out_and_a_used_one_does_not(process, clock):
    idle, used = await process.begin(), await process.begin()
    for _ in range(5):
        await clock.advance(IDLE - 1)
        await process.get(used.id)
    assert await process.is_gone(idle.id)
    assert process.over == [idle.id]


async def test_a_session_ends_after_a_day_however_busy(process, clock):
    held = await process.begin()
    for _ in range(int(MAX_AGE // (IDLE - 1))):
        await clock.advance(IDLE - 1)
        await process.get(held.id)
    await running(held)
    await clock.advance(IDLE - 1)
    assert await process.is_gone(held.id)


async def test_a_session_is_not_idle_while_a_call_runs_or_its_stream_is_read(process, clock):
    calling, listening, idle = [await process.begin() for _ in range(3)]
    task = await running(calling)
    reading = listening.general.follow()
    for _ in range(4):
        await clock.advance(IDLE / 2)
        await process.sessions.expire()
    assert process.over == [idle.id]
    assert await process.get(calling.id) is calling
    assert await process.get(listening.id) is listening
    task.cancel()
    await reading.aclose()


async def test_expiring_ends_what_was_idle_for_too_long(process, clock):
    first = await process.begin()
    await clock.advance(IDLE / 2)
    second = await process.begin()
    await clock.advance(IDLE / 2 + 1)
    await process.sessions.expire()
    assert process.over == [first.id]
    assert await process.get(second.id) is second


async def test_at_the_limit_the_oldest_idle_session_of_the_owner_makes_room(clock):
    process = Process(memory(clock), clock, most=3)
    first, second, third = [await process.begin(LOCAL) for _ in range(3)]
    await process.get(first.id, LOCAL)  # heard of last
    await process.begin(LOCAL)
    assert (process.over, len(process.sessions)) == ([second.id], 3)
    assert await process.is_gone(second.id, LOCAL)
    await running(third, 1)
    await process.begin(LOCAL)
    assert process.over == [second.id, first.id]


async def test_no_session_that_is_in_use_makes_room(clock):
    process = Process(memory(clock), clock, most=2)
    tasks = [await running(await process.begin(LOCAL), 1) for _ in range(2)]
    with pytest.raises(
        OverloadedError, match="no more than 2 sessions may be open, and none of yours is idle"
    ):
        await process.begin(LOCAL)
    assert len(process.sessions) == 2
    for task in tasks:
        task.cancel()


async def test_the_owner_may_have_all_sessions_that_the_setting_allows(clock):
    process = Process(memory(clock), clock, most=1500)
    for _ in range(1500):
        await process.begin(LOCAL)
    assert (process.over, len(process.sessions)) == ([], 1500)


async def test_a_visitor_has_a_share_and_never_pushes_others_out(clock):
    process = Process(memory(clock), clock, most=16)
    own = [await process.begin(LOCAL) for _ in range(3)]
    others = [await process.begin("ann") for _ in range(2)]
    first, *_ = [await process.begin("bob") for _ in range(4)]
    assert process.over[0] == first.id
    assert len(process.over) == 2
    for held, owner in [*((one, LOCAL) for one in own), *((one, "ann") for one in others)]:
        assert not await process.is_gone(held.id, owner)


async def test_visitors_leave_room_for_the_owner(clock):
    process = Process(memory(clock), clock, most=8)
    for number in range(6):
        await process.begin(f"visitor {number}")
    with pytest.raises(OverloadedError):
        await process.begin("one more")
    own = [await process.begin(LOCAL) for _ in range(3)]
    assert process.over[1:] == [own[0].id]  # the first is the one that could not begin


async def test_the_owner_gets_in_where_visitors_have_every_place(clock):
    process = Process(memory(clock), clock, most=1)
    visiting = await process.begin("ann")
    await process.begin(LOCAL)
    assert process.over == [visiting.id]
    with pytest.raises(OverloadedError):
        await process.begin("ann")


async def test_a_session_that_could_not_be_written_never_was(process, monkeypatch):
    def broken(*_operations):
        raise StoreUnavailableError("closed")

    monkeypatch.setattr(process.store, "submit", broken)
    with pytest.raises(StoreUnavailableError):
        await process.begin()
    assert len(process.sessions) == 0
    process.changes.list_changed("tools")


@pytest.mark.parametrize("engine", ["memory", "sqlite"])
async def test_another_process_goes_on_with_what_was_agreed(engine, clock, tmp_path):
    disk = MemoryDisk()

    async def a_process():
        if engine == "memory":
            return Process(memory(clock, disk), clock)
        return Process(await SqliteStore.open(tmp_path / "comity.db", clock, trail()), clock)

    first = await a_process()
    session = McpSession(AGREED.agreed(a_session(capabilities={"n": 10**30, "deep": [[{}]]}).client))
    held = await first.sessions.begin(session)
    lost = held.new_stream()
    session.apply_setting(RpcRequest(1, "logging/setLevel", {"level": "error"}))
    session.apply_setting(RpcRequest(2, "resources/subscribe", {"uri": "x://a"}))
    await first.sessions.keep(held)
    first.sessions.close()
    await first.store.close()

    second = await a_process()
    assert await second.is_gone(held.id, "bob")
    again = await second.get(held.id)
    assert again.session.remembered() == session.remembered()
    assert again is await second.get(held.id)
    second.changes.resource_updated("x://a")
    second.changes.resource_updated("x://b")
    assert again.general.last == 1
    for name in (held.general.name, "0"):  # the second as earlier releases named it
        assert again.resume(name, 17) == (again.general, 0)
    reader = again.general.follow()
    stream = aiter(reader)
    result = [json.loads((await anext(stream)).partition(b"data: ")[2]) for _ in range(5)]
    await reader.aclose()
    assert [one["method"] for one in result] == [
        "notifications/resources/updated",
        "notifications/tools/list_changed",
        "notifications/resources/list_changed",
        "notifications/prompts/list_changed",
        "notifications/resources/updated",
    ]
    assert result[-1]["params"] == {"uri": "x://a"}
    with pytest.raises(StreamGoneError, match="the call of this stream ended with it"):
        again.resume(lost.name, 1)
    second.sessions.close()
    await second.store.close()


async def test_a_session_that_was_taken_up_is_kept_at_once(clock):
    disk = MemoryDisk()
    first, second, third = [Process(memory(clock, disk), clock) for _ in range(3)]
    held = await first.begin()
    await clock.advance(IDLE - 1)
    await second.get(held.id)
    await clock.advance(IDLE / 2)
    await third.get(held.id)


async def test_who_lets_a_session_go_does_not_end_it_for_others(clock):
    disk = MemoryDisk()
    first, second = [Process(memory(clock, disk), clock) for _ in range(2)]
    held = await first.begin()
    for _ in range(3):
        await clock.advance(IDLE - 1)
        await second.get(held.id)
    await first.sessions.expire()
    assert len(first.sessions) == 0
    assert await ended_on_record(disk) == 0
    assert not await second.is_gone(held.id)
    again = await first.get(held.id)
    assert again is not held
    await clock.advance(IDLE + 1)
    assert await first.is_gone(held.id)
    assert await ended_on_record(disk) == 1


async def test_a_session_is_written_again_only_now_and_then(process, clock):
    held = await process.begin()
    for passed, version in ((IDLE / 8, 1), (IDLE / 8, 1), (IDLE / 8, 2), (IDLE / 8, 2)):
        await clock.advance(passed)
        await process.get(held.id)
        assert (await process.store.get(module.SPACE, held.id)).version == version


async def test_two_who_take_up_a_session_at_once_get_the_same(clock):
    disk = MemoryDisk()
    held = await Process(memory(clock, disk), clock).begin()
    process = Process(memory(clock, disk), clock)
    one, other = await asyncio.gather(process.get(held.id), process.get(held.id))
    assert one is other
    assert len(process.sessions) == 1


@pytest.mark.parametrize("value", [b'{"what":1}', VAULT.seal(b'{"what":1}'), b"enc:damaged"])
async def test_a_stored_session_that_cannot_be_read_is_none(process, value):
    await process.store.commit(module.Put(space=module.SPACE, key="old", value=value))
    assert await process.is_gone("old")


async def test_a_stored_session_names_nobody_in_clear(process):
    held = await process.begin("ann of the long name")  # too long to stand in a sealed value by chance
    stored = (await process.store.get(module.SPACE, held.id)).value
    assert b"ann of the long name" not in stored
    assert b"ann of the long name" in VAULT.open(stored)


async def test_without_a_key_a_session_lives_in_its_process_and_nothing_is_stored(clock, monkeypatch):
    disk = MemoryDisk()
    process = Process(memory(clock, disk), clock)
    monkeypatch.setattr(f"{__name__}.VAULT", Vault([]))
    held = await process.begin()
    await clock.advance(IDLE / 2)
    assert await process.get(held.id) is held
    assert await process.store.get(module.SPACE, held.id) is None
    assert await Process(memory(clock, disk), clock).is_gone(held.id)


async def test_streams_of_a_session_are_found_by_name_and_old_ones_make_room(process, monkeypatch):
    monkeypatch.setattr(module, "MAX_STREAMS", 3)
    held = await process.begin()
    streams = [held.new_stream() for _ in range(5)]
    assert len({stream.name for stream in streams} | {held.general.name}) == 6
    assert held.resume(held.general.name, 0) == (held.general, 0)
    assert all(held.resume(one.name, 7) == (one, 7) for one in streams)
    for stream in streams[:2]:
        stream.end()
    held.new_stream()
    for stream in streams[:2]:
        with pytest.raises(StreamGoneError, match="no longer stored"):
            held.resume(stream.name, 0)
    assert held.resume(streams[2].name, 0)[0] is streams[2]
    held.forget_stream(streams[2])
    with pytest.raises(NotFoundError):
        held.resume(streams[2].name, 0)


async def test_calls_of_one_session_are_bounded(process, monkeypatch):
    monkeypatch.setattr(module, "MAX_OPEN_STREAMS", 3)
    monkeypatch.setattr(module, "MAX_STREAMS", 2)
    held = await process.begin()
    first, *_ = [held.new_stream() for _ in range(3)]
    with pytest.raises(OverloadedError):
        held.new_stream()
    first.end()
    held.new_stream()


async def test_a_call_is_cancelled_by_its_id_and_by_nothing_else(process):
    held = await process.begin()
    task = await running(held, 1)
    for other in (2, "1", True, None, [], {}):
        held.cancel(other)
    await asyncio.sleep(0)
    assert not task.done()
    held.cancel(1.0)
    await asyncio.wait([task])
    assert task.cancelled()
    assert held.running == {}


async def test_a_session_hears_of_lists_and_of_what_it_subscribed_to(process):
    held = await process.begin()
    held.session.apply_setting(RpcRequest(1, "resources/subscribe", {"uri": "x://a"}))
    process.changes.list_changed("prompts")
    process.changes.resource_updated("x://a")
    process.changes.resource_updated("x://b")
    process.changes.task_changed("t", {})
    assert held.general.last == 2
    await process.sessions.end(held.id, "oauth:ann")
    process.changes.list_changed("prompts")
    assert held.general.last == 2
