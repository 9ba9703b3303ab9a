"""Deadlines between nodes: who closes, what comes late, and what a host, a party or a wrong clock cannot do."""

import asyncio
import contextlib
import json

import msgspec
import pytest

from comity.extensions.protocol.calls import CallFacts
from comity.requests.caller import OWN_PROCESS
from comity.runtime.settings import DeliberationSettings
from comity.runtime.system_clock import SystemClock
from comity.testing import running_node
from comity.vcp.protocol.built_in import operations
from comity.vcp.protocol.extension_calls import ExtensionError
from comity.votes import part
from comity.votes.extension import VoteOperations
from comity.votes.logs import StoredVote, WaitingAct, dispute_of
from comity.votes.protocol import log
from comity.votes.protocol.provenance import verify_record, write_record
from comity.wire.errors import NoAnswerError
from tests.ports import unused_port
from tests.votes.parties import AtTheDoor, Party
from tests.votes.protocol.parties import Table
from tests.waiting import eventually

HOUR, WEEK = 3600.0, 7 * 86_400.0
SOON = DeliberationSettings(retry_seconds=0.1)


class ShiftedClock(SystemClock):
    """The right time, and `ahead` seconds more. What is measured goes on as it is."""

    def __init__(self, ahead=0.0):
        super().__init__()
        self.ahead = ahead

    def now(self):
        return super().now() + self.ahead


@contextlib.asynccontextmanager
async def three(**settings):
    """Three nodes whose clocks can be set, first Alice, who hosts."""
    async with contextlib.AsyncExitStack() as stack:
        clocks = [ShiftedClock() for _ in range(3)]
        nodes = [await stack.enter_async_context(running_node(clock=clock, **settings)) for clock in clocks]
        yield [Party(node) for node in nodes], clocks


async def ask(alice, *others, **changes):
    given = {"form": "question", "clauses": ["Shall we?"], "ratification": "1/2"} | changes
    stored = await alice.open(*({"id": other.id} for other in others), **given)
    for other in others:
        await other.join(alice, stored)
    return stored


async def to_ratification(alice, *others):
    """A text that all have endorsed."""
    stored = await ask(alice, *others, form="text", ratification="2/3")
    await again_to_ratification(alice, *others, stored=stored)
    return stored


async def again_to_ratification(alice, *others, stored):
    if (await alice.votes.find(stored.id)).vote.phase == "draft":
        await alice.say(stored, "advance", to="deliberation")
    for party in (alice, *others):
        await party.say(stored, "act", action="endorse")
    await alice.say(stored, "advance", to="convergence")
    if len((await alice.votes.find(stored.id)).vote.clauses["c1"].variants) > 1:
        for party in (alice, *others):
            await party.say(stored, "ballot", ranking=["v1", "v0"])
    await alice.say(stored, "advance", to="ratification")
    for other in others:
        await other.votes.refresh(stored.id)


async def refusal(coroutine):
    with pytest.raises(ExtensionError) as refused:
        await coroutine
    return refused.value


async def vote_at(party, stored):
    return (await party.votes.find(stored.id)).vote


async def dispute(party, stored):
    return dispute_of(await party.votes.find(stored.id), await party.ledger.waiting(stored.id))


async def test_a_question_is_answered_by_itself_and_all_nodes_know_it(monkeypatch):
    monkeypatch.setattr(part, "_LOOK_SECONDS", 0.1)
    async with three(deliberations=SOON) as (people, _):
        alice, bob, carol = people
        stored = await ask(alice, bob, carol)
        for party, vote in ((bob, "accept"), (alice, "reject"), (carol, "accept")):
            await party.say(stored, "vote", vote=vote)

        async def all_know():
            return [(await vote_at(party, stored)).outcome for party in people] == ["accepted"] * 3

        await eventually(all_know)


