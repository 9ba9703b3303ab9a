"""Envelopes in, signed replies out; nothing twice, nothing lost, nothing out of order."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from comity.envelopes import queues
from comity.envelopes.protocol.chain import PairKey, ReplayState, TipStatement, resynchronised
from comity.envelopes.protocol.envelope import (
    EMPTY_PREV_HASH,
    from_a2a_result,
    recognise,
    reply_is_bound,
    to_a2a_jsonrpc,
)
from comity.envelopes.queues import chain_of
from comity.requests.budget import Budget, Figures
from comity.runtime.system_clock import SystemClock
from comity.store.interface import Advance, Tip
from comity.store.sqlite import SqliteStore
from comity.wire.errors import StoreUnavailableError
from tests.envelopes.peers import SERVER, Caller, Gate, Server, echo


async def test_a_call_is_answered_by_a_signed_bound_reply(store):
    server, caller = Server(store), Caller()
    request = caller.next("hello")
    reply = await server.reply_to(request)
    assert reply.verify()
    assert reply.from_vacant_id == SERVER.vacant_id
    assert reply.to_vacant_id == caller.key.vacant_id
    assert reply.payload.parts[0].text == "echo hello"
    assert (reply.sequence_no, reply.prev_envelope_hash) == (1, EMPTY_PREV_HASH)
    assert reply_is_bound(reply, request) is True


async def test_replies_form_a_chain_of_their_own(store):
    server, caller = Server(store), Caller()
    first = await server.reply_to(caller.next())
    second = await server.reply_to(caller.next())
    assert (second.sequence_no, second.prev_envelope_hash) == (2, first.compute_hash())


async def test_a_peer_of_the_later_release_is_answered_in_its_own_dialect(store):
    server, caller = Server(store), Caller(dialect="selfeval")
    first = recognise(await server.reply_to(caller.next()))
    second = recognise(await server.reply_to(caller.next()))
    assert first.dialect == second.dialect == "selfeval"
    assert second.prev_envelope_hash == first.compute_hash()


class TestTheVerySameEnvelopeAgain:
    async def test_it_gets_the_stored_reply_and_no_second_run(self, store):
        runs = []

        async def count(envelope):
            runs.append(envelope)
            return await echo(envelope)

        server, caller = Server(store, count), Caller()
        envelope = caller.next()
        first = (await server.post(envelope)).json()
        again = (await server.post({**to_a2a_jsonrpc(envelope), "id": "another id"})).json()
        assert again["result"] == first["result"]
        assert again["id"] == "another id"
        assert len(runs) == 1

    async def test_also_after_later_ones_and_after_a_restart(self, store):
        server, caller = Server(store), Caller()
        envelopes = [caller.next(str(n)) for n in range(5)]
        replies = [(await server.post(envelope)).json()["result"] for envelope in envelopes]
        restarted = Server(store)
        assert [(await restarted.post(e)).json()["result"] for e in envelopes] == replies

    async def test_ten_at_once_run_once(self, store):
        runs = []

        async def count(envelope):
            runs.append(envelope)
            await asyncio.sleep(0)
            return await echo(envelope)

        server, envelope = Server(store, count), Caller().next()
        responses = await asyncio.gather(*(server.post(envelope) for _ in range(10)))
        assert {response.status_code for response in responses} == {200}
        assert len({response.text for response in responses}) == 1
        assert len(runs) == 1

    @pytest.mark.parametrize("count", [64, 65, 100, 128, 150])
    async def test_the_last_64_are_kept_and_beyond_them_it_is_a_replay(self, store, count):
        server, caller = Server(store), Caller()
        envelopes = [caller.next(str(n)) for n in range(count)]
        replies = [(await server.post(envelope)).json()["result"] for envelope in envelopes]
        again = [await server.post(envelope) for envelope in envelopes]
        assert [response.status_code for response in again] == [409] * (count - 64) + [200] * 64
        assert [response.json()["result"] for response in again[-64:]] == replies[-64:]


class TestRefusedByTheChain:
    async def refused(self, server, envelope, detail):
        response = await server.post(envelope)
        assert response.status_code == 409
        body = response.json()
        assert detail in body["detail"]
        return body

    async def test_other_bytes_under_a_used_number(self, store):
        server, caller = Server(store), Caller()
        await server.reply_to(caller.next())
        other = Caller().next("something else")
        await self.refused(server, other, "replay/out-of-order envelope: seq 1 <= last_seen 1")

    async def test_a_gap(self, store, monkeypatch):
        monkeypatch.setattr(queues, "GRACE_SECONDS", 0.01)
        server = Server(store)
        await self.refused(
            server, Caller().next(sequence_no=2), "non-monotonic sequence_no: expected 1, got 2"
        )

    async def test_a_fork(self, store):
        server, caller = Server(store), Caller()
        await server.reply_to(caller.next())
        forked = caller.next(prev_envelope_hash=b"x" * 32)
        await self.refused(server, forked, "prev_envelope_hash mismatch: expected ")

    async def test_a_first_envelope_that_follows_something(self, store):
        await self.refused(
            Server(store), Caller().next(prev_envelope_hash=b"x" * 32), "prev_envelope_hash mismatch"
        )

    async def test_the_refusal_shows_a_signed_way_back(self, store):
        server, caller = Server(store), Caller()
        last = caller.next()
        await server.reply_to(last)
        body = await self.refused(server, Caller().next("other"), "replay")
        assert body["expected_sequence_no"] == 2
        assert body["chain_tip"] == last.compute_hash().hex()
        statement = TipStatement.from_json(body["statement"])
        pair = PairKey(caller.key.vacant_id, SERVER.vacant_id)
        assert resynchronised(pair, ReplayState(), statement) == ReplayState(1, last.compute_hash())


class TestOrder:
    async def test_sixteen_pipelined_on_one_pair_are_all_answered_in_order(self, store):
        server, caller = Server(store), Caller()
        envelopes = [caller.next(str(n)) for n in range(16)]
        replies = await asyncio.gather(*(server.reply_to(envelope) for envelope in reversed(envelopes)))
        replies.reverse()
        assert [reply.sequence_no for reply in replies] == list(range(1, 17))
        assert [reply.payload.parts[0].text for reply in replies] == [f"echo {n}" for n in range(16)]
        for before, after in pairwise(replies):
            assert after.prev_envelope_hash == before.compute_hash()

    async def test_pairs_do_not_wait_for_each_other(self, store):
        gate = Gate()

        async def slow_for_one(envelope):
            return await (gate if envelope.payload.parts[0].text == "slow" else echo)(envelope)

        server = Server(store, slow_for_one)
        slow = asyncio.create_task(server.post(Caller("slow").next("slow")))
        await gate.someone.wait()
        await server.reply_to(Caller("quick").next())
        assert not slow.done()
        gate.open.set()
        assert (await slow).status_code == 200

    async def test_thirty_two_pairs_of_a_hundred_calls(self, store):
        server = Server(store, sole_writer=True)

        async def call_often(number):
            caller = Caller(f"caller {number}")
            return [(await server.post(caller.next())).status_code for _ in range(100)]

        answers = await asyncio.gather(*(call_often(number) for number in range(32)))
        assert {status for statuses in answers for status in statuses} == {200}

    async def test_more_than_may_wait_are_told_to_come_again(self, store, monkeypatch):
        monkeypatch.setattr(queues, "MAX_WAITING_PER_PAIR", 3)
        gate = Gate()
        server, caller = Server(store, gate), Caller()
        waiting = [asyncio.create_task(server.post(caller.next()))]
        await gate.someone.wait()
        waiting += [asyncio.create_task(server.post(caller.next())) for _ in range(6)]
        refused = await asyncio.wait_for(asyncio.shield(waiting[-1]), 5)
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        gate.open.set()
        statuses = sorted([(await response).status_code for response in waiting])
        assert statuses == [200] * 4 + [503] * 3

    async def test_a_caller_who_hangs_up_while_waiting_holds_nobody_up(self, store):
        gate = Gate()
        server, caller = Server(store, gate), Caller()
        first = asyncio.create_task(server.post(caller.next()))
        await gate.someone.wait()
        second_envelope, third_envelope = caller.next(), caller.next()
        second = asyncio.create_task(server.post(second_envelope))
        third = asyncio.create_task(server.post(third_envelope))
        await asyncio.sleep(0)
        second.cancel()
        gate.open.set()
        assert (await first).status_code == 200
        assert (await server.post(second_envelope)).status_code == 200
        assert (await third).status_code in {200, 409}


class TestFailure:
    async def test_an_agent_that_fails_leaves_the_pair_usable(self, store):
        async def fail(_envelope):
            raise RuntimeError("secret internals")

        server, caller = Server(store, fail), Caller()
        response = await server.post(caller.next())
        assert response.status_code == 500
        assert "secret" not in response.text
        assert "nothing was recorded" in response.json()["detail"]
        assert (await Server(store).post(Caller().next("different bytes"))).status_code == 200

    async def test_an_agent_that_returns_no_message_is_its_own_failure(self, store):
        async def nothing(_envelope):
            return "text"

        assert (await Server(store, nothing).post(Caller().next())).status_code == 500

    async def test_an_agent_that_takes_too_long_is_given_up(self, store):
        server = Server(store, Gate(), deadline=0.01)
        response = await server.post(Caller().next())
        assert response.status_code == 504
        assert "0.01 seconds" in response.json()["detail"]
        assert (await Server(store).post(Caller().next())).status_code == 200

    async def test_a_store_that_does_not_answer_is_503_and_not_a_conflict(self, tmp_path):
        store = await SqliteStore.open(tmp_path / "comity.db", SystemClock())
        server = Server(store)
        await store.close()
        response = await server.post(Caller().next())
        assert response.status_code == 503
        assert "comity.db" not in response.text

    async def test_a_commit_that_fails_leaves_the_pair_where_it_was(self, store, monkeypatch):
        server, envelope = Server(store, sole_writer=True), Caller().next()
        with monkeypatch.context() as patched:

            def refuse(_operations, _audit=()):
                refused = asyncio.get_running_loop().create_future()
                refused.set_exception(StoreUnavailableError("no"))
                return refused

            patched.setattr(store, "submit", refuse)
            assert (await server.post(envelope)).status_code == 503
        assert (await server.post(envelope)).status_code == 200


class TestManyProcesses:
    async def test_two_servers_on_one_store_keep_one_contiguous_reply_chain(self, store):
        one, two = Server(store), Server(store)
        caller = Caller()
        replies = [await (one, two)[number % 2].reply_to(caller.next()) for number in range(20)]
        assert [reply.sequence_no for reply in replies] == list(range(1, 21))
        for before, after in pairwise(replies):
            assert after.prev_envelope_hash == before.compute_hash()

    async def test_the_same_envelope_raced_to_both_is_accepted_once_and_answered_alike(self, store):
        one, two = Server(store), Server(store)
        for number in range(20):
            envelope = Caller(f"racer {number}").next()
            answers = await asyncio.gather(one.post(envelope), two.post(envelope))
            assert [answer.status_code for answer in answers] == [200, 200]
            assert answers[0].json() == answers[1].json()

    async def test_two_different_envelopes_for_one_number_have_one_winner(self, store):
        one, two = Server(store), Server(store)
        for number in range(20):
            rivals = [Caller(f"rival {number}").next(content) for content in ("this", "that")]
            answers = await asyncio.gather(one.post(rivals[0]), two.post(rivals[1]))
            assert sorted(answer.status_code for answer in answers) == [200, 409]

    async def test_a_chain_moved_by_somebody_else_is_noticed(self, store):
        server, caller = Server(store, sole_writer=True), Caller()
        first = caller.next()
        await server.reply_to(first)
        chain = chain_of(PairKey.from_envelope(first))
        await store.commit(Advance(chain=chain, expected=Tip(1, first.compute_hash()), to=Tip(2, b"2" * 32)))
        response = await server.post(caller.next())
        assert response.status_code == 409
        assert response.json()["expected_sequence_no"] == 3


class TestLimits:
    async def test_new_pairs_of_one_address_are_limited_and_old_ones_go_on(self, store):
        budget = Budget(SystemClock(), Figures(new_pairs=2, limit_loopback=True))
        server = Server(store, budget=budget)
        known = Caller("1")
        assert (await server.post(known.next())).status_code == 200
        assert (await server.post(Caller("2").next())).status_code == 200
        refused = await server.post(Caller("3").next())
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 1000
        assert (await server.post(known.next())).status_code == 200

    @pytest.mark.parametrize("off", [timedelta(seconds=-301), timedelta(seconds=301)])
    async def test_with_a_window_a_far_off_clock_is_refused_and_the_skew_named(self, store, off):
        envelope = Caller().next(timestamp=datetime.now(UTC) + off)
        response = await Server(store, freshness=300).post(envelope)
        assert response.status_code == 400
        assert "301 s" in response.json()["detail"]

    async def test_without_a_window_any_time_is_accepted(self, store):
        old = datetime(2020, 1, 1, tzinfo=UTC)
        assert (await Server(store).post(Caller().next(timestamp=old))).status_code == 200


async def test_a_reply_cannot_be_played_back_to_the_server_as_a_call(store):
    server, caller = Server(store), Caller()
    reply = (await server.post(caller.next())).json()["result"]["message"]
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": reply}}
    assert (await server.post(body)).status_code == 421


async def test_a_captured_envelope_does_not_revive_after_a_restart(store):
    server, caller = Server(store), Caller()
    envelopes = [caller.next(str(n)) for n in range(3)]
    first_replies = [(await server.post(envelope)).text for envelope in envelopes]
    restarted = Server(store)
    for envelope, reply in zip(envelopes, first_replies, strict=True):
        answer = await restarted.post(envelope)
        assert (answer.status_code, answer.text) == (200, reply), "the stored reply, and no new run"
    assert from_a2a_result((await restarted.post(caller.next())).json()).sequence_no == 4
