"""What the record of a node says of its rooms: who sent, received and saved which file."""

import asyncio
import base64
import os
import threading

import pytest
from msgspec.structs import replace

from comity.requests.caller import OWN_PROCESS, Caller
from comity.rooms.paths import AllowedPath
from comity.rooms.protocol.files import FileSource, KeepTransfer
from comity.rooms.protocol.transfers import SendOptions
from comity.store.audit_log import tail
from comity.testing import running_node
from comity.wire.errors import InvalidError
from tests.rooms.scene import PATIENCE, Client, meet, refusal, rooms_node


async def test_the_record_names_what_happened():
    async with rooms_node() as here, running_node() as there:
        anna, bert = Client(here), Client(there)
        await meet(anna, bert)
        await anna.call("vdo_send", data="x", target="bert")
        await anna.events("message_status")
        await anna.call("vdo_disconnect")
        names = {event.kind for event in here.runtime.events.since(0).events}
        assert {
            "ROOM_INVITED",
            "ROOM_JOINED",
            "ROOM_PEER_ADMITTED",
            "ROOM_MESSAGE_SENT",
            "ROOM_LEFT",
        } <= names
        by_whom = {event.kind: event.who for event in there.runtime.events.since(0).events}
        assert by_whom["ROOM_MESSAGE_STORED"].startswith("peer:")
        assert by_whom["ROOM_PEER_ADMITTED"] == by_whom["ROOM_MESSAGE_STORED"]


async def entries_of(node, *kinds):
    """The newest audit entries of the kinds, oldest first, once there is one of each."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = [one async for one in tail(node.store, "main", 50) if one.verification_result in kinds]
            if {one.verification_result for one in found} == set(kinds):
                return found
            await asyncio.sleep(0)


def named(entry, name):
    """What a check of an entry says."""
    return next(one.partition(":")[2] for one in entry.checks_passed if one.startswith(f"{name}:"))


async def send_report(anna, folder, name="report.pdf", **more):
    """A file of Anna's that the others do not hear the true name of."""
    (folder / "secret.txt").write_bytes(os.urandom(300_000))
    sending = {"file_path": str(folder / "secret.txt"), "name": name, **more}
    return (await anna.call("vdo_file_send_path", **sending))["transfer"]


async def test_a_file_that_is_sent_by_its_path_is_in_the_record_before_and_after(tmp_path):
    async with rooms_node() as here, rooms_node() as there:
        anna, bert = Client(here, folder=str(tmp_path), caller=oauth_visitor()), Client(there)
        await meet(anna, bert)
        sent = await send_report(anna, tmp_path)
        offered, done = await entries_of(here, "ROOM_FILE_OFFERED", "ROOM_FILE_SENT")
        for entry in (offered, done):
            assert named(entry, "path") == str(tmp_path.resolve() / "secret.txt")
            assert named(entry, "bytes") == "300000"
            assert named(entry, "transfer") == sent["transfer_id"]
            assert entry.checks_passed[-1] == anna.context.caller.label
        assert done.content_hash == sent["file_hash"]
        assert sent["file_hash"].startswith("chunks:")
        [received] = await entries_of(there, "ROOM_FILE_RECEIVED")
        assert received.content_hash == sent["file_hash"]
        shown = {event.kind: event.what for event in here.runtime.events.since(0).events}
        assert shown["ROOM_FILE_OFFERED"] == shown["ROOM_FILE_SENT"] == "secret.txt"


async def test_each_offer_of_a_file_is_in_the_record_also_when_the_peer_refuses_it(tmp_path):
    async with rooms_node() as here, rooms_node() as there:
        anna, bert = Client(here, folder=str(tmp_path)), Client(there)
        line = (await anna.part.invite({"room": "lab"}))["invite"]
        await anna.join("lab", stream_id="anna")
        await bert.join(line, stream_id="bert", file_max_bytes=1000)
        await anna.wait_peer("bert")
        assert "total_bytes" in await refusal(send_report(anna, tmp_path, transfer_id="t1"))
        anna.context = replace(anna.context, caller=oauth_visitor())
        assert "total_bytes" in await refusal(anna.call("vdo_file_resume", transfer_id="t1"))
        await anna.call("vdo_disconnect")
        *entries, _left = await entries_of(here, "ROOM_FILE_OFFERED", "ROOM_LEFT")
        assert [entry.checks_passed[-1] for entry in entries] == [OWN_PROCESS.label, oauth_visitor().label]
        kinds = {one.verification_result async for one in tail(here.store, "main", 50)}
        assert "ROOM_FILE_SENT" not in kinds


