"""The stream of events: resumed by its ids, merged, bounded, and ended in order."""

import asyncio
import contextlib
import itertools
import json

import httpx
import pytest

from comity.bus.in_process import InProcessBus
from comity.node.event_stream import EVENTS_PATH, FRAMES, LINES, PAGE, READERS, EventsEndpoint
from comity.requests.events import KEPT, Events, encode
from comity.runtime.settings import AgentSettings
from comity.testing import bearer, running_node
from tests.http.asgi_calls import ask, scope_of
from tests.requests.pipelines import settle, simulated


class Counting:
    """Stands for the record, of which the door needs the counts alone."""

    def __init__(self):
        self.counted = []

    def count(self, room, outcome):
        self.counted.append((room, outcome))


class Frame:
    def __init__(self, text):
        lines = [line.partition(": ") for line in text.split("\n") if line]
        self.id = next((value for name, _, value in lines if name == "id"), None)
        self.kind = next((value for name, _, value in lines if name == "event"), "message")
        self.acts = [json.loads(value) for name, _, value in lines if name == "data"]


class Reader:
    """One open stream: its writes with their times, as the server would see them."""

    def __init__(self, desk, query=b"", **headers):
        self.written = []
        self.status = None
        self.headers = {}
        self.reading = asyncio.Event()
        self.reading.set()
        self.left = asyncio.Event()
        spelled = [(name.replace("_", "-"), value) for name, value in headers.items()]
        scope = scope_of("GET", EVENTS_PATH, spelled, query_string=query)
        self.task = asyncio.create_task(desk.door(scope, self._receive, self._send))

    async def _receive(self):
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message):
        await self.reading.wait()
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])
        else:
            moment = asyncio.get_running_loop().time()
            self.written.append((moment, message["body"].decode(), message.get("more_body", False)))

    @property
    def frames(self):
        parts = "".join(text for _, text, _ in self.written).split("\n\n")
        return [Frame(part) for part in parts if "data: " in part]

    @property
    def acts(self):
        return [act for frame in self.frames if frame.kind == "message" for act in frame.acts]

    @property
    def numbers(self):
        return [act["number"] for act in self.acts]

    @property
    def told_of(self):
        """How many acts, those that were merged into one line too."""
        return sum(act.get("count", 1) for act in self.acts)


class Desk:
    def __init__(self):
        self.bus = InProcessBus()
        self.events = Events(self.bus)
        self.record = Counting()
        self.closing = asyncio.Event()
        self.door = EventsEndpoint(self.events, self.record, self.closing)

    def act(self, times=1, kind="SHOP_OK", **more):
        for _ in range(times):
            self.events.add(1_800_000_000.5, "shop", kind, **more)

    @contextlib.asynccontextmanager
    async def reading(self, *args, **headers):
        reader = Reader(self, *args, **headers)
        await settle()
        yield reader
        reader.reading.set()
        reader.left.set()
        await reader.task


@simulated
async def test_an_act_is_one_line_of_json_without_what_is_empty():
    desk = Desk()
    async with desk.reading() as reader:
        desk.act(who="vacant:abababab", what="goods", request="r1")
        desk.act(kind="REFUSED", failed="shop:no", count=3, trace="00-1")
        await asyncio.sleep(1)
    assert reader.headers[b"content-type"] == b"text/event-stream"
    assert [frame.acts for frame in reader.frames] == [
        [
            {
                "number": 1,
                "time": "2027-01-15T08:00:00.500000Z",
                "room": "shop",
                "kind": "SHOP_OK",
                "who": "vacant:abababab",
                "what": "goods",
                "request": "r1",
            },
            {
                "number": 2,
                "time": "2027-01-15T08:00:00.500000Z",
                "room": "shop",
                "kind": "REFUSED",
                "trace": "00-1",
                "failed": "shop:no",
                "count": 3,
            },
        ]
    ]


@simulated
async def test_reading_begins_now_and_goes_on_where_it_was_left():
    desk = Desk()
    desk.act(3)
    async with desk.reading() as reader:
        begun = reader.written[0][1]
        desk.act(2)
        await asyncio.sleep(1)
        assert reader.numbers == [4, 5]
    assert begun == f"retry: 1000\nid: 3-{desk.events.run}\n\n"
    desk.act()
    async with desk.reading(last_event_id=reader.frames[-1].id) as again:
        await asyncio.sleep(1)
        assert again.numbers == [6]
    async with desk.reading(b"since=4") as asked, desk.reading(b"since=4", last_event_id="5") as both:
        await asyncio.sleep(1)
        assert asked.numbers == [5, 6]
        assert both.numbers == [6]


