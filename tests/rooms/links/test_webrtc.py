"""What a WebRTC link promises beyond every link: TURN, limits of the SDP, and what a hostile peer gets."""

import asyncio
import subprocess
import sys
from types import SimpleNamespace

import pytest

from comity.rooms.links import webrtc
from comity.rooms.links.webrtc import (
    IceServer,
    IceSettings,
    WebRtcLink,
    available_libraries,
    fingerprint_of,
    message_limit_of,
    new_connection,
)
from comity.rooms.protocol.signalling import IceCandidate
from comity.wire.errors import ConfigError, MalformedError
from comity.wire.link import LinkClosed
from tests.rooms.links.carriers import CARRIERS
from tests.rooms.links.turn_server import login, turn_server

pytestmark = pytest.mark.usefixtures("patience", "only_loopback")

BOTH = pytest.mark.parametrize("library", ["wrtc", "aiortc"])


async def join(left_library, right_library, ice):
    telling = []

    def tell(whom):
        return lambda candidate: telling.append(asyncio.ensure_future(whom().add_candidates([candidate])))

    left = WebRtcLink(await new_connection(ice, left_library), is_offerer=True, candidate=tell(lambda: right))
    right = WebRtcLink(
        await new_connection(ice, right_library), is_offerer=False, candidate=tell(lambda: left)
    )
    await left.accept(await right.answer(await left.offer()))
    await asyncio.gather(left.wait_open(), right.wait_open())
    await asyncio.gather(*telling)
    return left, right


@pytest.mark.parametrize("left_library", ["wrtc", "aiortc"])
@pytest.mark.parametrize("right_library", ["wrtc", "aiortc"])
@pytest.mark.parametrize("transport", ["udp", "tcp"])
async def test_with_force_turn_everything_goes_by_our_turn_relay(left_library, right_library, transport):
    async with turn_server() as server:
        turn = IceServer((f"turn:127.0.0.1:{server.port}?transport={transport}",), *login())
        left, right = await join(left_library, right_library, IceSettings((turn,), force_turn=True))
        before = server.counts.bytes
        await left.control.send(b"x" * 200_000)
        assert len(await right.control.receive()) == 200_000
        assert server.counts.bytes - before > 200_000
        while (path := (await left.stats()).path) == "unknown":  # noqa: ASYNC110 - the library tells it late
            await asyncio.sleep(0.02)
        assert path == "relayed"
        await left.close()
        if transport == "tcp":  # the notice may be lost with the connection to the relay
            await right.close()
        await right.wait_closed()


@BOTH
async def test_no_server_is_asked_that_was_not_named(library, monkeypatch):
    """A library with a list of its own would have a candidate of that server's, or ask for one."""
    asked = []
    monkeypatch.setattr("aioice.ice.server_reflexive_candidate", lambda *args, **_more: asked.append(args))
    link = WebRtcLink(await new_connection(IceSettings(), library), is_offerer=True)
    sdp = await link.offer()
    assert "typ srflx" not in sdp
    assert "typ relay" not in sdp
    assert not asked
    if library == "wrtc":
        assert link._connection._connection.get_configuration().ice_servers == []
    await link.close()


@pytest.mark.parametrize(
    ("servers", "force", "words"),
    [
        ((), True, "force_turn needs a TURN server"),
        ((IceServer(("stun:stun.example.org",)),), True, "force_turn needs a TURN server"),
        ((IceServer(("http://example.org",)),), False, "starts with stun:, turn: or turns:"),
    ],
)
def test_ice_settings_that_cannot_work_are_refused(servers, force, words):
    with pytest.raises(ConfigError, match=words):
        IceSettings(servers, force_turn=force)


def test_without_a_library_the_command_that_helps_is_told(monkeypatch):
    monkeypatch.setattr(webrtc.importlib.util, "find_spec", lambda _name: None)
    assert available_libraries() == ()
    with pytest.raises(ConfigError, match=r"pip install .*(wrtc|aiortc)"):
        asyncio.run(new_connection(IceSettings()))
    with pytest.raises(ConfigError, match="needs aiortc"):
        asyncio.run(new_connection(IceSettings(), "aiortc"))


def test_both_libraries_are_here_and_neither_is_imported_before_it_is_needed():
    assert available_libraries() == ("wrtc", "aiortc")
    code = (
        "import sys, comity.rooms.links.joining, comity.rooms.client\n"
        "from comity.rooms.links.webrtc import available_libraries\n"
        "available_libraries()\n"
        "print(sorted({'webrtc', 'wrtc', 'aiortc', 'aioice', 'av'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("line", "limit"),
    [
        ("a=max-message-size:262144\r\n", 262_144),
        ("a=max-message-size:65536\r\n", 65_536),
        ("a=max-message-size:1000000000\r\n", 262_144),
        ("a=max-message-size:0\r\n", 262_144),
        ("", 65_536),
        ("a=max-message-size:-5\r\n", 65_536),
    ],
)
def test_the_largest_message_is_what_both_sides_take(line, limit):
    assert message_limit_of(f"v=0\r\n{line}m=application 9\r\n") == limit


