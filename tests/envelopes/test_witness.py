"""Witnesses: whoever holds a signed head of a record finds out when it is rewritten, and nothing else looks like that."""

import os
import random

import pytest

from comity.envelopes.features import Features
from comity.envelopes.protocol.card import CapabilityCard, SubstrateSpec
from comity.envelopes.protocol.witness import (
    Seen,
    check_rewriting,
    judge,
    read_challenge,
    read_witness,
    rewriting_json,
    signed_challenge,
    signed_proof,
)
from comity.envelopes.witness import EVERY, PROOFS, SPACE, Witnesses, in_words, read_proof
from comity.identity.protocol.keys import SigningKey
from comity.requests.record import Recorder
from comity.store.audit_chain import AuditHead, timestamp
from comity.store.audit_log import keep_restored
from comity.store.audit_trail import AuditTrail, RestoreMark, sign_head
from comity.store.interface import Put, scan_all
from comity.store.memory import MemoryDisk, MemoryStore
from comity.wire import strict_json
from comity.wire.errors import ConflictError, InvalidError, NotFoundError
from tests.store.samples import HandClock, draft

ROUNDS = int(os.environ.get("WITNESS_ROUNDS", "25"))


class Side:
    """A node with a record, as far as its peers see it."""

    def __init__(self, name, clock, folder=None):
        self.key = SigningKey.from_seed(name.encode().ljust(32))
        self.id = self.key.vacant_id
        self.clock = clock
        self.folder = folder
        self.card = CapabilityCard(
            vacant_id=self.id,
            capability_text=name,
            substrate_spec=SubstrateSpec(policy={"witness": 1}),
            endpoint=f"https://{name}.example/a2a/message/send",
        )
        self.drafts = []
        self.open(MemoryDisk())

    def open(self, disk):
        self.disk = disk
        self.store = MemoryStore(self.clock, disk, AuditTrail("main", self.key))
        record = Recorder(self.store, self.clock)
        self.witnesses = Witnesses(self.store, self.key, self.clock, record, proofs=self.folder)

    async def write(self, *results):
        drafts = [draft(result) for result in results]
        self.drafts += drafts
        await self.store.commit(audit=drafts)

    async def rewrite(self, index, **fields):
        """As the owner can who has the key: change one entry, and link, hash and sign everything again."""
        self.drafts[index] = draft("ANOTHER", **fields)
        kept = self.disk
        self.open(MemoryDisk())
        for key, value in kept.values.items():
            if key[0] == SPACE:
                self.disk.values[key] = value
        await self.store.commit(audit=self.drafts)

    async def record_of(self, other):
        return await self.witnesses.read(other.id)


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
async def ann(clock):
    side = Side("ann", clock)
    await side.write("NODE_STARTED")
    return side


@pytest.fixture
async def bob(clock, tmp_path):
    side = Side("bob", clock, tmp_path / "proofs")
    await side.write("NODE_STARTED")
    return side


async def call(caller, server, *, change=lambda member: member, answer=lambda member: member):
    """What a signed call carries both ways, a minute after the last one."""
    caller.clock.time += EVERY + 1
    given = await caller.witnesses.to_request(server.card)
    known = Features([server.witnesses])
    members = {} if given is None else {"witness": change(given)}
    reply = await known.to_reply(caller.id, members, known=True)
    if "witness" in reply:
        await Features([caller.witnesses]).take_reply(server.card, {"witness": answer(reply["witness"])})
    return reply.get("witness")


async def test_both_keep_the_head_of_the_other_and_follow_it(ann, bob):
    await ann.write("A1", "A2")
    await bob.write("B1")
    for number in range(4):
        await call(ann, bob)
        for one, other in ((ann, bob), (bob, ann)):
            record = await one.record_of(other)
            assert (record.rewritten, record.restored) == (0, ())
            assert record.last is not None
        await ann.write(*(f"A{n}" for n in range(number * 100)))
        await bob.write("B")
    sizes = [(await one.record_of(other)).last.place.size for one, other in ((ann, bob), (bob, ann))]
    await call(ann, bob)
    later = [(await one.record_of(other)).last.place.size for one, other in ((ann, bob), (bob, ann))]
    assert later[0] > sizes[0]
    assert later[1] > sizes[1]
    assert (await bob.record_of(ann)).unproven is None


