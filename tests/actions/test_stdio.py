"""The server as a program that starts it sees it: in a process of its own."""

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from comity.testing.vectors import vector_file

COMITY = [sys.executable, "-m", "comity", "actions"]
SAMPLE = "tests.actions.sample_plugin"
UNKNOWN = b"""{"ok":false,"error":"Unknown action: 'x'. Call list_actions to see available actions."}\n"""
INVOKE_X = b'{"type":"invoke","payload":{"action":"x","input":{}}}\n'


def served(data, *arguments):
    return subprocess.run([*COMITY, *arguments], input=data, capture_output=True, timeout=60, check=False)


@contextlib.contextmanager
def serving(*arguments):
    process = subprocess.Popen(
        [*COMITY, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ask(process, line):
    process.stdin.write(line)
    process.stdin.flush()
    return process.stdout.readline()


def invoke(name, given, id_="a"):
    request = {"id": id_, "type": "invoke", "payload": {"action": name, "input": given}}
    return json.dumps(request).encode() + b"\n"


def test_vector_actions_ndjson_protocol_holds_over_pipes_in_one_stream():
    cases = vector_file("actions", "ndjson_protocol")
    sent = b"".join(base64.b64decode(case["send_b64"]).rstrip(b"\n") + b"\n" for case in cases)
    finished = served(sent, "--strict")
    assert finished.stdout.decode().splitlines() == [line for case in cases for line in case["recv_text"]]
    assert finished.returncode == 0


def test_the_banner_has_four_lines_and_the_end_of_the_input_ends_it_well():
    finished = served(INVOKE_X + INVOKE_X.rstrip())
    assert finished.returncode == 0
    assert finished.stdout == UNKNOWN * 2
    banner = finished.stderr.decode().splitlines()
    assert len(banner) == 4
    assert banner[1] == "Actions: 10 registered"


def test_thousands_of_lines_in_one_read_are_all_answered():
    finished = served(b"\n" * 5000 + INVOKE_X)
    assert finished.stdout == b'{"ok":false,"error":"Malformed JSON request"}\n' * 5000 + UNKNOWN


def test_nothing_asked_is_nothing_said():
    finished = served(b"")
    assert (finished.returncode, finished.stdout) == (0, b"")


def test_each_line_is_answered_while_the_stream_is_open():
    with serving() as process:
        for _ in range(3):
            assert ask(process, INVOKE_X) == UNKNOWN


@pytest.mark.parametrize("asked", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_well(asked):
    with serving() as process:
        ask(process, INVOKE_X)
        process.send_signal(asked)
        assert process.wait(10) == 0


def test_it_ends_when_nobody_reads_any_more():
    with serving() as process:
        ask(process, INVOKE_X)
        process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(INVOKE_X)
            process.stdin.flush()
        assert process.wait(10) == 0


def test_a_plugin_runs_behind_the_same_guard_and_prints_nothing_into_the_stream():
    lines = [
        invoke("greet", {"name": "Ada"}, "1"),
        invoke("greet", {"name": 5}, "2"),
        invoke("work_hard", {"do": "answer", "text": "t"}, "3"),
        invoke("work_hard", {"do": "raise"}, "4"),
        invoke("work_hard", {"do": "fetch"}, "5"),
        INVOKE_X,
    ]
    finished = served(b"".join(lines), "--enhanced", "--plugin", SAMPLE)
    replies = [json.loads(line) for line in finished.stdout.splitlines()]
    assert [reply.get("id") for reply in replies] == ["1", "2", "3", "4", "5", None]
    assert replies[0]["data"]["output"]["greeting"] == "Hello, Ada"
    assert replies[1]["error"] == "Input validation failed for action 'greet': 'name' must be a string"
    assert replies[2]["data"]["output"]["text"] == "t"
    assert replies[3]["error"] == "Internal error"
    assert replies[4]["data"]["output"]["failure"]
    assert finished.returncode == 0


def test_json_rpc_is_spoken_in_both_framings():
    body = b'{"jsonrpc":"2.0","id":1,"method":"invoke","params":{"action":"x","input":{}}}'
    lines = served(body + b"\n", "--jsonrpc", "--enhanced")
    assert json.loads(lines.stdout)["error"]["code"] == -32602
    frames = served(b"Content-Length: %d\r\n\r\n%b" % (len(body), body), "--jsonrpc")
    assert frames.stdout.startswith(b"Content-Length: ")


def test_a_gigantic_line_takes_no_memory():
    if not Path("/proc/self/status").exists():
        pytest.skip("the system does not tell how much memory a process takes")
    with serving() as process:
        ask(process, INVOKE_X)
        before = resident(process.pid)
        for _ in range(256):
            process.stdin.write(b"x" * 262_144)
        reply = ask(process, b"\n")
        assert reply == b'{"ok":false,"error":"Request exceeds maximum size (512 KB)"}\n'
        assert resident(process.pid) - before < 8 * 1024
        assert ask(process, INVOKE_X) == UNKNOWN


def test_a_slow_reader_is_waited_for():
    with serving() as process:
        process.stdin.write(INVOKE_X * 50)
        process.stdin.flush()
        deadline = time.monotonic() + 10
        got = b""
        while len(got) < len(UNKNOWN) * 50 and time.monotonic() < deadline:
            got += os.read(process.stdout.fileno(), 100)
        assert got == UNKNOWN * 50


def resident(pid):
    with Path(f"/proc/{pid}/status").open(encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
