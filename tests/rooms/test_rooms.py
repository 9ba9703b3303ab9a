"""Sessions of two nodes in one room: what they say, keep and share, and what they show to whom."""

import asyncio
import base64
import json
import os

import pytest

from comity.envelopes.protocol.envelope import from_a2a_message
from comity.requests.caller import OWN_PROCESS
from comity.rooms.protocol.invite import read_invite
from comity.rooms.protocol.messages import MessageNotKept, not_kept
from comity.rooms.protocol.tool_arguments import VdoToolError
from comity.rooms.protocol.tool_table import Demands
from comity.testing import running_node
from comity.wire.errors import StoreUnavailableError
from tests.rooms.scene import PATIENCE, Client, meet, refusal, rooms_node


async def test_two_nodes_meet_by_one_line_and_prove_who_they_are():
    async with rooms_node() as here, rooms_node() as there:
        anna, bert = Client(here), Client(there)
        await meet(anna, bert)
        peer = await anna.wait_peer("bert")
        assert peer["vacant_id"] == there.vacant_id.hex()
        status = await bert.call("vdo_status")
        assert status["room"] == "lab"
        config = (await bert.live()).session.options
        assert config.demands.enforce_join_token
        assert config.demands.require_session_mac


async def test_a_message_arrives_and_is_receipted():
    async with rooms_node() as here, rooms_node() as there:
        anna, bert = Client(here), Client(there)
        await meet(anna, bert)
        for data in ({"n": 1}, 0, False, "", None, {"type": "request"}):
            sent = await anna.call("vdo_send", data=data, target="bert")
            assert sent["ok"]
            [event] = await bert.events("data_received")
            assert event["data"] == data
            assert event["streamID"] == "anna"
        [result] = (await anna.events("message_status", 6))[:1]
        assert result["status"] == "stored"
        status = await anna.call("vdo_message_status", message_id=sent["message_ids"][0])
        assert status["status"] in ("stored", "read")


def slow_disk(keeping, monkeypatch):
    """Messages are kept when the event is set."""
    works = asyncio.Event()

    def slow(keep):
        async def wait(*arguments):
            await works.wait()
            return await keep(*arguments)

        return wait

    for name in ("keep_in", "keep_out"):
        monkeypatch.setattr(keeping, name, slow(getattr(keeping, name)))
    return works


async def test_a_message_is_shown_before_it_is_kept_and_receipted_after(monkeypatch):
    async with rooms_node() as here, rooms_node() as there:
        anna, bert = Client(here), Client(there)
        await meet(anna, bert)
        works = slow_disk((await bert.live()).keeping, monkeypatch)
        [message_id] = (await anna.call("vdo_send", data="now", target="bert"))["message_ids"]
        assert (await bert.events("data_received"))[0]["data"] == "now"
        status = await anna.call("vdo_message_status", message_id=message_id)
        assert status["status"] == "sent"
        works.set()
        assert (await anna.events("message_status"))[0]["status"] == "stored"


async def test_a_send_goes_out_at_once_and_is_answered_when_it_is_durable(monkeypatch):
    async with rooms_node() as here, rooms_node() as there:
        anna, bert = Client(here), Client(there)
        await meet(anna, bert)
        works = slow_disk((await anna.live()).keeping, monkeypatch)
        sending = asyncio.create_task(anna.call("vdo_send", data="here", target="bert"))
        async with asyncio.timeout(PATIENCE):
            [arrived] = await bert.events("data_received")
        assert arrived["data"] == "here"
        assert not sending.done()
        works.set()
        assert (await sending)["ok"]


async def test_a_send_that_is_cancelled_after_it_left_is_kept_and_recorded_all_the_same():
    async with rooms_node() as here, rooms_node() as there:
        anna, bert = Client(here), Client(there)
        await meet(anna, bert)
        live = await anna.live()
        _, effects = live.session.send("gone", "bert", live.now)
        sending = asyncio.create_task(live.send_durably(effects, OWN_PROCESS))
        await asyncio.sleep(0)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert "ROOM_MESSAGE_SENT" in [event.kind for event in here.runtime.events.since(0).events]
        assert (await bert.events("data_received"))[0]["data"] == "gone"


