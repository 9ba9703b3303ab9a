"""A real node is killed between the consent and the call, and in the middle of the call: the call runs once."""

import json
import os
import signal
import subprocess
import sys

import httpx

from comity.envelopes.protocol.envelope import to_a2a_jsonrpc
from comity.identity.protocol.keys import VacantId
from tests.envelopes.peers import Caller
from tests.ports import unused_port


class Node:
    """`comity up` that asks its owner about everybody, and can be killed."""

    def __init__(self, data):
        self._data = data
        self._environ = {name: value for name, value in os.environ.items() if not name.startswith("COMITY_")}
        self._environ["COMITY_CONTACTS_UNKNOWN_CALL"] = "hold"
        self.port = unused_port()

    def start(self):
        command = [
            sys.executable,
            "-m",
            "comity",
            "up",
            "--json",
            "--agent",
            "echo",
            "--port",
            str(self.port),
        ]
        self._process = subprocess.Popen(
            [*command, "--data", str(self._data)], stdout=subprocess.PIPE, env=self._environ
        )
        return VacantId.from_hex(json.loads(self._process.stdout.readline())["vacant_id"])

    def kill(self):
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._process.stdout.close()

    def comity(self, *words):
        done = subprocess.run(
            [sys.executable, "-m", "comity", *words, "--json", "--data", str(self._data)],
            stdout=subprocess.PIPE,
            env=self._environ,
            check=True,
        )
        return json.loads(done.stdout)

    def post(self, envelope):
        return httpx.post(
            f"http://127.0.0.1:{self.port}/a2a/message/send",
            json=to_a2a_jsonrpc(envelope),
            trust_env=False,
            timeout=60,
        )


def test_a_held_call_runs_once_whenever_the_node_is_killed(tmp_path):
    node = Node(tmp_path / "data")
    caller = Caller(to_vid=node.start())
    try:
        envelope = caller.next("hello")
        assert node.post(envelope).status_code == 403
        node.kill()
        node.start()
        (held,) = node.comity("contacts", "held")["held"]
        assert held["words"] == "hello"
        node.comity("contacts", "accept", held["id"], "--once")
        node.kill()
        node.start()
        first = node.post(envelope)
        assert first.status_code == 200
        node.kill()
        node.start()
        assert node.post(envelope).content == first.content
        assert node.post(caller.next("more")).status_code == 403
    finally:
        node.kill()
    shown = node.comity("chain", "show")["peers"]
    assert [each["serve"]["requests"]["seq"] for each in shown] == [1]
