import asyncio

import msgspec
import pytest

from comity.identity.protocol.keys import SigningKey
from comity.identity.secrets import new_vault_key
from comity.requests.caller import Caller
from comity.runtime.settings import DeliberationSettings
from comity.store.memory import MemoryStore
from comity.store.vault import Resealed, Vault, reseal_all
from comity.testing import VirtualClock, running_node
from comity.vcp.protocol.extension_calls import ExtensionError
from comity.votes.logs import Ledger, StoredVote
from comity.votes.protocol import log
from comity.votes.protocol.provenance import verify_record, write_record
from comity.wire.errors import ForbiddenError, KeyRefusedError, NoAnswerError, RetryLaterError
from tests.ports import unused_port
from tests.votes.parties import Party, parties
from tests.votes.protocol.parties import Table


async def begun(alice, *others):
    stored = await alice.open(*({"id": other.id} for other in others))
    for other in others:
        await other.join(alice, stored)
    await alice.say(stored, "advance", to="deliberation")
    return stored


async def refusal(coroutine):
    with pytest.raises(ExtensionError) as refused:
        await coroutine
    return refused.value


async def test_three_nodes_write_and_ratify_a_rule():
    async with parties() as (alice, bob, carol):
        stored = await alice.open({"id": bob.id}, {"id": carol.id, "role": "ai_party"})
        await bob.join(alice, stored)
        await carol.join(alice, stored)
        await alice.say(stored, "advance", to="deliberation")
        await bob.say(stored, "act", clause_id="c1", action="amend", text="Within an hour.")
        await carol.say(stored, "act", clause_id="c1", action="object", level="strong", concern="Too short.")
        await carol.say(stored, "welfare", signal="I answer at night.")
        await alice.say(stored, "act", clause_id="c2", action="endorse")
        for party, clause in ((alice, "c1"), (bob, "c2"), (carol, "c2")):
            await party.say(stored, "act", clause_id=clause, action="endorse")
        await bob.say(stored, "advance", to="convergence")
        for party in (alice, bob, carol):
            await party.say(stored, "ballot", clause_id="c1", ranking=["v1", "v0"])
        await bob.say(stored, "advance", to="ratification")
        for party in (alice, bob, carol):
            await party.say(stored, "vote", vote="accept")
        records = []
        for party in (alice, bob, carol):
            now = await party.votes.refresh(stored.id)
            assert now.vote.phase == "active"
            records.append(write_record(await party.ledger.all_entries(stored.id), now.head))
        assert len(set(records)) == 1
        found = verify_record(records[0])
        assert (found.ok, found.entries) == (True, 17)


async def test_all_act_at_once_and_every_act_is_one_entry_on_every_node():
    async with parties() as (alice, bob, carol):
        stored = await begun(alice, bob, carol)
        acts = [
            party.say(stored, "act", clause_id="c1", action="amend", text=f"{party.id} {number}")
            for number in range(4)
            for party in (alice, bob, carol)
        ]
        outcomes = await asyncio.gather(*acts)
        assert sorted(outcome.entry.number for outcome in outcomes) == list(range(3, 15))
        for party in (alice, bob, carol):
            now = await party.votes.refresh(stored.id)
            assert len(now.vote.clauses["c1"].variants) == 13
            assert await party.numbers(stored) == list(range(1, 15))


async def test_two_processes_of_one_party_act_at_once_and_nothing_is_done_twice():
    async with parties(2) as (alice, bob):
        stored = await begun(alice, bob)
        votes = [bob.votes, bob.another_party()]
        acts = [
            party.act(
                "consensus.act",
                {"delib_id": stored.id, "clause_id": "c1", "action": "amend", "text": f"text {number}"},
                bob.voice,
            )
            for number, party in enumerate(votes * 3)
        ]
        outcomes = await asyncio.gather(*acts)
        assert sorted(outcome.entry.number for outcome in outcomes) == list(range(3, 9))
        texts = [variant.text for variant in (await alice.votes.find(stored.id)).vote.clauses["c1"].variants]
        assert sorted(texts[1:]) == [f"text {number}" for number in range(6)]