async def test_a_file_goes_over_byte_for_byte_and_is_saved_in_the_shared_folder():
    async with rooms_node() as here, rooms_node() as there:
        anna, bert = Client(here), Client(there)
        await meet(anna, bert)
        data = os.urandom(6_000_001)
        result = []
        anna.context = anna.context.__class__(
            **{
                name: getattr(anna.context, name)
                for name in anna.context.__struct_fields__
                if name != "progress"
            },
            progress=lambda done, total, _name: result.append((done, total)),
        )
        sent = await anna.call("vdo_file_send", data_base64=base64.b64encode(data).decode(), name="a.bin")
        transfer = sent["transfer"]
        assert (transfer["status"], transfer["total_bytes"]) == ("completed", len(data))
        assert result[-1] == (len(data), len(data))
        [received] = await bert.events("file_received")
        assert received["spooled"]
        saved = await bert.call("vdo_file_save", transfer_id=transfer["transfer_id"], output_path="a.bin")
        assert saved["output_path"] == str(there.settings.data.resolve() / "shared" / "a.bin")
        assert (there.settings.data / "shared" / "a.bin").read_bytes() == data
        again = await refusal(
            bert.call("vdo_file_save", transfer_id=transfer["transfer_id"], output_path="a.bin")
        )
        assert again == f"output exists: {saved['output_path']}"


async def test_a_request_gets_its_reply_and_a_silent_peer_a_timeout():
    async with rooms_node() as here, rooms_node() as there:
        anna, bert = Client(here), Client(there)
        await meet(anna, bert)
        asking = asyncio.create_task(anna.call("vdo_request", data="how many?", target="bert"))
        [event] = await bert.events("data_received")
        await bert.call("vdo_reply", request_id=event["message_id"], data=7)
        assert (await asking)["reply"]["data"] == 7
        why = await refusal(anna.call("vdo_request", data="?", target="bert", timeout_ms=50))
        assert why.startswith("timed out waiting for the reply to msg_")


async def test_a_signed_message_moves_the_chain_on_both_sides():
    async with rooms_node() as here, rooms_node() as there:
        anna, bert = Client(here), Client(there)
        await meet(anna, bert)
        for number in range(3):
            sent = await anna.call("vdo_send", data=number, target="bert", signed=True)
            assert sent["ok"]
        events = await bert.events("data_received", 3)
        assert [event["data"] for event in events] == [0, 1, 2]
        assert all(event["signed"] for event in events)
        assert [one["status"] for one in await anna.events("message_status", 3)] == ["stored"] * 3


async def test_a_signed_message_that_overtakes_another_is_delivered_after_it(monkeypatch):
    monkeypatch.setattr("comity.rooms.protocol.messages.RESEND_SECONDS", 0.1)
    async with rooms_node() as here, rooms_node() as there:
        anna, bert = Client(here), Client(there)
        await meet(anna, bert)
        live = await bert.live()
        keep_in, early = live.keeping.keep_in, []

        async def lose_the_first(session_id, message, sender):
            """Until the second has come."""
            if not early and from_a2a_message(message.record["envelope"]).sequence_no == 1:
                return not_kept(message, StoreUnavailableError("the disk is away for a moment"))
            heard = await keep_in(session_id, message, sender)
            if isinstance(heard, MessageNotKept):
                early.append(heard)
            return heard

        monkeypatch.setattr(live.keeping, "keep_in", lose_the_first)
        for word in ("one", "two"):
            assert (await anna.call("vdo_send", data=word, target="bert", signed=True))["ok"]
        events = await bert.events("data_received", 2)
        assert [event["data"] for event in events] == ["one", "two"]
        assert [one["status"] for one in await anna.events("message_status", 2)] == ["stored"] * 2
        assert early


async def test_shared_state_is_the_same_on_both_sides_and_can_be_watched():
    async with rooms_node() as here, rooms_node() as there:
        anna, bert = Client(here), Client(there)
        await meet(anna, bert)
        await anna.call("vdo_state_set", key="plan", value=[1, 2])
        changed = await bert.call("vdo_state_watch", wait_ms=10_000)
        assert [(one["key"], one["value"]) for one in changed["changes"]] == [("plan", [1, 2])]
        clock = changed["changes"][0]["clock"]
        await bert.call("vdo_state_cas", key="plan", value=[3], expected_clock=clock)
        async with asyncio.timeout(PATIENCE):
            while (await anna.call("vdo_state_get", key="plan"))["value"] != [3]:
                await (await anna.live()).wait_change(1)
        with pytest.raises(Exception, match="state changed"):
            await bert.call("vdo_state_cas", key="plan", value=[4], expected_clock=clock)
        await bert.call("vdo_state_watch")
        await anna.call("vdo_state_delete", key="plan")
        gone = await bert.call("vdo_state_watch", prefix="pl", wait_ms=10_000)
        assert gone["changes"][-1]["deleted"]


