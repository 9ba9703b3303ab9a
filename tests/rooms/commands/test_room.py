"""`comity room`, with two nodes: one line connects them; then they talk, pass files and share state."""

import asyncio
import contextlib
import io
import json
import signal
import subprocess
import sys
import threading

import pytest

from comity.rooms.commands.screen import MAX_SHOWN, TerminalView
from comity.rooms.commands.view import SENTENCES, MessageRunner, PlainView, sentence_of
from comity.rooms.part import Peers
from comity.rooms.protocol.events import EVENT_MEMBERS
from tests.waiting import eventually, wait_until


@pytest.fixture
def other(tmp_path):
    return tmp_path / "other"


@pytest.fixture
def line(comity, neighbourhood, data, other):
    """Two nodes, and the invite of the first."""
    neighbourhood.node(data)
    neighbourhood.node(other)
    outcome = comity("room", "invite", "lab")
    assert outcome.code == 0, outcome.err
    assert "only programs on this machine" in outcome.err
    return outcome.out.strip()


@pytest.fixture
def joined(comity, line, other, monkeypatch):
    """Both in the room: anna here, bert there."""
    for folder, room, name in ((None, "lab", "anna"), (other, line, "bert")):
        monkeypatch.setattr(sys, "stdin", io.StringIO(""))
        more = () if folder is None else ("--data", folder)
        outcome = comity("room", "join", room, "--name", name, *more)
        assert outcome.code == 0, outcome.err
        assert line not in outcome.out + outcome.err
    for folder, peer in ((None, "bert"), (other, "anna")):
        wait_for(comity, peer, folder)
    return other


def wait_for(comity, peer, folder):
    more = () if folder is None else ("--data", folder)

    def ready():
        peers = json_of(comity("room", "peers", "--json", *more))["peers"]
        return any(one["stream_id"] == peer and one["handshake_state"] == "ready" for one in peers)

    wait_until(ready)


def json_of(outcome):
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def test_without_a_node_the_remedy_is_told(comity):
    for command in (("invite", "lab"), ("peers",), ("send", "x"), ("state", "get")):
        outcome = comity("room", *command)
        assert outcome.code != 0
        assert "comity up" in outcome.err


def test_the_same_line_is_printed_until_it_expires(comity, line):
    assert comity("room", "invite", "lab").out.strip() == line
    result = json_of(comity("room", "invite", "hall", "--json", "--hours", "2"))
    assert result["invite"].startswith("comity:2:")
    assert "relay is on 127.0.0.1" in result["notice"]


def test_invites_are_listed_without_their_lines(comity, line):
    comity("room", "invite", "hall", "--hours", "2")
    shown = comity("room", "invites").out
    assert shown.index("hall") < shown.index("lab")
    assert "comity:2:" not in shown
    result = comity("room", "invites", "--json").out
    assert [one["room"] for one in json.loads(result)["invites"]] == ["hall", "lab"]
    assert "comity:2:" not in result


def test_a_revoked_invite_lets_nobody_in_and_who_is_in_stays(comity, line, joined, other):
    assert "used or revoked" not in comity("room", "peers").out
    again = comity("room", "invite", "lab").out.strip()
    assert again != line, "one person has come by the first"
    outcome = comity("room", "invite", "lab", "--revoke")
    assert outcome.out == "revoked the invite to the room lab; its members stay: 1\n"
    assert "No invite is valid" in comity("room", "invites").out
    assert "comity room invites" in comity("room", "invite", "lab", "--revoke").err
    assert comity("room", "invite", "lab").out.strip() not in (line, again)
    wait_for(comity, "bert", None)
    wait_for(comity, "anna", other)


def test_a_removed_member_is_out_and_both_sides_are_told(comity, line, joined, other):
    outcome = comity("room", "kick", "lab", "bert")
    assert outcome.code == 0, outcome.err
    assert outcome.out == "removed bert from the room lab\n"
    wait_until(lambda: not [one for one in peers_of(comity) if one["connected"]])
    wait_until(lambda: "removed from the room" in comity("room", "peers", "--data", other).out)
    missing = comity("room", "kick", "lab", "bert")
    assert missing.code != 0
    assert "bert is not a member of the room lab; members: nobody" in missing.err
    assert "only the node that invited" in comity("room", "kick", "lab", "anna", "--data", other).err


