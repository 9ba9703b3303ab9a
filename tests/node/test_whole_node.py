"""One process serves every contract to real clients, and each act stands once in its events and once in its audit chain."""

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
from collections import Counter

import httpx
import httpx2
import pytest
from mcp.client import Client, advertise
from mcp.client.streamable_http import streamable_http_client
from websockets.asyncio.client import connect

from comity.envelopes.protocol.envelope import from_a2a_result, to_a2a_jsonrpc
from comity.identity.key_files import create_identity, load_identity
from comity.requests.handler import request_check
from comity.votes.protocol.provenance import verify_record
from tests.envelopes.peers import Caller
from tests.mcp.conversing import call, initialize
from tests.mcp.processes import comity_mcp
from tests.ports import unused_port
from tests.rooms.processes import NodeProcess, wait_for
from tests.vcp.runtime import RELATIONAL, WIRE, hello

CONSENSUS = "VCP-X-Consensus"
COMITY = [sys.executable, "-m", "comity"]
SECONDS = 60
ACTION = {"content": "Utilize the aforementioned functionality."}

ACTS = {
    "HANDSHAKE_ACK": 4,  # over WebSocket, over TCP, and twice inside MCP
    "CONTEXT_EXCHANGED": 1,
    "ENVELOPE_OK": 2,
    "MCP_SESSION_BEGUN": 2,
    "MCP_SESSION_ENDED": 2,
    "AGENTS_OK": 2,
    "CALL_SENT": 1,  # the two steps of the call that AGENTS_OK tells of
    "CALL_ANSWERED": 1,
    "ACTIONS_OK": 3,  # by the official client, by the child that has joined, and by HTTP
    "ROOM_INVITED": 1,
    "ROOM_JOINED": 1,
    "ROOM_PEER_ADMITTED": 1,
    "ROOM_MEMBER_ADMITTED": 1,  # by the invite, which makes a contact of the member
    "CONTACT_ADDED": 1,
    "ROOM_MESSAGE_SENT": 1,
    "ROOM_FILE_OFFERED": 1,
    "ROOM_FILE_SENT": 1,
    "ROOM_STATE_SET": 1,
    "ROOM_LEFT": 1,
    "DELIBERATION_OPENED": 1,
    "DELIBERATION_ACTED": 5,
    "PING_OK": 1,
}
VOTERS = {"consensus.act": 2, "consensus.vote": 2}
OWN_VOTES = {
    "relational.get": 1,
    "consensus.open": 1,
    "consensus.act": 1,
    "consensus.advance": 3,
    "consensus.vote": 1,
}
NOT_TOLD = {
    "NODE_STOPPED": 1  # no stream is open any more
}


@pytest.fixture
def runtime(tmp_path):
    """The one process, with everything on."""
    tcp_port = unused_port()
    node = NodeProcess(
        tmp_path / "house",
        agent_behaviour="echo",
        agent_capability="repeats what it is told",
        vcp_tcp_port=tcp_port,
        peers_same_host="false",
    )
    node.tcp_port = tcp_port
    node.vacant_id = load_identity(node.data).vacant_id
    node.token = (node.data / "token").read_text().strip()
    yield node
    if node.process.poll() is None:
        node.stop()


@pytest.fixture
def guest(tmp_path):
    """A node of somebody else, who comes into the room and has an agent too."""
    node = NodeProcess(
        tmp_path / "guest", agent_behaviour="echo", agent_capability="greets", peers_same_host="false"
    )
    yield node
    node.stop()