def test_a_description_without_a_fingerprint_is_refused():
    assert fingerprint_of("v=0\r\na=fingerprint:sha-256 AB:CD\r\n") == "sha-256 AB:CD"
    with pytest.raises(MalformedError, match="fingerprint"):
        fingerprint_of("v=0\r\n")


@BOTH
@pytest.mark.parametrize(
    "sdp",
    [
        "",
        "nonsense",
        "v=0\r\na=fingerprint:sha-256 AB:CD\r\n",
        "v=0\r\na=fingerprint:sha-256 AB:CD\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n",
        "a=fingerprint:sha-256 AB:CD\r\n" * 2000,
        "\0" * 1000,
    ],
)
async def test_a_description_that_cannot_be_used_is_refused_and_leaves_nothing(library, sdp):
    link = WebRtcLink(await new_connection(IceSettings(), library), is_offerer=False)
    with pytest.raises((MalformedError, LinkClosed)):
        await link.answer(sdp)
    await link.close("refused")
    offerer = WebRtcLink(await new_connection(IceSettings(), library), is_offerer=True)
    await offerer.offer()
    with pytest.raises((MalformedError, LinkClosed)):
        await offerer.accept(sdp)
    await offerer.close("refused")


@BOTH
async def test_candidates_that_cannot_be_used_are_left_out(library, tmp_path):
    async with CARRIERS[library](tmp_path) as (left, right):
        bad = ["", "candidate:", "x" * 1000, "candidate:1 1 tcp 1 127.0.0.1 9 typ host tcptype active"]
        await left.add_candidates([IceCandidate(text) for text in bad])
        await left.add_candidates([IceCandidate("candidate:1 1 udp 1 127.0.0.1 9 typ host", "7", 9)])
        await left.control.send("still here")
        assert await right.control.receive() == "still here"
        await left.close()
        await right.close()


@BOTH
async def test_a_channel_that_nobody_reads_ends_the_link_at_its_limit(library, tmp_path, monkeypatch):
    monkeypatch.setattr(webrtc, "UNREAD_BYTES", 300_000)
    async with CARRIERS[library](tmp_path) as (left, right):
        channel = await left.open_channel("x-unread")
        with pytest.raises(LinkClosed):  # noqa: PT012 - whichever message it is
            while True:
                await channel.send(bytes(50_000))
                await asyncio.sleep(0)
        end = await right.wait_closed()
        assert end.by == "fault"
        assert end.reason == "nobody read 300,000 bytes on the channel x-unread; the link was ended"


@BOTH
async def test_a_channel_that_the_peer_closes_ends_alone(library, tmp_path):
    async with CARRIERS[library](tmp_path) as (left, right):
        channel = await left.open_channel("x-short")
        other = await right.accept_channel()
        await channel.send("last words")
        channel._data_channel.close()
        assert await other.receive() == "last words"
        with pytest.raises(LinkClosed, match="closed this channel"):
            await other.receive()
        await left.control.send("still here")
        assert await right.control.receive() == "still here"
        await left.close()
        await right.close()


@BOTH
async def test_channels_with_labels_that_nobody_uses_are_closed_at_once(library, tmp_path):
    async with CARRIERS[library](tmp_path) as (left, right):
        for label in ("", "x" * 200, "new\nline"):
            left._connection.create_channel(label)
        good = await left.open_channel("x-good")
        other = await right.accept_channel()
        assert other.label == "x-good"
        await good.send("fine")
        assert await other.receive() == "fine"
        await left.close()
        await right.close()


async def test_a_disturbed_connection_gets_time_to_recover(tmp_path, monkeypatch):
    monkeypatch.setattr(webrtc, "GRACE_SECONDS", 0.05)
    async with CARRIERS["aiortc"](tmp_path) as (left, right):
        left._state_changed("disconnected")
        left._state_changed("connected")
        await asyncio.sleep(0.1)
        assert left.end is None
        left._state_changed("disconnected")
        end = await left.wait_closed()
        assert (end.by, end.reason) == ("fault", "the peer cannot be reached any more")
        await right.wait_closed()


@pytest.mark.parametrize(("window", "left"), [(5_000_000, 512 * 1024), (4000, 4000), (None, None)])
def test_aiortc_sends_no_more_ahead_than_its_socket_has_room_for_the_answers(window, left):
    """None: a release of the library that keeps its window elsewhere."""
    from comity.rooms.links.webrtc_aiortc import AiortcChannel

    sctp = SimpleNamespace() if window is None else SimpleNamespace(_cwnd=window)
    sent = []
    channel = AiortcChannel(SimpleNamespace(label="x", transport=sctp, send=sent.append))
    channel.send(b"message")
    assert sent == [b"message"]
    assert getattr(sctp, "_cwnd", None) == left