def peers_of(comity):
    return json_of(comity("room", "peers", "--json"))["peers"]


def test_a_revoked_invite_is_gone_after_a_restart(comity, line, neighbourhood, data):
    assert comity("room", "invite", "lab", "--revoke", "--json").code == 0
    neighbourhood.leave()
    neighbourhood.node(data)
    assert json_of(comity("room", "invites", "--json"))["invites"] == []
    assert comity("room", "invite", "lab", "--revoke", "--hours", "3").code == 2
    assert comity("room", "invite", "!", "--revoke").code != 0


def test_a_view_goes_on_when_its_node_was_restarted(comity, neighbourhood, data, monkeypatch):
    neighbourhood.node(data)
    notes, back = [], threading.Event()

    def note(text):
        notes.append(text)
        if text == "the node is back":
            back.set()

    class Stdin(io.StringIO):
        def readline(self):
            neighbourhood.leave()
            neighbourhood.node(data)
            assert back.wait(20)
            return ""

    monkeypatch.setattr("comity.rooms.commands.view.note", note)
    monkeypatch.setattr(sys, "stdin", Stdin())
    outcome = comity("room", "join", "lab", "--name", "anna")
    assert outcome.code == 0, outcome.err
    assert notes.pop(0).startswith("you are alone in the room lab")
    assert notes[:2] == ["the node does not answer; waiting until it is back", "the node is back"]
    [session] = json_of(comity("room", "peers", "--json"))["sessions"]
    assert (session["room"], session["stream_id"]) == ("lab", "anna")


def test_peers_are_shown_with_their_path_and_their_node(comity, joined):
    shown = comity("room", "peers")
    assert "lab  connected to 1 peer; you are anna" in shown.out
    assert "bert" in shown.out
    assert "websocket" in shown.out


def test_a_room_without_others_is_not_called_connected(comity, neighbourhood, data, monkeypatch):
    neighbourhood.node(data)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    joined = comity("room", "join", "hall", "--name", "anna")
    assert "you are alone in the room hall" in joined.err
    shown = comity("room", "peers")
    assert "hall  nobody else is here; you are anna" in shown.out
    assert "comity room invite hall" in shown.err


def test_a_second_join_shows_the_session_that_is_there(comity, joined, line, monkeypatch):
    for folder, room, more in ((None, "lab", ("--name", "anna")), (None, "lab", ()), (joined, line, ())):
        monkeypatch.setattr(sys, "stdin", io.StringIO("again\n"))
        data = () if folder is None else ("--data", folder)
        outcome = comity("room", "join", room, *more, *data)
        assert outcome.code == 0, outcome.err
        assert "Not sent" not in outcome.err
    for folder in ((), ("--data", joined)):
        [_] = json_of(comity("room", "peers", "--json", *folder))["sessions"]


def test_a_message_is_sent_and_waited_for(comity, joined):
    assert comity("room", "send", "hello").out.startswith("sent, and ")
    assert comity("room", "wait", "--data", joined, "--seconds", "20").out == "hello\n"
    assert comity("room", "send", "--to", "anna", "--data-json", '{"n": 1}', "--data", joined).code == 0
    assert json_of(comity("room", "wait", "--json", "--seconds", "20"))["data"] == {"n": 1}
    nobody = comity("room", "send", "x", "--to", "carl")
    assert (nobody.code, "carl is not in the room" in nobody.err) == (1, True)
    late = comity("room", "wait", "--seconds", "0")
    assert "no message arrived" in late.err


def waiting(neighbourhood, node):
    """How many readers wait for events at a node."""

    async def count():
        rooms = (await node.runtime.find(Peers).open_tools()).rooms
        return sum(len(room._waiters) for room in rooms)

    return neighbourhood.run(count())


