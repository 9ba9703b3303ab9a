"""`comity up` as a person or a service manager sees it: in a process of its own."""

import contextlib
import io
import json
import os
import pty
import re
import select
import signal
import socket
import stat
import subprocess
import sys
import time
import urllib.request

import apsw
import pytest

from comity.identity.key_files import create_identity
from comity.identity.passphrase import SealingCost
from comity.node.commands.up import SWITCH_SECONDS
from comity.runtime.settings import DEFAULT_PORT, AgentSettings
from comity.store.sqlite.connection import CHECKSUMMED_VFS, load_checksums
from tests.ports import unused_port

COMITY = [sys.executable, "-m", "comity"]
DEADLINE = 20


@pytest.fixture
def start(environ):
    """Start nodes; whatever a test leaves running is stopped."""
    started = []

    def start(*arguments, **more):
        node = subprocess.Popen(
            [*COMITY, "up", *map(str, arguments)],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )
        started.append(node)
        return node

    yield start
    for node in started:
        if node.poll() is None:
            node.kill()
        node.communicate()


@pytest.fixture
def refused(comity, monkeypatch):
    """A start that is expected to fail needs no process of its own."""
    monkeypatch.setattr("comity.node.commands.up.write_logs", lambda *_, **__: None)

    async def at_once(_node):
        """One that starts after all stops by itself, and is then seen to have started."""

    monkeypatch.setattr("comity.node.node.Node.wait_stopped", at_once)

    def start(*arguments):
        outcome = comity("up", *arguments)
        assert outcome.out == ""
        assert outcome.err.startswith("error: ")
        assert outcome.err.count("\n") == 1
        return outcome.code, outcome.err

    return start


def get(url):
    with urllib.request.urlopen(url, timeout=5) as answer:
        return answer.status, answer.read()


LIFE = ["NODE_STARTED", "NODE_STOPPED"]


def stop(node, asked=signal.SIGTERM):
    """How it ended, what it said, and which acts its log tells of; anything else there fails the test."""
    node.send_signal(asked)
    out, err = node.communicate(timeout=DEADLINE)
    acts = [re.fullmatch(r"\S+ \S+ INFO comity\.acts: (\w+) room=.+", line) for line in err.splitlines()]
    assert all(acts), err
    return node.returncode, out, [act[1] for act in acts]


def test_a_first_start_sets_everything_up_and_a_second_on_the_same_folder_is_refused(start, program, data):
    node = start("--port", "0", "--json")
    line = node.stdout.readline()
    ready = json.loads(line)
    assert set(ready) == {"ready", "url", "vacant_id", "data"}
    assert ready["ready"] is True
    assert ready["data"] == str(data)
    assert line.startswith('{"ready":true,')
    assert ready["url"].startswith("http://127.0.0.1:")
    assert get(f"{ready['url']}/healthz")[0] == 200
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    for secret in ("identity.json", "token"):
        assert stat.S_IMODE((data / secret).stat().st_mode) == 0o600

    shown = program("id", "show", "--json")
    assert json.loads(shown.out)["vacant_id"] == ready["vacant_id"]
    assert program("audit", "verify").code == 0
    assert "NODE_STARTED" in program("audit", "tail").out
    assert f"the node of this folder runs at {ready['url']}" in program("doctor").out

    second = program("up", "--port", "0", "--json")
    assert (second.code, second.out) == (1, "")
    assert ready["url"] in json.loads(second.err)["error"]["message"]
    adopt = program("audit", "adopt", "--yes")
    assert adopt.code == 1
    assert "in use by another process" in adopt.err

    assert stop(node) == (0, "", LIFE)
    last = json.loads(program("audit", "tail", "-n", "1", "--json").out)
    assert last["verification_result"] == "NODE_STOPPED"
    assert program("audit", "verify").code == 0


def test_a_stop_right_after_the_ready_line_is_a_clean_one(start):
    node = start("--port", "0", "--json")
    assert node.stdout.readline()
    assert stop(node) == (0, "", LIFE)


def test_people_get_address_identity_folder_link_and_next_steps(start, data):
    node = start("--port", "0", "--data", data)
    lines = []
    while "Ctrl-C" not in (line := node.stdout.readline()):
        assert line, node.stderr.read()
        lines.append(line)
    text = "".join(lines)
    address = next(line.split()[-1] for line in lines if line.split()[:1] == ["address"])
    link = next(line.split()[-1] for line in lines if line.split()[:1] == ["browser"])
    assert address.startswith("http://127.0.0.1:")
    assert link.startswith(f"{address}/enter/")
    assert "vacant:" in text
    assert str(data) in text
    assert f"comity id show --data {data}" in text
    assert "\x1b" not in text
    assert stop(node, signal.SIGINT) == (0, "Stopped.\n", LIFE)


