"""A host with two faces: it continues one vote in two ways, and shows each party another one."""

import contextlib
import json
import shutil

import pytest

from comity.store.audit_trail import log_of
from comity.store.interface import Delete, Put
from comity.testing import running_node
from comity.vcp.protocol.extension_calls import ExtensionError
from comity.votes.protocol.log import conflict_between
from tests.votes.parties import SPACES, AtTheDoor, Party, parties


def is_proven(conflict):
    return conflict_between(conflict.host, conflict.first, conflict.second) == conflict


async def refusal(coroutine):
    with pytest.raises(ExtensionError) as refused:
        await coroutine
    return refused.value


class TwoFaces(Party):
    """What it stores of votes can be put aside and taken out again."""

    async def put_aside(self):
        return [(space, await self.node.store.scan(space, limit=1000)) for space in SPACES]

    async def take_out(self, aside):
        store = self.node.store
        for space in SPACES:
            for key, _ in await store.scan(space, limit=1000):
                await store.commit(Delete(space=space, key=key))
        for space, rows in aside:
            for key, held in rows:
                await store.commit(Put(space=space, key=key, value=held.value))


@contextlib.asynccontextmanager
async def two_faces():
    """Both parties know the first three entries. Then each is shown another fourth; the host now shows Carol's."""
    async with running_node() as node, parties(2) as (bob, carol):
        alice = TwoFaces(node)
        stored = await alice.open({"id": bob.id}, {"id": carol.id})
        await alice.say(stored, "advance", to="deliberation")
        await alice.say(stored, "act", clause_id="c1", action="endorse")
        for party in (bob, carol):
            await party.join(alice, stored)
        three = await alice.put_aside()
        await bob.say(stored, "act", clause_id="c1", action="amend", text="What Bob was shown.")
        of_bob = await alice.put_aside()
        await alice.take_out(three)
        await carol.say(stored, "act", clause_id="c1", action="amend", text="What Carol was shown.")
        yield alice, bob, carol, stored, of_bob


async def test_the_host_is_named_as_soon_as_it_shows_its_other_face():
    async with two_faces() as (alice, bob, _, stored, _of_bob):
        fault = await refusal(bob.votes.refresh(stored.id))
        assert fault.wire_code == "CONFLICT"
        assert alice.id in fault.message
        assert "number 4" in fault.message
        conflict = (await bob.votes.find(stored.id)).conflict
        assert is_proven(conflict)
        assert (conflict.host, conflict.first.number) == (alice.id, 4)
        written = await bob.node.store.read(log_of(bob.node.runtime.chain))
        assert any(b"DELIBERATION_FRAUD" in record.data for record in written)


async def test_parties_find_out_when_they_compare_their_logs_without_the_host():
    async with two_faces() as (_, bob, carol, stored, _of_bob):
        await refusal(carol.join(bob, stored))
        for party in (bob, carol):  # the node that was asked found it out as well
            assert is_proven((await party.votes.find(stored.id)).conflict)


class Telling:
    """A host that cheats ignores the tips of others."""

    def __init__(self, post):
        self._post = post

    async def identify(self, url, **more):
        return await self._post.identify(url, **more)

    async def post(self, url, node, text, **more):
        question = json.loads(text)
        return await self._post.post(url, node, json.dumps({**question, "tip": None}).encode(), **more)


async def test_a_longer_log_is_searched_for_the_first_number_given_out_twice():
    async with two_faces() as (alice, bob, carol, stored, _of_bob):
        for number in range(3):
            await carol.say(stored, "act", clause_id="c1", action="amend", text=f"More {number}.")
        party = bob.another_party(wrap=Telling)
        fault = await refusal(party.refresh(stored.id))
        assert "number 4" in fault.message
        assert (await bob.votes.find(stored.id)).conflict.host == alice.id


class Endless(Telling):
    """A host that has always more entries, and never sends one."""

    asked = 0

    async def post(self, url, node, text, **more):
        if json.loads(text)["tip"] is not None:
            return await super().post(url, node, text, **more)
        self.asked += 1
        assert self.asked < 3, "asked again and again"
        return b'{"entries": [], "more": true, "tip": null}'


async def test_the_search_ends_when_a_host_sends_nothing():
    async with two_faces() as (_, bob, carol, stored, _of_bob):
        for number in range(3):
            await carol.say(stored, "act", clause_id="c1", action="amend", text=f"More {number}.")
        fault = await refusal(bob.another_party(wrap=Endless).refresh(stored.id))
        assert (fault.wire_code, fault.field) == ("CONFLICT", "prev")
        assert (await bob.votes.find(stored.id)).conflict is None


async def test_nothing_more_is_decided_after_that():
    async with two_faces() as (alice, bob, carol, stored, _of_bob):
        await refusal(bob.votes.refresh(stored.id))
        before = await bob.frozen(), await alice.frozen()
        fault = await refusal(bob.say(stored, "act", clause_id="c1", action="endorse"))
        assert "two entries with the number 4" in fault.message
        # the host itself has seen the proof in the tip that Bob sent
        door = AtTheDoor(alice, carol.node.runtime.key)
        answer = await door.act(
            (await carol.votes.find(stored.id)).head, "act", clause_id="c1", action="endorse"
        )
        assert "two entries with the number 4" in answer["error"]["message"]
        assert (await bob.frozen(), await alice.frozen()) == before


async def test_a_host_that_has_forgotten_an_entry_signs_nothing_in_its_place():
    async with two_faces() as (alice, bob, _, stored, of_bob):
        await alice.take_out(of_bob)
        four = await alice.put_aside()
        await bob.say(stored, "act", clause_id="c1", action="amend", text="Signed once.")
        await alice.take_out(four)
        before = await alice.frozen()
        for attempt in (
            bob.votes.refresh(stored.id),
            bob.say(stored, "act", clause_id="c1", action="endorse"),
        ):
            fault = await refusal(attempt)
            assert fault.wire_code == "PRECONDITION_FAILED"
            assert "ends at entry 4, and it has signed entry 5" in fault.message
        assert await alice.frozen() == before


async def test_a_host_with_an_older_copy_of_its_whole_database_is_not_believed(tmp_path):
    async with parties(1) as (bob,):
        async with running_node(tmp_path / "alice") as node:
            alice = Party(node)
            stored = await alice.open({"id": bob.id})
            await alice.say(stored, "advance", to="deliberation")
            await bob.join(alice, stored)
        shutil.copytree(tmp_path / "alice", tmp_path / "older")
        async with running_node(tmp_path / "alice") as node:
            await bob.join(Party(node), stored)
            await bob.say(stored, "act", clause_id="c1", action="endorse")
        async with running_node(tmp_path / "older") as node:
            older = Party(node)
            before = await older.frozen()
            fault = await refusal(bob.join(older, stored))
            assert fault.wire_code == "CONFLICT"
            assert "older copy" in fault.message
            assert await older.frozen() == before
