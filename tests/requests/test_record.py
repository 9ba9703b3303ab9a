"""The record: what one act becomes, and what is only counted."""

import asyncio

import pytest
from msgspec.structs import replace

from comity.bus.in_process import InProcessBus
from comity.requests.budget import Budget, Figures
from comity.requests.events import KEPT, SUBJECT, Events
from comity.requests.handler import begin_request, request_check
from comity.requests.record import MOMENT, Act, Recorder
from comity.store.interface import Put
from comity.testing import SimulatedClock
from comity.wire.errors import MalformedError, UnauthenticatedError
from tests.callers import OWNER, STRANGER, signer, visitor
from tests.requests.pipelines import ANN, HeldStore, NodeRuntime, Observing, Shop, Window, settle, simulated

PUT = Put(space="s", key="k", value=b"v")


class Desk:
    """A record on a store of its own, with its events and what was counted."""

    def __init__(self, level="standard"):
        self.clock = SimulatedClock()
        self.store = HeldStore(self.clock)
        self.events = Events(InProcessBus())
        self.counted = []
        self.record = Recorder(
            self.store, self.clock, metrics=Observing(self.counted), events=self.events, level=level
        )

    async def told(self):
        """Result, reason and checks of each entry, without who called."""
        await settle()
        return [
            (entry.verification_result, entry.failed_step, entry.checks_passed[:-1])
            for entry in await self.store.entries()
        ]

    @property
    def kinds(self):
        return [(event.kind, event.who, event.count) for event in self.events.since(0).events]


@simulated
async def test_a_change_of_state_is_one_entry_and_one_event_with_the_caller_and_the_request():
    desk = Desk()
    begin_request("r-1", "00-trace")
    act = Act(feature="shop", result="SHOP_OK", caller=signer("ab" * 32), checks=("stock",), about="goods")
    await desk.record.commit([PUT], act)
    (entry,) = await desk.store.entries()
    assert entry.checks_passed == ("stock", "caller:vacant:abababab", request_check("r-1"))
    (event,) = desk.events.since(0).events
    assert (event.feature, event.kind, event.who, event.what) == (
        "shop",
        "SHOP_OK",
        "vacant:abababab",
        "goods",
    )
    assert (event.request, event.trace) == ("r-1", "00-trace")
    assert await desk.store.get("s", "k") is not None


@simulated
async def test_what_could_not_be_stored_has_no_event():
    desk = Desk()
    desk.store.refusals.append(RuntimeError("full"))
    with pytest.raises(RuntimeError):
        await desk.record.commit([PUT], Act(feature="shop", result="SHOP_OK"))
    assert desk.kinds == []


@simulated
async def test_a_commit_that_was_begun_is_seen_through_and_says_that_it_was_cancelled():
    desk = Desk()
    desk.store.held = True
    buying = asyncio.create_task(desk.record.commit_shielded([PUT], Act(feature="shop", result="SHOP_OK")))
    await settle()
    buying.cancel()
    await settle()
    assert not buying.done()
    desk.store.release()
    assert await buying
    assert [kind for kind, _, _ in desk.kinds] == ["SHOP_OK"]


@simulated
async def test_two_callers_of_one_kind_are_told_apart_and_not_named():
    desk = Desk()
    for caller in (visitor("ann@example"), visitor("bob@example"), STRANGER, OWNER):
        desk.record.note(Act(feature="shop", result="SHOP_OK", caller=caller))
    await settle()
    entries = await desk.store.entries()
    assert len({entry.issuer_hash for entry in entries}) == 4
    named = [entry.checks_passed[-1] for entry in entries]
    assert named[2:] == ["caller:unknown:-", "caller:local:admin"]
    assert named[0] != named[1]
    assert "ann" not in str(entries)


@simulated
async def test_refusals_of_a_minute_are_told_when_the_next_one_begins_by_room_and_reason():
    desk = Desk()
    for _ in range(1000):
        desk.record.refuse("http", "unauthenticated")
    await desk.clock.sleep(59.9)
    desk.record.refuse("ping", "rate_limited")
    assert await desk.told() == []
    await desk.clock.sleep(0.1)
    desk.record.refuse("http", "unauthenticated")
    assert await desk.told() == [
        ("REFUSED", "http:unauthenticated", ("count:1000",)),
        ("REFUSED", "ping:rate_limited", ("count:1",)),
    ]
    assert desk.kinds == [("REFUSED", "unknown:-", 1000), ("REFUSED", "unknown:-", 1)]
    assert len(desk.counted) == 1002