@pytest.mark.parametrize("as_json", [True, False])
def test_vcp_over_tcp_is_shown_with_its_port(start, environ, as_json):
    port = unused_port()
    environ["COMITY_VCP_TCP_PORT"] = str(port)
    node = start("--port", "0", *(["--json"] if as_json else []))
    line = node.stdout.readline()
    if as_json:
        shown = json.loads(line)["vcp"]
    else:
        while line.split()[:1] != ["vcp"]:
            line = node.stdout.readline()
            assert line, node.stderr.read()
        shown = line.split()[-1]
    assert shown == f"tcp://127.0.0.1:{port}"
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as client:
        client.sendall(b'{"type":"vcp-hello","version":"3.1"}\n')
        assert b"vcp-ack" in client.recv(65_536)
    node.send_signal(signal.SIGTERM)
    node.communicate(timeout=DEADLINE)


def test_an_agent_answers_calls_and_people_see_what_it_offers_and_what_to_do(start, program, data, tmp_path):
    node = start("--port", "0", "--agent", "echo", "--capability", "repeats", "--name", "Echo")
    lines = []
    while "Ctrl-C" not in (line := node.stdout.readline()):
        assert line, node.stderr.read()
        lines.append(line)
    facts = {line.split()[0]: line.split()[-1] for line in lines if len(line.split()) > 1}
    assert (facts["agent"], facts["offers"]) == ("echo", "repeats")
    assert facts["endpoint"] == facts["address"] + "/a2a/message/send"
    text = "".join(lines)
    assert re.search(r"comity card show\s", text)
    assert re.search(r"comity card publish\s", text)
    guest = f"comity call {facts['address']} hello --data ~/comity-guest"
    assert guest in text
    called = program(*guest.split()[1:-1], tmp_path / "guest")
    assert called.code == 0
    assert called.out.endswith(": hello\n")
    assert json.loads(get(f"{facts['address']}/health")[1])["name"] == "Echo"
    assert stop(node)[0] == 0


def test_the_ready_line_of_an_agent_says_where_it_is_called(start, tmp_path):
    (tmp_path / "polite.py").write_text("def greet(text):\n    return f'Good day, {text}'\n")
    node = start("--port", "0", "--json", "--agent", "polite:greet", cwd=tmp_path)
    ready = json.loads(node.stdout.readline())
    assert ready["endpoint"] == ready["url"] + "/a2a/message/send"
    assert ready["capability"] == "answers with polite:greet"
    assert stop(node)[0] == 0


def test_an_agent_is_published_in_the_directory_that_is_named_and_people_are_told(
    start, neighbourhood, program, tmp_path
):
    there = neighbourhood.node(tmp_path / "directory", AgentSettings()).url
    node = start("--port", "0", "--agent", "echo", "--capability", "sings", "--directory", there)
    lines = []
    while "Ctrl-C" not in (line := node.stdout.readline()):
        assert line, node.stderr.read()
        lines.append(line.strip())
    assert lines[lines.index(f"directory  {there}") + 1] == "published as event 1; kept up to date"
    assert not any("card publish" in line for line in lines)
    assert "sings" in program("search", "", "--directory", there).out
    assert stop(node)[0] == 0
    again = start("--port", "0", "--agent", "echo", "--capability", "sings", "--directory", there, "--json")
    published = json.loads(again.stdout.readline())["published"]
    assert (published["directory"], published["visibility"], published["problem"]) == (there, "PUBLIC", "")
    assert stop(again)[0] == 0


