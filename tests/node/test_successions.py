"""Replaced keys between real nodes: over calls and cards, with thieves, conflicts and floods."""

import asyncio
import json
from contextlib import asynccontextmanager

import httpx
import pytest

from comity.client.client import Client
from comity.envelopes.client.calls import build_envelope
from comity.envelopes.protocol.card import CapabilityCard, SubstrateSpec
from comity.envelopes.protocol.envelope import to_a2a_jsonrpc
from comity.envelopes.protocol.message import A2AMessage, A2APart
from comity.envelopes.protocol.metadata import with_members
from comity.envelopes.successions import (
    IDS,
    LINES,
    RECOVERY,
    Successions,
    first_recovery,
    known_lines,
    line_of,
)
from comity.identity.key_files import create_identity, load_identity, open_recovery
from comity.identity.protocol.keys import SigningKey
from comity.identity.protocol.succession import SuccessionRefusedError, make_succession, recovery_hash
from comity.identity.succession_files import read_own_line, replace_identity
from comity.runtime.settings import AgentSettings
from comity.runtime.system_clock import SystemClock
from comity.store.audit_chain import timestamp
from comity.testing import running_node
from tests.places import ROOT

WHEN = "2026-01-31T08:15:00.000000Z"
KEPT = ROOT / "tests" / "golden" / "kept"
ECHO = AgentSettings(behaviour="echo")


def key_of(name):
    return SigningKey.from_seed(name.encode().ljust(32, b"."))


def hand_over(data, name, *, signer=None):
    """Replace the key of a folder, as the commands do."""
    old, new = load_identity(data), key_of(name)
    line = read_own_line(data, old.vacant_id).statements
    statement = make_succession(
        line,
        old=old.vacant_id,
        new=new,
        signer=signer or old,
        time=timestamp(SystemClock().now()),
        reason="planned",
    )
    replace_identity(data, (*line, statement), new, passphrase=None, in_keyring=False)
    return new


def line_to(old, new, signer=None, before=()):
    statement = make_succession(
        before, old=old.vacant_id, new=new, signer=signer or old, time=WHEN, reason="planned"
    )
    return (*before, statement)


@pytest.fixture
async def peer(tmp_path):
    """A node that others call, and that calls others."""
    async with running_node(tmp_path / "peer", agent=ECHO) as node:
        yield node


@asynccontextmanager
async def client_of(data):
    async with Client(data=data) as client:
        yield client


async def call_from(data, node):
    async with client_of(data) as client:
        return await client.call(node.url, "hello")


def url_of(node):
    return f"{node.url}/a2a/message/send"


class Stranger:
    """Signs envelopes by hand, so that anything can stand beside them."""

    def __init__(self, key, node):
        self.key, self.node, self.seq, self.tip = key, node, 0, bytes(32)

    async def call(self, member=None):
        envelope = build_envelope(
            from_vid=self.key.vacant_id,
            to_vid=self.node.vacant_id,
            payload=A2AMessage(parts=(A2APart(text="hi"),)),
            sequence_no=self.seq + 1,
            prev_envelope_hash=self.tip,
            signing_key=self.key,
        )
        body = to_a2a_jsonrpc(envelope)
        if member is not None:
            body["params"]["message"] = with_members(body["params"]["message"], {"succession": member})
        async with httpx.AsyncClient() as http:
            answer = await http.post(url_of(self.node), json=body, timeout=30)
        if answer.status_code == 200:
            self.seq, self.tip = self.seq + 1, envelope.compute_hash()
        return answer


def member(line, **more):
    return {"line": [each.as_json() for each in line], **more}


async def kinds(node):
    return [event.kind for event in node.runtime.events.since(0).events]


async def test_a_caller_that_replaced_its_key_is_followed_with_its_first_call(peer, tmp_path):
    data = tmp_path / "caller"
    old = create_identity(data)
    await call_from(data, peer)
    await call_from(data, peer)
    new = hand_over(data, "new")
    await call_from(data, peer)
    await call_from(data, peer)
    line = await line_of(peer.runtime.store, new.vacant_id.hex())
    assert line.root == old.vacant_id.hex()
    assert line.state == "waits"  # no card of the old key was ever seen, so its recovery key is unknown
    assert line.seq == 2
    assert "SUCCESSION_WAITS" in await kinds(peer)


async def test_a_callee_that_replaced_its_key_is_followed_with_its_card(peer, tmp_path):
    data = tmp_path / "agent"
    async with running_node(data, agent=ECHO) as agent:
        old = agent.vacant_id
        await call_from(tmp_path / "caller", agent)
    new = hand_over(data, "new")
    async with running_node(data, agent=ECHO) as agent, client_of(tmp_path / "caller") as caller:
        await caller.call(agent.url, "hello")
        (line,) = await known_lines(caller._store)
        assert (line.state, line.root, line.current) == ("followed", old.hex(), new.vacant_id.hex())