async def test_acts_wait_for_a_host_that_is_away_and_are_sent_in_their_order_once(tmp_path):
    port = unused_port()
    async with parties(1) as (bob,):
        async with running_node(tmp_path / "alice", port=port) as node:
            alice = Party(node)
            stored = await begun(alice, bob)
        first = await bob.say(stored, "act", clause_id="c1", action="amend", text="First.")
        second = await bob.say(stored, "act", clause_id="c1", action="amend", text="Second.")
        assert (first.entry, second.entry) == (None, None)
        assert "could not be reached" in first.why
        with pytest.raises(RetryLaterError):
            await bob.votes.refresh(stored.id)
        assert (await bob.votes.find(stored.id)).head.tip.number == 1, "nothing is decided meanwhile"
        async with running_node(tmp_path / "alice", port=port) as node:
            await bob.votes.send_waiting()
            await bob.votes.send_waiting()
            clause = (await Party(node).votes.find(stored.id)).vote.clauses["c1"]
            assert [variant.text for variant in clause.variants[1:]] == ["First.", "Second."]
        assert await bob.ledger.waiting() == []


async def test_what_waited_and_is_refused_at_last_is_shown(tmp_path):
    port = unused_port()
    async with parties(1) as (bob,):
        async with running_node(tmp_path / "alice", port=port) as node:
            alice = Party(node)
            stored = await begun(alice, bob)
            for clause in ("c1", "c2"):
                await bob.say(stored, "act", clause_id=clause, action="endorse")
        await bob.say(stored, "act", clause_id="c1", action="abstain")
        async with running_node(tmp_path / "alice", port=port) as node:
            alice = Party(node)
            for clause in ("c1", "c2"):
                await alice.say(stored, "act", clause_id=clause, action="endorse")
            await alice.say(stored, "advance", to="convergence")
            await bob.votes.send_waiting()
        (act,) = await bob.ledger.waiting(stored.id)
        assert act.refusal == "this needs the phase deliberation; now it is convergence"


async def test_what_is_plainly_wrong_is_refused_at_once_also_while_the_host_is_away(tmp_path):
    async with parties(1) as (bob,):
        async with running_node(tmp_path / "alice") as node:
            stored = await begun(Party(node), bob)
            await bob.votes.refresh(stored.id)
        before = await bob.frozen()
        fault = await refusal(bob.say(stored, "act", clause_id="c1", action="amend"))
        assert (fault.wire_code, fault.field) == ("INVALID_ARGUMENT", "text")
        assert await bob.frozen() == before


class Lossy:
    """Carries every message and loses the answers to the first ones."""

    def __init__(self, post, losses):
        self._post = post
        self.losses = losses

    async def identify(self, url, **more):
        return await self._post.identify(url, **more)

    async def post(self, *message, **more):
        answer = await self._post.post(*message, **more)
        if self.losses:
            self.losses -= 1
            raise NoAnswerError("the answer was lost")
        return answer


@pytest.mark.parametrize("looks_first", [False, True])
async def test_an_act_whose_answer_was_lost_is_one_entry_however_often_it_is_sent(looks_first):
    async with parties(2) as (alice, bob):
        stored = await begun(alice, bob)
        await bob.votes.refresh(stored.id)
        party = bob.another_party(wrap=lambda post: Lossy(post, 2))
        args = {"delib_id": stored.id, "clause_id": "c1", "action": "amend", "text": "Once."}
        outcome = await party.act("consensus.act", args, bob.voice)
        assert (outcome.entry, outcome.why) == (None, "the answer was lost")
        # others go on meanwhile
        await alice.say(stored, "act", clause_id="c1", action="endorse")
        if looks_first:
            await bob.votes.refresh(stored.id)
        await party.send_waiting()
        await party.send_waiting()
        await bob.votes.refresh(stored.id)
        for party in (alice, bob):
            clause = (await party.votes.find(stored.id)).vote.clauses["c1"]
            assert [variant.text for variant in clause.variants[1:]] == ["Once."]
        assert await bob.ledger.waiting() == []


