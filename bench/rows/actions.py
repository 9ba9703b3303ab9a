"""Actions over pipes, hundreds of requests under way at a time, the server and the caller each on a core.

The baselines answer a constant of as many bytes: a Node server that splits, parses and checks the envelope,
and a Python process that only counts lines. Ours detects crises in every text it is sent. The first row also
watches the memory of our server: over a million lines it must not grow.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter

from bench.harness.bars import AtLeast
from bench.harness.row import Contender, Row, Setting, UnavailableError, Unit

LIST = b'{"id":"req-1","type":"list_actions"}\n'


def _reply(message: str) -> bytes:
    return (
        b'{"id":"req-2","type":"invoke","payload":{"action":"supportive_reply","input":'
        b'{"message":"%b","risk_level":"medium"}}}\n' % message.encode()
    )


# What detection costs depends on the words: none of them telling, some of them, or a crisis that is said in two ways.
EXAMPLE = _reply("I feel overwhelmed")
SENTENCE = _reply("I had a hard week and nothing seems to go right")
WEARY = _reply("I feel overwhelmed, and I do not know how to go on like this")
CRISIS = _reply("I feel like a burden to everyone and I want to die")
# 1,500 characters of distress without a crisis: everything is looked for, and nothing may be missed between the lines.
LONG = _reply(
    "I do not know where to begin. Since my mother moved into the home in spring I sleep four hours a night, and on "
    "weekends I drive there and back and sit in the car park for a while before I go in. She does not always know who I "
    "am. Last week she asked me when her daughter would come. My brother says he has no time, he has children, and that "
    "I should stop making a drama of it. Maybe he is right. At work they have given half of my projects to somebody "
    "else and nobody has said a word about it; I find out from the calendar. I used to like that job. Now I sit in "
    "front of the screen and read the same line five times, and when the phone rings my heart races. On Tuesday I cried "
    "in the lift, on Thursday in the supermarket, because they had moved the tea. I know how that sounds. My husband "
    "cooks, takes the dog out and asks every evening what he can do, and I get angry with him for asking. Then I am "
    "ashamed. We have not been away together for two years. I miss my garden, I miss being bored. The doctor wrote me "
    "off sick for a week, and I spent it cleaning out the flat of my mother, forty years of letters and cups. I kept a "
    "blue one. What frightens me is that it may go on like this for years, and that I will turn into somebody who only "
    "complains. I want to look after her, and I want my life back, and I cannot see how both should fit into one week. "
    "Has anybody here found a way to share this with a family that does not want to? And how do you say no without "
    "hating yourself the whole way home?"
)
BATCH_BYTES = 24_576  # two of them fit into a pipe: nobody waits for somebody who waits
READ_BYTES = 262_144
LINES_WATCHED = 1_000_000
GROWTH_KILOBYTES = 8 * 1024

OURS = "comity actions"
NODE = "Node line server"
PIPE = "Python pipe of constants"

_BASELINES = Path(__file__).parents[1] / "baselines"


class _Server:
    """A process that answers lines, on a core of its own where there are two."""

    def __init__(self, command: Sequence[str], request: bytes) -> None:
        self._batch = request * max(1, BATCH_BYTES // len(request))
        self._lines = self._batch.count(b"\n")
        with _on_core(1):
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._to = self.process.stdin.fileno()
        self._from = self.process.stdout.fileno()
        self._buffer = bytearray(READ_BYTES)
        self.answered = 0
        self.reply_size = self._one(request)

    def per_second(self, seconds: float) -> float:
        """The next requests are always under way while the answers to the last ones are read."""
        with _on_core(0):
            start = perf_counter()
            sent = answered = 0
            while perf_counter() < start + seconds:
                _write(self._to, self._batch)
                sent += self._lines
                while answered < sent - self._lines:
                    answered += self._read()[1]
            while answered < sent:
                answered += self._read()[1]
            self.answered += answered
            return answered / (perf_counter() - start)

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()

    def _one(self, request: bytes) -> int:
        """How long one reply is."""
        _write(self._to, request)
        size, ended = 0, 0
        while not ended:
            read, ended = self._read()
            size += read
        return size

    def _read(self) -> tuple[int, int]:
        """How many bytes came, and how many lines ended in them."""
        size = os.readv(self._from, [self._buffer])
        if not size:
            raise ConnectionError("the server ended")
        return size, self._buffer.count(b"\n", 0, size)


def _write(to: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(to, view) :]


@contextlib.contextmanager
def _on_core(number: int) -> Iterator[None]:
    """What is started inside stays on one core."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(allowed)[number % len(allowed)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


@contextlib.contextmanager
def _contenders(
    setting: Setting, request: bytes, baselines: Sequence[str], *, watched: bool
) -> Iterator[Sequence[Contender]]:
    with contextlib.ExitStack() as running:

        def serve(*command: str) -> _Server:
            server = _Server(command, request)
            running.callback(server.stop)
            return server

        ours = serve(sys.executable, "-m", "comity", "actions", "--strict")
        size = str(ours.reply_size)
        servers = {OURS: ours}
        if NODE in baselines:
            servers[NODE] = serve(_node(), str(_BASELINES / "line_server.js"), size)
        if PIPE in baselines:
            servers[PIPE] = serve(sys.executable, str(_BASELINES / "pipe_constant.py"), size)
        if len({server.reply_size for server in servers.values()}) != 1:
            raise ValueError("the servers answer with replies of different sizes")
        yield [
            Contender(name, lambda server=server: server.per_second(setting.seconds))  # type: ignore[misc]
            for name, server in servers.items()
        ]
        if watched:
            _watch(ours)


def _watch(server: _Server) -> None:
    before = _resident(server.process.pid)
    aim = server.answered + LINES_WATCHED
    while server.answered < aim:
        server.per_second(0.5)
    growth = _resident(server.process.pid) - before
    if growth > GROWTH_KILOBYTES:
        raise MemoryError(f"our server grew by {growth:,} kB over {LINES_WATCHED:,} lines")


def _resident(pid: int) -> int:
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return 0  # this system does not tell
    lines = status.read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def _node() -> str:
    node = shutil.which("node")
    if node is None:
        raise UnavailableError("node is not installed; it runs the baseline")
    return node


ROWS = (
    Row(
        name="actions-list",
        title="list_actions over pipes, memory flat over a million lines",
        unit=Unit.RATE,
        open=lambda setting: _contenders(setting, LIST, [PIPE], watched=True),
        bars=(AtLeast(0.25, of=PIPE),),
    ),
    Row(
        name="actions-list-node",
        title="list_actions over pipes, beside Node",
        unit=Unit.RATE,
        open=lambda setting: _contenders(setting, LIST, [NODE], watched=False),
        bars=(AtLeast(1, of=NODE),),
    ),
    *(
        Row(
            name=name,
            title=f"supportive_reply over pipes with full detection: {what}",
            unit=Unit.RATE,
            open=lambda setting, request=request: _contenders(  # type: ignore[misc]
                setting, request, [NODE, PIPE], watched=False
            ),
            bars=() if request is LONG else (AtLeast(0.2, of=NODE),),
        )
        for name, what, request in (
            ("actions-reply", "the document's example", EXAMPLE),
            ("actions-reply-sentence", "an ordinary sentence", SENTENCE),
            ("actions-reply-weary", "words of weariness", WEARY),
            ("actions-reply-crisis", "a crisis", CRISIS),
            ("actions-reply-long", "1,500 characters of distress", LONG),
        )
    ),
)