@simulated
async def test_a_minute_is_told_once_and_only_when_it_is_over_unless_somebody_asks():
    desk = Desk("full")
    desk.record.refuse("http", "forbidden")
    await desk.clock.sleep(30)
    desk.record.flush_refusals()
    assert await desk.told() == []
    await desk.clock.sleep(30)
    for _ in range(2):
        desk.record.flush_refusals()
    await settle()
    (entry,) = await desk.store.entries()
    assert (entry.audit_level, entry.duration_ms) == ("full", 60_000)
    desk.record.refuse("http", "forbidden")
    desk.record.flush()
    assert len(await desk.told()) == 2


@simulated
async def test_one_refusal_is_counted_once_however_many_look_at_it():
    desk = Desk()
    refusal = MalformedError("no")
    for _ in range(3):
        desk.record.refuse_once("http", refusal)
    assert desk.counted == [("http", "malformed", 0.0)]


@simulated
async def test_alike_calls_of_a_moment_stand_in_one_entry_with_their_number_under_the_hash():
    desk = Desk()
    for _ in range(1000):
        desk.record.tally_mcp("echo", OWNER, "ok")
    desk.record.tally_mcp("echo", OWNER, "internal")
    desk.record.tally_mcp("read", visitor("ann"), "asked")
    assert await desk.told() == []
    await asyncio.sleep(MOMENT + 0.001)
    checks = ("rate", "identity")
    assert await desk.told() == [
        ("MCP_ECHO_OK", None, (*checks, "count:1000")),
        ("MCP_ECHO_FAILED", "internal", (*checks, "count:1")),
        ("MCP_READ_OK", None, (*checks, "count:1")),
    ]
    assert [count for _, _, count in desk.kinds] == [1000, 1, 1]
    desk.record.flush()
    await asyncio.sleep(3 * MOMENT)
    assert len(await desk.told()) == 3


@simulated
async def test_calls_are_alike_only_where_an_entry_would_say_the_same_and_their_times_are_added_up():
    desk = Desk()
    act = Act(feature="shop", result="SHOP_OK", caller=OWNER, checks=("rate",), about="goods", seconds=0.5)
    others = (
        replace(act, feature="store"),
        replace(act, result="SHOP_FAILED"),
        replace(act, caller=visitor("ann")),
        replace(act, checks=("rate", "schema")),
        replace(act, failed_step="admit"),
        replace(act, about="bads"),
    )
    for each in (act, *others, replace(act, seconds=0.25)):
        desk.record.tally(each)
    desk.record.flush()
    await settle()
    entries = await desk.store.entries()
    assert [entry.checks_passed[-2] for entry in entries] == ["count:2"] + ["count:1"] * len(others)
    assert [entry.duration_ms for entry in entries] == [750] + [500] * len(others)


@simulated
async def test_a_group_names_a_request_only_where_all_of_it_belongs_to_that_one():
    desk = Desk()
    for id_, caller in (("r-1", OWNER), ("r-2", visitor("ann")), ("r-3", visitor("bob")), ("r-4", OWNER)):
        begin_request(id_)
        desk.record.tally_mcp("echo", caller, "ok")
        desk.record.refuse("http", "forbidden" if id_ == "r-1" else "unauthenticated")
    desk.record.flush()
    await settle()
    result = {(event.kind, event.who, event.what): event.request for event in desk.events.since(0).events}
    assert list(result.values()) == ["", "r-2", "r-3", "r-1", ""]
    checks = [entry.checks_passed[-1] for entry in await desk.store.entries()]
    assert checks == ["caller:local:admin", *map(request_check, ("r-2", "r-3", "r-1")), "caller:unknown:-"]


@simulated
async def test_an_act_is_named_by_what_it_was_about_or_by_its_hash():
    desk = Desk()
    hashes = {"request_id_hash": "blake2b:" + "ab" * 32}
    desk.record.note(Act(feature="shop", result="SHOP_OK", about="goods", hashes=hashes))
    desk.record.note(Act(feature="shop", result="SHOP_OK", hashes=hashes))
    desk.record.note(Act(feature="shop", result="SHOP_OK"))
    assert [event.what for event in desk.events.since(0).events] == ["goods", "ab" * 8, ""]