async def test_the_hosts_node_closes_at_the_deadline_and_all_nodes_know_it(monkeypatch):
    monkeypatch.setattr(part, "_GRACE_SECONDS", 0.0)
    monkeypatch.setattr(part, "_LOOK_SECONDS", 0.1)
    async with three(deliberations=SOON) as (people, clocks):
        alice, bob, _ = people
        stored = await ask(*people)
        await alice.say(stored, "vote", vote="accept")
        await bob.say(stored, "vote", vote="accept")
        for clock in clocks:
            clock.ahead = WEEK + 1

        async def all_know():
            return [(await vote_at(party, stored)).phase for party in people] == ["active"] * 3

        await eventually(all_know)
        records = {
            write_record(await party.ledger.all_entries(stored.id), (await party.votes.find(stored.id)).head)
            for party in people
        }
        (record,) = records
        found = verify_record(record, clocks[0].now())
        assert found.ok
        assert any("1 of 3 parties did not vote" in finding for finding in found.findings)


async def test_a_host_that_was_down_at_the_deadline_waits_a_moment_and_closes(tmp_path, monkeypatch):
    port, clock = unused_port(), ShiftedClock()
    async with running_node(clock=clock) as bobs:
        bob = Party(bobs)
        async with running_node(tmp_path / "alice", port=port, clock=clock) as node:
            alice = Party(node)
            stored = await ask(alice, bob)
            await alice.say(stored, "vote", vote="accept")
        waiting = await bob.say(stored, "vote", vote="accept")  # signed in time
        assert waiting.entry is None
        clock.ahead = WEEK + HOUR
        soon = {"deliberations": SOON, "port": port, "clock": clock}
        async with running_node(tmp_path / "alice", **soon) as node:
            await asyncio.gather(*(Party(node).part._close() for _ in range(3)))
            assert (await vote_at(Party(node), stored)).phase == "ratification", (
                "what was signed in time is on its way"
            )
            await bob.votes.send_waiting()
            assert (await vote_at(Party(node), stored)).outcome == "accepted"
        assert await dispute(bob, stored) == ""
        monkeypatch.setattr(part, "_GRACE_SECONDS", 0.0)
        async with running_node(tmp_path / "alice", port=port, clock=clock) as node:
            stored = await ask(Party(node), bob)
            clock.ahead += 2 * WEEK
        async with running_node(tmp_path / "alice", **soon) as node:

            async def closed():
                return (await vote_at(Party(node), stored)).outcome == "failed"

            await eventually(closed)


async def test_two_processes_of_the_host_close_once():
    async with three() as (people, clocks):
        alice, bob, carol = people
        stored = await ask(alice, bob, carol)
        for clock in clocks:
            clock.ahead = WEEK + 1
        await asyncio.gather(
            *(party.close_due(0.0) for party in (alice.votes, alice.another_party(), alice.votes))
        )
        ops = [entry.action.op for entry in await alice.ledger.all_entries(stored.id)]
        assert ops == ["consensus.open", "consensus.close"]


async def test_an_act_that_was_left_out_is_shown_and_the_result_disputed(tmp_path):
    port, clock = unused_port(), ShiftedClock()
    async with running_node(clock=clock) as bobs:
        bob = Party(bobs)
        async with running_node(tmp_path / "alice", port=port, clock=clock) as node:
            stored = await ask(Party(node), bob)
            await Party(node).say(stored, "vote", vote="reject")
        await bob.say(stored, "vote", vote="accept")
        clock.ahead = WEEK + HOUR
        async with running_node(tmp_path / "alice", port=port, clock=clock) as node:
            await Party(node).votes.close_due(0.0)  # and does not wait for what is on its way
            await bob.votes.send_waiting()
        (act,) = await bob.ledger.waiting(stored.id)
        assert (act.left_out, act.entry.action.args["vote"]) == (True, "accept")
        assert "was left out by the host" in await dispute(bob, stored)
        assert bob.ledger.holding(act, clock.now()).expires_at is None, "it is shown as long as the vote"
        page = await bob.part._view(part.ViewQuery())
        assert page.tables[0].rows[0][-1] == "disputed"


