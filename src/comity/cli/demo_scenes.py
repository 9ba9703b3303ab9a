"""The scenes of the demo. Each calls the nodes over the network, checks the result, and returns the facts.

A scene with a wrong result raises SceneFailedError. Each line is printed while the scene runs.
"""

import asyncio
import hashlib
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

from msgspec import Struct

from comity.cli.demo_nodes import (
    POLL_SECONDS,
    DemoNode,
    DemoNodes,
    ModelClient,
    SceneFailedError,
    expect,
    failing_at,
)
from comity.client.client import Client
from comity.envelopes.client.calls import build_envelope
from comity.envelopes.protocol.envelope import MESSAGE_SEND_PATH, to_a2a_jsonrpc
from comity.identity.protocol.tokens import issue_a
from comity.mcp.protocol import fence
from comity.release import __version__
from comity.rooms.links.webrtc import available_libraries
from comity.runtime.system_clock import SystemClock
from comity.vcp.client import VcpClient
from comity.vcp.client_session import VcpSession
from comity.vcp.protocol.extension_calls import ExtensionError
from comity.votes.protocol.provenance import verify_record
from comity.wire import strict_json

Facts = dict[str, Any]

FILE_BYTES: Final = 16_000_000
ROOM_SECONDS: Final = 30.0
OFFER: Final = "repeats each message"

_RELATIONAL: Final = "VCP-X-Relational"
_TORCH: Final = "VCP-X-Torch"
_INTENT: Final = "VCP-X-Intent"
_CONSENSUS: Final = "VCP-X-Consensus"


