"""Nodes that meet in a room hold heads of each other's audit record, without a call between them."""

import random

import pytest

from comity.envelopes.part import Witnessing
from comity.envelopes.witness import PROOFS
from comity.rooms import witness
from comity.rooms.protocol.effects import TakeWitness
from comity.rooms.witness import RoomWitness
from tests.envelopes.test_witness import ROUNDS, Side
from tests.rooms.scene import Client, meet, rooms_node
from tests.store.samples import HandClock
from tests.waiting import eventually


class Member:
    """One side in a room; `said` is what its next hello carries."""

    def __init__(self, side):
        self.side = side
        self.room = RoomWitness(side.witnesses, side.clock)
        self.said = None

    async def announce(self):
        await self.room.announce(self.say)

    def say(self, ready):
        self.said = ready

    async def hear(self, other):
        if other.said is not None:
            await self.room.take(TakeWitness(other.side.id.hex(), other.said.witness), self.say)


async def meet_in_a_room(one, other, hellos=3):
    """Let them hear what hellos of so many minutes carry."""
    here, there = Member(one), Member(other)
    await here.announce()
    await there.announce()
    for _ in range(hellos):
        await there.hear(here)
        await here.hear(there)
        one.clock.time += 60
    return here, there


async def test_two_nodes_in_a_room_hold_a_head_of_each_other_and_know_what_the_other_holds(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(witness, "_SOON", 0.3)
    async with rooms_node(tmp_path / "here") as here, rooms_node(tmp_path / "there") as there:
        anna, bert = Client(here), Client(there)
        await meet(anna, bert, heartbeat_ms=50)
        for node, other in ((here, there), (there, here)):

            async def is_told(node=node, other=other):
                record = await node.runtime.find(Witnessing).witnesses.read(other.vacant_id)
                return record.last is not None and record.told is not None and record.rewritten == 0

            await eventually(is_told)


async def test_a_record_that_grows_is_continued_from_one_meeting_to_the_next():
    clock = HandClock()
    ann, bob = Side("ann", clock), Side("bob", clock)
    for side in (ann, bob):
        await side.write("NODE_STARTED")
    sizes = []
    for _ in range(3):
        await meet_in_a_room(ann, bob)
        for one, other in ((ann, bob), (bob, ann)):
            record = await one.record_of(other)
            assert (record.rewritten, record.unproven) == (0, None)
        sizes.append((await ann.record_of(bob)).last.place.size)
        await ann.write(*(f"A{n}" for n in range(300)))
        await bob.write("B")
        clock.time += 86_400
    assert sizes == sorted(set(sizes))


@pytest.mark.parametrize("rounds", [ROUNDS])
async def test_an_owner_who_rewrites_one_entry_is_found_out_in_the_next_meeting(rounds, tmp_path):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    clock = HandClock()
    for number in range(rounds):
        owner, peer = Side("owner", clock), Side("peer", clock, tmp_path / str(number))
        await owner.write(*(f"E{n}" for n in range(chance.randrange(1, 400))))
        await peer.write("P")
        await meet_in_a_room(owner, peer)
        await owner.rewrite(chance.randrange(len(owner.drafts)))
        await owner.write(*(f"L{n}" for n in range(chance.randrange(10, 40))))
        clock.time += 7200
        await meet_in_a_room(owner, peer)
        assert (await peer.record_of(owner)).rewritten
        assert await peer.store.get(PROOFS, f"{owner.id.hex()}-1") is not None


async def test_after_a_few_exchanges_a_head_without_a_proof_counts_and_the_next_is_an_hour_later():
    clock = HandClock()
    ann, bob = Side("ann", clock), Side("bob", clock)
    for side in (ann, bob):
        await side.write("NODE_STARTED")
    await meet_in_a_room(ann, bob)
    await ann.write("A")
    mute, listener = Member(ann), Member(bob)
    for turn in range(1, 4):
        await mute.announce()
        await listener.hear(mute)
        assert ((await bob.record_of(ann)).unproven is not None) == (turn == 3)
        clock.time += 60
    for minutes in (1, 60):
        clock.time += 60 * minutes
        listener.said = None
        await listener.hear(mute)
        assert (listener.said is not None) == (minutes == 60)


@pytest.mark.parametrize("altered", ["signer", "shape", "future"])
async def test_a_witness_that_is_not_the_peers_changes_nothing(altered):
    clock = HandClock()
    ann, bob, eve = Side("ann", clock), Side("bob", clock), Side("eve", clock)
    for side in (ann, bob, eve):
        await side.write("NODE_STARTED")
    if altered == "future":
        clock.time += 3600
        await ann.write("LATER")
    sender = Member(eve if altered == "signer" else ann)
    await sender.announce()
    if altered == "future":
        clock.time -= 3600
    given = {"head": 5} if altered == "shape" else sender.said.witness
    listener = Member(bob)
    await listener.room.take(TakeWitness(ann.id.hex(), given), listener.say)
    assert listener.said is None
    assert (await bob.record_of(ann)).last is None


async def test_a_node_without_a_record_announces_none():
    member = Member(Side("ann", HandClock()))
    await member.announce()
    assert member.said is None
    await member.side.write("NODE_STARTED")
    await member.announce()
    assert member.said.node == ""


async def test_a_node_that_gives_no_witness_takes_none():
    ann, bob = Side("ann", HandClock()), Side("bob", HandClock())
    await ann.write("NODE_STARTED")
    sender, deaf = Member(ann), Member(bob)
    deaf.room = RoomWitness(None, bob.clock)
    await sender.announce()
    await deaf.announce()
    await deaf.hear(sender)
    assert deaf.said is None
    assert (await bob.record_of(ann)).last is None