async def test_clients_of_one_node_do_not_take_events_from_each_other():
    async with rooms_node() as here, rooms_node() as there:
        anna, bert = Client(here), Client(there, "first")
        await meet(anna, bert)
        second = Client(there, "second")
        second.session_id = bert.session_id
        await anna.call("vdo_send", data="for both")
        for client in (bert, second):
            [event] = await client.events("data_received")
            assert event["data"] == "for both"


async def test_a_message_that_was_not_acknowledged_comes_again_also_after_a_restart(tmp_path):
    async with rooms_node() as here:
        anna = Client(here)
        async with rooms_node(tmp_path) as there:
            bert = Client(there, "wait")
            await meet(anna, bert)
            for word in ("one", "two"):
                await anna.call("vdo_send", data=word, target="bert")
            for _ in range(2):
                (first, event), *_ = await bert.peek(wait_ms=30_000, max_events=1)
                assert event["data"] == "one"
            async with asyncio.timeout(PATIENCE):
                while len(places := await bert.peek()) < 2:
                    await (await bert.live()).wait_change(1.0)
                await anna.events("message_status", 2)  # both are kept
            assert await bert.acknowledge(first)
            assert [event["data"] for _, event in await bert.peek()] == ["two"]
        async with rooms_node(tmp_path) as there:
            bert.node = there
            assert not await bert.acknowledge(places[-1][0])  # the numbers have begun again
            assert [event["data"] for _, event in await bert.peek(after=places[-1][0])] == ["two"]
            ((place, _),) = await bert.peek()
            assert await bert.acknowledge(place)
            read = await there.store.scan("rooms:inbox")
            assert read == []  # durably, when the answer comes
        async with rooms_node(tmp_path) as there:
            bert.node = there
            assert await bert.peek() == []


@pytest.mark.parametrize("place", ["", "x", "log:", "log:-1", "log:x", "log:" + "9" * 30, 5])
async def test_a_place_that_is_none_is_named(place):
    async with rooms_node() as here:
        anna = Client(here)
        await anna.join("lab")
        with pytest.raises(VdoToolError, match=r"place|through"):
            await anna.acknowledge(place)


async def test_a_waiting_reader_holds_up_nobody():
    async with rooms_node() as here:
        anna = Client(here)
        await anna.join("lab")
        await anna.call("vdo_receive")
        waiting = asyncio.create_task(anna.call("vdo_receive", wait_ms=30_000))
        await asyncio.sleep(0)
        assert (await anna.call("vdo_status"))["state"] == "connected"
        assert not waiting.done()
        waiting.cancel()


async def test_a_client_sees_only_sessions_that_meet_its_demands_and_ends_only_its_own():
    async with rooms_node() as here:
        open_one, strict = (
            Client(here, "open"),
            Client(here, "strict", demands=Demands(require_session_mac=True)),
        )
        await open_one.join("lab")
        await strict.join("hall")
        assert [one["room"] for one in (await strict.call("vdo_list_sessions"))["sessions"]] == ["hall"]
        listed = await open_one.call("vdo_list_sessions")
        assert {one["room"] for one in listed["sessions"]} == {"lab", "hall"}
        strict.session_id = open_one.session_id
        assert await refusal(strict.call("vdo_status")) == f"unknown session_id: {open_one.session_id}"
        await open_one.part.client_left("strict")
        assert [one["room"] for one in (await open_one.call("vdo_list_sessions"))["sessions"]] == ["lab"]


