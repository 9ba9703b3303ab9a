"""Peers and a relay, each in a process of its own, over real links on this machine."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading

import pytest

from tests.places import ROOT
from tests.ports import unused_port

DEADLINE = 90
MIB = 1024 * 1024


class Process:
    def __init__(self, *command):
        environ = {**os.environ, "WRTC_ALLOW_LOOPBACK": "1"}
        self.process = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environ,
            cwd=ROOT,
        )
        self.lines = queue.Queue()
        self.heard = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        with contextlib.suppress(ValueError):  # the test is over and has closed the pipe
            for line in self.process.stdout:
                self.lines.put(json.loads(line))

    def order(self, do, **more):
        self.process.stdin.write(json.dumps({"do": do, **more}) + "\n")
        self.process.stdin.flush()

    def wait(self, event):
        """The next line that tells of this event; those before it are kept in `heard`."""
        while True:
            line = self.lines.get(timeout=DEADLINE)
            if line.get("event") == event or event in line:
                return line
            self.heard.append(line)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def start():
    started = []

    def start(*command):
        process = Process(*command)
        started.append(process)
        return process

    yield start
    for process in started:
        with contextlib.suppress(OSError):
            process.process.kill()
        process.process.wait()
        process.process.stdin.close()
        process.process.stdout.close()


@pytest.fixture
def meet(start, tmp_path):
    """A relay and two peers that are linked: `viewed` made the offer, `viewer` answered it."""

    def meet(viewed_library=None, viewer_library=None, *, tickets=False):
        port = unused_port()
        relay = start("-m", "comity", "relay", "--port", str(port), "--json")
        url = relay.wait("ready")["url"]
        folder = ["--tickets", str(tmp_path / "tickets")] if tickets else []
        of = {name: ["--library", name] if name else [] for name in (viewed_library, viewer_library)}
        peer = ("-m", "tests.rooms.peer_process", url)
        viewed = start(*peer, "anna", *of[viewed_library], *folder)
        viewer = start(*peer, "bert", "--view", "anna", *of[viewer_library], *folder)
        paths = [process.wait("linked")["path"] for process in (viewed, viewer)]
        return relay, port, viewed, viewer, paths

    return meet


WAYS = [
    pytest.param("wrtc", "wrtc", False, "direct", id="wrtc"),
    pytest.param("aiortc", "aiortc", False, "direct", id="aiortc"),
    pytest.param("wrtc", "aiortc", False, "direct", id="wrtc-aiortc"),
    pytest.param("aiortc", "wrtc", False, "direct", id="aiortc-wrtc"),
    pytest.param(None, None, True, "websocket", id="websocket"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("viewed_library", "viewer_library", "tickets", "path"), WAYS)
def test_text_both_ways_and_64_mib_byte_exact(meet, viewed_library, viewer_library, tickets, path):
    _, _, viewed, viewer, paths = meet(viewed_library, viewer_library, tickets=tickets)
    assert paths == [path, path]
    viewed.order("text", text="grüß dich")
    viewer.order("text", text="")
    assert viewer.wait("text") == {"event": "text", "text": "grüß dich", "kind": "str"}
    assert viewed.wait("text") == {"event": "text", "text": "", "kind": "str"}
    viewed.order("bulk", bytes=64 * MIB, label="x-comity", seed=7)
    viewer.order("text", text="meanwhile")
    assert viewed.wait("text")["text"] == "meanwhile"
    got = viewer.wait("bulk")
    assert (got["bytes"], got["sha256"]) == (64 * MIB, viewed.wait("sent")["sha256"])
    viewer.order("bulk", bytes=3 * MIB + 1, label="x-back", seed=8)
    assert viewed.wait("bulk")["sha256"] == viewer.wait("sent")["sha256"]


@pytest.mark.parametrize(("viewed_library", "viewer_library", "tickets", "path"), [WAYS[0], WAYS[4]])
def test_a_relay_killed_and_restarted_leaves_the_link_alive(
    meet, start, viewed_library, viewer_library, tickets, path
):
    relay, port, viewed, viewer, _ = meet(viewed_library, viewer_library, tickets=tickets)
    relay.kill()
    for process in (viewed, viewer):
        process.wait("down")
    viewed.order("text", text="without a relay")
    assert viewer.wait("text")["text"] == "without a relay"
    start("-m", "comity", "relay", "--port", str(port), "--json").wait("ready")
    for process in (viewed, viewer):
        process.wait("up")
    viewer.order("text", text="with a new relay")
    assert viewed.wait("text")["text"] == "with a new relay"
    heard = [line["event"] for process in (viewed, viewer) for line in process.heard]
    assert "ended" not in heard
    assert "linked" not in heard


@pytest.mark.slow
@pytest.mark.parametrize(("viewed_library", "viewer_library", "tickets", "path"), WAYS)
def test_a_peer_killed_is_noticed_and_its_successor_is_linked(
    meet, start, tmp_path, viewed_library, viewer_library, tickets, path
):
    _, port, viewed, viewer, _ = meet(viewed_library, viewer_library, tickets=tickets)
    viewed.kill()
    ended = viewer.wait("ended")
    assert ended["by"] == "fault"
    assert ended["reason"]
    library = ["--library", viewed_library] if viewed_library else []
    folder = ["--tickets", str(tmp_path / "tickets")] if tickets else []
    url = f"ws://127.0.0.1:{port}/signal"
    successor = start("-m", "tests.rooms.peer_process", url, "anna", *library, *folder)
    assert successor.wait("linked")["stream"] == "bert"
    viewer.wait("linked")
    viewer.order("text", text="welcome back")
    assert successor.wait("text")["text"] == "welcome back"


def test_leaving_ends_the_link_on_both_sides(meet):
    _, _, viewed, viewer, _ = meet("wrtc", "wrtc")
    viewer.order("leave")
    viewer.wait("left")
    assert viewed.wait("ended")["by"] == "peer"