@pytest.fixture
def two(comity, neighbourhood, data, other, monkeypatch):
    """The node of bert, in a room with anna, and nobody waits there."""
    neighbourhood.node(data)
    node = neighbourhood.node(other)
    line = comity("room", "invite", "lab").out.strip()
    for folder, room, name in ((data, "lab", "anna"), (other, line, "bert")):
        monkeypatch.setattr(sys, "stdin", io.StringIO(""))
        assert comity("room", "join", room, "--name", name, "--data", folder).code == 0
    wait_for(comity, "bert", data)
    wait_for(comity, "anna", other)
    wait_until(lambda: not waiting(neighbourhood, node))
    return node


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_wait_that_is_stopped_loses_no_message(comity, two, neighbourhood, other, environ, number):
    command = [sys.executable, "-m", "comity", "room", "wait", "--data", str(other)]
    stopped = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(lambda: waiting(neighbourhood, two))
    stopped.send_signal(number)
    out, _ = stopped.communicate(timeout=20)
    assert comity("room", "send", "not lost").out.startswith("sent, and ")
    assert out == b""
    assert comity("room", "wait", "--data", other, "--seconds", "20").out == "not lost\n"
    assert "no message" in comity("room", "wait", "--data", other, "--seconds", "0").err


def test_a_wait_that_timed_out_loses_no_message(comity, two, other):
    assert "within 1 seconds" in comity("room", "wait", "--data", other, "--seconds", "1").err
    assert comity("room", "send", "not lost").out.startswith("sent, and ")
    assert comity("room", "wait", "--data", other, "--seconds", "20").out == "not lost\n"


def test_a_message_that_was_not_printed_comes_again_and_one_that_was_does_not(
    comity, two, other, monkeypatch
):
    for text in ("one", "two"):
        assert comity("room", "send", text).out.startswith("sent, and ")

    def broken(_text):
        raise BrokenPipeError

    with monkeypatch.context() as patched:
        patched.setattr("comity.rooms.commands.room.print_foreign", broken)
        comity("room", "wait", "--data", other, "--seconds", "20")
    assert comity("room", "wait", "--data", other, "--seconds", "20").out == "one\n"
    assert comity("room", "wait", "--data", other, "--seconds", "20").out == "two\n"
    assert "no message" in comity("room", "wait", "--data", other, "--seconds", "0").err


def test_a_message_that_is_there_is_printed_without_waiting(comity, two, other):
    assert comity("room", "send", "here").out.startswith("sent, and ")
    wait_until(lambda: "here" in comity("room", "wait", "--data", other, "--seconds", "0").out)


def test_a_file_is_sent_listed_and_saved(comity, joined, tmp_path):
    content = bytes(range(256)) * 1000
    (tmp_path / "report.bin").write_bytes(content)
    sent = json_of(comity("room", "send-file", tmp_path / "report.bin", "--json"))
    assert sent["status"] == "completed"
    listed = comity("room", "files", "--data", joined)
    assert "report.bin" in listed.out
    saving = ("room", "files", "--save", sent["transfer_id"], "--as", tmp_path / "got.bin", "--data", joined)
    assert comity(*saving).code == 0
    assert (tmp_path / "got.bin").read_bytes() == content
    assert "output exists" in comity(*saving).err
    assert "there is no file" in comity("room", "send-file", tmp_path / "none").err
    for place, kind, name in ((None, "ROOM_FILE_SENT", "report.bin"), (joined, "ROOM_FILE_SAVED", "got.bin")):
        result = comity("audit", "tail", "--json", *(() if place is None else ("--data", place))).out
        [entry] = [one for one in map(json.loads, result.splitlines()) if one["verification_result"] == kind]
        assert f"path:{tmp_path / name}" in entry["checks_passed"]
        assert f"bytes:{len(content)}" in entry["checks_passed"]
        assert entry["content_hash"] == sent["file_hash"]
        assert any(one.startswith("caller:local:") for one in entry["checks_passed"])


def test_who_sends_a_file_that_is_too_large_is_told_what_to_do(comity, joined, line, tmp_path, monkeypatch):
    with (tmp_path / "large.bin").open("wb") as file:
        file.truncate(64 * 1024 * 1024 + 1)
    refused = comity("room", "send-file", tmp_path / "large.bin")
    assert refused.code != 0
    assert "file exceeds max 67108864 bytes" in refused.err
    assert "--file-max-bytes" in refused.err
    again = comity("room", "join", "lab", "--file-max-bytes", "100000000")
    assert "comity room leave lab" in again.err
    assert comity("room", "leave", "lab", "--data", joined).code == 0
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert comity("room", "join", line, "--file-max-bytes", "1000", "--data", joined).code == 0
    wait_for(comity, "anna", joined)
    (tmp_path / "small.bin").write_bytes(bytes(1001))
    for _ in range(100):  # until the one that left is gone
        refused = comity("room", "send-file", tmp_path / "small.bin")
        if "ambiguous" not in refused.err:
            break
    assert "total_bytes must be 1..1000" in refused.err
    assert "the receiver has to leave and join the room again with --file-max-bytes" in refused.err
    wrong = comity("room", "join", "lab", "--file-max-bytes", "268435457")
    assert "--file-max-bytes must be a whole number from 1 to 268435456" in wrong.err


