"""`python -m bench.kept_connections [SECONDS]`: the memory of a node that many clients use for a long time.

So many connections stay open. Each belongs to a caller of its own, which sends a signed call, reads the card, sends the
next call, reads the status, and so on, each request as soon as the one before is answered. It fails if the node has grown
by `MOST_GROWTH` since the end of the first minute.
"""

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import uvloop

from bench.harness.http_load import request_bytes, streams_per_second
from bench.harness.processes import allow_files, memory_of, processor_seconds
from bench.harness.servers import serving_with
from bench.rows.envelopes import Caller
from comity.identity.key_files import stored_vacant_id
from comity.identity.secrets import TOKEN_FILE

BUILD = Path(__file__).resolve().parents[1] / "build"
CONNECTIONS = 500
SECONDS = 300.0
FIRST, EVERY = 60.0, 20.0
MOST_GROWTH = 10_000_000


def requests(caller: Caller, url: str, token: str) -> Iterator[bytes]:
    """Every other one is a signed call."""
    card = request_bytes("GET", f"{url}/card")
    status = request_bytes("GET", f"{url}/v1/status", headers=[("Authorization", f"Bearer {token}")])
    for call, number in zip(caller.calls(), range(sys.maxsize), strict=False):
        yield call
        yield status if number % 2 else card


async def watch(pid: int, seconds: float) -> int:
    """By how many bytes the node has grown since the end of the first minute."""
    loop = asyncio.get_running_loop()
    begun, first = loop.time(), 0
    while True:
        await asyncio.sleep(min(EVERY, begun + seconds - loop.time()))
        memory, passed = memory_of(pid), loop.time() - begun
        print(f"after {passed:4.0f} s  {memory}", flush=True)
        if not first and passed >= min(FIRST, seconds / 2):
            first = memory.own
        if passed >= seconds - 1:
            return memory.own - first


async def use(url: str, token: str, callers: list[Caller], pid: int, seconds: float) -> int:
    print(f"at rest       {memory_of(pid)}", flush=True)
    before = processor_seconds(pid)
    streams = [requests(caller, url, token) for caller in callers]
    (rate, answers), growth = await asyncio.gather(
        streams_per_second(url, streams, seconds), watch(pid, seconds)
    )
    signed = sum((count + 1) // 2 for count in answers)
    print(
        f"{len(streams)} connections: {signed:,} signed calls and {sum(answers) - signed:,} reads, {rate:,.0f} a second; "
        f"the node used {processor_seconds(pid) - before:.0f} s of processor time"
    )
    return growth


def main(seconds: str = str(SECONDS)) -> int:
    allow_files(CONNECTIONS + 200)
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kept-", dir=BUILD) as name:
        folder = Path(name)
        up = [sys.executable, "-m", "comity", "up", "--json", "--agent", "echo", "--port", "0", "--data"]
        with serving_with([*up, str(folder / "data")], folder / "stderr") as told:
            target = stored_vacant_id(folder / "data")
            token = (folder / "data" / TOKEN_FILE).read_text("ascii").strip()
            callers = [Caller(number, told["url"], target) for number in range(CONNECTIONS)]
            using = use(told["url"], token, callers, int(told["pid"]), float(seconds))
            growth = uvloop.new_event_loop().run_until_complete(using)
    fits = growth < MOST_GROWTH
    print(f"growth since the first minute: {growth / 1e6:.1f} MB; {'less' if fits else 'MORE'} than 10 MB")
    return int(not fits)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