class TestJoining:
    async def test_is_refused_to_who_takes_no_part_and_nothing_is_stored(self):
        async with parties(2) as (alice, eve):
            stored = await alice.open()
            before = await eve.frozen(), await alice.frozen()
            assert (await refusal(eve.join(alice, stored))).wire_code == "FORBIDDEN"
            assert (await eve.frozen(), await alice.frozen()) == before

    async def test_needs_a_vote_that_is_there(self):
        async with parties(2) as (alice, bob):
            fault = await refusal(bob.votes.join(alice.node.url, "dlb_nowhere", bob.voice))
            assert fault.wire_code == "NOT_FOUND"

    async def test_may_name_the_host_and_then_believes_no_other(self):
        async with parties() as (alice, bob, carol):
            stored = await alice.open({"id": bob.id})
            assert (await refusal(bob.join(alice, stored, host=carol.id))).wire_code == "FORBIDDEN"
            assert (await bob.join(alice, stored, host=alice.id)).id == stored.id

    async def test_at_another_party_only_compares(self):
        async with parties() as (alice, bob, carol):
            stored = await alice.open({"id": bob.id})
            await bob.join(alice, stored)
            await alice.say(stored, "add", stakeholder={"id": carol.id})
            await alice.say(stored, "advance", to="deliberation")
            await bob.votes.refresh(stored.id)
            fault = await refusal(carol.join(bob, stored))
            assert (fault.wire_code, alice.id in fault.message) == ("FORBIDDEN", True)
            await carol.join(alice, stored)
            assert (await carol.join(bob, stored)).url == alice.node.url
            await carol.say(stored, "act", clause_id="c1", action="endorse")

    async def test_at_each_other_in_the_same_moment_makes_nobody_wait(self):
        async with parties() as (alice, bob, carol):
            stored = await begun(alice, bob, carol)
            async with asyncio.timeout(10):
                for _ in range(5):
                    await asyncio.gather(bob.join(carol, stored), carol.join(bob, stored))

    @pytest.mark.parametrize(("kind", "address"), [("vcp", "192.0.2.1"), ("vcp", ""), ("oauth", "127.0.0.1")])
    async def test_at_an_address_of_this_machine_is_not_for_visitors(self, kind, address):
        async with parties(2) as (alice, bob):
            stored = await alice.open({"id": "dave", "node": bob.id})
            visitor = Caller(kind=kind, id="dave", address=address)
            with pytest.raises(ForbiddenError):
                await bob.votes.join(alice.node.url, stored.id, bob.votes.voice("dave"), visitor)
            assert await bob.frozen() == [[], [], []]
            local = Caller(kind="vcp", id="dave", address="127.0.0.1", proof="vcp token")
            joined = await bob.votes.join(alice.node.url, stored.id, bob.votes.voice("dave"), local)
            assert joined.id == stored.id

    async def test_follows_a_host_to_its_new_address(self, tmp_path):
        async with parties(1) as (bob,):
            async with running_node(tmp_path / "alice") as node:
                stored = await begun(Party(node), bob)
            async with running_node(tmp_path / "alice") as node:
                alice = Party(node)
                assert (await bob.join(alice, stored)).url == node.url
                outcome = await bob.say(stored, "act", clause_id="c1", action="endorse")
                assert outcome.entry.number == 3


