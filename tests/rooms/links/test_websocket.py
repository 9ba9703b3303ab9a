"""What the WebSocket link promises beyond every link: tickets, and what a hostile peer gets."""

import asyncio
import contextlib
import json
import os
import signal
import struct
import sys

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from comity.rooms.links import websocket
from comity.rooms.links.websocket import (
    MAX_MESSAGE_BYTES,
    WINDOW_BYTES,
    WebSocketListener,
    ticket_folder,
    use_ticket,
)
from comity.wire.errors import ForbiddenError, PeerError
from comity.wire.link import LinkClosed

pytestmark = pytest.mark.usefixtures("patience")

OPEN, TEXT, BYTES, GRANT, PING, PONG = range(6)


@pytest.fixture
async def listener(tmp_path):
    listener = WebSocketListener(tmp_path / "tickets")
    yield listener
    await listener.close()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "tickets"


def frame(kind, channel, content=b""):
    return struct.pack(">BH", kind, channel) + content


@contextlib.asynccontextmanager
async def hostile(listener, folder):
    """A link of ours, and at its other end a socket that may send anything."""
    laid = await listener.lay_ticket()
    ticket = json.loads((folder / laid.name).read_bytes())
    headers = {"Authorization": f"Bearer {ticket['secret']}", "x-comity-nonce": "n"}
    async with connect(
        f"ws://127.0.0.1:{ticket['port']}/",
        additional_headers=headers,
        proxy=None,
        max_size=None,
        subprotocols=["comity.link.1"],
    ) as socket:
        yield await laid.wait_link(), socket


async def test_a_ticket_is_a_private_file_that_is_gone_after_its_use(listener, folder):
    laid = await listener.lay_ticket()
    path = folder / laid.name
    assert path.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    link = await use_ticket(folder, laid.name)
    other = await laid.wait_link()
    assert not path.exists()
    assert await use_ticket(folder, laid.name) is None
    await link.close()
    await other.wait_closed()


async def test_a_ticket_lets_one_in_and_not_two(listener, folder):
    laid = await listener.lay_ticket()
    ticket = (folder / laid.name).read_bytes()
    first = await use_ticket(folder, laid.name)
    await laid.wait_link()
    copied = "ab" * 16
    (folder / copied).write_bytes(ticket)
    (folder / copied).chmod(0o600)
    with pytest.raises(ForbiddenError, match="used or has expired"):
        await use_ticket(folder, copied)
    await first.control.send("still here")
    await first.close()


async def test_a_ticket_can_be_withdrawn_and_expires(listener, folder):
    laid = await listener.lay_ticket()
    ticket = (folder / laid.name).read_bytes()
    with pytest.raises(PeerError, match="nobody came"):
        await laid.wait_link(0.01)
    assert await use_ticket(folder, laid.name) is None
    (folder / laid.name).write_bytes(ticket)
    (folder / laid.name).chmod(0o600)
    with pytest.raises(ForbiddenError):
        await use_ticket(folder, laid.name)
    waiting = await listener.lay_ticket()
    task = asyncio.create_task(waiting.wait_link())
    await asyncio.sleep(0)
    waiting.withdraw()
    with pytest.raises(LinkClosed, match="withdrawn"):
        await task


@pytest.mark.parametrize(
    "name",
    [
        "",
        "../" + "a" * 29,
        "a" * 31,
        "a" * 33,
        "A" * 32,
        "/" * 32,
        "é" * 32,
        "a" * 31 + "\0",
        "127.0.0.1:80/aaaaaaaaaaaaaaaaaaaa",
    ],
)
async def test_what_is_no_name_of_a_ticket_opens_nothing(folder, name):
    assert await use_ticket(folder, name) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"port":80}',
        b'{"port":0,"secret":"x"}',
        b'{"port":"80","secret":"x"}',
        b'{"port":70000,"secret":"x"}',
        b'{"port":80,"secret":"x","host":"192.0.2.1"}',
    ],
)
async def test_a_file_that_is_no_ticket_opens_nothing(folder, content):
    folder.mkdir(mode=0o700)
    name = "ab" * 16
    (folder / name).write_bytes(content)
    (folder / name).chmod(0o600)
    assert await use_ticket(folder, name) is None


@pytest.mark.skipif(os.name != "posix", reason="there are no mode bits here")
async def test_a_ticket_that_others_may_read_or_that_is_a_link_is_not_used(listener, folder):
    laid = await listener.lay_ticket()
    (folder / laid.name).chmod(0o644)
    assert await use_ticket(folder, laid.name) is None
    (folder / laid.name).chmod(0o600)
    (folder / ("cd" * 16)).symlink_to(folder / laid.name)
    assert await use_ticket(folder, "cd" * 16) is None