def test_the_files_of_the_node_are_not_sent(comity, joined, data):
    refused = comity("room", "send-file", data / "token")
    assert refused.code != 0
    assert "belongs to the node itself" in refused.err


def test_state_is_shared(comity, joined):
    assert comity("room", "state", "set", "plan", '{"step": 2}').code == 0
    assert comity("room", "state", "set", "word", "text").code == 0
    for _ in range(50):
        found = json_of(comity("room", "state", "get", "--data", joined))
        if len(found) == 2:
            break
    assert found == {"plan": {"step": 2}, "word": "text"}
    assert comity("room", "state", "set", "plan", "--delete").code == 0
    assert json_of(comity("room", "state", "get")) == {"word": "text"}
    assert comity("room", "state", "set", "plan").code == 2


def test_signed_messages_are_exported_and_verified_by_anybody(comity, joined, tmp_path):
    for text in ("one", "two"):
        assert comity("room", "send", text, "--signed", "--to", "bert").code == 0
        assert comity("room", "wait", "--data", joined, "--seconds", "20").out == f"{text}\n"
    file = tmp_path / "messages.ndjson"
    for folder in ((), ("--data", joined)):
        file.write_text(comity("room", "export", *folder).out)
        verified = json_of(comity("room", "verify", file, "--json"))
        assert [(one["number"], one["data"]) for one in verified["messages"]] == [(1, '"one"'), (2, '"two"')]
    assert "messages verified: 2" in comity("room", "verify", file).out
    file.write_text(file.read_text().replace("two", "too"))
    refused = comity("room", "verify", file)
    assert (refused.code, "line 2" in refused.err) == (1, True)
    assert comity("room", "verify", tmp_path / "none").code == 2


def test_leaving_ends_the_session(comity, joined):
    assert comity("room", "leave", "lab").out == "left the room lab\n"
    assert "in no room" in comity("room", "peers").out
    assert "in no room" in comity("room", "leave").err


def test_who_sends_is_told_what_became_of_the_message(comity, joined, neighbourhood, data):
    stored = comity("room", "send", "hello")
    assert (stored.code, stored.out) == (0, "sent, and stored by the other side\n")
    sent = json_of(comity("room", "send", "hello", "--json"))
    assert [one["status"] for one in sent["messages"]] == ["stored"]
    nobody = comity("room", "send", "hello", "--to", "carl")
    assert nobody.code == 1
    assert "carl is not in the room" in nobody.err
    neighbourhood.leave()
    neighbourhood.node(data)
    waits = comity("room", "send", "for later", "--to", "bert")
    assert waits.code == 3
    assert waits.out.startswith("waiting: ")
    assert comity("room", "send", "for later", "--to", "bert", "--json").code == 3


def test_lines_of_a_pipe_are_sent_and_events_are_printed(comity, joined, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("first\n/to bert second\n/help\n/to carl x\n"))
    outcome = comity("room", "join", "lab")
    assert outcome.code == 0
    assert "bert is here" in outcome.out
    assert "carl is not in the room" in outcome.err
    for words in ("first", "second"):
        assert comity("room", "wait", "--data", joined, "--seconds", "20").out == f"{words}\n"


def test_a_program_is_run_with_the_messages_on_its_standard_input(comity, joined, tmp_path, monkeypatch):
    script = tmp_path / "note.py"
    script.write_text(f"import sys; open({str(tmp_path / 'seen')!r}, 'a').write(sys.stdin.read())")
    comity("room", "send", "ring; rm -rf $HOME", "--data", joined)
    reading = threading.Event()

    class Stdin(io.StringIO):
        def readline(self):
            for _ in range(200):
                if (tmp_path / "seen").exists() and (tmp_path / "seen").read_text():
                    break
                reading.wait(0.05)
            return ""

    monkeypatch.setattr(sys, "stdin", Stdin())
    assert comity("room", "join", "lab", "--on-message", f"{sys.executable} {script}").code == 0
    seen = [json.loads(one) for one in (tmp_path / "seen").read_text().splitlines()]
    assert [one["data"] for one in seen] == ["ring; rm -rf $HOME"]
    for bad in ("", "'unclosed"):
        assert comity("room", "join", "lab", "--on-message", bad).code == 2