@pytest.mark.parametrize("rounds", [ROUNDS])
async def test_an_owner_who_rewrites_one_entry_and_signs_everything_again_is_found_out(
    rounds, clock, tmp_path
):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    found = 0
    for number in range(rounds):
        owner, peer = Side("owner", clock), Side("peer", clock, tmp_path / str(number))
        calls_peer = chance.random() < 0.5
        way = (owner, peer) if calls_peer else (peer, owner)
        await owner.write(*(f"E{n}" for n in range(chance.randrange(1, 400))))
        await peer.write("P")
        for _ in range(chance.randrange(1, 4)):
            await call(*way)
        seen = (await peer.record_of(owner)).last.place.size
        await owner.rewrite(
            chance.randrange(min(seen, len(owner.drafts))), duration_ms=chance.randrange(1, 9)
        )
        await owner.write(*(f"L{n}" for n in range(chance.randrange(1, 400))))
        for _ in range(3):
            await call(*way)
        record = await peer.record_of(owner)
        found += record.rewritten > 0
        assert record.last.place.size == seen, "what was kept is not overwritten"
        proof = strict_json.loads(await read_proof(peer.store, owner.id))
        assert check_rewriting(proof).verdict == "rewritten"
        assert len(list((tmp_path / str(number)).iterdir())) >= 1
    assert found == rounds


async def test_the_proof_is_never_overwritten_and_few_are_kept(ann, bob, caplog):
    await ann.write("A1", "A2", "A3")
    await call(ann, bob)
    await ann.rewrite(1)
    await ann.write("A")
    await call(ann, bob)
    first = await read_proof(bob.store, ann.id)
    for _ in range(8):
        await ann.write("A")
        await call(ann, bob)
    assert await read_proof(bob.store, ann.id) == first
    assert len([key async for key, _ in scan_all(bob.store, PROOFS)]) <= 4
    assert f"the audit record of {ann.id} was rewritten" in caplog.text
    assert in_words(await bob.record_of(ann), bob.clock.now())[0] == "REWRITTEN"


async def test_of_two_processes_that_find_the_same_one_keeps_it_and_nothing_is_lost(ann, bob, caplog):
    await ann.write("A1", "A2")
    await call(ann, bob)
    await ann.rewrite(1)
    await ann.write("A3")
    await call(bob, ann)
    given = await ann.witnesses.witness_for(bob.id, await ann.record_of(bob))
    record, version = await bob.witnesses._held(ann.id)
    witness = read_witness(given, peer=ann.id, receiver=bob.id, now=bob.clock.now())
    await bob.witnesses._take(ann.id, record, version, witness)
    with pytest.raises(ConflictError):
        await bob.witnesses._take(ann.id, record, version, witness)
    assert (await bob.record_of(ann)).rewritten == record.rewritten + 1


async def test_a_proof_says_nothing_once_a_byte_of_it_is_changed(ann, bob):
    await ann.write("A1", "A2", "A3")
    await call(ann, bob)
    await ann.rewrite(1)
    await call(ann, bob)
    await call(ann, bob)
    proof = strict_json.loads(await read_proof(bob.store, ann.id))
    assert check_rewriting(proof).verdict == "rewritten"
    proof["kept"]["head"]["root"] = "00" * 32
    with pytest.raises(InvalidError, match="not signed"):
        check_rewriting(proof)
    with pytest.raises(InvalidError, match="comity_audit_proof"):
        check_rewriting({})
    with pytest.raises(InvalidError, match="cannot be read"):
        check_rewriting({"comity_audit_proof": 1})


async def test_a_sound_exchange_is_no_proof_of_anything(ann, bob):
    await ann.write("A1")
    given = await call(bob, ann)
    witness = read_witness(given, peer=ann.id, receiver=bob.id, now=bob.clock.now())
    found = {
        "comity_audit_proof": 1,
        "peer": ann.id.hex(),
        "receiver": bob.id.hex(),
        "found": "",
        "sentence": "",
    }
    kept = {"head": given["head"], "sig": given["sig"]}
    with pytest.raises(InvalidError, match="does not show"):
        check_rewriting({**found, "kept": kept, "given": given})
    assert judge(witness.signed_place, witness).verdict == "same"
    assert rewriting_json is not None
    with pytest.raises(NotFoundError):
        await read_proof(bob.store, ann.id)


