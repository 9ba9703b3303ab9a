"""The server on a real socket: it survives its peers, and it stops in order."""

import asyncio
import contextlib
import json
import socket
import ssl

import httpx
import pytest

from comity.http.server import HttpServer, PortTakenError
from comity.http.serving import ServerLimits
from comity.testing import bearer, running_node
from comity.wire.errors import ConfigError
from tests.certificates import self_signed

pytestmark = pytest.mark.usefixtures("patience")

QUICK = ServerLimits(patience=0.3)


async def hello(scope, receive, send):
    answer = scope["path"].encode()
    size = str(len(answer)).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", size)]})
    await send({"type": "http.response.body", "body": answer})


@contextlib.asynccontextmanager
async def serving(app=hello, *, shutdown_seconds=1.0, limits=QUICK, **named):
    server = HttpServer(
        "127.0.0.1", 0, cert=named.pop("cert", None), key=named.pop("key", None), limits=limits
    )
    try:
        await server.start(app, shutdown_seconds=shutdown_seconds, **named)
        yield server
    finally:
        await server.stop()


async def talk(port, *chunks, read=True):
    """Send, and read until the other side closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for chunk in chunks:
            writer.write(chunk)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
        with contextlib.suppress(ConnectionError):
            return await reader.read() if read else b""
    finally:
        writer.close()
    return b""


def port_of(node):
    return int(node.url.rpartition(":")[2])


async def healthy(url):
    async with httpx.AsyncClient() as client:
        return (await client.get(f"{url}/healthz")).json() == {"ok": True}


HEAD = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
PING = b"POST /v1/ping HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"

ATTACKS = {
    "garbage": ([b"\0\xff\x16\x03garbage\r\n\r\n"], b" 400 "),
    "a huge header": ([HEAD + b"x: " + b"a" * 200_000 + b"\r\n\r\n"], b" 431 "),
    "ten thousand headers": ([HEAD + b"a: b\r\n" * 10_000 + b"\r\n"], b" 431 "),
    "a huge target": ([b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n"], b" 431 "),
    "a body that says it is too large": (
        [PING + b"connection: close\r\ncontent-length: 2000000\r\n\r\n", b"x" * 2_000_000],
        b" 413 ",
    ),
    "a body too large without saying so": (
        [PING + b"authorization: {token}\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"]
        + [b"10000\r\n" + b"x" * 0x10000 + b"\r\n"] * 20
        + [b"0\r\n\r\n"],
        b" 413 ",
    ),
    "a body longer than it says": (
        [PING + b"authorization: {token}\r\ncontent-length: 2\r\n\r\n{}garbage\r\n\r\n"],
        b" 200 ",
    ),
    "two hosts": ([HEAD + b"host: evil.example\r\nconnection: close\r\n\r\n"], b" 400 "),
    "no host": ([b"GET /healthz HTTP/1.1\r\nconnection: close\r\n\r\n"], b" 400 "),
    "an old version": ([b"GET /healthz HTTP/1.0\r\nhost: localhost\r\n\r\n"], b" 200 "),
    "deep json": (
        [
            PING
            + b"authorization: {token}\r\nconnection: close\r\ncontent-length: 200000\r\n\r\n"
            + b"[" * 200_000
        ],
        b" 400 ",
    ),
    "an upgrade": ([HEAD + b"connection: upgrade\r\nupgrade: websocket\r\n\r\n"], b" 200 "),
}


@pytest.mark.parametrize("attack", ATTACKS)
async def test_the_node_answers_as_before_after(attack):
    chunks, status = ATTACKS[attack]
    async with running_node() as node:
        token = bearer(node)["Authorization"].encode()
        answer = await talk(port_of(node), *(chunk.replace(b"{token}", token) for chunk in chunks))
        assert status in answer.partition(b"\r\n")[0] + b" "
        if status != b" 200 ":
            assert set(json.loads(answer.partition(b"\r\n\r\n")[2])) == {"detail", "code"}
        assert await healthy(node.url)


async def test_paths_in_every_spelling_stay_closed_to_strangers():
    targets = [
        b"/v1/status",
        b"//v1/status",
        b"/v1//status",
        b"/healthz/../v1/status",
        b"/healthz/..%2fv1/status",
        b"/healthz%2f..%2fv1%2fstatus",
        b"/enter/../v1/status",
        b"/enter/%2e%2e/v1/status",
        b"/enter/..%2f..%2fv1%2fstatus",
        b"/assets/../v1/status",
        b"/assets/..%2f..%2fserver.py",
        b"/assets/%2e%2e/%2e%2e/v1/status",
        b"/%76%31/%73tatus",
        b"/v1/status/",
        b"/v1/status?x=/healthz",
        b"/v1/status#/healthz",
        b"/v1/status%00/healthz",
        b"/v1/status;/healthz",
        b"/v1%2fstatus",
        b"http://localhost/v1/status",
        b"http://localhost/healthz/../v1/status",
        b"http://evil.example/v1/status",
        b"\\v1\\status",
        b"/metrics",
        b"/",
        b"/?/healthz",
    ]
    async with running_node() as node:
        secret = node.vacant_id.hex().encode()
        for target in targets:
            request = b"GET " + target + b" HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
            answer = await talk(port_of(node), request)
            assert answer[9:12] in (b"400", b"401", b"403", b"404"), (target, answer)
            assert secret not in answer
            assert b"comity_build" not in answer


async def test_requests_sent_together_and_one_after_another_are_all_answered():
    request = b"GET /%d HTTP/1.1\r\nhost: localhost\r\n"
    async with serving() as server:
        answer = await talk(
            server.port,
            *(request % n + b"\r\n" for n in range(100)),
            request % 100 + b"connection: close\r\n\r\n",
        )
    parts = answer.split(b"\r\n\r\n/")[1:]
    assert [int(part.split(b"HTTP")[0]) for part in parts] == list(range(101))
    assert answer.count(b"date: ") == 101


async def test_two_hundred_connections_are_served_at_once():
    async with running_node() as node:
        ping = (
            PING + b"authorization: %b\r\ncontent-length: 17\r\n\r\n" % bearer(node)["Authorization"].encode()
        )
        peers = [await asyncio.open_connection("127.0.0.1", port_of(node)) for _ in range(200)]
        for _ in range(2):  # the second time on the same connections
            for number, (_, writer) in enumerate(peers):
                writer.write(ping + b'{"nonce":"%05d"}' % number)
            for number, (reader, _) in enumerate(peers):
                assert b" 200 " in await reader.readline()
                head = await reader.readuntil(b"\r\n\r\n")
                size = int(head.partition(b"content-length: ")[2].split()[0])
                assert json.loads(await reader.readexactly(size))["pong"] == f"{number:05}"
        for _, writer in peers:
            writer.close()


async def test_slow_and_silent_peers_are_given_up_and_do_not_keep_others_waiting():
    refused = []
    async with serving(refused=refused.append) as server:
        quiet = asyncio.create_task(talk(server.port))
        half = asyncio.create_task(talk(server.port, b"GET / HT"))
        body = asyncio.create_task(
            talk(server.port, b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhalf")
        )
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"{server.url}/first")).text == "/first"
            assert await quiet == b""
            assert b" 408 " in await half
            await body
            assert (await client.get(f"{server.url}/second")).text == "/second"
    assert refused.count("deadline") == 2


async def test_a_peer_that_drips_bytes_is_given_up():
    async with serving() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)

        async def drip():
            with contextlib.suppress(ConnectionError):
                for byte in b"GET / HTTP/1.1\r\nx: " + b"a" * 10_000:
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(0.01)

        dripping = asyncio.create_task(drip())
        assert b" 408 " in await asyncio.wait_for(reader.read(), 5)
        dripping.cancel()
        writer.close()


async def test_a_peer_that_takes_nothing_of_a_large_answer_is_given_up():
    began, ended = asyncio.Event(), asyncio.Event()

    async def large(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        began.set()
        gone = asyncio.create_task(wait_for_end(receive))
        while not gone.done():
            await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
        ended.set()

    async def wait_for_end(receive):
        while (await receive())["type"] != "http.disconnect":
            pass

    async with serving(large) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await began.wait()
        await asyncio.wait_for(ended.wait(), 5)
        writer.transport.abort()


async def test_one_connection_too_many_is_told_so():
    async with serving(limits=ServerLimits(connections=5)) as server:
        inside = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(5)]
        for _, writer in inside:
            writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        for reader, _ in inside:
            assert b" 200 " in await reader.readline()
        answer = await talk(server.port)
        assert b" 503 " in answer.partition(b"\r\n")[0]
        assert b'"overloaded"' in answer
        inside[0][1].close()
        while b" 503 " in (answer := await talk(server.port, b"GET / HTTP/1.0\r\n\r\n")):
            pass
        assert b" 200 " in answer
        for _, writer in inside:
            writer.close()


async def test_a_client_that_leaves_in_the_middle_of_a_body_is_no_trouble(caplog):
    async with running_node() as node:
        token = bearer(node)["Authorization"].encode()
        head = PING + b"authorization: " + token + b"\r\ncontent-length: 100\r\n\r\n{"
        for _ in range(20):
            await talk(port_of(node), head, read=False)
        assert await healthy(node.url)
        async with httpx.AsyncClient(base_url=node.url, headers=bearer(node)) as client:
            async with asyncio.timeout(10):  # a hang-up is noticed when the connection is read again
                while 'outcome="hung_up",room="http"} 20.0' not in (await client.get("/metrics")).text:  # noqa: ASYNC110 - nobody is told
                    await asyncio.sleep(0.01)
    assert [record for record in caplog.records if record.name.startswith("comity")] == []


def test_it_is_the_same_on_the_loop_that_the_command_uses():
    uvloop = pytest.importorskip("uvloop")

    async def story():
        refused = []
        async with serving(refused=refused.append) as server:
            wanted = [
                b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n",
                b"GET /b HTTP/1.1\r\nhost: x\r\n\r\ngarbage\r\n\r\n",
            ]
            answer = await talk(server.port, *wanted)
            assert answer.count(b" 200 OK") == 2
            large = b"POST / HTTP/1.1\r\nconnection: close\r\ncontent-length: 3000000\r\n\r\n"
            assert (await talk(server.port, large, b"x" * 3_000_000)).endswith(b"/")
            assert b" 431 " in await talk(server.port, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 10_000 + b"\r\n")
            assert b" 408 " in await talk(server.port, b"GET / HT")
        assert refused == ["malformed", "too_large", "deadline"]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(story(), 10))


async def test_what_is_under_way_is_finished_before_it_stops_and_nothing_new_is_taken():
    began, go_on = asyncio.Event(), asyncio.Event()

    async def slow(scope, receive, send):
        began.set()
        await go_on.wait()
        await hello(scope, receive, send)

    async with serving(slow, shutdown_seconds=5, limits=ServerLimits()) as server:
        idle = await asyncio.open_connection("127.0.0.1", server.port)
        under_way = asyncio.create_task(talk(server.port, b"GET /mine HTTP/1.1\r\nhost: x\r\n\r\n"))
        await began.wait()
        stopping = asyncio.create_task(server.stop())
        assert await idle[0].read() == b""
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", server.port)
        assert not stopping.done()
        go_on.set()
        answer = await under_way
        assert answer.endswith(b"/mine")
        assert b"connection: close" in answer
        await stopping
        idle[1].close()


async def test_what_does_not_finish_in_time_is_ended(caplog):
    began = asyncio.Event()
    ended = []

    async def forever(scope, receive, send):
        began.set()
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.01)  # giving something back takes a moment, and is waited for
            ended.append(scope["path"])

    loop = asyncio.get_running_loop()
    async with serving(forever, shutdown_seconds=0.05, limits=ServerLimits()) as server:
        under_way = asyncio.create_task(talk(server.port, b"GET /mine HTTP/1.1\r\nhost: x\r\n\r\n"))
        await began.wait()
        asked = loop.time()
    assert ended == ["/mine"]
    assert loop.time() - asked < 2
    assert b" 500 " in await under_way


async def test_stopping_twice_and_stopping_what_never_started_are_both_fine():
    async with serving() as server:
        await server.stop()
    unused = HttpServer("127.0.0.1", 0, cert=None, key=None)
    await unused.stop()
    again = HttpServer("127.0.0.1", unused.port, cert=None, key=None)
    await again.stop()


def test_a_port_that_is_taken_is_told_by_its_number():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"port {port} on 127.0.0.1 is taken; choose another"):
            HttpServer("127.0.0.1", port, cert=None, key=None)


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "2001:db8::1"])
def test_an_address_that_is_not_ours_is_told(host):
    with pytest.raises(ConfigError, match="is not an address of this machine"):
        HttpServer(host, 0, cert=None, key=None)


def test_an_ipv6_address_is_written_as_in_a_url():
    try:
        server = HttpServer("::1", 0, cert=None, key=None)
    except ConfigError:
        pytest.skip("this machine has no IPv6")
    assert server.url == f"http://[::1]:{server.port}"
    server._socket.close()


def certificate(folder, password=None):
    _, certificate, key = self_signed("localhost", "127.0.0.1", password=password)
    cert_file, key_file = folder / "cert.pem", folder / "key.pem"
    cert_file.write_bytes(certificate)
    key_file.write_bytes(key)
    return cert_file, key_file


async def test_it_speaks_tls_with_a_certificate_of_its_owner(tmp_path):
    cert, key = certificate(tmp_path)
    trusting = ssl.create_default_context(cafile=str(cert))
    async with (
        serving(cert=cert, key=key, limits=ServerLimits()) as server,
        httpx.AsyncClient(verify=trusting) as client,
    ):
        assert server.url.startswith("https://127.0.0.1:")
        assert (await client.get(f"{server.url}/hello")).text == "/hello"
        trusting.maximum_version = ssl.TLSVersion.TLSv1_2
        trusting.set_ciphers("ECDHE+AESGCM")
        async with httpx.AsyncClient(verify=trusting) as older:
            assert (await older.get(f"{server.url}/older")).text == "/older"
        assert b" 200 " not in await talk(server.port, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")


async def test_a_tls_handshake_that_does_not_go_on_is_given_up(tmp_path):
    cert, key = certificate(tmp_path)
    async with serving(cert=cert, key=key) as server:
        assert await talk(server.port, b"\x16\x03\x01") == b""


@pytest.mark.parametrize("fault", ["no certificate", "no key", "not PEM", "another key", "a locked key"])
async def test_a_certificate_that_cannot_be_used_is_told_and_the_port_is_free_again(fault, tmp_path):
    cert, key = certificate(tmp_path, b"secret" if fault == "a locked key" else None)
    if fault == "no certificate":
        cert.unlink()
    if fault == "no key":
        key.unlink()
    if fault == "not PEM":
        cert.write_text("hello")
    if fault == "another key":
        (tmp_path / "other").mkdir()
        key = certificate(tmp_path / "other")[1]
    with pytest.raises(
        ConfigError, match=r"the TLS certificate or key cannot be used \(.*\); check tls.cert"
    ):
        async with serving(cert=cert, key=key):
            pass