def audit_entries(runtime):
    finished = subprocess.run(
        [*COMITY, "audit", "tail", "-n", "100000", "--chain", "main", "--json", "--data", str(runtime.data)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    return [json.loads(line) for line in finished.stdout.splitlines()]


def command(data, *arguments):
    """What `comity` prints as JSON for the owner of this folder."""
    finished = subprocess.run(
        [*COMITY, *map(str, arguments), "--json", "--data", str(data)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


class Watcher:
    """A client that reads the events of the node, from the first one to the end of the stream."""

    def __init__(self, runtime):
        self.events = []
        self._runtime = runtime
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self):
        headers = {"Authorization": f"Bearer {self._runtime.token}"}
        with (
            contextlib.suppress(httpx.RemoteProtocolError),
            httpx.stream(
                "GET", f"{self._runtime.url}/v1/events?since=0", headers=headers, timeout=SECONDS
            ) as result,
        ):
            for line in result.iter_lines():
                if line.startswith("data: {"):
                    self.events.append(json.loads(line.removeprefix("data: ")))

    def until_the_end(self):
        self._thread.join(SECONDS)
        return self.events


@contextlib.asynccontextmanager
async def official_client(runtime):
    """The official client of MCP, which negotiates VCP as well."""
    greeting = [advertise("space.creed/vcp", {"hello": hello(CONSENSUS)})]
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {runtime.token}"}) as http:
        transport = streamable_http_client(f"{runtime.url}/mcp", http_client=http)
        async with Client(transport, mode="legacy", extensions=greeting) as client:

            async def use(tool, **arguments):
                result = await client.call_tool(tool, arguments)
                assert not result.is_error, result.content
                return result.structured_content

            yield use


async def speak_vcp(runtime):
    """Raw messages over a WebSocket, and lines over TCP."""
    async with connect(runtime.url.replace("http", "ws", 1) + "/vcp", proxy=None) as peer:
        await peer.send(json.dumps(hello(RELATIONAL, "VCP-X-Unheard-Of")))
        ack = json.loads(await peer.recv())
        assert (ack["type"], ack["unsupported"]) == ("vcp-ack", ["VCP-X-Unheard-Of"])
        await peer.send(json.dumps({"categorical": WIRE}))
        assert "error" not in json.loads(await peer.recv())
        await peer.send(json.dumps({"type": "vcp-call", "id": "1", "op": "relational.get", "args": {}}))
        assert json.loads(await peer.recv())["ok"] is True
    reader, writer = await asyncio.open_connection("127.0.0.1", runtime.tcp_port)
    writer.write(json.dumps(hello()).encode() + b"\n")
    assert json.loads(await reader.readline())["type"] == "vcp-ack"
    writer.close()
    await writer.wait_closed()


def send_envelopes(runtime):
    caller = Caller("ann", to_vid=runtime.vacant_id)
    with httpx.Client(base_url=runtime.url, timeout=SECONDS) as http:
        for number in (1, 2):
            envelope = caller.next(f"letter {number}")
            answer = http.post("/a2a/message/send", json=to_a2a_jsonrpc(envelope))
            reply = from_a2a_result(answer.json())
            assert f"letter {number}" in reply.payload.parts[0].text
        forged = json.dumps(to_a2a_jsonrpc(caller.next("letter 3"))).replace("letter 3", "letter 4")
        headers = {"content-type": "application/json"}
        assert http.post("/a2a/message/send", content=forged, headers=headers).status_code == 401


async def use_tools(runtime, guest):
    async with official_client(runtime) as use:
        assert (await use("find_agents", capability=""))["directory"] == "this node"
        assert "good morning" in (await use("call_agent", agent=guest.url, message="good morning"))["reply"]
        return await use("cognitive_accessibility_audit", **ACTION)


async def use_children(runtime):
    """Children that read and write lines: `comity mcp`, which joins the node, and `comity actions`, which is alone."""
    async with comity_mcp(runtime.data) as child:
        await child.ask(initialize())
        joined = (await child.ask(call(1, "cognitive_accessibility_audit", **ACTION)))["result"]
    alone = await asyncio.create_subprocess_exec(
        *COMITY, "actions", "--enhanced", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    payload = {"action": "cognitive_accessibility_audit", "input": ACTION}
    asked = {"id": "1", "type": "invoke", "payload": payload}
    result, _ = await alone.communicate(json.dumps(asked).encode() + b"\n")
    return joined["structuredContent"], json.loads(result)["data"]


def share_a_room(runtime, guest, tmp_path):
    runtime.join(runtime.ask("invite", room="lab")["invite"], stream_id="house")
    guest.join(runtime.ask("invite", room="lab")["invite"], stream_id="guest")
    runtime.wait_peer("guest")
    guest.wait_peer("house")
    assert runtime.link()["path"] == "direct"
    runtime.ask("vdo_send", data={"n": 1})
    assert guest.events("data_received")[0]["data"] == {"n": 1}
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "sent.bin").write_bytes(bytes(range(256)) * 4096)
    sent = runtime.ask("vdo_file_send_path", folder, file_path=str(folder / "sent.bin"))["transfer"]
    guest.wait_status(sent["transfer_id"], "incoming", "completed")
    guest.ask("vdo_file_save", folder, transfer_id=sent["transfer_id"], output_path=str(folder / "got.bin"))
    assert (folder / "got.bin").read_bytes() == (folder / "sent.bin").read_bytes()
    runtime.ask("vdo_state_set", key="plan", value=2)
    runtime.ask("vdo_disconnect")


async def vote_with_two_others(runtime, tmp_path):
    """The node by a tool of its model, and two others who have a command line and no node."""
    bob, carol = tmp_path / "bob", tmp_path / "carol"
    parties = [{"id": create_identity(folder).vacant_id.hex()} for folder in (bob, carol)]
    async with official_client(runtime) as use:
        clauses = {"clauses": ["Within a day."], "stakeholders": parties}
        rule = (await use("vcp_consensus_open", title="How we answer", **clauses))["id"]
        for folder in (bob, carol):
            command(folder, "vote", "join", runtime.url, rule)
        await use("vcp_consensus_advance", delib_id=rule, to="deliberation")
        for folder in (bob, carol):
            command(folder, "vote", "act", rule, "endorse")
        await use("vcp_consensus_act", delib_id=rule, action="endorse")
        await use("vcp_consensus_advance", delib_id=rule, to="convergence")
        await use("vcp_consensus_advance", delib_id=rule, to="ratification")
        await use("vcp_consensus_vote", delib_id=rule, vote="accept")
        for folder in (bob, carol):
            command(folder, "vote", "cast", rule, "accept")
    command(carol, "vote", "record", rule, "--out", tmp_path / "record.json")
    assert verify_record((tmp_path / "record.json").read_bytes()).ok


def as_told(event):
    """What an event and an audit entry both say of an act: what happened, who it was, in which request."""
    request = request_check(event["request"]) if "request" in event else None
    return event["kind"], f"caller:{event['who']}", request


def as_written(entry):
    checks = entry["checks_passed"]
    caller = next((check for check in checks if check.startswith("caller:")), None)
    request = next((check for check in checks if check.startswith("request:")), None)
    return entry["verification_result"], caller, request


async def test_every_act_of_every_contract_stands_once_in_the_events_and_once_in_the_audit_chain(
    runtime, guest, tmp_path
):
    watcher = Watcher(runtime)
    await speak_vcp(runtime)
    send_envelopes(runtime)
    by_official_client = await use_tools(runtime, guest)
    by_children = await use_children(runtime)
    by_door = runtime.http.post("/v1/actions/cognitive_accessibility_audit", json=ACTION).json()
    assert [by_official_client, *by_children] == [by_door] * 3
    share_a_room(runtime, guest, tmp_path)
    await vote_with_two_others(runtime, tmp_path)
    assert runtime.http.post("/v1/ping").status_code == 200
    wait_for(lambda: any(event["kind"] == "PING_OK" for event in watcher.events))
    runtime.stop()
    events = watcher.until_the_end()

    # a refusal is told when its minute is over, or written when the node stops before that
    result, written = Counter(map(as_told, events)), Counter(map(as_written, audit_entries(runtime)))
    (refusal,) = [act for act in written.elements() if act[0] == "REFUSED"]
    assert result.pop(refusal, 1) == written.pop(refusal) == 1
    assert result - written == Counter()
    assert Counter(kind for kind, _, _ in (written - result).elements()) == NOT_TOLD
    assert all(count == 1 for (_, _, request), count in written.items() if request is not None)
    happened = [event for event in events if event["kind"] != "REFUSED"]
    acts = Counter()
    for event in happened:  # alike calls of one moment stand together, with their count
        acts[event["kind"], event.get("what", "").partition(" ")[0]] += event.get("count", 1)
    assert {kind: sum(acts[one] for one in acts if one[0] == kind) for kind in ACTS} == ACTS
    assert {what: acts["DELIBERATION_OK", what] for what in VOTERS} == VOTERS
    assert {what: acts["EXTENSION_OK", what] for what in OWN_VOTES} == OWN_VOTES
    assert {kind for kind, _ in acts} == {
        *ACTS,
        "NODE_STARTED",
        "DELIBERATION_OK",
        "EXTENSION_OK",
        "PEER_HEAD_KEPT",
    }
    assert command(runtime.data, "audit", "verify")["ok"] is True
