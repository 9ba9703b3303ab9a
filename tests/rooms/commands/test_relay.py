"""`comity relay` as a person or a service manager sees it: in a process of its own."""

import asyncio
import hashlib
import json
import signal
import ssl
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from comity.rooms.client import dial_relay, read_relay
from comity.rooms.protocol.relay_line import read_relay_line
from comity.wire.errors import ComityError
from tests.rooms.relay_scene import certificate

COMITY = [sys.executable, "-m", "comity"]
DEADLINE = 20


@pytest.fixture
def start(environ):
    started = []

    def start(*arguments):
        relay = subprocess.Popen(
            [*COMITY, "relay", *map(str, arguments)],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(relay)
        return relay

    yield start
    for relay in started:
        if relay.poll() is None:
            relay.kill()
        relay.communicate()


async def joined(url, **options):
    async with connect(url, proxy=None, **options) as socket:
        await socket.send('{"request":"joinroom","roomid":"r"}')
        return json.loads(await socket.recv())


def test_it_says_where_it_is_serves_and_stops_when_asked(start):
    relay = start("--port", "0", "--json")
    ready = json.loads(relay.stdout.readline())
    assert ready["ready"] is True
    assert ready["url"].startswith("ws://127.0.0.1:")
    assert asyncio.run(joined(ready["url"])) == {"request": "listing", "list": []}
    base = ready["url"].replace("ws", "http", 1).removesuffix("/signal")
    with urllib.request.urlopen(base + "/healthz", timeout=5) as answer:
        assert json.loads(answer.read()) == {"ok": True}
    with pytest.raises(urllib.error.HTTPError) as missing:
        urllib.request.urlopen(base + "/", timeout=5)
    assert missing.value.code == 404
    assert "/signal" in json.loads(missing.value.read())["detail"]
    with pytest.raises(InvalidStatus):
        asyncio.run(joined(ready["url"], origin="https://example.org"))
    relay.send_signal(signal.SIGTERM)
    out, err = relay.communicate(timeout=DEADLINE)
    assert (relay.returncode, out, err) == (0, "", "")


def test_to_a_person_it_prints_its_address(start):
    relay = start("--port", "0")
    assert "running" in relay.stdout.readline()
    assert "ws://127.0.0.1:" in relay.stdout.readline()
    relay.send_signal(signal.SIGINT)
    relay.communicate(timeout=DEADLINE)
    assert relay.returncode == 0


def test_it_serves_others_with_tls_and_a_token_that_it_makes_itself(start, tmp_path):
    made = certificate(tmp_path)
    token_file = tmp_path / "token"
    relay = start(
        "--host", "0.0.0.0", "--port", "0", "--tls-cert", made.cert, "--tls-key", made.key,
        "--token-file", token_file, "--name", "relay.example.org", "--json",
    )  # fmt: skip
    url = json.loads(relay.stdout.readline())["url"].replace("relay.example.org", "127.0.0.1")
    assert url.startswith("wss://127.0.0.1:")
    assert stat.S_IMODE(token_file.stat().st_mode) == 0o600
    trusting = ssl.create_default_context(cafile=made.cert)
    with pytest.raises(InvalidStatus, match="401"):
        asyncio.run(joined(url, ssl=trusting))
    bearer = {"Authorization": f"Bearer {token_file.read_text().strip()}"}
    assert asyncio.run(joined(url, ssl=trusting, additional_headers=bearer))["request"] == "listing"
    here = {"host": "127.0.0.1", "server_hostname": "localhost", "ssl": trusting}
    named = url.replace("127.0.0.1", "relay.example.org")
    assert asyncio.run(joined(named, additional_headers=bearer, **here))["request"] == "listing"
    with pytest.raises(InvalidStatus, match="403"):
        asyncio.run(joined(named.replace("relay", "other"), additional_headers=bearer, **here))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--tls-cert", "c"], "give both or neither"),
        (["--port", "x"], "--port must be a whole number"),
        (["--port", "65536"], "--port must be a whole number"),
        (["--port", "-1"], "--port must be a whole number"),
        (["--line", "a b"], "letters"),
        (["--line", "bob", "--port", "0"], "--line needs the port"),
        (["--address", "relay.example"], "--address"),
    ],
)
def test_what_cannot_work_is_refused_with_a_sentence(comity, arguments, words):
    outcome = comity("relay", *arguments)
    assert outcome.code == 2
    assert words in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_port_that_is_taken_is_told(start, comity):
    relay = start("--port", "0", "--json")
    port = json.loads(relay.stdout.readline())["url"].split(":")[2].split("/")[0]
    outcome = comity("relay", "--port", port)
    assert outcome.code == 2
    assert f"port {port} on 127.0.0.1 is taken" in outcome.err


def test_for_other_machines_it_makes_a_certificate_and_a_line_by_itself(start, tmp_path):
    relay = start(
        "--host", "0.0.0.0", "--address", "127.0.0.1", "--port", "0", "--data", tmp_path / "r", "--json"
    )
    ready = json.loads(relay.stdout.readline())
    line = read_relay_line(ready["line"])
    assert line.url == ready["url"]
    assert line.pin is not None
    for file in ("relay-secret", "tls-key.pem"):
        assert stat.S_IMODE((tmp_path / "r" / "relay" / file).stat().st_mode) == 0o600
    target = read_relay(line.url, None, line.pin)
    with pytest.raises(ComityError, match="401"):
        asyncio.run(dialled(target))
    asyncio.run(dialled(read_relay(line.address(time.time() + 60), None, line.pin)))
    for wrong in (line.address(time.time() - 60), line.address(time.time() + 60).replace("everybody", "eve")):
        with pytest.raises(ComityError, match="403"):
            asyncio.run(dialled(read_relay(wrong, None, line.pin)))
    with pytest.raises(ComityError, match="certificate"):
        asyncio.run(
            dialled(read_relay(line.address(time.time() + 60), None, hashlib.sha256(b"other").hexdigest()))
        )


async def dialled(target):
    connection = await dial_relay(target)
    await connection.close()


def test_a_line_for_a_name_works_with_the_relay_that_runs_and_with_no_other_name(start, comity, tmp_path):
    folder = tmp_path / "r"
    relay = start("--port", "0", "--data", folder, "--json")
    port = json.loads(relay.stdout.readline())["url"].split(":")[2].split("/")[0]
    outcome = comity("relay", "--line", "bob", "--port", port, "--data", folder)
    line = read_relay_line(outcome.out)
    assert line.name == "bob"
    asyncio.run(dialled(read_relay(line.address(time.time() + 60))))
    forged = line.address(time.time() + 60).replace("bob", "ann")
    with pytest.raises(ComityError, match="403"):
        asyncio.run(dialled(read_relay(forged)))
    assert read_relay_line(comity("relay", "--line", "bob", "--port", port, "--data", folder).out) == line