class TestAHostAheadOfTime:
    """It closes an hour before the deadline. Alice can do so alone, by her clock."""

    @contextlib.asynccontextmanager
    async def closed_early(self):
        async with three() as (people, clocks):
            alice, bob, carol = people
            stored = await to_ratification(*people)
            for party in (alice, bob):
                await party.say(stored, "vote", vote="accept")
            for clock in clocks[1:]:
                clock.ahead = WEEK - HOUR
            clocks[0].ahead = WEEK + 1
            await alice.votes.close_due(0.0)
            assert (await vote_at(alice, stored)).phase == "active"
            yield alice, bob, carol, stored, clocks

    async def test_is_not_followed_and_it_is_shown(self):
        async with self.closed_early() as (_, bob, _, stored, clocks):
            after = await bob.votes.refresh(stored.id)
            assert after.vote.phase == "ratification"
            why = await dispute(bob, stored)
            assert "closed the phase ratification before its deadline" in why
            assert after.early.entry.action.op == "consensus.close"
            numbers = await bob.numbers(stored)
            assert (await bob.votes.refresh(stored.id)).early == after.early
            assert await bob.numbers(stored) == numbers
            clocks[1].ahead = WEEK + 1
            after = await bob.votes.refresh(stored.id)
            assert after.vote.phase == "active", "the same log, once our own clock allows it"
            assert await dispute(bob, stored) == why, "and it stays on view"

    async def test_a_vote_that_it_cut_off_is_left_out_and_shown(self):
        async with self.closed_early() as (_, _, carol, stored, _):
            fault = await refusal(carol.say(stored, "vote", vote="reject", reason="No."))
            assert fault.wire_code == "PRECONDITION_FAILED"
            (act,) = await carol.ledger.waiting(stored.id)
            assert act.left_out
            assert (await vote_at(carol, stored)).phase == "ratification"

    async def test_is_not_followed_by_who_joins_or_verifies_a_file(self):
        async with self.closed_early() as (alice, bob, _, stored, clocks):
            await bob.votes.remove(stored.id)
            joined = await bob.join(alice, stored)
            assert (joined.vote.phase, joined.early is not None) == ("ratification", True)
            record = write_record(
                await alice.ledger.all_entries(stored.id), (await alice.votes.find(stored.id)).head
            )
            assert "before its deadline" in verify_record(record, clocks[1].now()).reason


class TestAWrongClock:
    async def test_of_a_party_an_hour_ahead_is_named_with_both_times(self):
        async with three() as (people, clocks):
            alice, bob, carol = people
            stored = await ask(alice, bob, carol)
            clocks[1].ahead = HOUR
            before = await alice.frozen()
            fault = await refusal(bob.say(stored, "vote", vote="accept"))
            assert (fault.wire_code, fault.field) == ("INVALID_ARGUMENT", "time")
            assert fault.message.count("T") >= 2
            assert "set your clock" in fault.message
            assert await alice.frozen() == before
            assert "set your clock" in await dispute(bob, stored), (
                "the act is valid by all that is known here"
            )
            clocks[1].ahead = 0
            assert (await bob.say(stored, "vote", vote="accept")).entry
            assert (await dispute(bob, stored), await bob.ledger.waiting()) == ("", [])

    async def test_of_a_few_minutes_is_excused(self):
        async with three() as (people, clocks):
            alice, bob, carol = people
            stored = await ask(alice, bob, carol)
            clocks[1].ahead = 299
            assert (await bob.say(stored, "vote", vote="accept")).entry