async def test_an_old_head_that_somebody_sends_again_is_no_fork_and_changes_nothing(ann, bob):
    await ann.write("A1")
    old = []
    await call(ann, bob, change=lambda given: old.append(given) or given)
    await ann.write("A2")
    await call(ann, bob)
    kept = await bob.record_of(ann)
    for _ in range(3):
        await call(ann, bob, change=lambda _given: old[0])
        record = await bob.record_of(ann)
        assert (record.last, record.rewritten, record.unproven) == (kept.last, 0, None)


async def test_whoever_carries_the_messages_cannot_make_anybody_look_forked(ann, bob):
    await ann.write(*"A" * 9)
    await bob.write("B")
    for _ in range(3):
        await call(ann, bob)
        await ann.write(*"A" * 9)

    def change(given):
        hashes = given["proof"]["hashes"]
        return {**given, "proof": {**given["proof"], "hashes": ["00" * 32, *hashes[1:]]}}

    kept = await bob.record_of(ann)
    await call(ann, bob, change=change)
    assert (await bob.record_of(ann)) == kept
    await call(ann, bob)
    assert (await bob.record_of(ann)).last.place.size > kept.last.place.size


async def test_a_peer_that_sends_a_head_with_each_call_is_heard_once_a_minute_and_kept_once_a_day(ann, bob):
    await call(ann, bob)
    end = await bob.store.end("audit:main")
    for _ in range(500):
        await ann.write("A")
        given = await ann.witnesses.witness_for(bob.id, await ann.record_of(bob))
        assert await bob.witnesses.to_reply(ann.id, given, known=True) is None
    assert await bob.store.end("audit:main") == end
    for _ in range(3 * 24):
        ann.clock.time += 3600
        await ann.write("A")
        await call(ann, bob)
    days = [key async for key, _ in scan_all(bob.store, SPACE, f"{ann.id.hex()}/")]
    assert len(days) <= 5
    ann.clock.time += 370 * 86400
    assert [key async for key, _ in scan_all(bob.store, SPACE, f"{ann.id.hex()}/")] == []


async def test_an_unknown_caller_gets_a_head_and_has_nothing_stored(ann, bob):
    await ann.write("A")
    await bob.write("B")
    given = await ann.witnesses.to_request(bob.card)
    reply = await bob.witnesses.to_reply(ann.id, given, known=False)
    assert reply["head"]["chain"] == "main"
    assert [key async for key, _ in scan_all(bob.store, SPACE)] == []


async def test_a_caller_without_a_record_announces_itself_and_watches_others(clock, bob):
    eve = Side("eve", clock)
    assert await call(eve, bob, change=lambda given: given if given == {} else None) is not None
    await bob.write("B1", "B2")
    await call(eve, bob, change=lambda given: given if set(given) == {"seen"} else None)
    # what it keeps is an act of its own, so now it has a record
    assert (await eve.record_of(bob)).last.place.size >= 1
    await bob.rewrite(0)
    await bob.write("B3")
    await call(eve, bob)
    assert (await eve.record_of(bob)).rewritten == 1


async def test_a_reply_brings_nothing_that_was_not_asked_for(ann, bob):
    await bob.write("B")
    given = await bob.witnesses.witness_for(ann.id, await bob.record_of(ann))
    await ann.witnesses.take_reply(bob.card, given)
    assert (await ann.record_of(bob)).last is None


async def test_nothing_is_sent_to_agents_whose_card_does_not_ask_for_it(ann, bob):
    await ann.write("A")
    plain = CapabilityCard(vacant_id=bob.id, capability_text="", substrate_spec=SubstrateSpec())
    assert await ann.witnesses.to_request(plain) is None
    assert await ann.witnesses.to_request(bob.card) is not None