@simulated
async def test_whoever_comes_too_late_or_from_another_life_is_told_so_and_gets_what_is_kept():
    desk = Desk()
    desk.act(KEPT + 10)
    for id_ in ("5", f"5-{desk.events.run}", f"{KEPT + 5}-0123abcd", str(KEPT + 11)):
        async with desk.reading(last_event_id=id_) as reader:
            await asyncio.sleep(10)
        first = reader.frames[0]
        assert (first.kind, first.acts) == ("reset", [{"oldest": 11}]), id_
        assert reader.numbers == list(range(11, KEPT + 11)), id_
    async with desk.reading(last_event_id="10") as reader:
        await asyncio.sleep(10)
    assert reader.frames[0].kind == "message"
    assert reader.numbers[0] == 11


@simulated
async def test_a_node_that_has_kept_nothing_yet_says_so_to_a_reader_from_another_life():
    desk = Desk()
    async with desk.reading(last_event_id="7-0123abcd") as reader:
        await asyncio.sleep(1)
        assert [(frame.kind, frame.acts) for frame in reader.frames] == [("reset", [{"oldest": 1}])]
        desk.act()
        await asyncio.sleep(1)
    assert reader.numbers == [1]
    assert len(reader.frames) == 2


@simulated
async def test_a_flood_is_merged_into_few_frames_and_nothing_is_missing():
    desk = Desk()
    async with desk.reading() as reader:
        for _ in range(300):
            desk.act(7)
            await asyncio.sleep(0.01)
        await asyncio.sleep(2)
    moments = [moment for moment, text, _ in reader.written if "data: " in text]
    assert all(later - sooner > 0.99 / FRAMES for sooner, later in itertools.pairwise(moments))
    assert len(moments) > 10
    assert reader.told_of == 2100
    assert reader.numbers == sorted(reader.numbers)
    assert reader.numbers[-1] == 2100
    assert max(len(frame.acts) for frame in reader.frames) <= LINES


@simulated
async def test_of_more_acts_than_a_frame_has_lines_those_of_one_kind_and_outcome_are_one_line():
    desk = Desk()
    async with desk.reading() as reader:
        desk.act(LINES - 1, who="vacant:abababab", what="goods", request="r1")
        desk.act(2, kind="SHOP_OPENED", who="local:admin", count=3)
        desk.act(kind="REFUSED", who="unknown:-", what="late", failed="shop:late")
        desk.act(kind="REFUSED", failed="shop:no")
        desk.act(who="vacant:cdcdcdcd")
        await asyncio.sleep(1)
    (frame,) = reader.frames
    shown = [{name: act[name] for name in act if name not in ("time", "room")} for act in frame.acts]
    assert shown == [
        {"number": LINES + 1, "kind": "SHOP_OPENED", "who": "local:admin", "count": 6},
        {"number": LINES + 2, "kind": "REFUSED", "who": "unknown:-", "what": "late", "failed": "shop:late"},
        {"number": LINES + 3, "kind": "REFUSED", "failed": "shop:no"},
        {"number": LINES + 4, "kind": "SHOP_OK", "count": LINES},
    ]
    assert frame.id == f"{LINES + 4}-{desk.events.run}"


@simulated
async def test_as_many_acts_as_a_frame_has_lines_are_told_one_by_one():
    desk = Desk()
    async with desk.reading() as reader:
        desk.act(LINES)
        await asyncio.sleep(1)
    assert [len(frame.acts) for frame in reader.frames] == [LINES]


@simulated
async def test_what_happened_before_is_told_act_by_act_and_what_happens_meanwhile_is_merged():
    desk = Desk()
    desk.act(2 * PAGE)
    async with desk.reading(b"since=0") as reader:
        desk.act(3 * LINES)
        await asyncio.sleep(2)
    assert [len(frame.acts) for frame in reader.frames] == [PAGE, PAGE, 1]
    assert reader.acts[-1]["count"] == 3 * LINES