async def test_who_connects_again_under_the_same_name_gets_the_session_that_is_there():
    async with rooms_node() as here, rooms_node() as there:
        anna, again, bert = Client(here, "one"), Client(here, "two"), Client(there)
        line = await meet(anna, bert)
        joined = await asyncio.gather(*(again.join(room, stream_id="anna") for room in ("lab", line, line)))
        assert {one["session_id"] for one in joined} == {anna.session_id}
        assert "notice" not in joined[0]
        await anna.call("vdo_send", data="still here", target="bert")
        assert [event["data"] for event in await bert.events("data_received")] == ["still here"]
        await anna.part.client_left("one")
        assert (await again.call("vdo_status"))["ok"]
        await anna.part.client_left("two")
        assert (await anna.call("vdo_list_sessions"))["sessions"] == []


async def test_two_who_connect_at_once_under_one_name_have_one_session():
    async with rooms_node() as here:
        found = await asyncio.gather(*(Client(here, str(n)).join("lab", stream_id="anna") for n in range(5)))
        assert len({one["session_id"] for one in found}) == 1


async def test_a_session_that_demands_less_is_not_given_to_who_demands_more():
    async with rooms_node() as here:
        await Client(here).join("lab", stream_id="anna")
        strict = Client(here, demands=Demands(require_session_mac=True))
        assert "demands less" in await refusal(strict.join("lab", stream_id="anna"))


async def test_a_join_without_a_name_of_ones_own_is_that_of_the_session_in_the_room():
    async with rooms_node() as here, rooms_node() as there:
        anna, bert = Client(here), Client(there)
        line = await meet(anna, bert)
        for room in ("lab", line):
            for node, peer in ((bert, "guest_1"), (anna, "guest_2")):
                found = await node.by_owner("join", room=room, stream_id=peer, any_name=True)
                assert (found["session_id"], found["attached"]) == (node.session_id, True)
        other = await bert.by_owner("join", room=line, stream_id="carl", any_name=False)
        assert (other["stream_id"], other["attached"]) == ("carl", False)


async def test_who_connects_is_told_that_it_is_alone_and_what_to_do():
    async with rooms_node() as here, rooms_node() as there:
        anna, bert = Client(here), Client(there)
        alone = await anna.join("plan", stream_id="anna")
        assert (alone["state"], alone["peer_count"]) == ("connected", 0)
        assert alone["notice"].startswith("you are alone in the room plan")
        assert "`comity room invite plan`" in alone["notice"]
        line = (await anna.part.invite({"room": "lab"}))["invite"]
        assert "same invite" in (await bert.join(line, stream_id="bert"))["notice"]
        nowhere = await anna.join("lost", host="ws://127.0.0.1:1", reconnect_ms=30_000)
        assert "ws://127.0.0.1:1 was not reached" in nowhere["notice"]


async def test_who_takes_the_name_of_another_is_told():
    async with rooms_node() as here, rooms_node() as there:
        anna, bert, thief = Client(here), Client(there), Client(there)
        await anna.join("lab", stream_id="anna")
        await bert.join("lab", stream_id="bert", host=_relay_of(here))
        await anna.wait_peer("bert")
        async with rooms_node() as elsewhere:
            thief.node = elsewhere
            answer = await thief.join("lab", stream_id="bert", host=_relay_of(here))
            assert "the stream id bert is taken" in answer["notice"]
            refused = (await thief.events("sync_peer_rejected"))[0]
            assert (refused["by_peer"], refused["reason"][:19]) == (True, "duplicate stream id")
        await bert.call("vdo_send", data="it is me", target="anna")
        assert [event["data"] for event in await anna.events("data_received")] == ["it is me"]


@pytest.mark.parametrize("name", ["stream_id", "target_stream_id"])
async def test_a_name_that_is_too_long_is_refused_before_anybody_sees_it(name):
    async with rooms_node() as here:
        assert f"invalid {name}" in await refusal(Client(here).join("lab", **{name: "x" * 65}))


async def test_one_answer_holds_64_kib_of_events_and_the_next_one_the_rest():
    async with rooms_node() as here, rooms_node() as there:
        anna, bert = Client(here), Client(there)
        await meet(anna, bert)
        await bert.call("vdo_receive", max_events=500)
        for number in range(6):
            await anna.call("vdo_send", data=f"{number}" * 20_000, target="bert")
        answers, found = 0, []
        async with asyncio.timeout(30):
            while len(found) < 6:
                events = (await bert.call("vdo_receive", max_events=500, wait_ms=1000))["events"]
                assert len(events) == 1 or len(json.dumps(events)) < 80_000
                found += [event["data"][0] for event in events if event["type"] == "data_received"]
                answers += 1
        assert "".join(found) == "012345"
        assert answers >= 2


