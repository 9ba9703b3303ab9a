"""`comity invite`, `join`, `send` and `receive`: what they refuse, what they say, and where files land. Two machines are in tests/docs."""

import json
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.rooms.protocol.loose_values import free_names, safe_name
from tests.rooms.commands.test_room import json_of
from tests.waiting import wait_until


@pytest.fixture
def other(tmp_path):
    return tmp_path / "other"


@pytest.fixture
def running(comity, neighbourhood, data, other):
    """Two nodes."""
    neighbourhood.node(data)
    neighbourhood.node(other)
    return other


class Command:
    """`comity` in a process of its own, and the lines that it prints."""

    def __init__(self, *words, folder):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "comity", *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            text=True,
        )
        self.lines, self.errors = [], []
        pairs = ((self.process.stdout, self.lines), (self.process.stderr, self.errors))
        self._readers = [threading.Thread(target=self._read, args=pair, daemon=True) for pair in pairs]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _read(stream, lines):
        for line in stream:
            lines.append(line.rstrip("\n"))

    def line(self):
        return wait_until(lambda: next((one for one in self.lines if one.startswith("comity:2:")), None), 30)

    def ended(self):
        wait_until(lambda: self.process.poll() is not None, 30, what=f"the end of {self.lines} {self.errors}")
        return self.finish()

    def finish(self):
        self.process.kill()
        self.process.wait()
        for reader in self._readers:
            reader.join()
        self.process.stdout.close()
        self.process.stderr.close()
        return self.process.returncode


@pytest.fixture
def start(tmp_path):
    """Start commands, and end them all."""
    begun = []

    def starting(*words, folder=tmp_path):
        begun.append(Command(*words, folder=folder))
        return begun[-1]

    yield starting
    for one in begun:
        if one.process.poll() is None:
            one.finish()


def test_a_file_is_sent_and_received_by_one_line_and_nothing_of_it_stays(
    start, comity, running, data, tmp_path
):
    sent, got = tmp_path / "sent", tmp_path / "got"
    sent.mkdir()
    got.mkdir()
    (sent / "a.txt").write_bytes(b"first")
    (sent / "b.bin").write_bytes(bytes(range(256)) * 4000)
    (got / "a.txt").write_text("mine")
    sending = start("send", "a.txt", "b.bin", "--yes", "--data", data, folder=sent)
    receiving = start("receive", sending.line(), "--data", running, folder=got)
    assert receiving.ended() == 0, receiving.errors
    assert sending.ended() == 0, sending.errors
    assert (got / "a.txt").read_text() == "mine", "what is there stays"
    assert (got / "a (2).txt").read_bytes() == b"first"
    assert (got / "b.bin").read_bytes() == bytes(range(256)) * 4000
    assert json_of(comity("room", "invites", "--json"))["invites"] == []
    assert json_of(comity("room", "peers", "--json"))["sessions"] == []


def test_who_invites_is_told_who_comes_and_a_second_guest_of_one_line_is_refused(
    start, comity, running, data, tmp_path
):
    inviting = start("invite", "lab", "--yes", "--data", data)
    line = inviting.line()
    joining = start("join", line, "--name", "bert", "--json", "--data", running)
    assert joining.ended() == 0, "standard input is at its end"
    wait_until(lambda: any("bert is here" in one for one in inviting.lines), 30)
    third = start("receive", line, "--data", tmp_path / "third")
    assert third.ended() == 1
    assert "the invite was used or revoked; ask for a new one" in "".join(third.errors)


def test_the_line_is_found_by_programs_and_says_how_far_it_reaches(start, running, data):
    inviting = start("invite", "lab", "--yes", "--json", "--expires", "2", "--uses", "3", "--data", data)
    result = json.loads(wait_until(lambda: next(iter(inviting.lines), None), 30))
    assert result["invite"].startswith("comity:2:")
    assert (result["room"], result["uses"], result["left"]) == ("lab", 3, 3)
    assert result["reach"] in ("network", "anywhere")


def test_nobody_opens_the_door_without_a_word(comity, running, tmp_path):
    outcome = comity("invite", "lab")
    assert outcome.code != 0
    assert "--yes opens it" in outcome.err
    (tmp_path / "x").write_text("x")
    outcome = comity("send", str(tmp_path / "x"))
    assert "--yes opens it" in outcome.err
    assert json_of(comity("room", "invites", "--json"))["invites"] == []


def test_a_line_is_revoked_by_the_command_that_made_it(comity, running):
    assert comity("room", "invite", "lab").code == 0
    assert (
        comity("invite", "lab", "--revoke").out == "revoked the invite to the room lab; its members stay: 0\n"
    )
    assert "name the room" in comity("invite", "--revoke").err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("join", "lab"), "begins with comity:2:"),
        (("receive", "hello"), "begins with comity:2:"),
        (("join", "comity:2:damaged"), "damaged"),
        (("send", "/no/such/file"), "there is no file /no/such/file"),
        (("invite", "lab", "--uses", "0"), "--uses"),
        (("invite", "lab", "--expires", "721"), "--expires"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(comity, running, words, sentence):
    outcome = comity(*words)
    assert outcome.code != 0
    assert sentence in outcome.err


@given(
    st.text()
    | st.sampled_from(["../../etc/passwd", "C:\\x\\y.txt", ".bashrc", "..", "", "a\x1b[2J", "x" * 999])
)
def test_the_name_of_a_received_file_leads_nowhere_else(name):
    safe = safe_name(name)
    assert 0 < len(safe) <= 200
    assert not set(safe) & set('/\\:*?"<>|\x00')
    assert safe.isprintable()
    assert not safe.startswith(".")


def test_a_name_that_is_taken_gets_a_number():
    names = free_names("a.tar.gz")
    assert [next(names) for _ in range(3)] == ["a.tar.gz", "a.tar (2).gz", "a.tar (3).gz"]
    assert list(free_names("plain"))[1] == "plain (2)"
