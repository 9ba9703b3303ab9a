"""The link through the outside door of a host: who has the secret of the moment gets in, once, and nobody in between."""

import asyncio
import contextlib

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from comity.contacts.part import contacts_of
from comity.http.pins import pinned_context
from comity.rooms.links.door import DoorOfHost, use_door
from comity.rooms.links.webrtc import available_libraries
from comity.rooms.part import Peers
from comity.wire.errors import UnreachableError
from comity.wire.link import CONTROL
from tests.rooms.scene import PATIENCE, Client, rooms_node


@contextlib.asynccontextmanager
async def open_door():
    """A node whose outside door is open, and where others reach it."""
    async with rooms_node(same_host=False) as node:
        part = node.runtime.find(Peers)
        await part.open_tools()
        await node.runtime.outside.open_for("test")
        address = f"127.0.0.1:{node.runtime.outside.port}"
        yield part._relays.peer_door, DoorOfHost((address,), node.runtime.outside.pin)


async def both(door, at, secret=None):
    laid = door.lay()
    link = await use_door(at, secret or laid.name, 20)
    async with asyncio.timeout(PATIENCE):
        return link, await laid.wait_link()


async def test_messages_pass_in_both_directions_and_both_know_the_same_marks():
    async with open_door() as (door, at):
        guest, host = await both(door, at)
        assert guest.binding == tuple(reversed(host.binding))
        assert host.binding[0].endswith(at.pin)
        assert (guest.is_offerer, host.is_offerer) == (False, True)
        async with asyncio.timeout(PATIENCE):
            await guest.control.send("hello")
            assert await host.control.receive() == "hello"
            channel = await host.open_channel("files")
            await channel.send(bytes(100_000))
            assert await (await guest.accept_channel()).receive() == bytes(100_000)
            assert (await guest.stats()).path == (await host.stats()).path == "direct"
            await guest.close("done")
            assert (await host.wait_closed()).reason == "done"
        assert host.control.label == CONTROL


async def test_a_secret_lets_one_in_and_only_while_it_is_laid():
    async with open_door() as (door, at):
        laid = door.lay()
        guest = await use_door(at, laid.name, 20)
        with pytest.raises(UnreachableError):
            await use_door(at, laid.name, 20)
        await guest.close()
        late = door.lay()
        late.withdraw()
        with pytest.raises(UnreachableError):
            await use_door(at, late.name, 20)
        with pytest.raises(UnreachableError):
            await use_door(at, "guessed", 20)


async def test_a_host_with_another_key_is_not_spoken_to():
    async with open_door() as (door, at):
        laid = door.lay()
        with pytest.raises(UnreachableError):
            await use_door(DoorOfHost(at.addrs, "00" * 32), laid.name, 20)
        guest = await use_door(at, laid.name, 20)  # the secret was not given away
        await guest.close()


async def test_of_several_addresses_the_one_that_opens_is_taken():
    async with open_door() as (door, at):
        laid = door.lay()
        guest = await use_door(DoorOfHost(("192.0.2.1:9", *at.addrs), at.pin), laid.name, 20)
        assert (await laid.wait_link()).end is None
        await guest.close()


async def test_a_stranger_is_refused_before_the_upgrade():
    async with open_door() as (_door, at):
        for headers in ({}, {"x-comity-secret": "x", "x-comity-nonce": "n"}):
            with pytest.raises(WebSocketException, match="403"):
                await connect(
                    f"wss://{at.addrs[0]}/link",
                    ssl=pinned_context(at.pin),
                    additional_headers=headers,
                    proxy=None,
                )


@pytest.mark.parametrize("guest_asks_first", [True, False])
@pytest.mark.parametrize("webrtc", [True, False])
async def test_a_guest_comes_through_the_door_with_and_without_webrtc(monkeypatch, webrtc, guest_asks_first):
    if not webrtc:
        monkeypatch.setattr("comity.rooms.links.joining.available_libraries", tuple)
    elif not available_libraries():
        pytest.skip("no WebRTC library")
    monkeypatch.setattr("comity.rooms.links.joining.DIAL_SECONDS", PATIENCE)  # however busy this machine is
    names = ("zoe", "adam") if guest_asks_first else ("adam", "zoe")
    async with rooms_node(same_host=False) as here, rooms_node(same_host=False) as there:
        outside = here.runtime.outside
        monkeypatch.setattr(type(outside), "addresses", lambda self: [f"https://127.0.0.1:{self.port}"])
        host, guest = Client(here), Client(there)
        line = (await host.part.invite({"room": "lab", "door": True}))["invite"]
        await host.join("lab", stream_id=names[0])
        await guest.join(line, stream_id=names[1])
        await guest.wait_peer(names[0])
        await host.wait_peer(names[1])
        for client in (host, guest):
            [link] = (await client.by_owner("links"))["links"].values()
            assert link["path"] == "direct"
            assert link["round_trip_ms"] is not None, "only a WebSocket measures by itself"
        await guest.call("vdo_send", data="through the door", target=names[0])
        assert (await host.events("data_received"))[0]["data"] == "through the door"
        [contact] = contacts_of(there.runtime).all()
        assert (contact.addresses, contact.pins) == ((f"https://127.0.0.1:{outside.port}",), (outside.pin,))