@pytest.mark.parametrize(
    "seen",
    [
        {"log": "", "size": 10**12, "root": "00" * 32},
        {"log": "", "size": 1, "root": "00" * 32},
        {"log": "ab" * 16, "size": 1, "root": "00" * 32},
        {"log": "", "size": 0, "root": "00" * 32},
    ],
)
async def test_a_peer_that_lies_about_what_it_has_seen_gets_the_truth_or_no_proof(ann, bob, seen):
    await ann.write("A")
    await bob.write("B1", "B2")
    reply = await call(ann, bob, change=lambda given: {**given, "seen": seen})
    assert reply["head"]["size"] >= 2
    if "proof" in reply:
        assert reply["proof"]["start"]["root"] != seen["root"]
    assert (await ann.record_of(bob)).rewritten == 0
    await call(ann, bob)
    await call(ann, bob)
    assert (await ann.record_of(bob)).unproven is None


def resigned(side, given, **fields):
    head = AuditHead(**{**given["head"], **fields})
    signed = strict_json.loads(sign_head(head, side.key))
    return {**given, "head": signed["head"], "sig": signed["signature"], "proof": None}


BAD = {
    "from the future": (
        lambda side, given: resigned(side, given, at=timestamp(side.clock.now() + 3600)),
        "set the clocks right",
    ),
    "of another key": (
        lambda _side, given: {**given, "sig": SigningKey.from_seed(bytes(32)).sign(b"x").hex()},
        "the head is not signed by",
    ),
    "a proof of a million hashes": (
        lambda _side, given: {**given, "proof": {**PROOF, "hashes": ["00" * 32] * 1_000_000}},
        "cannot be read",
    ),
    "a proof that nobody signed": (lambda _side, given: {**given, "proof": PROOF}, "is not signed by"),
    "without a tree": (
        lambda side, given: resigned(side, given, size=None, root=None),
        "must have log, size and root",
    ),
    "of another chain": (lambda side, given: resigned(side, given, chain="cli"), "not of a chain 'main'"),
    "larger than its chain": (
        lambda side, given: resigned(side, given, size=10**9),
        "as many entries as its tree",
    ),
    "a hash of a megabyte": (
        lambda side, given: resigned(side, given, entry_hash="a" * 9999),
        "a hash and a time",
    ),
    "seen nonsense": (lambda _side, given: {**given, "seen": {"size": -1}}, "cannot be read"),
    "no object": (lambda _side, _given: {"head": 1}, "cannot be read"),
}
PROOF = {"start": {"log": "", "size": 1, "root": "00" * 32}, "hashes": [], "sig": "00" * 64}


@pytest.mark.parametrize("kind", BAD)
async def test_bad_input_is_one_sentence_and_nothing_is_stored(kind, ann, bob, caplog):
    change, sentence = BAD[kind]
    await ann.write("A1", "A2")
    given = await ann.witnesses.to_request(bob.card)
    bad = change(ann, given)
    with pytest.raises(InvalidError, match=sentence):
        read_witness(bad, peer=ann.id, receiver=bob.id, now=bob.clock.now())
    assert await Features([bob.witnesses]).to_reply(ann.id, {"witness": bad}, known=True) == {}
    assert [key async for key, _ in scan_all(bob.store, SPACE)] == []
    assert "a call goes on without its witness" in caplog.text
    assert "Traceback" not in caplog.text


async def test_a_size_that_goes_backwards_is_not_kept(ann, bob):
    await ann.write("A1", "A2", "A3")
    await call(ann, bob)
    kept = await bob.record_of(ann)

    def smaller(given):
        return resigned(ann, given, size=1, root="11" * 32, position=1)

    await call(ann, bob, change=smaller)
    record = await bob.record_of(ann)
    assert (record.last, record.rewritten) == (kept.last, 0)


async def test_a_signed_proof_that_does_not_connect_is_a_proof_of_rewriting(ann, bob):
    await ann.write("A1", "A2", "A3")
    await call(ann, bob)
    place = (await bob.record_of(ann)).last.place

    def lie(given):
        forged = resigned(ann, given, size=place.size + 5, position=place.size + 5, root="22" * 32)
        head = AuditHead(**forged["head"])
        proof = signed_proof(head, place, [bytes(32)] * 3, receiver=bob.id, key=ann.key)
        shown = {"start": {"log": "", "size": place.size, "root": place.root}, "hashes": list(proof.hashes)}
        return {**forged, "proof": {**shown, "sig": proof.sig}}

    await call(ann, bob, change=lie)
    assert (await bob.record_of(ann)).rewritten == 1
    assert (
        "does not connect" in check_rewriting(strict_json.loads(await read_proof(bob.store, ann.id))).sentence
    )


