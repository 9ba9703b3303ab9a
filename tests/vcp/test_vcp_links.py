"""The addresses of servers, and the client on real sockets: WebSocket and TCP on 127.0.0.1, with and without TLS."""

import asyncio
import contextlib
import json
import ssl

import pytest

from comity.vcp.client import VcpClient, dial
from comity.vcp.client_session import VcpRefusedError
from comity.vcp.client_targets import read_target
from comity.vcp.protocol.messages import PERSONAL
from comity.wire.errors import NoAnswerError, TargetRefusedError, UnreachableError, UnusableAnswerError
from comity.wire.link import LinkClosed
from tests.certificates import self_signed
from tests.http.local_server import reply, serving
from tests.ports import unused_port
from tests.vcp.protocol.negotiation_samples import WIRE
from tests.vcp.vcp_scene import OurServer, Script, ack, line_server, real, websocket_server

pytestmark = pytest.mark.usefixtures("patience")

CARRIERS = [websocket_server, line_server]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Self-signed, for 127.0.0.1."""
    _, certificate, key = self_signed("127.0.0.1")
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    path.write_bytes(key + certificate)
    return path


@pytest.fixture
def server_tls(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@pytest.fixture
def free_port():
    return unused_port()


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_a_session_with_our_server(carrier):
    server = real(OurServer)
    async with carrier(server.serve) as url:
        async with VcpClient.connect(url, extensions=[PERSONAL]) as session:
            assert session.extensions == (PERSONAL,)
            answer = await session.send_context({"categorical": {"wire": WIRE}, "strange": 1})
            assert answer.message["accepted"] == ["categorical"]
            assert [ignored.field for ignored in answer.withheld] == ["strange"]
        async with VcpClient.connect(url) as session:
            assert session.extensions == ()


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_an_error_over_the_wire(carrier):
    async with carrier(real(OurServer, identity="required").serve) as url:
        with pytest.raises(VcpRefusedError, match="IDENTITY_REQUIRED"):
            async with VcpClient.connect(url, extensions=[PERSONAL]):
                pass


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_over_tls_the_certificate_is_checked(carrier, certificate, server_tls):
    trusting = ssl.create_default_context(cafile=str(certificate))
    async with carrier(real(OurServer).serve, ssl=server_tls) as url:
        async with VcpClient.connect(url, tls=trusting) as session:
            assert session.version == "3.1"
        with pytest.raises(UnusableAnswerError, match="not trusted"):
            await VcpClient.connect(url).__aenter__()
        with pytest.raises(UnusableAnswerError, match="not trusted"):
            await VcpClient.connect(url.replace("127.0.0.1", "localhost"), tls=trusting).__aenter__()


@pytest.mark.parametrize("scheme", ["ws", "tcp"])
async def test_nobody_there_is_one_sentence(scheme, free_port):
    with pytest.raises(UnreachableError, match=f"127.0.0.1 port {free_port} cannot be reached: nobody"):
        await VcpClient.connect(f"{scheme}://127.0.0.1:{free_port}", attempts=1).__aenter__()


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("404 Not Found", UnusableAnswerError),
        ("200 OK", UnusableAnswerError),
        ("403 Forbidden", UnusableAnswerError),
        ("503 Busy", UnreachableError),
    ],
)
async def test_an_address_without_a_door_is_told_by_its_status(status, kind):
    async with serving(lambda _: reply(status=status)) as server:
        with pytest.raises(kind, match=status[:3]):
            await VcpClient.connect(server.url("/vcp", scheme="ws"), attempts=1).__aenter__()


async def test_redirects_are_not_followed():
    async with websocket_server(real(Script, ack()).serve) as elsewhere:
        moved = reply(status="307 Temporary Redirect", headers=f"location: {elsewhere}\r\n")
        async with serving(lambda _: moved) as server:
            with pytest.raises(UnusableAnswerError, match="307"):
                await VcpClient.connect(server.url("/vcp", scheme="ws")).__aenter__()


async def test_no_proxy_of_the_environment_hears_a_hello(monkeypatch, free_port):
    for name in ("http_proxy", "https_proxy", "all_proxy", "ws_proxy", "wss_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port}")
    monkeypatch.setenv("no_proxy", "")
    async with websocket_server(real(OurServer).serve) as url, VcpClient.connect(url, attempts=1) as session:
        assert session.version == "3.1"


async def test_something_that_speaks_no_websocket_is_of_no_use():
    async def babble(_reader, writer):
        writer.write(b"SSH-2.0-server\r\n")
        await writer.drain()
        writer.close()

    async with serving(babble) as server:
        with pytest.raises((UnusableAnswerError, UnreachableError)):
            await VcpClient.connect(server.url("/vcp", scheme="ws"), attempts=1).__aenter__()


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_a_server_that_hangs_up_is_told_as_an_end(carrier):
    async with carrier(real(Script, None).serve) as url:
        with pytest.raises(NoAnswerError, match="the connection ended"):
            await VcpClient.connect(url, attempts=1).__aenter__()


async def test_lines_are_read_with_either_end_and_blank_ones_are_nothing():
    async def handle(reader, writer):
        assert (await reader.readline()).endswith(b"}\n")
        writer.write(b"\r\n\n" + json.dumps(ack()).encode() + b"\r\n")
        await reader.readline()
        writer.write(b'{"a":1}')  # the last line, without its end
        writer.write_eof()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        url = f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with VcpClient.connect(url, attempts=1) as session:
            assert (await session.send_context({"categorical": WIRE})).message == {"a": 1}


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_a_message_beyond_the_limit_ends_the_connection(carrier):
    async def flood(link):
        await link.receive()
        with contextlib.suppress(Exception):
            await _raw(link, b'{"pad":"' + b"x" * (1 << 20) + b'"}')
            await link.receive()

    async with carrier(flood) as url:
        with pytest.raises(NoAnswerError, match="the connection ended"):
            await VcpClient.connect(url, attempts=1).__aenter__()


async def _raw(link, message):
    """Past the limit of our own links."""
    if hasattr(link, "_writer"):
        link._writer.write(message + b"\n")
        await link._writer.drain()
    else:
        await link.send(message)


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_whoever_is_cancelled_while_closing_leaves_no_connection_open(carrier):
    ended = asyncio.Event()

    async def wait_for_the_end(link):
        with contextlib.suppress(LinkClosed):
            await link.receive()
        ended.set()

    async with carrier(wait_for_the_end) as url:
        link = await dial(read_target(url))
        closing = asyncio.create_task(link.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        transport = (link._connection if hasattr(link, "_connection") else link._writer).transport
        assert transport.is_closing()
        await ended.wait()


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("ws://127.0.0.1:8420/vcp", "ws://127.0.0.1:8420/vcp"),
        ("WS://LOCALHOST:8420", "ws://localhost:8420/vcp"),
        ("ws://127.0.0.1:8420/", "ws://127.0.0.1:8420/"),
        ("ws://[::1]:8420/vcp?x=1", "ws://[::1]:8420/vcp?x=1"),
        ("wss://server.example/vcp", "wss://server.example:443/vcp"),
        ("http://127.0.0.1:8420", "ws://127.0.0.1:8420/vcp"),
        ("http://127.0.0.1:8420/", "ws://127.0.0.1:8420/vcp"),
        ("http://127.0.0.1/vcp", "ws://127.0.0.1:80/vcp"),
        ("https://server.example/node/", "wss://server.example:443/node/vcp"),
        ("https://server.example?x=1", "wss://server.example:443/vcp?x=1"),
        ("tcp://127.0.0.1:8421", "tcp://127.0.0.1:8421"),
        ("tcps://server.example:8421/", "tcps://server.example:8421"),
        ("tcp://[::1]:8421", "tcp://[::1]:8421"),
    ],
)
def test_an_address_is_written_in_one_way(written, spoken):
    assert read_target(written).url == spoken


@pytest.mark.parametrize(
    "written",
    [
        "",
        "127.0.0.1:8420",
        "ftp://127.0.0.1/",
        "ws://",
        "ws://user:secret@127.0.0.1:8420/vcp",
        "ws://127.0.0.1:99999/vcp",
        "ws://127.0.0.1:8420/a b",
        "ws://127.0.0.1:8420/a\nb",
        "ws://0x7f000001:8420/vcp",
        "tcp://127.0.0.1",
        "tcp://[::1]",
        "tcp://127.0.0.1:8421/vcp",
        "tcp://127.0.0.1:8421?x",
    ],
)
def test_what_is_no_address_of_a_server_is_refused_with_a_sentence(written):
    with pytest.raises(TargetRefusedError) as refusal:
        read_target(written)
    assert len(refusal.value.message) > 20
    assert "secret" not in refusal.value.message


@pytest.mark.parametrize(
    ("written", "better"),
    [
        ("ws://server.example/vcp", "wss://"),
        ("http://server.example", "https://"),
        ("tcp://192.0.2.1:8421", "tcps://"),
        ("ws://127.0.0.1.example/vcp", "wss://"),
    ],
)
def test_in_the_clear_we_speak_to_this_machine_only_unless_allowed(written, better):
    with pytest.raises(TargetRefusedError, match=f"use {better}"):
        read_target(written)
    assert not read_target(written, allow_plain=True).secure
