"""The way to a relay: what is dialled, what is refused, and what no stranger gets to see."""

import ssl

import pytest

from comity.http.pins import pinned_context
from comity.rooms.client import dial_relay, read_relay
from comity.rooms.protocol.relay import RelayLimits, SignallingRelay
from comity.wire.errors import ConfigError, UnreachableError, UnusableAnswerError
from comity.wire.link import LinkClosed
from tests.http.local_server import serving
from tests.rooms.relay_scene import certificate, running_relay

pytestmark = pytest.mark.usefixtures("patience")

JOIN = b'{"request":"joinroom","roomid":"r"}'
LISTING = b'{"request":"listing","list":[]}'


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "http://localhost/signal",
        "https://host",
        "ws://",
        "wss://",
        "ws://[bad",
        "wss://host:99999/",
        "wss://user@host/",
        "wss://host/#part",
    ],
)
def test_what_is_no_address_of_a_relay_is_refused(url):
    with pytest.raises(ConfigError, match="wss://host/signal"):
        read_relay(url)


def test_beyond_this_machine_only_tls_is_spoken():
    for url in (
        "ws://127.0.0.1:8420/signal",
        "ws://localhost/signal",
        "ws://[::1]:1/signal",
        "wss://relay.example.org",
    ):
        assert read_relay(url).url == url
    for url in (
        "ws://relay.example.org/signal",
        "ws://192.168.1.7:8420/signal",
        "ws://localhost.example.org/",
    ):
        with pytest.raises(ConfigError, match="must start with wss://"):
            read_relay(url)


@pytest.mark.parametrize(
    ("url", "sha256"), [("wss://h/", "ab"), ("wss://h/", "x" * 64), ("ws://127.0.0.1/", "ab" * 32)]
)
def test_a_fingerprint_that_cannot_be_used_is_refused(url, sha256):
    with pytest.raises(ConfigError, match="SHA-256"):
        read_relay(url, None, sha256)
    assert read_relay("wss://h/", None, ":".join(["AB"] * 32)).tls_sha256 == "ab" * 32


async def test_messages_go_both_ways():
    async with running_relay() as scene:
        socket = await dial_relay(read_relay(scene.url))
        await socket.send(JOIN)
        assert await socket.receive() == LISTING
        await socket.close()


async def test_the_end_is_told_with_the_relays_reason():
    async with running_relay(relay=SignallingRelay(RelayLimits(messages=1))) as scene:
        socket = await dial_relay(read_relay(scene.url))
        await socket.send(JOIN)
        await socket.send(JOIN)
        await socket.receive()
        with pytest.raises(LinkClosed, match="the relay closed the connection: too many messages"):
            await socket.receive()
        with pytest.raises(LinkClosed):
            await socket.send(JOIN)
        await socket.close()


async def test_a_token_is_shown_and_its_lack_is_told():
    async with running_relay(token="right") as scene:
        for token in (None, "wrong"):
            with pytest.raises(UnusableAnswerError, match="refused the token"):
                await dial_relay(read_relay(scene.url, token))
        socket = await dial_relay(read_relay(scene.url, "right"))
        await socket.close()


async def test_a_relay_that_is_not_there_may_come_later():
    async with running_relay() as scene:
        url = scene.url
    with pytest.raises(UnreachableError, match="nobody listens there"):
        await dial_relay(read_relay(url))
    async with running_relay(relay=SignallingRelay(RelayLimits(peers=1))) as scene:
        first = await dial_relay(read_relay(scene.url))
        with pytest.raises(UnreachableError, match="status 503"):
            await dial_relay(read_relay(scene.url))
        await first.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nlocation: ws://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
    ],
)
async def test_an_address_at_which_something_else_lives_is_of_no_use(answer):
    async with serving(lambda _request: answer) as server:
        with pytest.raises(UnusableAnswerError):
            await dial_relay(read_relay(server.url("/signal", scheme="ws")))


async def test_tls_needs_a_certificate_that_is_trusted_or_pinned(tls):
    trusting = ssl.create_default_context(cafile=tls.cert)
    async with running_relay(tls=(tls.cert, tls.key)) as scene:
        with pytest.raises(UnusableAnswerError, match="is not trusted"):
            await dial_relay(read_relay(scene.url))
        for target, context in (
            (read_relay(scene.url), trusting),
            (read_relay(scene.url, None, tls.sha256), None),
        ):
            socket = await dial_relay(target, context)
            await socket.send(JOIN)
            assert await socket.receive() == LISTING
            await socket.close()


async def test_another_certificate_than_the_pinned_one_sees_no_token(tls):
    """Whoever answers with another certificate gets nothing at all after the handshake."""
    seen = []

    async def listen(reader, _writer):
        seen.append(await reader.read(1000))

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.cert, tls.key)
    async with serving(listen, tls=context) as server:
        target = read_relay(server.url("/signal", scheme="wss"), "secret token", "00" * 32)
        with pytest.raises(UnusableAnswerError, match="the one that is known"):
            await dial_relay(target)
        assert not any(seen)
        with pytest.raises((UnusableAnswerError, UnreachableError)):
            await dial_relay(read_relay(target.url, "secret token", tls.sha256))
        assert b"secret token" in seen[-1]


def test_a_pinned_context_checks_nothing_but_the_pin():
    context = pinned_context("00" * 32)
    assert context.verify_mode is ssl.CERT_NONE
    assert issubclass(context.sslobject_class, ssl.SSLObject)


def test_an_address_is_told_without_its_token():
    assert read_relay("wss://host/signal?token=secret").where == "wss://host/signal"