@simulated
async def test_who_does_not_read_holds_one_frame_and_is_told_what_it_missed():
    desk = Desk()
    async with desk.reading() as slow, desk.reading() as quick:
        slow.reading.clear()
        for _ in range(20):
            desk.act(KEPT // 8)
            await asyncio.sleep(1)
        assert quick.told_of == desk.events.last
        assert slow.numbers == []
        slow.reading.set()
        await asyncio.sleep(10)
        kinds = [frame.kind for frame in slow.frames]
        assert kinds.count("reset") == 1
        assert kinds.index("reset") == 1  # one frame was on its way
        assert slow.numbers[-1] == desk.events.last
        assert len(set(slow.numbers)) == len(slow.numbers)


@simulated
async def test_silence_is_filled_with_a_comment():
    desk = Desk()
    async with desk.reading() as reader:
        await asyncio.sleep(46)
    comments = [text for _, text, _ in reader.written if text.startswith(":")]
    assert len(comments) == 3
    assert reader.frames == []


@simulated
async def test_one_reader_too_many_is_told_when_to_come_again_and_gets_in_once_there_is_room():
    desk = Desk()
    async with contextlib.AsyncExitStack() as held:
        for _ in range(READERS - 1):
            await held.enter_async_context(desk.reading())
        async with desk.reading():
            refused = await ask(desk.door, scope_of("GET", EVENTS_PATH))
            assert (refused.status, refused.json()["code"]) == (503, "overloaded")
            assert int(refused.headers["retry-after"]) > 0
        async with desk.reading() as reader:
            assert reader.status == 200
    assert desk.record.counted == [("events", "overloaded")]
    assert desk.events.last == 0


@simulated
async def test_readers_that_are_equally_far_share_the_bytes_of_a_frame(monkeypatch):
    written = []
    monkeypatch.setattr(
        "comity.node.event_stream.encode", lambda act: written.append(act.number) or encode(act)
    )
    desk = Desk()
    async with contextlib.AsyncExitStack() as held:
        readers = [await held.enter_async_context(desk.reading()) for _ in range(3)]
        for _ in range(200):
            desk.act()
            await asyncio.sleep(0.003)
            desk.act(who="vacant:abababab")  # between one reader and the next
        await asyncio.sleep(1)
        assert [reader.told_of for reader in readers] == [400] * 3
    assert written == sorted(set(written))


@simulated
@pytest.mark.parametrize("ends", ["node", "bus"])
async def test_a_stream_ends_in_order_when_the_node_stops(ends):
    desk = Desk()
    reader = Reader(desk)
    await settle()
    desk.closing.set() if ends == "node" else await desk.bus.close()
    async with asyncio.timeout(5):
        await reader.task
    assert reader.written[-1][1:] == ("", False)


@simulated
async def test_ids_that_are_none_and_other_methods_are_refused_by_name():
    desk = Desk()
    for headers, query, name in (
        ([("last-event-id", "last week")], b"", "Last-Event-ID"),
        ([("last-event-id", "-1")], b"", "Last-Event-ID"),
        ([("last-event-id", "9" * 400)], b"", "Last-Event-ID"),
        ([], b"since=", "since"),
        ([], b"since=1.5", "since"),
    ):
        refused = await ask(desk.door, scope_of("GET", EVENTS_PATH, headers, query_string=query))
        assert refused.status == 400
        assert refused.json()["detail"].startswith(name)
    assert (await ask(desk.door, scope_of("POST", EVENTS_PATH))).headers["allow"] == "GET"


async def test_a_node_streams_its_acts_to_its_own_user_and_to_nobody_else(patience):
    async with running_node(agent=AgentSettings(behaviour="echo")) as node:
        async with httpx.AsyncClient(base_url=node.url) as http:
            assert (await http.get(EVENTS_PATH)).status_code == 401
            opened = http.stream("GET", EVENTS_PATH, headers=bearer(node))
            async with opened as stream:
                before = node.runtime.events.last
                answer = await http.post("/v1/ping", headers=bearer(node))
                async for line in stream.aiter_lines():
                    if line.startswith("data: "):
                        act = json.loads(line.removeprefix("data: "))
                        break
        assert act["request"] == answer.headers["x-request-id"]
        assert (act["room"], act["kind"], act["who"]) == ("ping", "PING_OK", "local:admin")
        assert node.runtime.events.last == before + 1


async def test_a_node_stops_at_once_although_somebody_watches(patience):
    async with httpx.AsyncClient() as http:
        async with running_node() as node:
            opened = http.stream("GET", node.url + EVENTS_PATH, headers=bearer(node), timeout=None)
            stream = await opened.__aenter__()
            await node.stop()
        rest = [line async for line in stream.aiter_lines()]  # an end in order, or this raises
        assert rest[0].startswith("retry")
        await opened.__aexit__(None, None, None)