class Stage(Protocol):
    """Shows the story."""

    async def did(self, text: str) -> None:
        """Show what somebody did."""
        ...

    async def proved(self, text: str) -> None:
        """Show what was checked."""
        ...

    async def refused(self, text: str) -> None:
        """Show what was refused, as it must be."""
        ...

    def bar(self, name: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
        """Show a progress bar; the function takes the bytes done so far."""
        ...


Playing = Callable[[DemoNodes, Stage], Awaitable[Facts]]


class Scene(Struct, frozen=True):
    """`why` is shown after the scene."""

    name: str
    title: str
    why: str
    play: Playing


SCENES: Final[list[Scene]] = []


def _scene(title: str, why: str) -> Callable[[Playing], Playing]:
    """Add the next scene, under the name of its function."""

    def register(play: Playing) -> Playing:
        SCENES.append(Scene(play.__name__, title, why, play))
        return play

    return register


@_scene(
    "Three owners, three nodes",
    "Each owner keeps the keys and the data. There is no account and no server in the middle.",
)
async def start(nodes: DemoNodes, stage: Stage) -> Facts:
    anna, bert, carol = nodes.all
    await stage.did("Each of them runs `comity up`, with a key, a folder and a port of its own.")
    webrtc = {"PEERS_SAME_HOST": "false"} if "wrtc" in available_libraries() else {}
    trust = {"VCP_IDENTITY_MODE": "verified", "VCP_ISSUERS": f"{anna.id}={anna.id}"}
    await asyncio.gather(bert.start(**webrtc, **trust, EXTENSIONS_TORCH_SIGNERS=anna.id), carol.start())
    extensions = {"EXTENSIONS_ENABLED": "personal,relational,consensus,torch"}
    flags = ("--agent", "echo", "--capability", OFFER, "--directory", bert.url)
    await anna.start(*flags, VCP_IDENTITY_MODE="verified", **webrtc, **extensions)
    for node in nodes.all:
        await stage.proved(f"{node.name:<5}  {node.url}  id {node.id[:12]}…")
    await stage.did(
        f"Anna has an agent that {OFFER}. Bert's node is also a directory, and Anna's node has published the card of "
        "her agent there."
    )
    expect(len({node.id for node in nodes.all}) == 3, "two nodes have the same id", anna)
    shown = [
        {"name": n.name, "url": n.url, "id": n.id, "pid": n.process and n.process.pid} for n in nodes.all
    ]
    return {"nodes": shown, "folder": str(nodes.folder)}


@_scene("Two nodes meet", "Both sides know what is agreed before anything personal is sent.")
async def meet(nodes: DemoNodes, stage: Stage) -> Facts:
    anna, bert, _ = nodes.all
    wanted = (_RELATIONAL, _TORCH, _INTENT)
    await stage.did(
        f"Bert to Anna: hello, VCP 3.1; I would like the extensions {', '.join(name.removeprefix('VCP-X-') for name in wanted)}."
    )
    with failing_at(anna):
        async with nodes.opened(VcpClient.connect(anna.url, extensions=wanted, data=bert.data)) as session:
            expect(session.server_id == f"comity/{__version__}", "another program answered the hello", anna)
            expect(session.extensions == (_RELATIONAL, _TORCH), "other extensions were agreed on", anna)
            expect(session.unsupported == (_INTENT,), "the extension that is off was not refused", anna)
            expect(all(session.core_features.values()), "a core feature is not in use", anna)
            await stage.proved(f"Anna to Bert: VCP {session.version}; Relational and Torch, yes.")
            await stage.refused(
                "Intent: refused. Anna has switched it off, so Bert's side sends nothing for it."
            )
            await _refused(anna, session, "EXTENSION_INACTIVE", "intent.infer")
            protections = ", ".join(session.core_features).replace("_", " ")
            await stage.proved(f"Protections that Anna's node has in use: {protections}.")
            return {
                "version": session.version,
                "supported": session.extensions,
                "unsupported": session.unsupported,
                "core_features": session.core_features,
            }


@_scene(
    "A signed call, and a replay",
    "Who said what can be proven. Nobody in between can change a message or use it twice.",
)
async def call(nodes: DemoNodes, stage: Stage) -> Facts:
    anna, bert, _ = nodes.all
    words = "Is the meeting still at ten?"
    await stage.did(f"Bert signs a message to Anna's agent: “{words}”")
    with failing_at(anna):
        async with Client(data=bert.data) as client:
            reply = await client.call(anna.url, words)
    expect(words in reply.text, f"the agent said {reply.text!r}", anna)
    expect(reply.agent.hex() == anna.id, "somebody else answered", anna)
    await stage.proved(f"The agent replies: “{reply.text}”")
    await stage.proved(f"Anna's node has signed it as the answer to message {reply.number} between them.")

    recorded = to_a2a_jsonrpc(reply.request)
    again = await anna.post(MESSAGE_SEND_PATH, recorded)
    metadata = strict_json.loads(again.body)["result"]["message"]["metadata"]
    same = metadata == to_a2a_jsonrpc(reply.envelope)["params"]["message"]["metadata"]
    expect(again.status == 200 and same, "the recorded message was carried out again", anna)
    await stage.did("An eavesdropper recorded the message and tries to use it.")
    await stage.proved(
        "Sent again as it was: the first reply comes back. The agent does not run a second time."
    )

    forged = strict_json.loads(strict_json.dumps(recorded).replace(b"ten?", b"two?"))
    changed = await anna.post(MESSAGE_SEND_PATH, forged)
    expect(changed.status == 401, f"a changed message got the status {changed.status}", anna)
    await stage.refused("With “two” in place of “ten”: refused, 401. The signature does not fit.")

    copy = build_envelope(
        from_vid=reply.request.from_vacant_id,
        to_vid=reply.request.to_vacant_id,
        payload=reply.request.payload,
        sequence_no=reply.request.sequence_no,
        signing_key=bert.key,
    )
    replayed = await anna.post(MESSAGE_SEND_PATH, to_a2a_jsonrpc(copy))
    expect(replayed.status == 409, f"a replay got the status {replayed.status}", anna)
    await stage.refused(f"Even Bert cannot use the number {reply.number} again: refused as a replay, 409.")
    return {
        "reply": reply.text,
        "number": reply.number,
        "same_again": again.status,
        "changed": changed.status,
        "replayed": replayed.status,
    }


@_scene(
    "A model finds an agent and calls it",
    "A model reaches agents of other owners with two tools, and knows whose words it reads.",
)
async def model(nodes: DemoNodes, stage: Stage) -> Facts:
    anna, bert, _ = nodes.all
    await stage.did("A model uses Bert's node over MCP, as Claude Code or Cursor would.")
    async with bert.model() as client:
        await stage.did('The model calls find_agents {"capability": "repeats"}.')
        search = await client.call("find_agents", capability="repeats")
        found, offers = search["agents"], fence.read_fence(search["offers"])
        expect([one["agent"] for one in found] == [anna.id], "the model did not find Anna's agent", bert)
        await stage.proved(f"Found one: {found[0]['agent'][:12]}…, “{offers.partition(': ')[2]}”.")
        await stage.did('The model calls call_agent {"message": "Good morning from a model"}.')
        answer = await client.call("call_agent", agent=found[0]["agent"], message="Good morning from a model")
    expect(answer["verified"] is True and answer["agent"] == anna.id, "the reply is not verified", bert)
    reply = fence.read_fence(answer["reply"])
    expect("Good morning from a model" in reply, f"the agent said {reply!r}", anna)
    await stage.proved(f"Reply, number {answer['number']}, signature verified: “{reply}”")
    return {"found": len(found), "agent": answer["agent"], "number": answer["number"], "verified": True}


@_scene(
    "A worrying text", "A wrong guess of the caller is corrected. The action needs no model and no network."
)
async def action(nodes: DemoNodes, stage: Stage) -> Facts:
    carol = nodes.carol
    text = "I can't do this anymore. Everyone would be better off without me."
    await stage.did(f"Somebody writes to Carol's assistant: “{text}”")
    await stage.did("The assistant takes it for low risk, and asks the action supportive_reply.")
    asked = {"message": text, "risk_level": "low", "locale": "en-GB"}
    said = (await carol.ask("/v1/actions/supportive_reply", asked))["output"]
    crisis = said["crisis"]
    expect(crisis["detected"] and crisis["severity"] == "high", "the danger was not seen", carol)
    raised = [signal["category"] for signal in crisis["signals"]]
    await stage.proved(f"The action raises the risk to high, and says why: {', '.join(raised)}.")
    lines = [line for country in said["resources"] if "country" in country for line in country["lines"]]
    expect(any(line["contact"] == "116 123" for line in lines), "the reply names no line to call", carol)
    await stage.proved(f"“{said['reply'].partition('. ')[0]}. …”")
    people = "; ".join(f"{line['name']}, {line['contact']}" for line in lines)
    await stage.proved(f"People to call now: {people}.")
    return {"risk_given": "low", "severity": crisis["severity"], "signals": raised, "lines": len(lines)}


@_scene(
    "A room by invite",
    "One line is enough to work together. Files go from node to node and through nobody else.",
)
async def room(nodes: DemoNodes, stage: Stage) -> Facts:
    anna, bert, _ = nodes.all
    invite = (await anna.room("invite", room="workshop", seconds=600))["invite"]
    await stage.did(f"Anna makes an invite, one line, and sends it to Bert: {invite[:16]}…")
    joined = [
        await node.room("vdo_connect", room=invite, stream_id=node.name.lower()) for node in (anna, bert)
    ]
    ours, theirs = (session["session_id"] for session in joined)
    path = await _joined(anna, bert, ours)
    await stage.proved(f"Both are in the room, and their nodes are connected {_path_in_words(path)}.")

    folder = nodes.folder / "files"
    folder.mkdir()
    source, copy = folder / "plan.bin", folder / "copy.bin"
    source.write_bytes(random.Random(18).randbytes(FILE_BYTES))  # noqa: S311 - any bytes do
    await stage.did(f"Anna sends Bert a file of {FILE_BYTES // 10**6} MB, directly from node to node:")
    seconds, transfer = await _sent(anna, ours, source, stage)
    saving = {"session_id": theirs, "transfer_id": transfer, "output_path": str(copy)}
    await bert.room("vdo_file_save", folder, **saving)
    hashes = [hashlib.sha256(one.read_bytes()).hexdigest() for one in (source, copy)]
    expect(hashes[0] == hashes[1], "the file that arrived is another one", bert)
    await stage.proved(f"It arrived in {seconds:.1f} s, and is the same: SHA-256 {hashes[1][:16]}…")

    plan = {"step": 2, "who": "bert"}
    await anna.room("vdo_state_set", session_id=ours, key="plan", value=plan)
    seen = await _until(bert, lambda: _shared(bert, theirs, "plan"), "the shared state did not arrive")
    expect(seen == plan, f"the shared state is {seen!r}", bert)
    await stage.did(f"Anna sets shared state: plan = {strict_json.dumps(plan).decode()}")
    await stage.proved("Bert's node reads the same.")
    for node, session in ((anna, ours), (bert, theirs)) if not nodes.keeps else ():
        await node.room("vdo_disconnect", session_id=session)
    return {
        "path": path,
        "bytes": FILE_BYTES,
        "sha256": hashes[1],
        "transfer_seconds": round(seconds, 3),
        "state": seen,
    }


@_scene(
    "A torch is handed over",
    "Trust that people and assistants have built up can move to another node. It cannot be forged.",
)
async def torch(nodes: DemoNodes, stage: Stage) -> Facts:
    anna, bert, _ = nodes.all
    token = issue_a(anna.key, issuer=anna.id, kind="user", subject="dora")
    norm = {
        "norm_id": "plain",
        "description": "Say it plainly, without flattery.",
        "origin": "co_authored",
        "established_date": datetime.now(UTC).date().isoformat(),
    }
    asked: dict[str, Any] = {"extensions": (_RELATIONAL, _TORCH), "identity": token, "remember": False}
    await stage.did("Dora has worked with an assistant on Anna's node. They have agreed on a norm:")
    await stage.did(f"“{norm['description']}”")
    with failing_at(anna):
        async with VcpClient.connect(anna.url, **asked) as session:
            await session.call("relational.norm", {"norm": norm})
            held = await session.call("torch.generate", {"to": bert.id})
    await stage.proved("Anna's node gives Dora a torch: a signed summary that only Bert's node may take.")
    with failing_at(bert):
        async with VcpClient.connect(bert.url, **asked) as session:
            before = (await session.call("relational.get"))["standing"]
            forged = {**held, "session_count": 100}
            await _refused(bert, session, "BAD_SIGNATURE", "torch.receive", {"torch": forged})
            await stage.refused("With 100 sessions written into it: refused. The signature does not fit.")
            taken = await session.call("torch.receive", {"torch": held})
            expect(taken["counted"] == 1 and not taken["implausible"], "the torch does not count", bert)
            expect((before, taken["standing"]) == ("none", "advisory"), "the standing is another one", bert)
            await stage.proved(
                f"Bert's node checks and takes it. Standing there: {before} before, {taken['standing']} now."
            )
            await _refused(bert, session, "ALREADY_USED", "torch.receive", {"torch": held})
            await stage.refused("The same torch a second time: refused. A torch can be taken once.")
    return {"from": held["from"], "to": held["to"], "standing": taken["standing"], "again": "ALREADY_USED"}


async def _refused(
    node: DemoNode, session: VcpSession, code: str, op: str, args: Mapping[str, Any] | None = None
) -> None:
    try:
        await session.call(op, args)
    except ExtensionError as refusal:
        expect(refusal.wire_code == code, f"{op} was refused with {refusal.wire_code}", node)
    else:
        raise SceneFailedError(f"{op} was carried out, and must be refused with {code}", node)


@_scene(
    "Three parties vote on a rule",
    "Owners decide rules together. Anybody can recount the vote from the file alone.",
)
async def vote(nodes: DemoNodes, stage: Stage) -> Facts:
    anna, bert, carol = nodes.all
    async with (
        anna.model(_CONSENSUS) as by_anna,
        bert.model(_CONSENSUS) as by_bert,
        carol.model(_CONSENSUS) as by_carol,
    ):
        parties: Mapping[str, ModelClient] = {"Anna": by_anna, "Bert": by_bert, "Carol": by_carol}
        rule, shorter = "Every call is answered within a day.", "Every call is answered within an hour."
        stakeholders = [{"id": bert.id}, {"id": carol.id, "role": "ai_party"}]
        opened = await by_anna.call(
            "vcp_consensus_open", title="How we answer", clauses=[rule], stakeholders=stakeholders
        )
        one = {"delib_id": opened["id"]}
        await stage.did(f"Anna proposes a rule to Bert, and to the AI on Carol's node: “{rule}”")
        for joining in (by_bert, by_carol):
            await joining.call("vcp_consensus_join", url=anna.url, **one)
        await by_anna.call("vcp_consensus_advance", to="deliberation", **one)
        clause = {"clause_id": "c1", **one}
        await by_bert.call("vcp_consensus_act", action="amend", text=shorter, **clause)
        await stage.did("Bert amends it: “… within an hour.”")
        for party in (by_anna, by_carol):
            await party.call("vcp_consensus_act", action="endorse", **clause)
        await by_bert.call("vcp_consensus_advance", to="convergence", **one)
        ballots = {"Anna": ["v0", "v1"], "Bert": ["v1", "v0"], "Carol": ["v1", "v0"]}
        for name, ranking in ballots.items():
            await parties[name].call("vcp_submit_ballot", ranking=ranking, **clause)
        result = await by_carol.call("vcp_get_election_result", **clause)
        expect(result["winner"] == "v1", f"the winner is {result['winner']}", carol)
        expect(result["pairwise_matrix"] == [[0, 10], [20, 0]], "the ballots were counted wrongly", carol)
        await by_anna.call("vcp_consensus_advance", to="ratification", **one)
        await stage.proved("All three rank the two texts. Bert's text wins, 2 to 1 (Schulze method).")
        for name, said in (("Anna", "reject"), ("Bert", "accept"), ("Carol", "accept")):
            reason = {"reason": "An hour is short."} if said == "reject" else {}
            await parties[name].call("vcp_consensus_vote", vote=said, **reason, **one)
        await stage.proved(
            "Two of three accept it: it is in force. Anna's “no”, with her reason, is on record."
        )
    files = [nodes.folder / f"{node.name.lower()}.vote.json" for node in nodes.all]
    await asyncio.gather(
        *(
            node.command("vote", "record", opened["id"], "--out", str(file))
            for node, file in zip(nodes.all, files, strict=True)
        )
    )
    records = {file.read_bytes() for file in files}
    expect(len(records) == 1, "the three records differ", anna)
    recount = verify_record(records.pop(), SystemClock().now())
    expect(recount.ok and recount.head is not None, f"the record is bad: {recount.reason}", anna)
    phase = recount.head and recount.head.vote.phase
    expect(phase == "active", f"the phase is {phase}", anna)
    await stage.proved(
        f"All three hold the same record of {recount.entries} signed entries. It was recounted: good."
    )
    return {"delib_id": opened["id"], "phase": phase, "entries": recount.entries, "records_equal": True}


@_scene(
    "The record is verified",
    "What the nodes did is on record. If somebody changes or removes one entry, this command tells.",
)
async def audit(nodes: DemoNodes, stage: Stage) -> Facts:
    await stage.did("Each owner types `comity audit verify`.")
    reports = await asyncio.gather(*(node.command("audit", "verify") for node in nodes.all))
    entries = {}
    for node, report in zip(nodes.all, reports, strict=True):
        expect(report["ok"] is True, f"the audit record of {node.name} is damaged", node)
        entries[node.name] = sum(chain["entries"] for chain in report["chains"])
        expect(entries[node.name] > 0, f"the audit record of {node.name} is empty", node)
        await stage.proved(
            f"{node.name:<5}  {entries[node.name]:>3} entries, every link and the signed head: sound"
        )
    return {"entries": entries}


async def _joined(anna: DemoNode, bert: DemoNode, session: str) -> str:
    """Wait until Bert is connected, and return how."""

    async def inspect() -> str | None:
        known = (await anna.room("vdo_sync_peers", session_id=session))["peers"]
        ready = [peer for peer in known if peer["connected"] and peer["handshake_state"] == "ready"]
        if not ready:
            return None
        expect(ready[0]["vacant_id"] == bert.id, "somebody else is in the room", anna)
        links = (await anna.room("links", session_id=session))["links"]
        return str(links[ready[0]["uuid"]]["path"])

    return str(await _until(anna, inspect, "the two nodes did not find each other in the room"))


def _path_in_words(path: str) -> str:
    if path == "websocket":
        return "by a link on this machine, because the WebRTC library wrtc is not installed"
    return "directly, by WebRTC" if path == "direct" else f"by WebRTC (path: {path})"


async def _sent(node: DemoNode, session: str, file: Path, stage: Stage) -> tuple[float, str]:
    """Return the seconds and the id of the transfer."""
    begun = time.monotonic()
    sending = {"session_id": session, "file_path": str(file), "timeout_ms": 1}
    transfer = (await node.room("vdo_file_send_path", file.parent, **sending))["transfer"]

    async def inspect() -> bool:
        listed = (await node.room("vdo_file_transfers", session_id=session, direction="outgoing"))["outgoing"]
        now = next(one for one in listed if one["transfer_id"] == transfer["transfer_id"])
        progress(min(now["acked_chunks"] * now["chunk_bytes"], now["total_bytes"]))
        expect(now["last_error"] is None, f"the file was not sent: {now['last_error']}", node)
        return bool(now["status"] == "completed")

    with stage.bar(file.name, transfer["total_bytes"]) as progress:
        await _until(node, inspect, "the file did not arrive")
    return time.monotonic() - begun, transfer["transfer_id"]


async def _shared(node: DemoNode, session: str, key: str) -> Any:
    return (await node.room("vdo_state_get", session_id=session))["value"].get(key)


async def _until(node: DemoNode, inspect: Callable[[], Awaitable[Any]], otherwise: str) -> Any:
    """Wait until a function returns something, and return that."""
    until = time.monotonic() + ROOM_SECONDS
    while not (found := await inspect()):
        expect(time.monotonic() < until, f"{otherwise} within {ROOM_SECONDS:g} seconds", node)
        await asyncio.sleep(POLL_SECONDS)
    return found