class TestAnActThatWaited:
    async def test_is_not_signed_for_a_text_that_changed_meanwhile(self, tmp_path):
        port = unused_port()
        async with three() as ((bob, carol, _), _):
            async with running_node(tmp_path / "alice", port=port) as node:
                stored = await to_ratification(Party(node), bob, carol)
            await bob.say(stored, "vote", vote="accept")
            async with running_node(tmp_path / "alice", port=port) as node:
                alice = Party(node)
                door = AtTheDoor(alice, bob.node.runtime.key)
                await carol.say(stored, "advance", to="deliberation")
                await carol.say(stored, "act", action="amend", text="Bob pays all.")
                await alice.say(stored, "act", action="endorse")
                for op, args in (("act", {"action": "abstain"}), ("ballot", {"ranking": ["v0"]})):
                    await door.act((await alice.votes.find(stored.id)).head, op, **args)
                    if op == "act":
                        await alice.say(stored, "advance", to="convergence")
                        for party in (alice, carol):
                            await party.say(stored, "ballot", ranking=["v1", "v0"])
                await alice.say(stored, "advance", to="ratification")
                await bob.votes.send_waiting()
                assert bob.id not in (await vote_at(alice, stored)).votes
            (act,) = await bob.ledger.waiting(stored.id)
            assert "the text may have changed" in act.refusal
            assert not act.left_out

    async def test_counts_with_the_time_at_which_it_was_said(self, tmp_path):
        port, clock = unused_port(), ShiftedClock()
        async with three() as ((bob, carol, _), (bobs, carols, _)):
            async with running_node(tmp_path / "alice", port=port, clock=clock) as node:
                stored = await ask(Party(node), bob, carol)
            await bob.say(stored, "vote", vote="accept")
            for one in (clock, bobs, carols):
                one.ahead = WEEK + HOUR
            async with running_node(tmp_path / "alice", port=port, clock=clock) as node:
                alice = Party(node)
                entry = log.propose(
                    (await alice.votes.find(stored.id)).head,
                    stored.id,
                    "consensus.vote",
                    {"delib_id": stored.id, "vote": "reject"},
                    carol.node.runtime.key,
                    clock.now() - 2 * HOUR,
                )
                # Carol's act is first, so that Bob's has to be signed again for its new place
                assert "entry" in await AtTheDoor(alice, carol.node.runtime.key).post(
                    log.write_act(entry, None)
                )
                await bob.votes.send_waiting()
                assert (await vote_at(alice, stored)).votes.keys() == {bob.id, carol.id}

    async def test_begins_a_phase_when_it_is_sent_and_not_before(self, tmp_path):
        port, clock = unused_port(), ShiftedClock()
        async with three() as ((bob, carol, _), (bobs, _, _)):
            async with running_node(tmp_path / "alice", port=port, clock=clock) as node:
                alice = Party(node)
                stored = await ask(alice, bob, carol, form="text", ratification="2/3")
                await alice.say(stored, "advance", to="deliberation")
                for party in (alice, bob, carol):
                    await party.say(stored, "act", action="endorse")
                await bob.votes.refresh(stored.id)
            assert (await bob.say(stored, "advance", to="convergence")).entry is None
            clock.ahead = bobs.ahead = HOUR
            async with running_node(tmp_path / "alice", port=port, clock=clock) as node:
                await bob.votes.send_waiting()
                begun = await vote_at(Party(node), stored)
                assert begun.phase == "convergence"
                assert begun.deadline == pytest.approx(clock.now() + WEEK, abs=60)

    async def test_is_found_in_the_log_before_it_is_signed_anew(self):
        async with three() as ((alice, bob, carol), clocks):
            stored = await ask(alice, bob, carol, form="text", ratification="2/3")
            await alice.say(stored, "advance", to="deliberation")
            for party in (alice, bob, carol):
                await party.say(stored, "act", action="endorse")
            await bob.votes.refresh(stored.id)
            party = bob.another_party(wrap=LosesAnswers)
            outcome = await party.act(
                "consensus.advance", {"delib_id": stored.id, "to": "convergence"}, bob.voice
            )
            assert outcome.entry is None
            for clock in clocks:
                clock.ahead = HOUR
            await bob.votes.send_waiting()
            assert await bob.ledger.waiting() == []
            assert (await vote_at(alice, stored)).phase == "convergence"

    async def test_is_no_vote_on_a_text_that_was_never_seen_here(self, tmp_path):
        async with three() as ((bob, carol, _), _):
            async with running_node(tmp_path / "alice") as node:
                stored = await ask(Party(node), bob, carol, form="text", ratification="2/3")
            fault = await refusal(bob.say(stored, "vote", vote="accept"))
            assert fault.wire_code == "PRECONDITION_FAILED"
            assert "as far as is known here" in fault.message
            assert "could not be reached" in fault.message
            assert await bob.ledger.waiting() == []


