"""One act, one line: what people read and what a log keeps."""

import asyncio
import fcntl
import io
import json
import os
import pty
import re
import termios
import time

import pytest

from comity.bus.in_process import InProcessBus
from comity.node.commands.event_output import (
    LINES,
    ActLog,
    OpenWriter,
    TerminalLines,
    json_log_line,
    log_line,
    readable,
    words_for,
)
from comity.requests.events import KEPT, Events, NodeEvent
from tests.requests.pipelines import simulated

AT = 1_800_000_000.25
CALL = NodeEvent(7, AT, "envelope", "ENVELOPE_OK", "vacant:abababab", "63ae6ff9", "2e62", "00-aa")
CLOCK = time.strftime("%H:%M:%S", time.localtime(AT))


def event(kind, feature="shop", **more):
    return NodeEvent(1, AT, feature, kind, **more)


def test_a_line_says_when_where_what_who_about_what_and_which_request():
    assert readable(CALL, coloured=False).split() == [
        CLOCK,
        "envelope",
        *("signed", "call", "answered"),
        *("vacant", "abababab"),
        "63ae6ff9",
        *("request", "2e62"),
    ]


@pytest.mark.parametrize(
    ("happened", "words"),
    [
        (event("NODE_STARTED", "node"), "the node started"),
        (event("SHOP_OK"), "shop answered"),
        (event("SHOP_FAILED", failed="deadline"), "shop failed: deadline"),
        (event("MCP_ECHO_OK", "mcp", count=1000), "echo called, 1,000 times"),
        (event("MCP_ECHO_FAILED", "mcp", failed="internal"), "echo failed: internal"),
        (event("REFUSED", "http", failed="http:rate_limited", count=2), "refused: rate limited, 2 times"),
        (
            event("HANDSHAKE_ERROR", "vcp", failed="IDENTITY_INVALID"),
            "VCP handshake refused: identity invalid",
        ),
        (event("REVOCATION_GOOD", "vcp"), "revocation good"),
    ],
)
def test_what_happened_is_told_in_plain_words(happened, words):
    assert words_for(happened) == words


@pytest.mark.parametrize(
    ("who", "named"),
    [
        ("local:-", "you"),
        ("local:terminal", "you"),
        ("local:browser", "you, in a browser"),
        ("local:model", "your MCP client"),
        ("local:metrics:prometheus", "your token prometheus"),
        ("unknown:-", "anonymous"),
        ("oauth:0011aabb", "visitor 0011aabb"),
        ("vcp:0011aabb", "VCP 0011aabb"),
    ],
)
def test_callers_are_named_by_their_kind(who, named):
    assert named in readable(event("SHOP_OK", who=who), coloured=False)


def test_a_narrow_terminal_gets_less_and_never_a_broken_line():
    whole = readable(CALL, coloured=False)
    assert readable(CALL, coloured=False, width=len(whole)) == whole
    narrower = readable(CALL, coloured=False, width=len(whole) - 1)
    assert "63ae6ff9" in narrower
    assert "request" not in narrower
    assert readable(CALL, coloured=False, width=20).endswith("vacant abababab")
    plain = readable(event("SHOP_OK", who="local:-", request="r1"), coloured=False, width=60)
    assert plain.endswith("you")


def test_colours_change_nothing_but_the_look():
    coloured = readable(CALL, coloured=True)
    assert "\x1b[32m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == readable(CALL, coloured=False)
    assert "\x1b[31m" in readable(event("SHOP_FAILED", failed="internal"), coloured=True)


def test_nothing_that_others_wrote_acts_on_a_terminal_or_breaks_a_line():
    foul = "a\x1b[2J\nb\u202ec"
    bad = NodeEvent(1, AT, foul, foul, foul, foul, foul, foul, foul)
    for line in (readable(bad, coloured=False), log_line(bad).removesuffix("\n")):
        assert "\x1b" not in line
        assert "\n" not in line
        assert "\u202e" not in line
    assert json_log_line(bad).count("\n") == 1
    assert "\x1b" not in json_log_line(bad)


def test_a_log_line_looks_like_the_others_and_carries_everything():
    line = log_line(CALL)
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,250 INFO comity\.acts: ENVELOPE_OK ", line)
    assert line.endswith("room=envelope who=vacant:abababab what=63ae6ff9 request=2e62 trace=00-aa\n")
    refused = log_line(event("REFUSED", failed="shop:no", count=3))
    assert refused.endswith("REFUSED room=shop failed=shop:no count=3\n")
    assert log_line(event("SHOP_OK", what="two words")).endswith('what="two words"\n')


def test_a_json_log_line_has_the_fields_of_the_others_and_those_of_the_act():
    assert json.loads(json_log_line(CALL)) == {
        "at": "2027-01-15T08:00:00.250000+00:00",
        "level": "info",
        "logger": "comity.acts",
        "message": "ENVELOPE_OK",
        "room": "envelope",
        "kind": "ENVELOPE_OK",
        "who": "vacant:abababab",
        "what": "63ae6ff9",
        "request": "2e62",
        "trace": "00-aa",
    }


# What `comity up` writes of each act, and what it does when nobody reads it.