async def test_a_party_without_a_key_speaks_through_the_node_it_was_named_with():
    async with parties() as (alice, bob, carol):
        stored = await alice.open({"id": "dave", "node": bob.id}, {"id": carol.id})
        dave = bob.votes.voice("dave")
        await bob.votes.join(alice.node.url, stored.id, dave)
        await carol.join(alice, stored)
        await alice.say(stored, "advance", to="deliberation")
        args = {"delib_id": stored.id, "clause_id": "c1", "action": "endorse"}
        outcome = await bob.votes.act("consensus.act", args, dave)
        assert (outcome.entry.actor, outcome.entry.on_behalf) == (bob.id, "dave")
        assert [one.id for one in await bob.votes.those_of(dave)] == [stored.id]
        assert await bob.votes.those_of(bob.voice) == []
        assert (await refusal(bob.join(alice, stored))).wire_code == "FORBIDDEN"
        for party, voice in ((bob.votes, bob.voice), (carol.votes, carol.votes.voice("dave"))):
            assert (await refusal(party.act("consensus.act", args, voice))).wire_code == "FORBIDDEN"


async def test_the_hosts_own_commands_and_the_door_add_entries_at_once():
    async with parties(2) as (alice, bob):
        stored = await begun(alice, bob)
        command = alice.another_party()
        args = {"delib_id": stored.id, "clause_id": "c1", "action": "endorse"}
        acts = [
            act
            for _ in range(5)
            for act in (
                bob.votes.act("consensus.act", args, bob.voice),
                command.act("consensus.act", args, alice.voice),
                alice.votes.act("consensus.act", args, alice.voice),
            )
        ]
        outcomes = await asyncio.gather(*acts)
        waiting = [outcome for outcome in outcomes if outcome.entry is None]
        await bob.votes.send_waiting()
        now = await bob.votes.refresh(stored.id)
        assert now.head.tip.number == 2 + len(acts)
        assert len({outcome.entry.number for outcome in outcomes if outcome.entry}) == len(acts) - len(
            waiting
        )
        assert now.head == (await alice.votes.find(stored.id)).head


async def test_what_waits_survives_a_restart_of_the_party(tmp_path):
    port = unused_port()
    async with running_node(tmp_path / "alice", port=port) as host, running_node(tmp_path / "bob") as node:
        bob = Party(node)
        stored = await begun(Party(host), bob)
        await bob.votes.refresh(stored.id)
        await host.stop()
        assert (await bob.say(stored, "act", clause_id="c1", action="amend", text="Kept.")).entry is None
    retry = DeliberationSettings(retry_seconds=0.1)
    async with (
        running_node(tmp_path / "alice", port=port) as host,
        running_node(tmp_path / "bob", deliberations=retry) as node,
    ):
        # nobody asks the node to send it
        async with asyncio.timeout(20):
            while await Party(node).ledger.waiting():  # noqa: ASYNC110 - it is another task of the node
                await asyncio.sleep(0.02)
        clause = (await Party(host).votes.find(stored.id)).vote.clauses["c1"]
        assert [variant.text for variant in clause.variants[1:]] == ["Kept."]


class TestTheVault:
    async def test_without_its_key_nothing_is_read_and_nothing_stored(self, tmp_path):
        async with running_node(tmp_path / "alice") as node, parties(1) as (bob,):
            alice = Party(node)
            stored = await begun(alice, bob)
            await bob.votes.refresh(stored.id)
            key = tmp_path / "alice" / "vault.key"
            before = await alice.frozen()
            aside = key.rename(tmp_path / "aside")
            with pytest.raises(KeyRefusedError):
                await alice.votes.find(stored.id)
            with pytest.raises(KeyRefusedError):
                await alice.open()
            outcome = await bob.say(stored, "act", clause_id="c1", action="endorse")
            assert (outcome.entry, "status 500" in outcome.why) == (None, True)
            assert await alice.frozen() == before
            aside.rename(key)
            await bob.votes.send_waiting()
            assert (await alice.votes.find(stored.id)).head.tip.number == 3

    async def test_reads_with_the_former_key_until_all_is_sealed_anew(self):
        clock = VirtualClock()
        store = MemoryStore(clock)
        old, new = new_vault_key(), new_vault_key()
        key = SigningKey(b"k" * 32)
        opening = {"title": "T", "clauses": ["A."], "stakeholders": [], "keeper": key.vacant_id.hex()}
        entry = log.propose(None, "dlb_1", log.OPEN, opening, key, 1.0)
        head, taken = log.admit(None, entry, key, 1.0)
        stored = StoredVote(head=head)
        await store.commit(*Ledger(store, lambda: Vault([old])).adding(None, stored, [taken]))
        rotating = Vault([new, old])
        assert (await Ledger(store, lambda: rotating).find("dlb_1")).stored.head == head
        assert await reseal_all(store, rotating) == Resealed(values=2)
        after = Ledger(store, lambda: Vault([new]))
        assert (await after.find("dlb_1")).stored.head == head
        assert await after.all_entries("dlb_1") == [taken]