def test_a_directory_that_cannot_be_reached_does_not_keep_a_node_from_starting(start):
    nowhere = f"http://127.0.0.1:{unused_port()}"
    node = start("--port", "0", "--agent", "echo", "--directory", nowhere)
    lines = []
    while "Ctrl-C" not in (line := node.stdout.readline()):
        assert line, node.stderr.read()
        lines.append(line.strip())
    result = lines.index(f"directory  {nowhere}")
    assert lines[result + 1].startswith("not published yet: 127.0.0.1:")
    assert lines[result + 2] == "the node tries again by itself"
    node.send_signal(signal.SIGTERM)
    _, log = node.communicate(timeout=DEADLINE)
    assert node.returncode == 0
    assert log.count(f"WARNING comity.publication: the card is not up to date in {nowhere}") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--directory", "http://127.0.0.1:9"], "no agent is set; add --agent"),
        (["--endpoint", "https://agent.example/"], "no agent is set; add --agent"),
        (["--agent", "echo", "--endpoint", "agent.example"], "--endpoint must be an address"),
        (["--agent", "echo", "--directory", "nowhere"], "--directory must be an address"),
    ],
)
def test_a_publication_that_cannot_be_starts_nothing(refused, data, arguments, words):
    code, result = refused(*arguments)
    assert (code, words in result) == (2, True)
    assert not data.exists()


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_publishing_from_all_addresses_needs_the_public_url(refused, data, monkeypatch, host):
    monkeypatch.setenv("COMITY_HTTP_PUBLIC", "true")
    public = ("--host", host, "--tls-cert", "cert.pem", "--tls-key", "key.pem", "--agent", "echo")
    code, words = refused(*public, "--directory", "http://127.0.0.1:9")
    assert code == 2
    assert f"host {host} means all addresses" in words
    assert "set agent.endpoint to the public URL" in words
    assert not data.exists()


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("nowhere_at_all:run", "the module nowhere_at_all was not found"),
        ("json:nothing", "json has no nothing"),
        ("openai:x", "names no model"),
    ],
)
def test_an_agent_that_cannot_be_loaded_starts_nothing(refused, data, agent, words):
    code, said = refused("--port", "0", "--agent", agent)
    assert code == 2
    assert words in said
    assert not data.exists()


def test_an_agent_of_the_settings_that_cannot_be_loaded_starts_nothing(refused, data):
    data.mkdir(mode=0o700)
    (data / "config.toml").write_text('[agent]\nbehaviour = "json:nothing"\n')
    code, _ = refused("--port", "0")
    assert code == 2
    assert [path.name for path in data.iterdir()] == ["config.toml"]


def test_a_taken_default_port_moves_and_says_so(start):
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):  # taken by somebody else: just as well
            held.enter_context(socket.create_server(("127.0.0.1", DEFAULT_PORT)))
        node = start()
        lines = [node.stdout.readline() for _ in range(4)]
        assert any(line.startswith(f"note: port {DEFAULT_PORT} was taken") for line in lines)
        assert get(lines[3].split()[-1] + "/healthz")[0] == 200
        assert stop(node)[0] == 0


