"""The secure presets between two nodes: who is let in, and that nothing of a refused peer is seen, kept or stored."""

import asyncio
import base64
import contextlib

import pytest

from comity.rooms.protocol import hello
from comity.rooms.protocol.tool_table import Demands
from comity.wire.errors import InvalidError
from tests.rooms.scene import PATIENCE, Client, rooms_node

SECRET = "s3cret"
STRICT = Demands(join_token_secret=SECRET, enforce_join_token=True, require_session_mac=True)
"""What `comity mcp --preset secure-full` demands."""


def relay_of(node):
    return node.url.replace("http", "ws", 1) + "/signal"


async def rejected(client, reason):
    async with asyncio.timeout(PATIENCE):
        while True:
            result = await client.call("vdo_receive", wait_ms=1000)
            for event in result["events"]:
                assert event["type"] not in ("data_received", "state_updated", "file_offer_received"), event
                if event["type"] == "sync_peer_rejected":
                    assert event["reason"].startswith(reason)
                    return


async def refuse_everything(host, guest, node):
    """Whatever the refused one tries, nothing of it is there."""
    await guest.call("vdo_send", data="let me in")
    await guest.call("vdo_state_set", key="evil", value=1)
    with contextlib.suppress(InvalidError):  # one that is not allowed is not even told so, and waits
        await guest.call(
            "vdo_file_send", data_base64=base64.b64encode(bytes(5_000_000)).decode(), timeout_ms=300
        )
    live = await host.live()
    await live.wait_change(0.3)
    result = await host.call("vdo_receive")
    assert not {event["type"] for event in result["events"]} & {
        "data_received",
        "state_updated",
        "state_snapshot_merged",
        "file_offer_received",
        "file_received",
    }
    assert (await host.call("vdo_state_get"))["value"] == {}
    assert (await host.call("vdo_file_transfers"))["incoming_count"] == 0
    spool = node.settings.data / "spool"
    assert not spool.exists() or not list(spool.iterdir())
    assert (await host.call("vdo_send", data="to nobody"))["ok"] is False


@pytest.mark.parametrize("strict_is_viewed", [True, False])
async def test_the_right_token_is_let_in_in_both_roles(strict_is_viewed):
    names = ("anna", "bert") if strict_is_viewed else ("zoe", "bert")
    async with rooms_node() as here, rooms_node() as there:
        left, right = Client(here, demands=STRICT), Client(there, demands=STRICT)
        await left.join("lab", stream_id=names[0])
        await right.join("lab", stream_id=names[1], host=relay_of(here))
        await left.wait_peer(names[1])
        await right.wait_peer(names[0])
        await left.call("vdo_send", data="in")
        assert (await right.events("data_received"))[0]["data"] == "in"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "join token required"),
        ({"join_token_secret": "another"}, "invalid token signature"),
        ({"join_token": "garbage"}, "invalid token format"),
    ],
)
@pytest.mark.parametrize("name", ["anna", "zoe"])
async def test_a_missing_or_wrong_token_keeps_a_peer_out(given, reason, name):
    async with rooms_node() as here, rooms_node() as there:
        host, guest = Client(here, demands=STRICT), Client(there)
        await host.join("lab", stream_id=name)
        await guest.join("lab", stream_id="bert", host=relay_of(here), **given)
        await rejected(host, reason)
        result = []
        async with asyncio.timeout(20):
            while not {"sync_peer_rejected", "data_channel_close"} <= {event["type"] for event in result}:
                result += (await guest.call("vdo_receive", wait_ms=1000))["events"]
        await refuse_everything(host, guest, here)


@pytest.mark.parametrize(
    ("stream_id", "exp", "reason"),
    [
        ("bert", 1_000_000_000_000, "join token expired"),
        ("carl", 9_000_000_000_000, "join token stream mismatch"),
    ],
)
async def test_a_token_that_is_expired_or_of_another_peer_keeps_a_peer_out(stream_id, exp, reason):
    async with rooms_node() as here, rooms_node() as there:
        host, guest = Client(here, demands=STRICT), Client(there)
        token = hello.mint(SECRET, room="lab", stream_id=stream_id, exp=exp, nonce="join_00000000")
        await host.join("lab", stream_id="anna")
        await guest.join("lab", stream_id="bert", host=relay_of(here), join_token=token)
        await rejected(host, reason)
        await refuse_everything(host, guest, here)


async def test_the_allow_list_names_who_comes_in():
    async with rooms_node() as here, rooms_node() as there:
        host = Client(here, demands=Demands(allow_peer_stream_ids=("bert",)))
        await host.join("lab", stream_id="anna")
        stranger, friend = Client(there, "one"), Client(there, "two")
        await stranger.join("lab", stream_id="carl", host=relay_of(here))
        await rejected(host, "peer_not_allowed")
        await refuse_everything(host, stranger, here)
        await friend.join("lab", stream_id="bert", host=relay_of(here))
        await host.wait_peer("bert")


async def test_whoever_has_the_name_of_the_room_but_not_the_invite_is_not_even_in_it():
    async with rooms_node() as here, rooms_node() as there:
        host, guest = Client(here), Client(there)
        await host.part.invite({"room": "lab"})
        await host.join("lab", stream_id="anna")
        await guest.join("lab", stream_id="bert", host=relay_of(here))
        assert (await guest.call("vdo_status"))["sync_peer_count"] == 0
        assert not (await guest.live()).expects_peers


async def test_the_demands_of_the_settings_hold_for_every_session():
    async with rooms_node(require_session_mac=True, enforce_join_token=True) as here:
        anna = Client(here)
        await anna.join("lab")
        demands = (await anna.live()).session.options.demands
        assert demands.require_session_mac
        assert demands.enforce_join_token
        assert demands.join_token_secret == (here.settings.data / "join-secret").read_text().strip()