class LosesAnswers:
    def __init__(self, client):
        self.identify, self._post, self._losses = client.identify, client.post, 2

    async def post(self, *given, **options):
        answer = await self._post(*given, **options)
        if self._losses:
            self._losses -= 1
            raise NoAnswerError("the answer was lost")
        return answer


class TestMisuse:
    async def test_an_act_of_another_vote_is_refused(self):
        async with three() as ((alice, bob, carol), _):
            one, other = [await ask(alice, bob, carol) for _ in range(2)]
            door = AtTheDoor(alice, bob.node.runtime.key)
            entry = log.propose(
                one.head,
                one.id,
                "consensus.vote",
                {"delib_id": one.id, "vote": "accept"},
                door.key,
                alice.node.runtime.clock.now(),
            )
            replayed = msgspec.structs.replace(entry, delib_id=other.id)
            before = await alice.frozen()
            answer = await door.post(log.write_act(replayed, None))
            assert answer["error"]["code"] in {"BAD_SIGNATURE", "CONFLICT"}
            assert await alice.frozen() == before

    async def test_a_party_cannot_close_or_open_by_older_rules(self):
        async with three() as ((alice, bob, carol), clocks):
            stored = await ask(alice, bob, carol)
            for clock in clocks:
                clock.ahead = WEEK + 1
            door = AtTheDoor(alice, bob.node.runtime.key)
            before = await alice.frozen()
            answer = await door.act(stored.head, "close", now=clocks[0].now(), phase="ratification")
            assert answer["error"]["code"] == "FORBIDDEN"
            assert (await refusal(ask(alice, bob, rules=1))).field == "rules"
            assert await alice.frozen() == before

    async def test_a_text_is_sent_back_by_each_party_once(self):
        async with three() as (people, _):
            _, bob, carol = people
            stored = await to_ratification(*people)
            await bob.say(stored, "advance", to="deliberation")
            await again_to_ratification(*people, stored=stored)
            assert "once" in (await refusal(bob.say(stored, "advance", to="deliberation"))).message
            assert (await carol.say(stored, "advance", to="deliberation")).entry

    async def test_a_party_that_never_answers_stops_nobody_for_longer_than_the_deadline(self):
        async with three() as (people, clocks):
            alice, bob, _ = people
            stored = await ask(*people, form="text", ratification="2/3")
            await alice.say(stored, "advance", to="deliberation")
            for op, args in (("act", {"action": "endorse"}), (None, {}), ("vote", {"vote": "accept"})):
                for party in (alice, bob):
                    if op:
                        await party.say(stored, op, **args)
                for clock in clocks:
                    clock.ahead += WEEK + 1
                await alice.votes.close_due(0.0)
            assert (await vote_at(alice, stored)).phase == "active"

    @pytest.mark.parametrize(
        "changes",
        [
            {"ratification": "1/3"},
            {"quorum": 0},
            {"phase_seconds": -1},
            {"phase_seconds": 10**12},
            {"form": "riddle"},
            {"stakeholders": [{"id": "dave"}] * 2},
            {"stakeholders": [{"id": f"s{number}"} for number in range(10_000)]},
        ],
    )
    async def test_a_vote_that_cannot_be_is_refused_and_nothing_is_stored(self, changes):
        async with running_node() as node:
            alice = Party(node)
            fault = await refusal(alice.open(**changes))
            assert fault.wire_code in {"INVALID_ARGUMENT", "LIMIT_EXCEEDED"}
            assert len(fault.message) < 200
            assert await alice.frozen() == [[], [], []]


class Refuses:
    """A host that refuses a vote of one party, for a reason that is none."""

    def __init__(self, client):
        self.identify, self._post = client.identify, client.post

    async def post(self, url, node, text, **options):
        if b"consensus.vote" not in text:
            return await self._post(url, node, text, **options)
        return log.reply_with_refusal(ExtensionError("PRECONDITION_FAILED", "not now"), None)