def test_a_taken_port_that_was_asked_for_is_refused(refused, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, words = refused("--port", port)
        assert code == 2
        assert f"port {port} on 127.0.0.1 is taken" in words
        monkeypatch.setenv("COMITY_PORT", str(port))
        assert refused() == (code, words)


def test_a_folder_that_cannot_be_used_is_refused(refused, tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    code, words = refused("--data", file)
    assert code == 1
    assert f"{file} is not a folder" in words
    assert file.read_text() == "mine"

    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    code, words = refused("--data", shared)
    assert code == 1
    assert "chmod 700" in words
    assert list(shared.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read every folder")
def test_a_folder_without_permission_is_refused(refused, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o000)
    code, _ = refused("--data", closed)
    closed.chmod(0o700)
    assert code != 0


def by_a_newer_release(database):
    load_checksums()
    connection = apsw.Connection(str(database), vfs=CHECKSUMMED_VFS)
    connection.pragma("user_version", 99)
    connection.close()


def with_flipped_bytes(database):
    sound = database.read_bytes()
    database.write_bytes(sound[:20_000] + b"\xaa" * 100 + sound[20_100:])


def cut_in_half(database):
    sound = database.read_bytes()
    database.write_bytes(sound[: len(sound) // 2])


def of_another_kind(database):
    database.write_bytes(b"not a database, but long enough to look like one" * 50)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (by_a_newer_release, "was written by a newer release (schema 99"),
        (with_flipped_bytes, "is damaged"),
        (cut_in_half, "is damaged"),
        (of_another_kind, "is damaged"),
    ],
)
def test_a_database_that_cannot_be_used_is_refused_and_left_as_it_is(refused, record, data, written, words):
    record(5)
    written(data / "comity.db")
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    code, said = refused("--port", "0")
    assert code == 1
    assert words in said
    assert {path: path.read_bytes() for path in before} == before


def test_a_sealed_identity_needs_its_passphrase(start, refused, data, tmp_path, monkeypatch):
    create_identity(data, passphrase="correct horse", cost=SealingCost(passes=1, memory=8 * 1024))
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    code, words = refused("--port", "0")
    assert code == 2
    assert "use --passphrase-file FILE" in words
    secret = tmp_path / "pass.txt"
    secret.write_text("correct horse\n")
    secret.chmod(0o600)
    node = start("--port", "0", "--json", "--passphrase-file", secret)
    assert json.loads(node.stdout.readline())["ready"]
    assert stop(node)[0] == 0


def test_a_passphrase_for_an_identity_that_is_not_sealed_is_refused(refused, identity, tmp_path):
    secret = tmp_path / "pass.txt"
    secret.write_text("anything\n")
    secret.chmod(0o600)
    code, words = refused("--port", "0", "--passphrase-file", secret)
    assert code == 1
    assert "is not encrypted with a passphrase" in words


def test_a_node_lets_its_threads_change_places_soon_and_the_library_does_not(comity, monkeypatch, tmp_path):
    async def at_once(_node):
        """It stops by itself."""

    given = []
    monkeypatch.setattr("comity.node.commands.up.write_logs", lambda *_, **__: None)
    monkeypatch.setattr("comity.node.node.Node.wait_stopped", at_once)
    monkeypatch.setattr(sys, "setswitchinterval", given.append)
    assert comity("up", "--port", "0", "--data", str(tmp_path / "d")).code == 0
    assert given == [SWITCH_SECONDS]
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from comity.node.node import Node; print(sys.getswitchinterval())",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(result.stdout) > SWITCH_SECONDS


def test_what_to_type_next_works_from_anywhere(monkeypatch, tmp_path):
    from comity.node.commands import up

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["bin dir/comity"])
    assert up._typed() == f"'{tmp_path}/bin dir/comity'"
    monkeypatch.setattr("sys.argv", ["-m"])
    assert up._typed() == f"{sys.executable} -m comity"
    (tmp_path / "comity").write_text("#!/bin/sh\n")
    (tmp_path / "comity").chmod(0o755)
    assert up._typed() == "comity"


@pytest.fixture
def on_terminal(environ):
    """Start a node whose stdout and stderr are a terminal; what comes back waits until that shows a text."""
    opened = []

    def start(*arguments):
        ours, theirs = pty.openpty()
        node = subprocess.Popen(
            [*COMITY, "up", "--port", "0", *arguments],
            env={**environ, "COLUMNS": "120"},
            stdout=theirs,
            stderr=theirs,
            text=True,
        )
        os.close(theirs)
        shown = ""

        def until(text):
            nonlocal shown
            deadline = time.monotonic() + DEADLINE
            while text not in shown:
                ready, _, _ = select.select([ours], [], [], max(0.0, deadline - time.monotonic()))
                assert ready, shown
                shown += os.read(ours, 65536).decode()
            return shown

        opened.append((node, ours))
        return node, until

    yield start
    for node, ours in opened:
        node.kill()
        node.wait()
        os.close(ours)


def ping(url, data):
    token = (data / "token").read_text().strip()
    asked = urllib.request.Request(
        f"{url}/v1/ping", method="POST", headers={"authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(asked, timeout=5) as answer:
        return answer.headers["x-request-id"]


def test_a_terminal_shows_each_act_once_and_quiet_shows_none(on_terminal, data):
    node, until = on_terminal()
    url = re.search(r"http://127\.0\.0\.1:\d+", until("Ctrl-C"))[0]
    request = ping(url, data)
    shown = until("ping answered")
    assert shown.count("ping answered") == 1
    assert "comity.acts" not in shown  # the log does not tell it again
    assert "\x1b[32mping answered" in until(request)[-200:]
    node.terminate()
    assert "Stopped." in until("Stopped.")
    assert node.wait(DEADLINE) == 0

    node, until = on_terminal("--quiet")
    url = re.search(r"http://127\.0\.0\.1:\d+", until("Ctrl-C"))[0]
    ping(url, data)
    node.terminate()
    shown = until("Stopped.")
    assert "ping" not in shown
    assert "comity.acts" not in shown


def test_at_warning_no_act_is_logged(start, environ, data):
    environ["COMITY_LOG_LEVEL"] = "warning"
    node = start("--port", "0", "--json")
    ping(json.loads(node.stdout.readline())["url"], data)
    assert stop(node) == (0, "", [])


def test_with_log_json_each_act_is_one_json_object(start, environ, data):
    environ["COMITY_LOG_JSON"] = "true"
    node = start("--port", "0", "--json")
    request = ping(json.loads(node.stdout.readline())["url"], data)
    node.terminate()
    _, err = node.communicate(timeout=DEADLINE)
    lines = [json.loads(line) for line in err.splitlines()]
    assert [line["kind"] for line in lines] == ["NODE_STARTED", "PING_OK", "NODE_STOPPED"]
    assert (lines[1]["request"], lines[1]["who"]) == (request, "local:admin")
    assert {(line["level"], line["logger"]) for line in lines} == {("info", "comity.acts")}
