"""The real process: its pipes, its signals, its end."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from comity.mcp.stdio import Outflow
from tests.mcp import garbage
from tests.mcp.conversing import call, decoded, frame, initialize, line, notify, request, said_by
from tests.mcp.processes import SECONDS, WORKSHOP, started
from tests.places import ROOT

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="what a process does is read from /proc")


def fed(data, **options):
    return subprocess.run(
        WORKSHOP, input=data, capture_output=True, cwd=ROOT, timeout=SECONDS, check=False, **options
    )


def test_a_whole_corpus_of_garbage_neither_ends_nor_pollutes_the_stream():
    pieces = list(garbage.pieces())
    lines = [body + b"\n" for _, body, _ in pieces]
    mixed = [frame(body, end) for end in (b"\r\n", b"\n") for _, body, _ in pieces]
    ended = fed(line(initialize()) + b"".join(lines + mixed) + line(request("last", "ping")))
    assert ended.returncode == 0
    answers = [message for _, message in decoded(ended.stdout)]
    assert sum(one.get("id") == "last" for one in answers) == 1
    expected = 3 * sum(outcome is not garbage.SILENCE for _, _, outcome in pieces) + 2
    assert sum("id" in one for one in answers) == expected
    assert b"Traceback" not in ended.stderr


def test_framed_answers_are_framed_and_lines_are_lines():
    ended = fed(line(request(1, "ping")) + frame(request(2, "ping")) + line(request(3, "ping")))
    assert [(framed, message["id"]) for framed, message in decoded(ended.stdout)] in (
        [(False, 1), (True, 2), (True, 3)],
        [(True, 1), (True, 2), (True, 3)],  # what counts is when an answer is written
    )
    assert ended.stdout.endswith(b'Content-Length: 36\r\n\r\n{"jsonrpc":"2.0","id":3,"result":{}}')


async def test_what_a_handler_prints_goes_to_stderr_and_what_it_reads_is_nothing():
    async with started(*WORKSHOP) as shop:
        assert said_by(await shop.ask(call(1, "shout", text="HEY"))) == "shouted"
        assert (await shop.ask(request(2, "ping")))["result"] == {}
        shop.end()
        code, out, err = await shop.over()
    assert (code, out) == (0, b"")
    assert "HEY" in err
    assert "and again" in err


async def test_a_call_that_runs_when_the_input_ends_is_cancelled_and_the_end_is_clean():
    async with started(*WORKSHOP) as shop:
        await shop.ask(initialize())
        shop.say(call(1, "wait"))
        shop.end()
        code, out, _ = await shop.over()
    assert (code, out) == (0, b"")


async def test_a_call_that_takes_its_time_is_answered_after_the_input_has_ended():
    async with started(*WORKSHOP) as shop:
        shop.say(initialize(), call(1, "unhurried"))
        shop.end()
        code, out, _ = await shop.over()
    assert code == 0
    assert [one["id"] for _, one in decoded(out) if "id" in one] == [0, 1]


async def test_a_signal_ends_the_wait_for_answers():
    async with started(*WORKSHOP) as shop:
        await shop.ask(initialize())
        shop.say(call(1, "wait"))
        shop.end()
        shop.signal(signal.SIGTERM)
        code, out, _ = await shop.over()
    assert (code, out) == (0, b"")


async def test_a_call_that_was_made_before_exit_is_answered():
    async with started(*WORKSHOP) as shop:
        shop.say(initialize(), call(1, "brief"), notify("exit"))
        code, out, _ = await shop.over()
    assert code == 0
    assert [one["id"] for _, one in decoded(out) if "id" in one] == [0, 1]


async def test_exit_ends_it_while_the_input_is_open():
    async with started(*WORKSHOP) as shop:
        await shop.ask(initialize())
        assert (await shop.ask(request(1, "shutdown")))["result"] == {}
        assert (await shop.ask(request(2, "ping")))["result"] == {}
        shop.say(notify("exit"))
        code, _, _ = await shop.over()
    assert code == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_at_once_and_in_order(number):
    async with started(*WORKSHOP) as shop:
        await shop.ask(initialize())
        shop.say(call(1, "wait"))
        await shop.ask(request(2, "ping"))
        shop.signal(number)
        code, out, err = await shop.over()
    assert (code, out) == (0, b"")
    assert "Traceback" not in err


@ON_LINUX
async def test_a_client_that_does_not_read_is_not_read_from():
    """It stops looking at requests long before it has to hold all the answers."""
    reader, writer = os.pipe()
    async with started(*WORKSHOP, stdout=writer, stderr=asyncio.subprocess.DEVNULL) as shop:
        os.close(writer)
        size, number = 500_000, 400
        shop.say(line(call(1, "repeat", times=size)) * number)
        await until_quiet(shop.pid)
        assert shop.resident() < 80_000_000
        shop.end()
        with os.fdopen(reader, "rb") as output:
            answered = await asyncio.to_thread(lambda: sum(len(answer) > size for answer in output))
        assert answered == number


async def until_quiet(pid):
    """Until the process has not used its processor for a while: it waits."""
    used = -1
    async with asyncio.timeout(SECONDS):
        while used != (used := processor_time(pid)):  # noqa: ASYNC110 - a process tells nobody
            await asyncio.sleep(0.3)


def processor_time(pid):
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


async def test_answers_reach_a_reader_that_takes_its_time():
    """What is left at the end may take longer than a moment, as long as some of it is read in each."""
    reader, writer = os.pipe()
    outflow = Outflow(writer)
    outflow.write(b"x" * 1_000_000)
    read = 0

    async def read_slowly():
        nonlocal read
        os.set_blocking(reader, False)
        while read < 1_000_000:
            with contextlib.suppress(BlockingIOError):
                read += len(os.read(reader, 1 << 16))
            await asyncio.sleep(0.03)  # a slow reader is what this is about

    reading = asyncio.create_task(read_slowly())
    await outflow.finish(0.2)
    async with asyncio.timeout(1):
        await reading
    os.close(reader)
    os.close(writer)
    assert read == 1_000_000


async def test_a_reader_that_has_stopped_is_given_up():
    reader, writer = os.pipe()
    outflow = Outflow(writer)
    outflow.write(b"x" * 1_000_000)
    async with asyncio.timeout(SECONDS):
        await outflow.finish(0.01)
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("lines", [1, 5000])
def test_the_input_may_be_a_file(tmp_path, lines):
    file = tmp_path / "requests"
    file.write_bytes(b"".join(line(request(number, "ping")) for number in range(lines)))
    with file.open("rb") as stdin:
        ended = subprocess.run(
            WORKSHOP, stdin=stdin, capture_output=True, cwd=ROOT, timeout=SECONDS, check=False
        )
    assert ended.returncode == 0
    assert [message["id"] for _, message in decoded(ended.stdout)] == list(range(lines))


def test_the_output_may_be_a_file_and_the_input_nothing(tmp_path):
    with (tmp_path / "out").open("wb") as stdout:
        ended = subprocess.run(
            WORKSHOP,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            timeout=SECONDS,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert (tmp_path / "out").read_bytes() == b""


def test_pipes_that_are_shared_block_again_in_the_end():
    reader, writer = os.pipe()
    try:
        ended = subprocess.run(
            WORKSHOP, input=line(request(1, "ping")), stdout=writer, cwd=ROOT, timeout=SECONDS, check=False
        )
        assert ended.returncode == 0
        assert os.get_blocking(writer)
        assert json.loads(os.read(reader, 1000))["id"] == 1
    finally:
        os.close(reader)
        os.close(writer)


@ON_LINUX
async def test_the_last_line_is_served_also_when_the_answers_before_it_are_unread():
    reader, writer = os.pipe()
    with tempfile.TemporaryFile() as requests:
        requests.write(line(call(1, "repeat", times=500_000)) * 20)
        requests.write(line(request(2, "ping")).rstrip(b"\n"))
        requests.seek(0)
        async with started(
            *WORKSHOP, stdin=requests, stdout=writer, stderr=asyncio.subprocess.DEVNULL
        ) as shop:
            os.close(writer)
            await until_quiet(shop.pid)
            with os.fdopen(reader, "rb") as output:
                answers = await asyncio.to_thread(output.readlines)
            assert await shop.wait() == 0
    assert [json.loads(answer)["id"] for answer in answers] == [1] * 20 + [2]


async def test_a_client_that_stopped_reading_for_good_is_no_failure():
    reader, writer = os.pipe()
    async with started(*WORKSHOP, stdout=writer, stderr=asyncio.subprocess.DEVNULL) as shop:
        os.close(writer)
        os.close(reader)
        shop.say(call(1, "repeat", times=100_000), request(2, "ping"))
        shop.end()
        async with asyncio.timeout(SECONDS):
            assert await shop.wait() == 0