@simulated
async def test_the_walk_writes_refused_strangers_down_once_a_minute():
    runtime = NodeRuntime(budget=Budget(SimulatedClock(), Figures(requests=1, per_seconds=3600)))
    await runtime.take(Window(caller=ANN))
    for _ in range(3):
        with pytest.raises(Exception, match="too many requests"):
            await runtime.take(Window(caller=ANN))
    runtime.record.flush_calls()
    await settle()
    assert await runtime.store.results() == ["WINDOW_OK"]
    runtime.record.flush()
    await settle()
    entry = (await runtime.store.entries())[-1]
    assert (entry.failed_step, entry.checks_passed[0]) == ("window:rate_limited", "count:3")
    assert [outcome for _, outcome, _ in runtime.observed].count("rate_limited") == 3


@simulated
async def test_the_first_refusal_of_a_new_minute_writes_the_old_one_down():
    runtime = NodeRuntime()
    stranger = Shop(identify=UnauthenticatedError("who are you?"))
    for wait in (0, 1, 60, 1):
        await runtime.clock.sleep(wait)
        stranger.instead["identify"] = UnauthenticatedError("who are you?")
        with pytest.raises(UnauthenticatedError):
            await runtime.take(stranger)
    await settle()
    assert [entry.checks_passed[0] for entry in await runtime.store.entries()] == ["count:2"]


@simulated
async def test_events_are_numbered_kept_for_a_while_and_a_late_reader_is_told():
    events = Events(InProcessBus())
    for _ in range(KEPT + 10):
        events.add(0.0, "shop", "SHOP_OK")
    page = events.since(5)
    assert page.reset
    assert [page.events[0].number, page.events[-1].number, len(page.events)] == [11, KEPT + 10, KEPT]
    page = events.since(KEPT + 8)
    assert ([event.number for event in page.events], page.reset) == ([KEPT + 9, KEPT + 10], False)
    assert events.since(KEPT + 10) == ([], False)
    assert events.since(KEPT + 11).reset  # a number of another life of the node


async def pages_of(events):
    """As a reader takes them: all that is new, at first and after each hint, until the bus closes."""
    async with events.hints() as hints:
        page, seen = events.since(0), events.last
        yield page
        async for _hint in hints:
            page, seen = events.since(seen), events.last
            if page.events:
                yield page


@simulated
async def test_a_reader_misses_nothing_that_happens_while_it_is_busy():
    bus = InProcessBus()
    events = Events(bus)
    events.add(0.0, "shop", "FIRST")
    seen = []
    async for page in pages_of(events):
        seen += [event.kind for event in page.events]
        if len(seen) == 1:
            events.add(0.0, "shop", "SECOND")
            await asyncio.sleep(1)
        else:
            break
    assert seen == ["FIRST", "SECOND"]


@simulated
async def test_a_page_holds_no_more_than_was_asked_for():
    events = Events(InProcessBus())
    for _ in range(10):
        events.add(0.0, "shop", "SHOP_OK")
    assert [event.number for event in events.since(3, 4).events] == [4, 5, 6, 7]
    assert events.since(0, 4).reset is False


@simulated
async def test_a_reader_gets_what_was_and_what_comes_each_event_once():
    bus = InProcessBus()
    events = Events(bus)
    events.add(0.0, "shop", "FIRST")
    seen = []

    async def read():
        async for page in pages_of(events):
            seen.append([event.kind for event in page.events])  # noqa: PERF401 - as they come

    reading = asyncio.create_task(read())
    await asyncio.sleep(1)
    for kind in ("SECOND", "THIRD"):
        events.add(0.0, "shop", kind)
    await asyncio.sleep(1)
    events.add(0.0, "shop", "FOURTH")
    await asyncio.sleep(1)
    await bus.close()
    await reading
    assert seen == [["FIRST"], ["SECOND", "THIRD"], ["FOURTH"]]


async def test_closing_tells_readers_of_the_last_event_and_leaves_nothing_for_later():
    bus = InProcessBus()
    events = Events(bus)
    async with bus.listen(SUBJECT) as hints:
        events.add(1.0, "node", "NODE_STOPPED")
        await events.close()
        assert await asyncio.wait_for(anext(hints), 1) == b"1"
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert events._due is None
