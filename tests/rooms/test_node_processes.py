"""Two node processes in one room, over real WebRTC and over the link of one host: also when one of them is killed."""

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys

import pytest

from comity.rooms.links.webrtc import available_libraries
from tests.ports import unused_port
from tests.rooms.processes import meet, two_nodes, wait_for

MIB = 1024 * 1024
PATHS = {
    "wrtc": {"peers_same_host": "false", "peers_webrtc": "wrtc"},
    "aiortc": {"peers_same_host": "false", "peers_webrtc": "aiortc"},
    "websocket": {"peers_same_host": "true"},
}


@pytest.fixture(params=PATHS)
def way(request):
    if request.param not in ("websocket", *available_libraries()):
        pytest.skip(f"{request.param} is not installed")
    return request.param


def made(path, size):
    path.write_bytes(os.urandom(size))
    return path


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_messages_files_and_state_go_both_ways(tmp_path, way):
    with two_nodes(tmp_path, **PATHS[way]) as (anna, bert):
        meet(anna, bert)
        assert anna.link()["path"] == ("websocket" if way == "websocket" else "direct")
        for here, there, name in ((anna, bert, "bert"), (bert, anna, "anna")):
            here.ask("vdo_send", data={"to": name}, target=name)
            assert there.events("data_received")[0]["data"] == {"to": name}
        for here, there, name in ((anna, bert, "a.bin"), (bert, anna, "b.bin")):
            source = made(tmp_path / name, 5 * MIB + 1)
            sent = here.ask("vdo_file_send_path", tmp_path, file_path=str(source))["transfer"]
            here.wait_status(sent["transfer_id"], "outgoing", "completed")
            saved = tmp_path / f"got_{name}"
            there.ask("vdo_file_save", tmp_path, transfer_id=sent["transfer_id"], output_path=str(saved))
            assert sha256(saved) == sha256(source)
        anna.ask("vdo_state_set", key="k", value=1)
        wait_for(lambda: bert.ask("vdo_state_get", key="k")["value"] == 1)


@pytest.mark.parametrize("victim", ["sender", "receiver"])
def test_a_transfer_goes_on_after_a_kill_without_what_was_acknowledged(tmp_path, victim):
    """The receiver's journal and the sender's record survive; only what is missing is sent again."""
    total = 48 * MIB
    with two_nodes(tmp_path, peers_same_host="false") as (anna, bert):
        meet(anna, bert)
        source = made(tmp_path / "big.bin", total)
        sent = anna.ask(
            "vdo_file_send_path", tmp_path, file_path=str(source), timeout_ms=1, transfer_id="big"
        )
        assert sent["transfer"]["status"] != "failed"

        def moved():
            now = anna.transfer("big", "outgoing")
            return now if now["acked_chunks"] * now["chunk_bytes"] > total // 4 else None

        acked = wait_for(moved)
        assert acked["status"] == "transferring", "the file was over before anybody could be killed"
        dead = anna if victim == "sender" else bert
        dead.kill()
        dead.start()
        anna.wait_status("big", "outgoing", "completed")
        received = bert.wait_status("big", "incoming", "completed")
        saved = tmp_path / "got.bin"
        bert.ask("vdo_file_save", tmp_path, transfer_id="big", output_path=str(saved))
        assert sha256(saved) == sha256(source)
        assert received["file_hash"].startswith("chunks:")
        sent_again = anna.link()["bytes_sent"]
        assert sent_again < total - acked["acked_chunks"] * acked["chunk_bytes"] + 2 * MIB