async def test_a_restored_record_is_seen_as_restored_and_not_as_rewritten(ann, bob):
    await ann.write("A1", "A2")
    backup = {key: dict(value) for key, value in vars(ann.disk).items()}
    await call(ann, bob)
    await ann.write("A3", "A4")
    await call(ann, bob)
    disk = MemoryDisk()
    for name, table in backup.items():
        getattr(disk, name).update(table)
    ann.clock.time += 5
    ann.open(disk)
    await ann.store.commit(keep_restored(RestoreMark(at=ann.clock.time, since=ann.clock.time)))
    ann.clock.time += 5
    ann.open(disk)
    await ann.write("A5")
    for _ in range(3):
        await call(ann, bob)
        await ann.write("A6")
    record = await bob.record_of(ann)
    assert record.rewritten == 0
    assert [each.beginning.reason for each in record.restored] == ["restored"]
    assert in_words(record, bob.clock.now())[0].startswith("restored at")
    assert record.last.head.log == ann.store._trail.tree.log


async def test_a_new_log_without_its_statement_is_not_believed(ann, bob):
    await ann.write("A1", "A2")
    await call(ann, bob)
    kept = await bob.record_of(ann)
    await call(ann, bob, change=lambda given: resigned(ann, given, log="ab" * 16))
    record = await bob.record_of(ann)
    assert (record.last, record.rewritten, record.restored) == (kept.last, 0, ())
    assert record.unproven is not None


async def test_challenges_are_read_from_whom_they_are_and_in_their_time_only(ann, bob):
    seen, now = Seen(log="", size=1, root="00" * 32), ann.clock.now()
    asked = signed_challenge(ann.key, bob.id, seen, now=now, nonce="ab" * 16)
    value = strict_json.loads(
        strict_json.dumps({**{n: getattr(asked, n) for n in asked.__struct_fields__}, "seen": vars_of(seen)})
    )
    assert read_challenge(value, own=bob.id, now=now)[0] == ann.id
    for changed, at, sentence in (
        (value, now + 301, "set the clocks right"),
        ({**value, "nonce": "cd" * 16}, now, "not signed"),
        ({**value, "to": ann.id.hex()}, now, "this node is"),
        ({}, now, "cannot be read"),
    ):
        with pytest.raises(InvalidError, match=sentence):
            read_challenge(changed, own=bob.id, now=at)


def vars_of(struct):
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


async def test_an_answer_to_a_challenge_must_be_made_for_it(ann, bob):
    await ann.write("A1", "A2")
    await call(bob, ann)
    await ann.write("A3")
    place = (await bob.record_of(ann)).last.place
    answer = await ann.witnesses.witness_for(bob.id, await ann.record_of(bob), asked=place, nonce="ab" * 16)
    assert (await bob.witnesses.take_answer(ann.id, answer, "cd" * 16)).verdict == "unproven"
    place = (await bob.record_of(ann)).last.place
    answer = await ann.witnesses.witness_for(bob.id, await ann.record_of(bob), asked=place, nonce="ef" * 16)
    assert (await bob.witnesses.take_answer(ann.id, answer, "ef" * 16)).verdict in ("continued", "same")


async def test_the_heads_of_no_more_peers_are_kept_than_there_is_room_for(ann, bob, monkeypatch):
    monkeypatch.setattr("comity.envelopes.witness.ALL_BYTES", 1)
    await ann.write("A1")
    await call(ann, bob)
    assert (await bob.record_of(ann)).last is None


async def test_what_is_stored_of_a_peer_is_read_again(ann, bob):
    await ann.write("A1")
    await call(bob, ann)
    assert (await bob.record_of(ann)).endpoint == ann.card.endpoint
    await bob.store.commit(Put(space="other", key="x", value=b""))
    bob.open(bob.disk)
    assert (await bob.record_of(ann)).last is not None
