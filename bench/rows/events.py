"""What open pages cost the callers of a node, and how soon a page shows an act.

One node, `comity up --agent echo`. For `events-50-readers`, callers send signed calls as fast as they are answered, with
and without fifty pages (`bench.readers`) that read the events; all is signed beforehand. A turn fails if a page got more
frames than it should, or was not told of nearly all acts: it must have read what is measured.

For `event-on-page`, one caller at a time pings the node, and a second client waits for the frame that names the request.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from urllib.parse import urlsplit

import uvloop

from bench.harness.bars import AtLeast, AtMostSeconds
from bench.harness.http_load import request_bytes, streams_per_second
from bench.harness.row import Contender, Row, Setting, Unit
from bench.harness.servers import serving
from bench.harness.steady_load import percentile
from bench.rows.envelopes import CALLERS, Caller
from comity.identity.key_files import stored_vacant_id
from comity.identity.secrets import TOKEN_FILE
from comity.node.event_stream import EVENTS_PATH, FRAMES

PAGES = 50
CALLS_PER_SECOND_OF_TURN = 250
"""For each of the callers: 8,000 a second, more than a node answers."""
LONGER = 5
"""A turn takes so many times as long as others do: several frames for each page."""
ACTS_PER_SECOND_OF_TURN = 100

WITHOUT = "without pages"
ANSWER = "the answer to the caller"


@contextlib.contextmanager
def _node(folder: Path) -> Iterator[str]:
    up = [sys.executable, "-m", "comity", "up", "--json", "--agent", "echo", "--port", "0", "--data"]
    with serving([*up, str(folder / "data")], folder / "node.stderr") as url:
        yield url


@contextlib.contextmanager
def open_readers(setting: Setting) -> Iterator[Sequence[Contender]]:
    folder, seconds = setting.folder, LONGER * setting.seconds
    with _node(folder) as node, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        target = stored_vacant_id(folder / "data")
        callers = [Caller(number, node, target) for number in range(CALLERS)]
        calls = 0

        def alone() -> float:
            nonlocal calls
            streams = [each.signed_ahead(round(CALLS_PER_SECOND_OF_TURN * seconds)) for each in callers]
            rate, answers = runner.run(streams_per_second(node, streams, seconds))
            calls = sum(answers)
            return rate

        def watched() -> float:
            said = folder / "readers.stderr"
            pages = [
                sys.executable,
                "-m",
                "bench.readers",
                node,
                str(folder / "data" / TOKEN_FILE),
                str(PAGES),
            ]
            with serving(pages, said):
                rate = alone()
            _check(json.loads(said.read_text("utf-8").splitlines()[-1]), calls)
            return rate

        yield [Contender(f"with {PAGES} open pages", watched), Contender(WITHOUT, alone)]


def _check(told: dict[str, float], calls: int) -> None:
    """The last frame may be on its way when the pages are closed."""
    if told["frames"] > FRAMES * told["seconds"] + 1 or told["resets"] or told["acts"] < calls / 2:
        raise RuntimeError(f"after {calls:,} calls the pages were told: {told}")


@contextlib.contextmanager
def open_latency(setting: Setting) -> Iterator[Sequence[Contender]]:
    with _node(setting.folder) as node, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        token = (setting.folder / "data" / TOKEN_FILE).read_text("ascii").strip()
        count = max(2, round(ACTS_PER_SECOND_OF_TURN * setting.seconds))

        def turn(which: int) -> float:
            return percentile([both[which] for both in runner.run(_act_and_watch(node, token, count))], 0.99)

        yield [Contender("the frame at a page", lambda: turn(1)), Contender(ANSWER, lambda: turn(0))]


async def _act_and_watch(url: str, token: str, count: int) -> list[tuple[float, float]]:
    """How long each act took until its answer, and until the frame with it."""
    target = urlsplit(url)
    bearer = [("Authorization", f"Bearer {token}")]
    reader, watching = await asyncio.open_connection(target.hostname, target.port)
    asked, asking = await asyncio.open_connection(target.hostname, target.port)
    times = []
    try:
        watching.write(request_bytes("GET", url + EVENTS_PATH, headers=bearer))
        await reader.readuntil(b"retry: ")
        for number in range(count):
            await asyncio.sleep(0.25 + number % 10 * 0.005)  # apart, and at any moment of the node's own pace
            begun = perf_counter()
            asking.write(request_bytes("POST", url + "/v1/ping", headers=bearer))
            head = await asked.readuntil(b"\r\n\r\n")
            answered = perf_counter()
            request = head.lower().partition(b"x-request-id: ")[2].partition(b"\r\n")[0]
            async with asyncio.timeout(10):
                await reader.readuntil(b'"request":"%b"' % request)
            times.append((answered - begun, perf_counter() - begun))
            await asked.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
    finally:
        watching.transport.abort()
        asking.transport.abort()
    return times


ROWS = (
    Row(
        name="events-50-readers",
        title=f"signed calls, {CALLERS} callers, while {PAGES} pages show the events",
        unit=Unit.RATE,
        open=open_readers,
        bars=(AtLeast(0.9, WITHOUT),),
    ),
    Row(
        name="event-on-page",
        title="99th percentile from an act to the frame that shows it",
        unit=Unit.TIME,
        open=open_latency,
        bars=(AtMostSeconds(0.2),),
    ),
)