def test_messages_and_state_outlive_the_death_of_both(tmp_path):
    with two_nodes(tmp_path, **PATHS["websocket"]) as (anna, bert):
        meet(anna, bert)
        anna.ask("vdo_send", data="read me", target="bert")
        assert anna.events("message_status")[0]["status"] == "stored"
        bert.ask("vdo_state_set", key="both", value="bert's")
        wait_for(lambda: anna.ask("vdo_state_get", key="both")["value"] == "bert's")
        bert.kill()
        waiting = anna.ask("vdo_send", data="while you were away", target="bert")
        assert waiting["ok"]
        anna.ask("vdo_state_set", key="both", value="anna's")
        anna.ask("vdo_state_set", key="one", value=1)
        anna.kill()
        bert.start()
        bert.ask("vdo_state_set", key="two", value=2)
        anna.start()
        data = [event["data"] for event in bert.events("data_received", 2)]
        assert data == ["read me", "while you were away"]
        status = wait_for(
            lambda: (
                anna.ask("vdo_message_status", message_id=waiting["message_ids"][0])["status"]
                in ("stored", "read")
            )
        )
        assert status
        state = {"both": "anna's", "one": 1, "two": 2}
        for node in (anna, bert):
            wait_for(lambda node=node: node.ask("vdo_state_get")["value"] == state)


def test_a_link_lives_on_without_its_relay_and_the_room_is_joined_again(tmp_path, way):
    port = str(unused_port())  # none that another connection may get while the relay is away

    def relay():
        process = subprocess.Popen(
            [sys.executable, "-m", "comity", "relay", "--port", port, "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        return process, json.loads(process.stdout.readline())["url"]

    process, url = relay()
    try:
        with two_nodes(tmp_path, **PATHS[way]) as (anna, bert):
            meet(anna, bert, host=url, max_reconnect_ms=500)
            [uuid] = anna.ask("vdo_status")["peers"]
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()
            wait_for(lambda: anna.ask("vdo_status")["state"] == "reconnecting")
            anna.ask("vdo_send", data="without a relay", target="bert")
            assert bert.events("data_received")[0]["data"] == "without a relay"
            process, _ = relay()
            wait_for(lambda: anna.ask("vdo_status")["state"] == "connected")
            assert anna.ask("vdo_status")["peers"] == [uuid]
            bert.ask("vdo_send", data="and back", target="anna")
            assert anna.events("data_received")[0]["data"] == "and back"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextlib.contextmanager
def relay_process(folder):
    """Run a relay for other machines on 127.0.0.1, with a certificate of its own."""
    command = [
        "relay",
        "--host",
        "0.0.0.0",
        "--address",
        "127.0.0.1",
        "--port",
        "0",
        "--data",
        str(folder),
        "--json",
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "comity", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as relay:
        try:
            yield json.loads(relay.stdout.readline())
        finally:
            relay.terminate()


@pytest.mark.skipif("wrtc" not in available_libraries(), reason="wrtc is not installed")
def test_an_invite_by_the_line_of_a_relay_connects_two_nodes_that_may_only_be_relayed(tmp_path):
    with relay_process(tmp_path / "relay") as relay, two_nodes(tmp_path, **PATHS["wrtc"]) as (anna, bert):
        invite = anna.ask("invite", room="lab", host=relay["line"])
        assert relay["line"] not in json.dumps(invite)
        assert invite["host"] == relay["url"]
        anna.join("lab", stream_id="anna", force_turn=True)
        bert.join(invite["invite"], stream_id="bert", target_stream_id="anna", force_turn=True)
        bert.wait_peer("anna")
        wait_for(lambda: anna.link()["path"] == "relayed")
        anna.ask("vdo_send", data={"by": "relay"}, target="bert")
        assert bert.events("data_received")[0]["data"] == {"by": "relay"}


@pytest.mark.skipif("wrtc" not in available_libraries(), reason="wrtc is not installed")
def test_a_node_with_the_line_in_its_settings_uses_that_relay_for_every_room(tmp_path):
    with relay_process(tmp_path / "relay") as relay:
        file = tmp_path / "line"
        file.write_text(relay["line"] + "\n")
        file.chmod(0o600)
        with two_nodes(tmp_path, peers_relay_file=file, **PATHS["wrtc"]) as (anna, bert):
            anna.join("lab", stream_id="anna")
            bert.join("lab", stream_id="bert", target_stream_id="anna")
            assert anna.ask("vdo_status")["host"] == relay["url"], "and no token in it"
            anna.wait_peer("bert")
            bert.kill()
            bert.start()
            bert.wait_peer("anna")
