"""`comity demo` as a program: what it shows, and that nothing of it stays, whichever way it ends."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx
import pytest

from comity.cli.demo_scenes import Scene
from comity.store.claim import running_node
from tests.waiting import wait_until

SCENES = ["start", "meet", "call", "model", "action", "room", "torch", "vote", "audit"]
SECONDS = 120


class Demo:
    """A demo that runs, in a temporary folder of its own."""

    def __init__(self, folder, environ, *flags, **more):
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "comity", "demo", "--fast", *flags],
            env={**environ, "TMPDIR": str(folder), **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def scene(self):
        return json.loads(self.process.stdout.readline())

    def lines_until(self, beginning):
        """What it has told when it comes to this line, that line included."""
        result = []
        for line in self.process.stdout:
            result.append(line)
            if line.startswith(beginning):
                return result
        raise AssertionError(f"{beginning!r} was never told: {result}")

    def end(self):
        """The exit code, and the rest of what it says."""
        out, err = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, out, err

    def left(self):
        return sorted(self.folder.iterdir())


@pytest.fixture
def demo(environ):
    started = []

    def start(*flags, **more):
        started.append(Demo(Path(folder), environ, *flags, **more))
        return started[-1]

    with tempfile.TemporaryDirectory() as folder:  # the path of a socket has to be short
        yield start
        for one in started:
            if one.process.poll() is None:
                one.process.send_signal(signal.SIGINT)
                one.process.communicate(timeout=SECONDS)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def pids(start):
    return [node["pid"] for node in start["nodes"]]


def test_every_scene_comes_out_and_nothing_is_left_whatever_the_user_has_set(demo, data):
    begun = demo("--json", COMITY_STORE_ENGINE="memory", COMITY_PORT="none", COMITY_HTTP_BODY_LIMIT="1024")
    code, out, err = begun.end()
    scenes = [json.loads(line) for line in out.splitlines()]
    assert [(scene["scene"], scene["ok"]) for scene in scenes] == [(name, True) for name in SCENES], err
    assert code == 0
    result = {scene["scene"]: scene for scene in scenes}
    assert result["meet"]["unsupported"] == ["VCP-X-Intent"]
    assert (result["call"]["changed"], result["call"]["replayed"]) == (401, 409)
    assert result["model"]["agent"] == result["start"]["nodes"][0]["id"]
    assert result["vote"]["phase"] == "active"
    assert all(entries > 0 for entries in result["audit"]["entries"].values())
    assert not any(map(alive, pids(result["start"])))
    assert begun.left() == []
    assert not data.exists()


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 1)])
def test_a_signal_in_the_middle_stops_the_nodes_and_removes_the_folder(demo, number, expected):
    begun = demo("--json")
    start = begun.scene()
    assert all(map(alive, pids(start)))
    begun.process.send_signal(number)
    code, _, err = begun.end()
    assert code == expected
    assert "Traceback" not in err
    assert not any(map(alive, pids(start)))
    assert begun.left() == []


def test_ctrl_c_while_the_nodes_are_starting_leaves_nothing(demo):
    begun = demo("--json")
    wait_until(lambda: list(begun.folder.glob("comity-demo-*/bert.log")), SECONDS)
    begun.process.send_signal(signal.SIGINT)
    begun.process.send_signal(signal.SIGINT)
    assert begun.end()[0] == 130
    assert begun.left() == []


def test_a_scene_that_fails_ends_it_with_1_and_the_log_of_that_node(demo):
    begun = demo("--json")
    start = begun.scene()
    os.kill(next(node["pid"] for node in start["nodes"] if node["name"] == "Carol"), signal.SIGKILL)
    code, out, _ = begun.end()
    *before, last = [json.loads(line) for line in out.splitlines()]
    assert code == 1
    assert all(scene["ok"] for scene in before)
    assert (last["ok"], last["node"]) == (False, "Carol")
    assert "could not be reached" in last["problem"]
    assert any("NODE_STARTED" in line for line in last["log"])
    assert not any(map(alive, pids(start)))
    assert begun.left() == []


def test_a_reader_is_told_which_scene_failed_and_sees_the_log(demo):
    begun = demo()
    begun.lines_until("2. Two nodes meet")
    (folder,) = begun.left()
    os.kill(running_node(folder / "carol").pid, signal.SIGKILL)
    code, out, _ = begun.end()
    assert code == 1
    assert "could not be reached" in out
    assert "The log of Carol's node, its last lines:" in out
    assert "NODE_STARTED" in out


def test_a_scene_that_breaks_for_another_reason_ends_it_the_same_way(comity, tmp_path, monkeypatch):
    async def broken(_runtime, _tell):
        raise KeyError("links")

    scene = Scene("room", "A room by invite", "", broken)
    monkeypatch.setattr("comity.cli.demo_scenes.SCENES", (scene,))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    shown = comity("demo", "--fast")
    assert shown.code == 1
    assert "The scene “A room by invite” failed: KeyError: 'links'" in shown.out
    assert list(tmp_path.glob("comity-demo-*")) == []


def test_a_terminal_that_has_ascii_only_is_told_the_whole_story(demo):
    code, out, err = demo(PYTHONIOENCODING="ascii").end()
    assert code == 0, err
    assert 'x With "two" in place of "ten": refused' in out
    assert out.rstrip().endswith("shows the rest.")


def test_the_story_of_an_installation_without_webrtc_says_so_and_kept_nodes_run_until_ctrl_c(demo, tmp_path):
    hiding = tmp_path / "hiding"
    hiding.mkdir()
    (hiding / "sitecustomize.py").write_text(
        "import importlib.util\n"
        "find = importlib.util.find_spec\n"
        "hidden = ('webrtc', 'aiortc')\n"
        "importlib.util.find_spec = lambda name, package=None: None if name in hidden else find(name, package)\n"
    )
    begun = demo("--keep", PYTHONPATH=str(hiding))
    result = "".join(begun.lines_until("Ctrl-C stops them"))
    story = " ".join(result.split())
    assert "connected by a link on this machine, because the WebRTC library wrtc is not installed" in story
    assert story.count("Why it matters: ") == len(SCENES)
    assert "\x1b" not in result
    assert max(len(line) for line in result.splitlines() if "http" not in line and "--data" not in line) <= 80
    pages = [line.split() for line in result.splitlines() if "/enter/" in line]
    assert [name for name, _ in pages] == ["Anna", "Bert", "Carol"]
    assert all(httpx.get(page).status_code == 303 for _, page in pages)
    (folder,) = begun.left()
    nodes = [running_node(folder / name) for name in ("anna", "bert", "carol")]
    assert all(httpx.get(f"{node.url}/healthz").status_code == 200 for node in nodes)
    begun.process.send_signal(signal.SIGINT)
    assert begun.end()[0] == 130
    assert not any(alive(node.pid) for node in nodes)
    assert begun.left() == []