async def test_a_session_is_opened_again_after_a_restart_with_what_it_kept(tmp_path):
    async with rooms_node() as there:
        bert = Client(there)
        async with rooms_node(tmp_path / "data") as here:
            anna = Client(here)
            await anna.part.invite({"room": "lab", "host": _relay_of(there)})
            line = (await anna.part.invite({"room": "lab"}))["invite"]
            await anna.join("lab", stream_id="anna", reconnect_ms=100)
            await bert.join(line, stream_id="bert", reconnect_ms=100)
            await anna.wait_peer("bert")
            await anna.call("vdo_state_set", key="k", value="kept")
            await bert.call("vdo_send", data="unread", target="anna")
            await bert.events("message_status")
        sent = await bert.call("vdo_send", data="for later", target="anna")
        assert sent["ok"]
        async with rooms_node(tmp_path / "data") as here:
            again = Client(here)
            [session] = (await again.call("vdo_list_sessions"))["sessions"]
            assert session["session_id"] == anna.session_id
            again.session_id = anna.session_id
            events = await again.events("data_received", 2)
            assert [event["data"] for event in events] == ["unread", "for later"]
            assert (await again.call("vdo_state_get", key="k"))["value"] == "kept"


async def test_a_session_that_was_ended_stays_ended(tmp_path):
    async with rooms_node(tmp_path / "data") as here:
        anna = Client(here)
        await anna.join("lab")
        await anna.call("vdo_disconnect")
    async with rooms_node(tmp_path / "data") as here:
        assert (await Client(here).call("vdo_list_sessions"))["sessions"] == []


async def test_both_may_name_each_other_as_target_and_have_one_link():
    async with rooms_node() as here, rooms_node() as there:
        anna, bert = Client(here), Client(there)
        relay = _relay_of(here)
        await asyncio.gather(
            anna.join("lab", stream_id="anna", target_stream_id="bert", reconnect_ms=100),
            bert.join("lab", stream_id="bert", target_stream_id="anna", host=relay, reconnect_ms=100),
        )
        await anna.wait_peer("bert")
        await bert.wait_peer("anna")
        async with asyncio.timeout(20):
            while (await anna.call("vdo_status"))["peer_count"] != 1 or (await bert.call("vdo_status"))[
                "peer_count"
            ] != 1:
                await (await anna.live()).wait_change(0.2)
        await anna.call("vdo_send", data="hello", target="bert")
        assert (await bert.events("data_received"))[0]["data"] == "hello"


async def test_three_nodes_in_a_room_all_hear_each_other():
    async with rooms_node() as one, rooms_node() as two, rooms_node() as three:
        clients = [Client(one), Client(two), Client(three)]
        line = (await clients[0].part.invite({"room": "lab", "uses": 2}))["invite"]
        for number, client in enumerate(clients):
            await client.join(line, stream_id=f"peer_{number}")
        for number, client in enumerate(clients):
            for other in range(3):
                if other != number:
                    await client.wait_peer(f"peer_{other}")
        await clients[2].call("vdo_send", data="to all")
        for client in clients[:2]:
            assert (await client.events("data_received"))[0]["data"] == "to all"


async def test_two_sessions_of_one_node_each_get_what_is_meant_for_them():
    async with rooms_node() as here, rooms_node() as there:
        anna, first, second = Client(here), Client(there, "one"), Client(there, "two")
        line = await meet(anna, first)
        await second.join(line, stream_id="bea")
        await anna.wait_peer("bea")
        await second.wait_peer("anna")
        await anna.call("vdo_send", data="for bea", target="bea")
        await anna.call("vdo_send", data="for bert", target="bert")
        await anna.call("vdo_send", data="for both")
        for client, name in ((first, "bert"), (second, "bea")):
            events = await client.events("data_received", 2)
            assert [event["data"] for event in events] == [f"for {name}", "for both"]
            await client.call("vdo_reply", request_id=events[0]["message_id"], data=f"from {name}")
        answers = await anna.events("data_received", 2)
        assert {(one["streamID"], one["data"]) for one in answers} == {
            ("bert", "from bert"),
            ("bea", "from bea"),
        }