class TestTooMany:
    async def test_a_visitor_opens_and_joins_so_many_and_the_owner_more(self, monkeypatch):
        monkeypatch.setattr("comity.votes.party.MAX_OF_A_VISITOR", 2)
        async with parties(2) as (alice, bob):
            dave = bob.votes.voice("dave")
            there = [await alice.open({"id": "dave", "node": bob.id}) for _ in range(2)]
            here = {"title": "Mine", "clauses": ["A clause."], "stakeholders": []}
            await bob.open({"id": "dave", "node": bob.id})  # what others open does not count
            await bob.votes.open("d1", here, dave)
            await bob.votes.join(alice.node.url, there[0].id, dave)
            before = await bob.frozen()
            for one_more in (
                bob.votes.open("d2", here, dave),
                bob.votes.join(alice.node.url, there[1].id, dave),
            ):
                assert (await refusal(one_more)).wire_code == "LIMIT_EXCEEDED"
            assert await bob.frozen() == before
            assert await bob.votes.join(alice.node.url, there[0].id, dave)
            assert await bob.votes.open("d3", here, bob.votes.voice("erin"))
            assert await bob.open()

    async def test_what_is_joined_counts_like_what_is_opened(self, monkeypatch):
        monkeypatch.setattr("comity.votes.party.MAX_VOTES", 1)
        async with parties(3) as (alice, bob, carol):
            mine = await alice.open({"id": carol.id})
            other = await bob.open({"id": carol.id})
            await carol.join(alice, mine)
            assert (await refusal(carol.join(bob, other))).wire_code == "LIMIT_EXCEEDED"
            assert [stored.id for stored in await carol.ledger.all()] == [mine.id]

    async def test_a_log_that_breaks_off_is_not_kept_for_whoever_takes_no_part(self):
        async with parties(2) as (alice, bob):
            stored = await alice.open({"id": bob.id})
            for voice, left in ((bob.votes.voice("mallory"), 0), (bob.voice, 1)):
                party = bob.another_party(f"for {voice.stakeholder_id}", BreaksOff)
                with pytest.raises(NoAnswerError):
                    await party.join(alice.node.url, stored.id, voice)
                assert await bob.ledger.count() == left


class BreaksOff:
    """The host answers once, and then no more."""

    def __init__(self, post):
        self.identify = post.identify
        self._once = [post.post]

    async def post(self, *given, **options):
        if not self._once:
            raise NoAnswerError("the host is gone")
        return await self._once.pop()(*given, **options)


def test_a_stored_vote_keeps_the_names_of_its_members():
    head = Table().head
    conflict = log.ConflictingRecord(host="h", first=head.tip, second=head.tip)
    stored = msgspec.to_builtins(StoredVote(head=head, conflict=conflict))
    assert list(stored) == ["head", "url", "public_only", "size", "fraud", "early"]
    assert (list(stored["head"]), list(stored["fraud"])) == (
        ["deliberation", "tip"],
        ["keeper", "first", "second"],
    )
    assert stored["head"]["deliberation"]["keeper"] == head.vote.host
