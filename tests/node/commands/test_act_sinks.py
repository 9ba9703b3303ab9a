"""What `comity up` writes of each act, and what it does when nobody reads it."""

import asyncio
import fcntl
import io
import os
import pty
import termios

import pytest

from comity.bus.in_process import InProcessBus
from comity.node.commands.event_output import LINES, ActLog, OpenWriter, TerminalLines, log_line
from comity.requests.events import KEPT, Events
from tests.requests.pipelines import simulated


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