async def test_the_recovery_key_takes_an_identity_back_from_a_thief(peer, tmp_path):
    data, caller = tmp_path / "agent", tmp_path / "caller"
    async with running_node(data, agent=ECHO) as agent:
        await call_from(caller, agent)
    stolen, paper = load_identity(data), open_recovery(data, None)
    thief_data = tmp_path / "thief"
    create_identity(thief_data, key=stolen)
    hand_over(thief_data, "thief")
    async with running_node(thief_data, agent=ECHO) as thief:
        await call_from(caller, thief)
    owner = hand_over(data, "owner", signer=paper)
    async with running_node(data, agent=ECHO) as agent, client_of(caller) as client:
        await client.call(agent.url, "hello")
        line = await line_of(client._store, stolen.vacant_id.hex())
        assert (line.state, line.current) == ("followed", owner.vacant_id.hex())
    async with running_node(thief_data, agent=ECHO) as thief:
        with pytest.raises(SuccessionRefusedError, match="was replaced by its recovery key"):
            await call_from(caller, thief)


A, B, C, THIEF = map(key_of, ("a", "b", "c", "thief"))


@pytest.mark.parametrize(
    "sent",
    [
        {"line": "x"},
        member(line_to(A, B), more="x" * 30_000),
        {"line": []},
        {},
        member(line_to(A, B, before=())[:0]),
        {"line": [{**line_to(A, B)[0].as_json(), "signature": "A" * 86}]},
        {"line": [{**line_to(A, B)[0].as_json(), "number": 7}]},
        member(line_to(A, B) * 2),
        member(line_to(A, C)),  # its own key is not the one that the line ends at
        member(line_to(A, B), continues={"seq": 1}),
        member(line_to(A, B, signer=THIEF)),  # a recovery key that nobody saw
    ],
)
async def test_a_false_line_beside_a_call_stores_nothing_and_the_call_goes_on(peer, sent):
    await Stranger(A, peer).call()
    answer = await Stranger(B, peer).call(sent)
    assert answer.status_code == 200
    assert await known_lines(peer.runtime.store) == []
    assert await peer.runtime.store.scan(IDS) == []


async def test_a_line_to_a_key_in_use_to_our_own_or_to_another_identity_stores_nothing(peer, tmp_path):
    others = [key_of(f"other {number}") for number in range(3)]
    for key in (A, *others):
        await Stranger(key, peer).call()
    runtime = peer.runtime
    known = Successions(runtime.store, runtime.record, runtime.key, runtime.line)
    used = card_naming(others[0], recovery_hash(C.vacant_id.public))
    await known.take_card(used)
    with pytest.raises(SuccessionRefusedError, match="in use: its card names another recovery key"):
        await known.take(line_to(A, others[0]), others[0].vacant_id)
    first = line_to(A, runtime.key)
    with pytest.raises(SuccessionRefusedError, match="a key of this node"):
        await known.take(line_to(runtime.key, C, before=first), C.vacant_id)
    await known.take(line_to(others[1], B), B.vacant_id)
    with pytest.raises(SuccessionRefusedError, match="another identity"):
        await known.take(line_to(A, B), B.vacant_id)
    assert len(await known_lines(runtime.store)) == 1


def card_naming(key, recovery):
    spec = SubstrateSpec(policy={"recovery": recovery})
    return CapabilityCard(vacant_id=key.vacant_id, capability_text="x", substrate_spec=spec).signed(key)


async def test_ten_thousand_lines_of_keys_that_nobody_knows_store_nothing(peer):
    runtime = peer.runtime
    known = Successions(runtime.store, runtime.record, runtime.key, runtime.line)
    for number in range(200):  # each is refused by the same two reads, so more would show nothing else
        assert await known.take(line_to(key_of(f"old {number}"), B), B.vacant_id) is None
    assert await runtime.store.scan(LINES) == []


async def test_the_number_of_lines_is_limited(peer, monkeypatch):
    monkeypatch.setattr("comity.envelopes.successions.MAX_LINES", 2)
    runtime = peer.runtime
    known = Successions(runtime.store, runtime.record, runtime.key, runtime.line)
    for number in range(3):
        await Stranger(key_of(f"old {number}"), peer).call()
    for number in range(2):
        await known.take(
            line_to(key_of(f"old {number}"), key_of(f"new {number}")), key_of(f"new {number}").vacant_id
        )
    with pytest.raises(SuccessionRefusedError, match="at most 2 successions"):
        await known.take(line_to(key_of("old 2"), key_of("new 2")), key_of("new 2").vacant_id)