async def test_an_invite_is_the_same_line_until_it_expires_and_shows_nowhere():
    async with rooms_node() as here:
        anna = Client(here)
        first = await anna.part.invite({"room": "lab"})
        assert (await anna.part.invite({"room": "lab"}))["invite"] == first["invite"]
        assert "only programs on this machine" in first["notice"]
        joined = await anna.join(first["invite"])
        status = await anna.call("vdo_status")
        shown = f"{joined}{status}{await anna.call('vdo_receive')}{here.runtime.events.since(0)}"
        invite = read_invite(first["invite"])
        for secret in (first["invite"], invite.secret, str(invite.password)):
            assert secret not in shown


async def test_an_invite_that_is_damaged_or_old_is_refused_in_a_sentence():
    async with rooms_node() as here:
        anna = Client(here)
        line = (await anna.part.invite({"room": "lab"}))["invite"]
        assert "damaged" in await refusal(anna.join(line[:-9]))


async def test_an_invite_that_has_expired_is_refused(virtual_clock):
    async with running_node(clock=virtual_clock) as here, running_node(clock=virtual_clock) as there:
        anna = Client(here)
        line = (await anna.part.invite({"room": "lab", "seconds": 60}))["invite"]
        virtual_clock.jump(61)
        assert "expired" in await refusal(Client(there).join(line))
        assert (await anna.part.invite({"room": "lab"}))["invite"] != line


async def test_without_a_relay_the_remedy_is_told(tmp_path):
    from comity.node.node import Node
    from comity.runtime.settings import Settings

    guest = Node(Settings(data=tmp_path / "data", environment="test"), guest=True)
    await guest.start()
    try:
        why = await refusal(Client(guest).join("lab"))
        assert "host is required" in why
        assert "comity up" in why
    finally:
        await guest.stop()


async def test_a_spool_folder_must_be_an_allowed_one(tmp_path):
    async with rooms_node() as here, rooms_node() as there:
        anna, bert = Client(here), Client(there, folder=str(tmp_path))
        assert "not allowed" in await refusal(anna.join("lab", file_spool_dir="/var/spool"))
        line = (await anna.part.invite({"room": "lab"}))["invite"]
        await anna.join("lab", stream_id="anna")
        await bert.join(line, stream_id="bert", file_spool_dir="mine", keep_spool_files=True)
        await anna.wait_peer("bert")
        data = os.urandom(4_500_000)
        await anna.call("vdo_file_send", data_base64=base64.b64encode(data).decode())
        [received] = await bert.events("file_received")
        await bert.call("vdo_disconnect")
        [kept] = (tmp_path / "mine").iterdir()
        assert str(kept) == received["spool_path"]
        assert kept.read_bytes() == data


async def test_a_missing_library_is_told_with_the_command_that_adds_it(monkeypatch):
    async with rooms_node() as here:
        anna = Client(here)
        assert "WebRTC" not in (await anna.join("lab"))["notice"]
        assert (await anna.call("vdo_capabilities"))["transport_truth"]["type"] == "webrtc_data_channel"
        monkeypatch.setattr("comity.rooms.tool_handlers.available_libraries", tuple)
        assert "run: " in (await Client(here).join("hall"))["notice"]
        assert (await anna.call("vdo_capabilities"))["transport_truth"]["type"] == "websocket"


async def test_a_relay_on_another_machine_needs_tls():
    async with rooms_node() as here:
        why = await refusal(Client(here).join("lab", host="ws://relay.example/signal"))
        assert "must start with wss://" in why


async def test_two_processes_never_run_one_session(tmp_path):
    from comity.node.node import Node
    from comity.runtime.settings import Settings

    async with rooms_node(tmp_path / "data") as here:
        anna = Client(here)
        await anna.join("lab")
        guest = Node(Settings(data=tmp_path / "data", environment="test"), guest=True)
        await guest.start()
        try:
            assert (await Client(guest).call("vdo_list_sessions"))["sessions"] == []
        finally:
            await guest.stop()
        assert len((await anna.call("vdo_list_sessions"))["sessions"]) == 1


def _relay_of(node):
    return node.url.replace("http", "ws", 1) + "/signal"
