"""A vote between three nodes that are processes of their own, some of which are killed in the middle."""

import json
import signal
import subprocess
import sys

import httpx
import pytest

from comity.identity.key_files import create_identity
from comity.votes.protocol.log import read_entry
from tests.places import file_of
from tests.ports import unused_port
from tests.waiting import wait_until

STRANGER = file_of("tests.votes.protocol.record_stranger")
COMITY = [sys.executable, "-m", "comity"]
DEADLINE = 30
BURST = 6


class RealNode:
    """`comity up` on a folder, at the same port whenever it starts."""

    def __init__(self, folder, environ):
        self.folder = folder
        self.id = create_identity(folder).vacant_id.hex()
        self.url = f"http://127.0.0.1:{(port := unused_port())}"
        self._command = [*COMITY, "up", "--data", str(folder), "--port", str(port)]
        self._environ = {**environ, "COMITY_DELIBERATIONS_RETRY_SECONDS": "0.2"}
        self._process = None
        self.start()

    def start(self):
        self._process = subprocess.Popen(
            self._command, env=self._environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_until(self._is_ready, DEADLINE, what="an answer of the node")

    def _is_ready(self):
        try:
            return httpx.get(f"{self.url}/readyz").status_code == 200
        except httpx.TransportError:
            assert self._process.poll() is None, "the node has ended"
            return False

    def kill(self):
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(DEADLINE)

    def stop(self):
        self._process.terminate()
        self._process.wait(DEADLINE)


@pytest.fixture
def nodes(tmp_path, environ):
    started = [RealNode(tmp_path / name, environ) for name in ("alice", "bob", "carol")]
    yield started
    for node in started:
        node.stop()


@pytest.fixture
def vote(comity):
    def call(node, *arguments):
        outcome = comity("vote", *arguments, "--data", node.folder, "--json")
        assert outcome.code == 0, outcome.err
        return json.loads(outcome.out)

    return call


def recounted(file):
    """What a program says that has the file and nothing of ours."""
    command = [sys.executable, "-I", str(STRANGER), str(file)]
    ended = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    return (ended.stdout or ended.stderr).strip()


def test_a_rule_is_ratified_although_nodes_are_killed_and_everybody_has_the_same_proof(
    nodes, vote, comity, program, environ, tmp_path
):
    alice, bob, carol = nodes
    opened = vote(
        alice,
        "open",
        "How we answer",
        "--clause",
        "Within a day.",
        "--party",
        bob.id,
        "--party",
        f"{carol.id}=ai_party",
    )
    one = opened["delib_id"]
    assert opened["url"] == alice.url
    for party in (bob, carol):
        vote(party, "join", alice.url, one)
    acknowledged = [vote(alice, "advance", one, "deliberation")]
    acknowledged.append(vote(bob, "act", one, "endorse"))

    # a party is killed: its user goes on, and so does its node after a restart
    carol.kill()
    acknowledged.append(vote(carol, "welfare", one, "My node was killed."))
    carol.start()

    # the host is killed while others act; some of them get their entry, the others wait
    acting = [
        subprocess.Popen(
            [
                *COMITY,
                "vote",
                "act",
                one,
                "amend",
                "--text",
                f"Text {number}.",
                "--data",
                str(who.folder),
                "--json",
            ],
            env=environ,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number, who in enumerate((bob, carol) * (BURST // 2))
    ]
    acknowledged.append(json.loads(acting[0].communicate(timeout=DEADLINE)[0]))
    alice.kill()
    acknowledged += [json.loads(process.communicate(timeout=DEADLINE)[0]) for process in acting[1:]]
    assert all(process.returncode == 0 for process in acting)
    waits = vote(bob, "act", one, "amend", "--text", "Said while the host was away.")
    assert waits["waiting"] is True
    alice.start()

    # the nodes send by themselves what waits
    def nothing_waits():
        return not any(vote(party, "list")["deliberations"][0]["waiting"] for party in (bob, carol))

    wait_until(nothing_waits, DEADLINE, what="what waited was not sent")
    found = vote(alice, "result", one)["result"]["clause"]
    texts = [variant["text"] for variant in found["variants"][1:]]
    assert sorted(texts) == sorted(
        ["Said while the host was away.", *(f"Text {number}." for number in range(BURST))]
    )

    vote(alice, "act", one, "endorse")
    vote(bob, "advance", one, "convergence")
    for party in nodes:
        vote(party, "ballot", one, "v1", "v0")
    vote(alice, "advance", one, "ratification")
    alice.kill()
    alice.start()
    acknowledged += [vote(party, "cast", one, "accept") for party in nodes]

    files = []
    for node in nodes:
        files.append(tmp_path / f"{node.folder.name}.json")
        vote(node, "record", one, "--out", files[-1])
    record = json.loads(files[0].read_text())
    hashes = {entry["number"]: read_entry(entry).hash() for entry in record["entries"]}
    stored = [answer for answer in acknowledged if not answer["waiting"]]
    assert len(stored) >= 7
    assert all(hashes[answer["number"]] == answer["hash"] for answer in stored)
    assert len({file.read_bytes() for file in files}) == 1
    for file in files:
        assert comity("vote", "verify", file).code == 0
    stranger = program("vote", "verify", files[1], env={"COMITY_DATA": str(tmp_path / "nowhere")})
    assert (stranger.code, ": good: " in stranger.out) == (0, True)
    assert {recounted(file) for file in files} == {recounted(files[0])}
    assert json.loads(recounted(files[0]))["phase"] == "active"
    record["entries"][5]["action"]["args"]["text"] = "Never."
    files[2].write_text(json.dumps(record))
    altered = program("vote", "verify", files[2])
    assert altered.code == 1
    assert ": bad: entry 6 of " in altered.out
    assert recounted(files[2]) == "bad: entry 6: the signature of the actor does not hold"