async def test_a_vote_that_the_host_refuses_without_a_reason_is_kept_and_shown():
    async with three() as ((alice, bob, carol), _):
        stored = await ask(alice, bob, carol)
        party = bob.another_party(wrap=Refuses)
        for _ in range(2):
            args = {"delib_id": stored.id, "vote": "reject"}
            assert (await refusal(party.act("consensus.vote", args, bob.voice))).message == "not now"
        (act,) = await bob.ledger.waiting(stored.id)
        assert act.left_out
        for one in (alice, carol):
            await one.say(stored, "vote", vote="accept")
        assert "was left out by the host, which said: not now" in await dispute(bob, stored)
        facts = CallFacts(
            session_id="s", active=frozenset(), key=bob.node.runtime.key, fresh_id="f", owner=bob.id
        )
        given = operations()["consensus.result"].arguments(delib_id=stored.id)
        report = await VoteOperations(bob.votes).perform("consensus.result", {}, given, facts, OWN_PROCESS)
        assert report.progress.disputed == await dispute(bob, stored)
        await bob.part.count()
        assert bob.part._disputed == 1


async def test_a_party_that_fills_the_log_keeps_nobody_from_voting_and_no_phase_open():
    async with three(deliberations=DeliberationSettings(log_bytes=65_536)) as (people, clocks):
        alice, bob, carol = people
        stored = await ask(alice, bob, carol, form="text", ratification="2/3")
        await alice.say(stored, "advance", to="deliberation")
        for party in people:
            await party.say(stored, "act", action="endorse")
        for number in range(5):
            await bob.say(stored, "act", action="amend", text=f"{number}" + "x" * 8000)
        fault = await refusal(bob.say(stored, "act", action="amend", text="x" * 8000))
        assert "the rest is kept for votes" in fault.message
        for clock in clocks:
            clock.ahead = WEEK + 1
        await alice.votes.close_due(0.0)
        assert (await vote_at(alice, stored)).phase == "convergence"


class TestWhatOlderVersionsStored:
    async def test_goes_on_by_the_older_rules(self):
        """A vote in a folder of a year ago, in which Alice is alone."""
        async with running_node() as node:
            alice = Party(node)
            args = {"title": "Old", "clauses": ["A."], "stakeholders": [], "keeper": alice.id}
            opening = log.propose(None, "dlb_old", log.OPEN, args, node.runtime.key, 1_700_000_000.0)
            head, entry = log.admit(None, opening, node.runtime.key, 1_700_000_000.0)
            operations = alice.ledger.adding(None, StoredVote(head=head), [entry])
            await node.store.commit(*operations)
            stored = await alice.votes.find("dlb_old")
            for to in ("deliberation", "convergence"):
                await alice.say(stored, "advance", to=to)
                if to == "deliberation":
                    await alice.say(stored, "act", action="endorse")
            await alice.say(stored, "advance", to="ratification")
            await alice.say(stored, "vote", vote="accept")
            assert (await vote_at(alice, stored)).phase == "ratification", (
                "by older rules nothing ends by itself"
            )
            await alice.votes.close_due(0.0)
            assert (await alice.say(stored, "advance", to="active")).stored.vote.phase == "active"

    def test_is_read_without_the_newer_members(self):
        stored = msgspec.to_builtins(StoredVote(head=Table().head))
        newer = (
            "rules",
            "form",
            "phase_seconds",
            "deadline",
            "acted_on",
            "returned",
            "outcome",
            "supersedes",
        )
        for name in newer:
            del stored["head"]["deliberation"][name]
        del stored["early"]
        read = msgspec.json.decode(json.dumps(stored), type=StoredVote)
        assert (read.vote.rules, read.vote.deadline, read.early) == (1, None, None)
        act = {"delib_id": "d", "place": 1, "entry": msgspec.to_builtins(Table().entries[0]), "since": 1.0}
        waiting = msgspec.convert(act, WaitingAct)
        assert not waiting.is_left_out_of(read)