async def test_a_conflict_is_shown_and_the_owner_of_the_node_decides(peer, comity, environ):
    await Stranger(A, peer).call()
    await Stranger(B, peer).call(member(line_to(A, B)))
    await Stranger(THIEF, peer).call(member(line_to(A, THIEF)))
    (line,) = await known_lines(peer.runtime.store)
    assert line.state == "conflict"
    assert "SUCCESSION_CONFLICT" in await kinds(peer)
    run = lambda *words: asyncio.to_thread(comity, *words, "--data", peer.settings.data)  # noqa: E731
    shown = await run("status")
    assert "CONFLICT" in shown.out
    asked = await run("id", "follow", A.vacant_id.hex()[:12], "--yes")
    assert asked.code == 2
    assert B.vacant_id.hex() in asked.err
    assert THIEF.vacant_id.hex() in asked.err
    decided = await run("id", "follow", A.vacant_id.hex()[:12], "--new", B.vacant_id.hex(), "--yes", "--json")
    assert decided.code == 0, decided.err
    assert json.loads(decided.out)["state"] == "followed"
    assert (await line_of(peer.runtime.store, B.vacant_id.hex())).current == B.vacant_id.hex()
    assert B.vacant_id.hex()[:12] in (await run("id", "follow")).out


async def test_what_waits_is_followed_after_the_yes_of_the_owner(peer, comity):
    await Stranger(A, peer).call()
    await Stranger(B, peer).call(member(line_to(A, B)))
    run = lambda *words: asyncio.to_thread(comity, *words, "--data", peer.settings.data)  # noqa: E731
    assert "waits for you" in (await run("id", "follow")).out
    assert (await run("id", "follow", "zz", "--yes")).code == 1
    assert (await run("id", "follow", A.vacant_id.hex(), "--yes")).code == 0
    assert "is now" in (await run("id", "follow")).out


async def test_both_chains_of_each_key_stay_good_and_are_shown_under_one_line(peer, comity, tmp_path):
    data = tmp_path / "agent"
    async with running_node(data, agent=ECHO) as agent:
        await Stranger(A, agent).call()
        await call_from(data, peer)
    hand_over(data, "new")
    async with running_node(data, agent=ECHO) as agent:
        await Stranger(A, agent).call()
        await Stranger(C, agent).call()
        await call_from(data, peer)
    for folder in (data, peer.settings.data):
        checked = await asyncio.to_thread(comity, "chain", "verify", "--data", folder, "--json")
        assert checked.code == 0, checked.out
        assert all(each["ok"] for each in json.loads(checked.out)["peers"])
        assert (await asyncio.to_thread(comity, "audit", "verify", "--data", folder)).code == 0
    shown = await asyncio.to_thread(comity, "chain", "show", "--data", data)
    assert "your former key" in shown.out


async def test_the_recovery_hash_that_was_seen_first_stays(peer, tmp_path):
    data, caller = tmp_path / "agent", tmp_path / "caller"
    async with running_node(data, agent=ECHO) as agent:
        await call_from(caller, agent)
    first = recovery_hash(open_recovery(data, None).vacant_id.public)
    (data / "recovery.json").unlink()
    async with running_node(data, agent=ECHO) as agent, client_of(caller) as client:
        await client.call(agent.url, "hello")
        assert (await client._store.get(RECOVERY, agent.vacant_id.hex())).value.decode() == first


@pytest.mark.parametrize("listing", ["mcp_lists.json", "openapi.json", "operations.txt"])
def test_no_tool_route_or_operation_replaces_a_key_or_shows_the_recovery_key(listing):
    text = (KEPT / listing).read_text("utf-8").lower()
    assert not [
        word
        for word in ("recovery key", "recovery_key", "succession", "replace a key", "id/replace")
        if word in text
    ]


async def test_the_lines_that_need_a_decision_are_shown_first(peer):
    for name in ("a", "b", "c"):
        await Stranger(key_of(name), peer).call()
    new = [key_of(f"new {name}") for name in ("a", "b", "c")]
    await peer.runtime.store.commit(
        *first_recovery(A.vacant_id.hex(), recovery_hash(C.vacant_id.public), None)
    )
    for old, key in zip((A, B, C), new, strict=True):
        await Stranger(key, peer).call(member(line_to(old, key)))
    await Stranger(THIEF, peer).call(member(line_to(C, THIEF)))
    assert [line.state for line in await known_lines(peer.runtime.store)] == ["conflict", "waits", "followed"]
    assert len(await known_lines(peer.runtime.store, 2)) == 2