async def test_without_a_ticket_or_from_a_page_nobody_comes_in(listener, folder):
    laid = await listener.lay_ticket()
    ticket = json.loads((folder / laid.name).read_bytes())
    good = {"Authorization": f"Bearer {ticket['secret']}", "x-comity-nonce": "n"}
    for headers in (
        {},
        {**good, "Authorization": "Bearer guess"},
        {**good, "Authorization": f"Basic {ticket['secret']}"},
        {**good, "Origin": "https://example.org"},
        {"Authorization": good["Authorization"]},
    ):
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"ws://127.0.0.1:{ticket['port']}/", additional_headers=headers, proxy=None)
        assert refused.value.response.status_code == 403
    link = await use_ticket(folder, laid.name)
    assert link is not None
    await link.close()


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([b""], "without a head"),
        ([b"\x01\x00"], "without a head"),
        (["text frame"], "does not know"),
        ([frame(9, 0)], "does not know"),
        ([frame(BYTES, 7, b"x")], "does not know"),
        ([frame(TEXT, 0, b"\xff")], "not UTF-8"),
        ([frame(OPEN, 2, b"x-even")], "may not open"),
        ([frame(OPEN, 1, b"")], "label"),
        ([frame(OPEN, 1, b"new\nline")], "label"),
        ([frame(OPEN, 1, b"x"), frame(OPEN, 1, b"y")], "does not know"),
        ([frame(OPEN, 0, b"x")], "does not know"),
        ([frame(OPEN, number, b"x") for number in range(1, 200, 2)], "may not open"),
        ([frame(GRANT, 0, struct.pack(">I", 1))], "granted more"),
        ([frame(GRANT, 0, b"\0")], "does not know"),
        ([frame(PING, 0, b"x" * 500)], "does not know"),
        ([frame(BYTES, 0, bytes(MAX_MESSAGE_BYTES))] * 9, "more than it may"),
        ([frame(BYTES, 0)] * (WINDOW_BYTES // 64 + 10), "more than it may"),
    ],
)
async def test_a_peer_that_breaks_a_rule_is_cut_off_with_the_reason(listener, folder, messages, reason):
    async with hostile(listener, folder) as (link, socket):
        with contextlib.suppress(Exception):
            for message in messages:
                await socket.send(message)
        end = await link.wait_closed()
        assert end.by == "fault"
        assert reason in end.reason


async def test_a_message_beyond_the_limit_with_its_head_ends_the_link(listener, folder):
    async with hostile(listener, folder) as (link, socket):
        await socket.send(frame(BYTES, 0, bytes(MAX_MESSAGE_BYTES)))
        assert len(await link.control.receive()) == MAX_MESSAGE_BYTES
        with contextlib.suppress(Exception):
            await socket.send(frame(BYTES, 0, bytes(MAX_MESSAGE_BYTES + 1)))
        assert (await link.wait_closed()).by == "fault"


async def test_a_peer_that_answers_nothing_is_gone_after_a_while(listener, folder, monkeypatch):
    monkeypatch.setattr(websocket, "PING_SECONDS", 0.05)
    monkeypatch.setattr(websocket, "SILENCE_SECONDS", 0.2)
    async with hostile(listener, folder) as (link, _socket):
        end = await link.wait_closed()
        assert end.by == "fault"
        assert "does not answer" in end.reason


@pytest.mark.skipif(os.name != "posix", reason="needs SIGSTOP")
async def test_a_peer_whose_process_hangs_is_noticed(listener, folder, monkeypatch):
    monkeypatch.setattr(websocket, "PING_SECONDS", 0.05)
    monkeypatch.setattr(websocket, "SILENCE_SECONDS", 0.5)
    laid = await listener.lay_ticket()
    code = (
        "import asyncio,sys\nfrom pathlib import Path\nfrom comity.rooms.links.websocket import use_ticket\n"
        "async def main():\n link = await use_ticket(Path(sys.argv[1]), sys.argv[2])\n await link.wait_closed()\n"
        "asyncio.run(main())"
    )
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(folder), laid.name)
    try:
        link = await laid.wait_link()
        while (await link.stats()).round_trip is None:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        child.send_signal(signal.SIGSTOP)
        assert "does not answer" in (await link.wait_closed()).reason
    finally:
        child.kill()
        await child.wait()


def test_the_folder_of_tickets_is_the_users_own(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert ticket_folder() == tmp_path / "comity-links"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "relative")
    assert str(os.getuid()) in ticket_folder().name
