"""`python -m bench.at_rest [SECONDS]`: what a node takes while nothing happens, and how soon it is ready.

A node with everything on is looked at three times: before the first call, with one page open, and with one peer in a room
over WebRTC. Each time its memory and its processor time over some seconds are told. Then nodes with everything on and
with all parts off that can be spared are started in turn. It fails where a limit is not kept.
"""

import contextlib
import json
import os
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any

from bench.harness.processes import memory_of, processor_seconds
from bench.harness.servers import serving_with
from comity.identity.secrets import TOKEN_FILE
from comity.node.event_stream import EVENTS_PATH
from comity.rooms.doors import ROOMS_PATH
from comity.runtime.settings import SWITCHED_PARTS

BUILD = Path(__file__).resolve().parents[1] / "build"
SECONDS = 60.0
SETTLED = 3.0
STATUS_EVERY = 2.0
STARTS = 5
PATIENCE = 60.0
MOST_BEFORE, MOST_WITH_ROOM = 90_000_000, 140_000_000
MOST_PROCESSOR = 0.01


class RunningNode:
    def __init__(self, data: Path, told: dict[str, str]) -> None:
        self.url, self.pid = told["url"], int(told["pid"])
        self._bearer = {"Authorization": "Bearer " + (data / TOKEN_FILE).read_text("ascii").strip()}

    def open(self, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = self._bearer | {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers)
        return urllib.request.urlopen(request, timeout=PATIENCE)

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        with self.open(path, body) as answer:
            return json.load(answer)

    def use(self, tool: str, **arguments: Any) -> Any:
        return self.ask(ROOMS_PATH, {"tool": tool, "arguments": arguments, "client": "bench"})


@contextlib.contextmanager
def node(folder: Path, *, off: tuple[str, ...] = ()) -> Iterator[RunningNode]:
    folder.mkdir(exist_ok=True)
    config, data = folder / "config.toml", folder / "data"
    config.write_text(f"off = {json.dumps(off)}\n[peers]\nsame_host = false\n", "utf-8")
    up = [sys.executable, "-m", "comity", "up", "--json", "--agent", "echo", "--port", "0"]
    with serving_with([*up, "--config", str(config), "--data", str(data)], folder / "stderr") as told:
        yield RunningNode(data, told)


def look(what: str, at: RunningNode, seconds: float, most: int) -> bool:
    """Tell its memory and its processor time, and whether both are within their limits."""
    sleep(SETTLED)
    before, begun = processor_seconds(at.pid), perf_counter()
    sleep(seconds)
    share = (processor_seconds(at.pid) - before) / (perf_counter() - begun)
    memory = memory_of(at.pid)
    fits = memory.resident < most and share < MOST_PROCESSOR
    limits = f"less than {most / 1e6:.0f} MB and 1 %: {'yes' if fits else 'NO'}"
    print(f"{what:28} {memory}, {share:.2%} of a processor; {limits}", flush=True)
    return fits


@contextlib.contextmanager
def page(at: RunningNode) -> Iterator[None]:
    """Reads the events, and the status now and then, as the page does."""
    closed = threading.Event()

    def watch() -> None:
        while not closed.wait(STATUS_EVERY):
            at.ask("/v1/status")

    watching = threading.Thread(target=watch)
    with at.open(EVENTS_PATH):
        watching.start()
        try:
            yield
        finally:
            closed.set()
            watching.join()


def meet(here: RunningNode, there: RunningNode) -> None:
    line = here.use("invite", room="lab")["invite"]
    here.use("vdo_connect", room="lab", stream_id="here")
    session = there.use("vdo_connect", room=line, stream_id="there")["session_id"]
    begun = perf_counter()
    while not any(
        peer["connected"] and peer["handshake_state"] == "ready"
        for peer in there.use("vdo_sync_peers", session_id=session)["peers"]
    ):
        if perf_counter() - begun > PATIENCE:
            raise RuntimeError("the two nodes did not meet")
        sleep(0.1)


def starts(folder: Path) -> None:
    """Median seconds from nothing to `/readyz`, in turn, on a folder that is there already."""
    taken: dict[str, list[float]] = {"everything on": [], "parts off": []}
    for number in range(STARTS + 1):
        for name, off in (("everything on", ()), ("parts off", SWITCHED_PARTS)):
            begun = perf_counter()
            with node(folder / name.replace(" ", "-"), off=off) as started:
                started.ask("/readyz")
                if number:
                    taken[name].append(perf_counter() - begun)
                memory = memory_of(started.pid)
        if number == STARTS:
            print(f"parts off: {memory}")
    for name, seconds in taken.items():
        print(f"ready with {name:14} {median(seconds):.2f} s ({min(seconds):.2f} .. {max(seconds):.2f})")


def main(seconds: str = str(SECONDS)) -> int:
    os.environ["WRTC_ALLOW_LOOPBACK"] = "1"
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rest-", dir=BUILD) as name:
        folder, each = Path(name), float(seconds)
        with node(folder / "here") as here:
            fits = [look("before the first call", here, each, MOST_BEFORE)]
            with page(here):
                fits.append(look("with one page open", here, each, MOST_BEFORE))
            with node(folder / "there") as there:
                meet(here, there)
                fits.append(look("with one peer in a room", here, each, MOST_WITH_ROOM))
        starts(folder)
    return int(not all(fits))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
