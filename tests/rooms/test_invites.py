"""An invite seen from outside: who gets in by it, who does not, and what is left of the attempts."""

import asyncio

import pytest
from msgspec.structs import replace

from comity.contacts.part import contacts_of
from comity.rooms.protocol.invite import read_invite
from comity.rooms.protocol.membership import AskAdmission
from comity.testing import running_node
from tests.rooms.scene import PATIENCE, Client, meet, refusal, rooms_node
from tests.waiting import stretched


async def told(client, event_type, /, **members):
    """Wait for an event of this kind with these members."""
    async with asyncio.timeout(stretched(PATIENCE)):
        while True:
            for event in (await client.call("vdo_receive", wait_ms=1000))["events"]:
                if event["type"] == event_type and members.items() <= event.items():
                    return event


async def invited(host, **more):
    return (await host.part.invite({"room": "lab", **more}))["invite"]


async def epoch_of(client):
    return (await client.live()).session._peers.members.epoch


async def test_a_leaked_invite_lets_in_who_comes_first_and_nobody_else():
    async with rooms_node() as here, rooms_node() as there, rooms_node() as elsewhere:
        anna, bert, eve = Client(here), Client(there), Client(elsewhere)
        line = await meet(anna, bert)
        assert (await told(anna, "room_members_changed"))["reason"] == "used_up"
        await eve.join(line, stream_id="eve")
        reason = "the invite was used or revoked; ask for a new one"
        await told(eve, "sync_peer_rejected", reason=reason)
        await told(anna, "sync_peer_rejected", reason=reason)
        await bert.call("vdo_send", data="still here", target="anna")
        assert (await anna.events("data_received"))[0]["data"] == "still here"
        assert (await eve.call("vdo_send", data="me too"))["ok"] is False
        known = (await bert.call("vdo_sync_peers"))["peers"]
        assert {one["stream_id"] for one in known if one["shared_key_ready"]} == {"anna"}


async def test_a_revoked_invite_lets_nobody_in_and_those_who_are_in_are_told():
    async with rooms_node() as here, rooms_node() as there, rooms_node() as elsewhere:
        anna, bert, eve = Client(here), Client(there), Client(elsewhere)
        line = await invited(anna, uses=3)
        await anna.join("lab", stream_id="anna")
        await bert.join(line, stream_id="bert")
        await bert.wait_peer("anna")
        before = await epoch_of(bert)
        assert (await anna.by_owner("revoke", room="lab"))["members"] == 1
        assert (await told(bert, "room_members_changed"))["reason"] == "revoked"
        assert (await epoch_of(bert)).number == before.number + 1
        await eve.join(line, stream_id="eve")
        await told(eve, "sync_peer_rejected", reason="the invite was used or revoked; ask for a new one")


async def test_a_removed_member_stays_out_with_its_old_token_and_comes_back_by_a_new_invite():
    async with rooms_node() as here, rooms_node() as there, rooms_node() as elsewhere:
        anna, bert, carl = Client(here), Client(there), Client(elsewhere)
        line = await invited(anna, uses=2)
        await anna.join("lab", stream_id="anna")
        for client, name in ((bert, "bert"), (carl, "carl")):
            await client.join(line, stream_id=name)
        await bert.wait_peer("carl")
        answer = await anna.by_owner("kick", room="lab", member="bert")
        assert (answer["removed"], answer["members"]) == ("bert", 1)
        event = await told(carl, "room_members_changed", reason="removed")
        assert event["names"] == ["bert"]
        await told(bert, "sync_peer_rejected", reason="removed from the room by its host")
        await told(bert, "peer_disconnected")
        await told(bert, "sync_peer_rejected")  # it still has the epoch of before, and tries again
        for client in (anna, carl):
            live = {
                one["stream_id"]
                for one in (await client.call("vdo_sync_peers"))["peers"]
                if one["shared_key_ready"]
            }
            assert "bert" not in live
        await bert.call("vdo_disconnect")
        await bert.join(await invited(anna), stream_id="bert")
        await bert.wait_peer("anna")
        await bert.wait_peer("carl")


async def test_a_hundred_wrong_secrets_change_nothing_and_the_right_one_gets_in():
    async with rooms_node() as here, rooms_node() as there, rooms_node() as elsewhere:
        anna, bert, eve = Client(here), Client(there), Client(elsewhere)
        line = await invited(anna)
        await anna.join("lab", stream_id="anna")
        right = read_invite(line)
        await eve.join(replace(right, secret="00" * 32).line(), stream_id="eve")
        await told(anna, "sync_peer_rejected", reason="invalid token signature")
        live = await anna.live()
        hosting = (await anna.part.open_tools()).rooms.hosting
        wrong = (await eve.live()).session._peers.members
        for _ in range(100):
            asked = AskAdmission("u", "ee" * 32, "eve", wrong.token(0, "join_0"))
            await hosting.decide(live, asked)
        assert hosting.find("lab").members == ()
        await bert.join(line, stream_id="bert")
        await bert.wait_peer("anna")
        assert [one.name for one in hosting.find("lab").members] == ["bert"]