def test_text_that_acts_on_a_terminal_is_shown_and_not_obeyed():
    event = {
        "type": "data_received",
        "streamID": "eve\x1b[2J",
        "uuid": "u",
        "data": "\x1b]0;x\x07 \u202e gone\r",
    }
    shown = sentence_of({**event, "binaryBase64": None})
    assert all(letter.isprintable() for letter in shown)
    assert "\\u001b" in shown
    rejected = {"type": "sync_peer_rejected", "uuid": "u", "stream_id": "x\x1b", "reason": "\x1b[31m"}
    assert "\x1b" not in sentence_of(rejected)


def test_every_sentence_fits_an_event_of_its_type():
    for kind in SENTENCES:
        members = dict.fromkeys(EVENT_MEMBERS[kind], "x")
        members |= {
            "detail": {"streamID": "s", "reason": "r", "error": "e"},
            "total_bytes": 5_000_000_000,
            "count": 1,
        }
        assert sentence_of({"type": kind, "ts": "", **members})


SESSION = {"session_id": "vdo_1", "room": "lab", "stream_id": "anna", "state": "connected"}


class EndingNode:
    """A node that gives these events, and then ends the session."""

    def __init__(self, events):
        self.events = [*events, {"type": "stopped", "ts": MOMENT}]

    async def ask(self, _tool, _arguments, _folder=None):
        result, self.events = self.events, []
        return {"events": result, "places": [f"log:{number}" for number in range(len(result))]}


MOMENT = "2026-01-01T00:00:00.000Z"


class Reader:
    """A node that gives out these messages once, and then waits. `acknowledged` are the places."""

    def __init__(self, count):
        self.asked, self.acknowledged = [], []
        self._events = [
            {"type": "data_received", "ts": MOMENT, "uuid": "u", "streamID": "bert", "data": f"m{number}"}
            for number in range(count)
        ]

    async def ask(self, tool, arguments, _folder=None):
        self.asked.append(tool)
        if tool == "acknowledge":
            self.acknowledged.append(arguments["through"])
            return {"acknowledged": True}
        assert tool == "peek"
        if "after" in arguments:
            await asyncio.Event().wait()
        return {"events": self._events, "places": [f"log:{number}" for number in range(len(self._events))]}


class Held(io.StringIO):
    """A person who types nothing until the test has ended."""

    def __init__(self):
        super().__init__()
        self.ended = threading.Event()

    def readline(self):
        self.ended.wait(60)
        return ""


@contextlib.asynccontextmanager
async def viewing(monkeypatch, view, runner=None):
    held = Held()
    monkeypatch.setattr(sys, "stdin", held)
    running = asyncio.create_task(view.run(runner))
    try:
        yield
    finally:
        running.cancel()
        held.ended.set()
        await asyncio.gather(running, return_exceptions=True)
        if runner is not None:
            await runner.close()


async def test_a_view_acknowledges_what_it_has_shown(monkeypatch):
    rooms, shown = Reader(2), []
    view = PlainView(rooms, SESSION, as_json=False)
    view.show = lambda event: shown.append((event["data"], list(rooms.acknowledged)))
    async with viewing(monkeypatch, view):
        await eventually(lambda: rooms.acknowledged)
    assert shown == [("m0", []), ("m1", [])]
    assert rooms.acknowledged == ["log:1"]


async def test_messages_for_a_program_are_acknowledged_when_it_has_read_them(monkeypatch, tmp_path):
    began, go_on = tmp_path / "began", tmp_path / "go on"
    script = tmp_path / "slow.py"
    script.write_text(
        "import pathlib, sys, time\n"
        "sys.stdin.read()\n"
        f"pathlib.Path({str(began)!r}).touch()\n"
        f"while not pathlib.Path({str(go_on)!r}).exists(): time.sleep(0.01)\n"
    )
    rooms = Reader(3)
    runner = MessageRunner([sys.executable, str(script)])
    async with viewing(monkeypatch, PlainView(rooms, SESSION, as_json=True), runner):
        await eventually(began.exists)
        assert rooms.acknowledged == []
        go_on.touch()
        await eventually(lambda: rooms.acknowledged[-1:] == ["log:2"])


