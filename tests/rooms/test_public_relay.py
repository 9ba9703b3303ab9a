"""A node that others can reach, as the relay of a room: TLS with a certificate of its own making, rooms of its own."""

import asyncio
import json
import ssl

import pytest
from msgspec.structs import replace
from websockets.asyncio.client import connect

from comity.rooms.part import PeersSettings
from comity.rooms.protocol.invite import read_invite
from comity.runtime.settings import HttpSettings, TlsSettings
from comity.testing import running_node
from tests.rooms.relay_scene import certificate
from tests.rooms.scene import Client, rooms_node


@pytest.fixture
def self_signed(tmp_path):
    return certificate(tmp_path)


@pytest.fixture
def trusting(self_signed):
    return ssl.create_default_context(cafile=self_signed.cert)


@pytest.fixture
def public(self_signed):
    cert, key = self_signed.cert, self_signed.key
    return {
        "host": "0.0.0.0",
        "tls": TlsSettings(cert=cert, key=key),
        "http": HttpSettings(public=True, allowed_hosts=("localhost",)),
    }


async def test_an_invite_carries_the_fingerprint_and_both_join_over_tls(public, self_signed):
    async with running_node(**public) as here, rooms_node() as there:
        anna, bert = Client(here), Client(there)
        result = await anna.part.invite({"room": "lab"})
        invite = read_invite(result["invite"])
        port = here.url.rpartition(":")[2]
        assert [(one.url, one.pin) for one in invite.meeting_places()] == [
            (f"wss://localhost:{port}/signal", self_signed.sha256)
        ]
        assert (await anna.join("lab", stream_id="anna"))["state"] == "connected"
        assert (await bert.join(result["invite"], stream_id="bert"))["state"] == "connected"
        await anna.wait_peer("bert")
        await bert.call("vdo_send", data="over TLS", target="anna")
        assert (await anna.events("data_received"))[0]["data"] == "over TLS"


async def test_another_certificate_is_not_taken(public):
    async with running_node(**public) as here, rooms_node() as there:
        line = (await Client(here).part.invite({"room": "lab"}))["invite"]
        forged = read_invite(line)
        [place] = forged.relays
        forged = replace(forged, relays=(replace(place, pin="0" * 64),))
        bert = Client(there)
        assert (await bert.join(forged.line()))["state"] == "reconnecting"
        assert "certificate" in (await bert.call("vdo_status"))["last_error"]


async def test_strangers_get_no_other_rooms_of_it(public, trusting):
    async with running_node(**public) as here:
        await Client(here).part.invite({"room": "lab"})
        address = here.url.replace("https://0.0.0.0", "wss://localhost") + "/signal"
        async with connect(address, ssl=trusting, proxy=None) as socket:
            await socket.send(json.dumps({"request": "joinroom", "roomid": "anything"}))
            async with asyncio.timeout(20):
                answer = json.loads(await socket.recv())
            assert answer["request"] == "error"


async def test_the_servers_of_the_settings_travel_with_the_invite(tmp_path):
    secret = tmp_path / "turn"
    secret.touch(0o600)
    secret.write_text("hush\n")
    peers = PeersSettings(
        ice_servers=("stun:stun.example:3478", "turn:turn.example:3478"),
        turn_username="u",
        turn_credential=secret,
    )
    async with running_node(parts={"peers": peers}) as here:
        invite = read_invite((await Client(here).part.invite({"room": "lab"}))["invite"])
        assert invite.relays[0].turn == (
            {"urls": ["stun:stun.example:3478"]},
            {"urls": ["turn:turn.example:3478"], "username": "u", "credential": "hush"},
        )


async def test_turn_is_forced_only_where_there_is_a_turn_server():
    async with rooms_node() as here:
        with pytest.raises(Exception, match="needs a TURN server"):
            await Client(here).join("lab", force_turn=True)
