"""Nodes as programs of their own, whose rooms are used as the command line uses them."""

import contextlib
import json
import os
import signal
import subprocess
import sys

import httpx

from comity.http.owner_socket import socket_path
from tests.ports import unused_port
from tests.waiting import wait_until

DEADLINE = 90  # starting, linking again after a failed attempt (20 s) and 48 MiB, on a busy machine


class NodeProcess:
    """`comity up` on a folder; it can be killed and started again. `prefix` stands before the command."""

    def __init__(self, data, prefix=(), **settings):
        self.data = data
        self.session_id = None
        self._prefix = prefix
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("COMITY_")},
            "WRTC_ALLOW_LOOPBACK": "1",
            "COMITY_DATA": str(data),
            "COMITY_PORT": str(
                unused_port()
            ),  # the same after a restart: the other one looks for the relay there
            **{f"COMITY_{name.upper()}": str(value) for name, value in settings.items()},
        }
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [*self._prefix, sys.executable, "-m", "comity", "up", "--json"],
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        line = self.process.stdout.readline()
        self.url = json.loads(line)["url"]
        transport = httpx.HTTPTransport(uds=str(socket_path(self.data)))
        self.http = httpx.Client(base_url="http://localhost", transport=transport, timeout=60)
        self.bearer = f"Bearer {(self.data / 'token').read_text().strip()}"

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self._gone()

    def stop(self):
        self.process.terminate()
        self._gone()

    def _gone(self):
        self.process.wait(30)
        self.process.stdout.close()
        self.http.close()

    def ask(self, tool, folder=None, **arguments):
        if self.session_id is not None and tool not in ("vdo_connect", "vdo_list_sessions", "invite"):
            arguments = {"session_id": self.session_id, **arguments}
        body = {"tool": tool, "arguments": arguments, "client": "test"}
        if folder is not None:
            body["folder"] = str(folder)
        answer = self.http.post("/v1/rooms", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def refusal(self, tool, **arguments):
        answer = self.http.post("/v1/rooms", json={"tool": tool, "arguments": arguments})
        assert answer.status_code == 400, answer.text
        return answer.json()["detail"]

    def join(self, room, **arguments):
        self.session_id = self.ask("vdo_connect", room=room, reconnect_ms=200, **arguments)["session_id"]

    def wait_peer(self, name):
        return wait_for(
            lambda: next(
                (
                    peer
                    for peer in self.ask("vdo_sync_peers")["peers"]
                    if peer["stream_id"] == name and peer["connected"] and peer["handshake_state"] == "ready"
                ),
                None,
            )
        )

    def events(self, kind, count=1):
        found = []

        def enough():
            found.extend(
                one for one in self.ask("vdo_receive", wait_ms=1000)["events"] if one["type"] == kind
            )
            return len(found) >= count

        wait_for(enough)
        return found

    def transfer(self, transfer_id, direction):
        listed = self.ask("vdo_file_transfers", direction=direction)[direction]
        return next((one for one in listed if one["transfer_id"] == transfer_id), None)

    def wait_status(self, transfer_id, direction, status):
        return wait_for(
            lambda: (
                found
                if (found := self.transfer(transfer_id, direction)) is not None and found["status"] == status
                else None
            )
        )

    def link(self):
        [link] = self.ask("links")["links"].values()
        return link


def wait_for(find):
    return wait_until(find, DEADLINE)


@contextlib.contextmanager
def two_nodes(folder, **settings):
    nodes = []
    try:
        nodes.append(NodeProcess(folder / "anna", **settings))
        nodes.append(NodeProcess(folder / "bert", **settings))
        yield tuple(nodes)
    finally:
        for node in nodes:
            if node.process.poll() is None:
                node.stop()


def meet(anna, bert, host=None, **arguments):
    line = anna.ask("invite", room="lab", host=host)["invite"]
    anna.join("lab", stream_id="anna", **arguments)
    bert.join(line, stream_id="bert", **arguments)
    anna.wait_peer("bert")
    bert.wait_peer("anna")