async def test_a_program_that_cannot_be_run_leaves_the_messages_where_they_are(monkeypatch, tmp_path):
    notes = []
    monkeypatch.setattr("comity.rooms.commands.view.note", notes.append)
    rooms = Reader(1)
    runner = MessageRunner([str(tmp_path / "none")])
    async with viewing(monkeypatch, PlainView(rooms, SESSION, as_json=True), runner):
        await eventually(lambda: notes)
    assert "cannot be run" in notes[0]
    assert rooms.acknowledged == []


async def test_more_messages_than_a_program_is_given_at_once_wait_for_it(monkeypatch, tmp_path):
    monkeypatch.setattr("comity.rooms.commands.view.MAX_COALESCED", 2)
    script = tmp_path / "note.py"
    script.write_text(f"import sys; open({str(tmp_path / 'seen')!r}, 'a').write(sys.stdin.read())")
    rooms = Reader(5)
    runner = MessageRunner([sys.executable, str(script)])
    async with viewing(monkeypatch, PlainView(rooms, SESSION, as_json=True), runner):
        await eventually(lambda: rooms.acknowledged[-1:] == ["log:4"])
    seen = [json.loads(one)["data"] for one in (tmp_path / "seen").read_text().splitlines()]
    assert seen == [f"m{number}" for number in range(5)]


async def test_a_peer_that_has_another_link_has_not_left(monkeypatch, capsys):
    def here(uuid):
        return {"type": "sync_peer_updated", "ts": MOMENT, "uuid": uuid, "stream_id": "bert"}

    def gone(uuid):
        detail = {"uuid": uuid, "type": "viewer", "streamID": "bert", "reason": "it cannot be reached"}
        return [
            {"type": "peer_disconnected", "ts": MOMENT, "uuid": uuid, "detail": {"uuid": uuid}},
            {"type": "data_channel_close", "ts": MOMENT, "detail": detail},
            {"type": "connection_failed", "ts": MOMENT, "detail": detail},
        ]

    monkeypatch.setattr(sys, "stdin", Silent())
    events = [here("old"), here("old"), here("new"), *gone("old"), *gone("new"), here("third")]
    await PlainView(EndingNode(events), SESSION, as_json=False).run(None)
    lines = [line.partition(" ")[2] for line in capsys.readouterr().out.splitlines()]
    assert lines == ["bert is here", "bert has left", "bert is here", "the session has ended"]


class Silent(io.StringIO):
    """A person who types nothing while the events are read."""

    def readline(self):
        threading.Event().wait(1)
        return ""


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ("", "bert: "),
        ("x" * MAX_SHOWN, f"bert: {'x' * MAX_SHOWN}"),
        ("a: b", "bert: a: b"),
        ("y" * 250_000, "y… (250,000 characters; with --json you see all of them)"),
    ],
    ids=["empty", "long", "with a colon", "too long"],
)
def test_a_message_on_a_terminal_is_shown_with_its_sender_and_not_without_end(data, shown):
    view = TerminalView(None, SESSION)
    printed = []
    view._print = printed.append
    event = {"type": "data_received", "uuid": "u", "streamID": "bert", "data": data, "ts": MOMENT}
    view.show(event)
    [line] = printed
    assert line.plain.endswith(shown)
    assert len(line.plain) < MAX_SHOWN + 100


def test_bad_input_is_answered_in_a_sentence(comity, line, monkeypatch):
    for command, words in (
        (("invite", "___"), "needs a name"),
        (("invite", "lab", "--hours", "0"), "--hours"),
        (("invite", "x", "--relay", "http://relay"), "must look like wss://"),
        (("join", "comity:1:damaged"), "damaged"),
        (("send", "x"), "in no room"),
        (("send", "--data-json", "{"), "--data-json is not valid JSON"),
    ):
        outcome = comity("room", *command)
        assert outcome.code != 0
        assert words in outcome.err
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    assert "give an invite, or the name of a room" in comity("room", "join").err
