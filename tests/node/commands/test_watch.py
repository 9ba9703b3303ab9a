"""`comity watch` beside a real node, in processes of their own."""

import json
import signal
import subprocess
import sys
import threading
import urllib.request

import pytest

from comity.identity.secrets import TOKEN_FILE, read_token
from comity.node.commands.watch import Messages

COMITY = [sys.executable, "-m", "comity"]
DEADLINE = 30


class Watching:
    """A running `comity watch`; each line of it can be waited for."""

    def __init__(self, environ, *arguments):
        self.process = subprocess.Popen(
            [*COMITY, "watch", *arguments],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._overdue = threading.Timer(DEADLINE, self.process.kill)  # a line that never comes fails the test
        self._overdue.start()

    def line(self, stream="stdout"):
        found = getattr(self.process, stream).readline()
        assert found, self.process.stderr.read()
        return found.rstrip("\n")

    def close(self):
        self._overdue.cancel()
        self.process.kill()
        self.process.communicate()

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=DEADLINE)
        return self.process.returncode, out, err


@pytest.fixture
def watch(environ):
    started = []

    def watch(*arguments):
        started.append(Watching(environ, *arguments))
        return started[-1]

    yield watch
    for each in started:
        each.close()


def ping(node, data):
    token = read_token(data / TOKEN_FILE)
    request = urllib.request.Request(
        f"{node.url}/v1/ping", method="POST", headers={"authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, timeout=5) as answer:
        return answer.headers["x-request-id"]


def test_each_act_is_one_line_with_the_request_that_the_caller_was_told(watch, neighbourhood, data):
    node = neighbourhood.node(data)
    watching = watch("--since", "0")
    assert "the node started" in watching.line()
    request = ping(node, data)
    line = watching.line()
    assert "ping answered" in line
    assert "  you  " in line
    assert line.endswith(f"request {request}")
    code, out, err = watching.stop()
    assert (code, out, err) == (130, "", "stopped\n")


def test_programs_get_one_json_object_per_line_from_the_number_they_name(watch, neighbourhood, data):
    node = neighbourhood.node(data)
    request = ping(node, data)
    act = json.loads(watch("--json", "--since", "1").line())
    assert (act["number"], act["kind"], act["who"]) == (2, "PING_OK", "local:admin")
    assert act["request"] == request


def test_a_node_that_starts_again_is_waited_for_and_that_is_said(watch, neighbourhood, data, environ):
    node = neighbourhood.node(data)
    watching = watch("--since", "0", "--json")
    assert json.loads(watching.line())["kind"] == "NODE_STARTED"
    neighbourhood.run(node.stop())
    assert watching.line("stderr") == "note: the node has stopped; waiting for it to start again"
    neighbourhood.node(data)
    assert watching.line("stderr") == "note: the node is running again"
    assert json.loads(watching.line())["kind"] == "NODE_STARTED"


def test_without_a_node_it_says_what_to_do(comity, data):
    outcome = comity("watch")
    assert outcome.code == 1
    assert outcome.err == (
        f"error: no node is running on {data}; start one with `comity up`, or name its folder with --data\n"
    )
    assert comity("watch", "--since", "yesterday").code == 2


def test_server_sent_events_are_read_however_their_bytes_arrive():
    text = (
        "retry: 1000\nid: 3-ab\n\n: still here\n\nid: 5-ab\ndata: {}\ndata: {é}\n\nevent: reset\ndata: 1\n\n"
    )
    for size in (1, 7, 1000):
        messages = Messages()
        raw = text.encode()
        found = [m for at in range(0, len(raw), size) for m in messages.feed(raw[at : at + size])]
        assert found == [
            ("3-ab", "message", []),
            ("", "message", []),
            ("5-ab", "message", ["{}", "{é}"]),
            ("", "reset", ["1"]),
        ]