class Paper:
    """A writer that says what it has room for. `writes` are the texts, one for each time."""

    def __init__(self, room=1 << 20):
        self.left = room
        self.writes = []

    def room(self):
        return self.left

    def write(self, text):
        self.writes.append(text)

    @property
    def lines(self):
        return "".join(self.writes).splitlines()


class Desk:
    def __init__(self, room=1 << 20):
        self.bus = InProcessBus()
        self.events = Events(self.bus)
        self.paper = Paper(room)

    def act(self, times=1):
        for _ in range(times):
            self.events.add(1_800_000_000.0, "shop", "SHOP_OK", what=str(self.events.last + 1))

    def log(self):
        return ActLog(self.events, self.paper, log_line)

    @property
    def whats(self):
        return [int(line.rpartition("what=")[2]) for line in self.paper.lines if "what=" in line]


async def ended(task):
    task.cancel()
    await asyncio.wait([task])


@simulated
async def test_each_act_is_one_line_of_the_log_and_many_are_one_write():
    desk = Desk()
    desk.act(3)
    running = asyncio.create_task(desk.log().run())
    await asyncio.sleep(1)
    assert desk.whats == [1, 2, 3]
    desk.act(200)
    await asyncio.sleep(1)
    assert desk.whats == list(range(1, 204))
    assert len(desk.paper.writes) == 2
    await ended(running)


@simulated
async def test_a_log_that_nobody_reads_waits_and_what_is_lost_is_counted():
    desk = Desk(room=0)
    running = asyncio.create_task(desk.log().run())
    desk.act(KEPT + 10)
    await asyncio.sleep(5)
    assert desk.paper.writes == []
    desk.paper.left = 1 << 20
    await asyncio.sleep(5)
    assert desk.paper.lines[0].endswith("ACTS_NOT_LOGGED room=node count=10")
    assert desk.whats == list(range(11, KEPT + 11))
    await ended(running)


@simulated
async def test_no_more_is_written_than_there_is_room_for():
    desk = Desk(room=500)
    log = desk.log()
    desk.act(100)
    while log.write_batch() and len(desk.whats) < 100:
        pass
    assert desk.whats == list(range(1, 101))
    assert max(map(len, desk.paper.writes)) <= 500


@simulated
async def test_the_log_ends_with_the_node_and_its_last_acts_are_written():
    desk = Desk()
    log = desk.log()
    running = asyncio.create_task(log.run())
    desk.act()
    await asyncio.sleep(1)
    desk.act(2)
    await desk.bus.close()
    await running
    log.finish()
    assert desk.whats == [1, 2, 3]


@simulated
async def test_a_terminal_shows_so_many_lines_a_second_and_counts_the_rest():
    desk = Desk()
    running = asyncio.create_task(TerminalLines(desk.events, desk.paper).run())
    await asyncio.sleep(10)
    for _ in range(30):
        desk.act(10)
        await asyncio.sleep(0.1)
    shown = len(desk.paper.lines)
    assert 3 * (LINES - 1) <= shown <= 3 * LINES + 1
    await asyncio.sleep(2)
    result = [line for line in desk.paper.lines if "more; `comity watch`" in line]
    counted = sum(int(line.split()[2]) for line in result)
    assert counted + len(desk.paper.lines) - len(result) == 300
    await asyncio.sleep(10)
    desk.act()
    await asyncio.sleep(1)
    assert "request" not in desk.paper.lines[-1]
    assert desk.paper.lines[-1].endswith("301")
    await ended(running)


@simulated
async def test_a_terminal_begins_with_what_happens_from_now_on_and_one_that_is_held_loses_nothing_yet():
    desk = Desk()
    desk.act(5)
    running = asyncio.create_task(TerminalLines(desk.events, desk.paper).run())
    await asyncio.sleep(1)
    desk.paper.left = 0
    desk.act(3)
    await asyncio.sleep(2)
    assert desk.paper.lines == []
    desk.paper.left = 4096
    desk.act()
    await asyncio.sleep(2)
    assert [line.split()[-1] for line in desk.paper.lines] == ["6", "7", "8", "9"]
    await ended(running)


def test_of_a_pipe_that_nobody_reads_half_stays_free():
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        writer = OpenWriter(stream)
        capacity = fcntl.fcntl(writing, fcntl.F_GETPIPE_SZ)
        assert writer.room() == capacity // 2
        writer.write("x" * 1000)
        assert writer.room() == capacity // 2 - 1000
        writer.write("x" * (capacity // 2))
        assert writer.room() == 0
        os.read(reading, 1 << 20)
        assert writer.room() == capacity // 2
    os.close(reading)


def test_a_terminal_that_is_held_has_no_room():
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as stream:
        writer = OpenWriter(stream)
        assert writer.room() > 0
        termios.tcflow(theirs, termios.TCOOFF)
        assert writer.room() == 0
        termios.tcflow(theirs, termios.TCOON)
        assert writer.room() > 0
    os.close(ours)


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_a_file_takes_whatever_comes(tmp_path, kind):
    with (tmp_path / "log").open("w") if kind == "file" else io.StringIO() as stream:
        writer = OpenWriter(stream)
        assert writer.room() >= 1 << 20
        writer.write("line\n")