async def test_a_refused_path_or_an_unknown_peer_leaves_no_entry_of_a_file_sent(tmp_path):
    async with rooms_node() as here:
        anna = Client(here, folder=str(tmp_path))
        await anna.join("lab")
        with pytest.raises(InvalidError, match="no connected peers"):
            await send_report(anna, tmp_path)
        assert "not allowed" in await refusal(anna.call("vdo_file_send_path", file_path="/etc/passwd"))
        await anna.call("vdo_disconnect")
        await entries_of(here, "ROOM_LEFT")
        kinds = {one.verification_result async for one in tail(here.store, "main", 50)}
        assert not {kind for kind in kinds if kind.startswith("ROOM_FILE")}


async def test_a_save_is_in_the_record_when_it_is_answered(tmp_path):
    async with rooms_node() as here, rooms_node() as there:
        anna, bert = Client(here), Client(there, folder=str(tmp_path), caller=oauth_visitor())
        await meet(anna, bert)
        sent = await anna.call("vdo_file_send", data_base64=base64.b64encode(b"x" * 70_000).decode())
        transfer_id = sent["transfer"]["transfer_id"]
        [received] = await bert.events("file_received")
        await bert.call("vdo_file_save", transfer_id=transfer_id, output_path="odd\n\u202ename")
        [saved] = [
            one async for one in tail(there.store, "main", 50) if one.verification_result == "ROOM_FILE_SAVED"
        ]
        assert named(saved, "path") == str(tmp_path.resolve() / "odd\ufffd\ufffdname")
        assert saved.content_hash == received["file_hash"] == sent["transfer"]["file_hash"]
        assert saved.checks_passed[-1] == bert.context.caller.label
        done = (await entries_of(here, "ROOM_FILE_SENT"))[0]
        assert not [one for one in done.checks_passed if one.startswith("path:")]
        await refusal(bert.call("vdo_file_save", transfer_id=transfer_id, output_path="odd\n\u202ename"))
        assert len(await entries_of(there, "ROOM_FILE_SAVED")) == 1


async def test_a_save_that_is_cancelled_while_it_writes_is_in_the_record(tmp_path, monkeypatch):
    async with rooms_node() as here, rooms_node() as there:
        anna, bert = Client(here), Client(there, folder=str(tmp_path))
        await meet(anna, bert)
        sent = await anna.call("vdo_file_send", data_base64=base64.b64encode(b"x").decode())
        await bert.events("file_received")
        begun, go_on, write = threading.Event(), threading.Event(), AllowedPath.write_file

        def slow(*given, **more):
            begun.set()
            assert go_on.wait(PATIENCE)
            return write(*given, **more)

        monkeypatch.setattr(AllowedPath, "write_file", slow)
        saving = {"transfer_id": sent["transfer"]["transfer_id"], "output_path": "x"}
        call = asyncio.create_task(bert.call("vdo_file_save", **saving))
        await asyncio.to_thread(begun.wait, PATIENCE)
        call.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (tmp_path / "x").read_bytes() == b"x"
        assert len(await entries_of(there, "ROOM_FILE_SAVED")) == 1


async def test_who_sent_a_file_is_known_after_a_restart(tmp_path):
    (tmp_path / "files").mkdir()
    async with rooms_node() as there:
        bert = Client(there)
        async with rooms_node(tmp_path / "data") as here:
            anna = Client(here, folder=str(tmp_path / "files"), caller=oauth_visitor())
            await bert.join((await bert.part.invite({"room": "lab"}))["invite"], stream_id="bert")
            await anna.join((await bert.part.invite({"room": "lab"}))["invite"], stream_id="anna")
            await anna.wait_peer("bert")
            room = await anna.live()
            source = FileSource(kind="path", total_bytes=5, path=str(tmp_path / "files" / "a"))
            (tmp_path / "files" / "a").write_bytes(b"later")
            sending = SendOptions(transfer_id="t1", name="a")
            outgoing, effects = room.session.send_file(source, "bert", sending, room.now)
            file = (tmp_path / "files" / "a").open("rb", buffering=0)
            room.offer_source("t1", file)
            room.name_sender(outgoing, anna.context.caller)
            room.run([one for one in effects if isinstance(one, KeepTransfer)])
        async with rooms_node(tmp_path / "data") as here:
            [done] = await entries_of(here, "ROOM_FILE_SENT")
            assert done.checks_passed[-1] == anna.context.caller.label
            assert named(done, "path") == str(tmp_path / "files" / "a")


def oauth_visitor():
    """Somebody who is not the node's own user, so that an entry shows whether it names the caller."""
    return Caller(kind="oauth", id="somebody", proof="access token")