async def test_an_invite_to_one_room_opens_no_other():
    async with rooms_node() as here, rooms_node() as there:
        anna, eve = Client(here), Client(there)
        lab, hall = read_invite(await invited(anna)), (await anna.part.invite({"room": "hall"}))["invite"]
        await anna.join("hall", stream_id="anna")
        mixed = replace(read_invite(hall), secret=lab.secret)
        await eve.join(mixed.line(), stream_id="eve")
        await told(anna, "sync_peer_rejected", reason="invalid token signature")


async def test_a_guest_that_is_no_host_cannot_begin_an_epoch():
    async with rooms_node() as here, rooms_node() as there, rooms_node() as elsewhere:
        anna, bert, eve = Client(here), Client(there), Client(elsewhere)
        line = await invited(anna, uses=2)
        await anna.join("lab", stream_id="anna")
        for client, name in ((bert, "bert"), (eve, "eve")):
            await client.join(line, stream_id=name)
        await eve.wait_peer("bert")
        before = await epoch_of(bert)
        attacker = await eve.live()
        peers = attacker.session._peers
        news = {**peers.members.news(), "epoch": before.number + 7, "secret": "66" * 32}
        for name in ("bert", "anna"):
            peer = peers.resolve(name)
            peer.epoch_told = 0
            attacker.run(attacker.session._carry(peers.tell_epoch(peer, news)))
        for client in (bert, anna):
            await told(client, "protocol_auth_failed", kind="room.epoch", reason="not_the_host")
            assert await epoch_of(client) == before


async def test_the_host_is_restarted_between_invite_and_join(tmp_path):
    async with rooms_node() as there:
        bert = Client(there)
        async with rooms_node(tmp_path / "data") as here:
            anna = Client(here)
            line = await invited(anna)
            await anna.join("lab", stream_id="anna")
            port = here.url.rpartition(":")[2]
        async with running_node(tmp_path / "data", port=int(port)):
            await bert.join(line, stream_id="bert")
            await bert.wait_peer("anna")


async def test_a_guest_that_is_restarted_is_a_member_still_though_the_invite_is_used_up(tmp_path):
    async with rooms_node() as here:
        anna = Client(here)
        async with rooms_node(tmp_path / "data") as there:
            bert = Client(there)
            await meet(anna, bert)
            session = bert.session_id
        await anna.events("data_channel_close")
        async with rooms_node(tmp_path / "data") as there:
            bert = Client(there)
            bert.session_id = session
            await bert.wait_peer("anna")
            await anna.wait_peer("bert")


async def test_a_guest_learns_of_an_epoch_that_began_while_it_was_away(tmp_path):
    async with rooms_node() as here, rooms_node() as elsewhere:
        anna, carl = Client(here), Client(elsewhere)
        async with rooms_node(tmp_path / "data") as there:
            bert = Client(there)
            await meet(anna, bert)
            session = bert.session_id
        await anna.events("data_channel_close")
        await carl.join(await invited(anna), stream_id="carl")
        await carl.wait_peer("anna")
        async with rooms_node(tmp_path / "data") as there:
            bert = Client(there)
            bert.session_id = session
            await bert.wait_peer("anna")
            await bert.wait_peer("carl")
            assert await epoch_of(bert) == await epoch_of(anna)


@pytest.mark.parametrize("asked", [{"uses": 0}, {"uses": 257}, {"uses": "2"}])
async def test_an_invite_for_nobody_or_for_a_crowd_is_refused(asked):
    async with rooms_node() as here:
        with pytest.raises(Exception, match=r"256 people|whole number"):
            await invited(Client(here), **asked)


async def test_what_a_damaged_invite_says_is_one_sentence():
    async with rooms_node() as here, rooms_node() as there:
        line = await invited(Client(here))
        assert "damaged" in await refusal(Client(there).join(line[:-9]))


async def test_an_invite_makes_a_contact_on_both_sides_whose_calls_wait_for_a_word():
    async with rooms_node() as here, rooms_node() as there:
        anna, bert = Client(here), Client(there)
        await meet(anna, bert)
        for node, other, name in ((here, there, "bert"), (there, here, "anna")):
            contacts = contacts_of(node.runtime)
            async with asyncio.timeout(stretched(PATIENCE)):
                while (contact := contacts.find(other.runtime.vacant_id.hex())) is None:
                    await (await anna.live()).wait_change(0.1)
            assert (contact.name, contact.how) == (name, "invite to lab")
            rights = contact.rights
            assert (rights.call, rights.room, rights.file, rights.wake) == (
                "hold",
                "accept",
                "accept",
                "accept",
            )
