"""Stored replies are limited in bytes, for each pair and in all; who is refused loses nothing."""

import asyncio

import pytest

from comity.envelopes.protocol.chain import PairKey
from comity.envelopes.protocol.envelope import to_a2a_jsonrpc
from comity.envelopes.queues import chain_of
from comity.envelopes.server import MessageSend
from comity.requests.budget import KEPT_SECONDS, Budget, Figures, Quota
from comity.requests.pipeline import Pipeline
from comity.requests.record import Recorder
from comity.store.audit_log import tail
from comity.store.audit_trail import AuditTrail
from comity.store.interface import CHAIN_BYTES, REPLIES
from comity.store.memory import MemoryStore
from comity.testing import VirtualClock
from tests.envelopes.peers import SERVER, Caller, Server, echo, text
from tests.http.asgi_calls import ask, scope_of

LARGE = "x" * 9000


class NodeRuntime:
    """A server with quotas, asked from addresses of the test's choice."""

    def __init__(self, behaviour=echo, *, total=10_000_000, pair=100_000, store=None):
        self.clock = VirtualClock()
        self.store = store or MemoryStore(self.clock)
        self.worked = 0
        self.behaviour = behaviour
        self.quota = Quota(
            self.store, self.clock, name=REPLIES, total=total, has_share=lambda peer: peer != "127.0.0.1"
        )
        self.server = Server(
            self.store, self.work, clock=self.clock, quota=self.quota, pair_bytes=pair, sole_writer=True
        )
        self.door = MessageSend(self.server.handler, self.server.pipeline)

    async def work(self, envelope):
        self.worked += 1
        return await self.behaviour(envelope)

    async def send(self, envelope, peer="192.0.2.1"):
        body = self.server.http.build_request("POST", "http://x", json=to_a2a_jsonrpc(envelope)).content
        headers = [("content-type", "application/json")]
        return await ask(self.door, scope_of("POST", "/", headers, client=(peer, 1)), [body])


async def test_large_calls_of_one_pair_fill_its_quota_and_no_more():
    runtime, caller, sent = NodeRuntime(), Caller(), []
    for _ in range(70):
        sent.append(caller.next(LARGE))
        answer = await runtime.send(sent[-1])
        if answer.status != 200:
            break
    assert answer.status == 507
    assert "the replies stored for this pair would exceed 100,000 bytes" in answer.json()["detail"]
    assert 5 < len(sent) < 12
    assert (await runtime.store.kept(calls_of(caller))).bytes <= 100_000
    worked = runtime.worked
    assert (await runtime.send(sent[-1])).status == 507
    assert runtime.worked == worked, "the agent must not work for a reply that cannot be kept"
    for envelope in sent[:-1]:  # every reply that was promised is there
        assert (await runtime.send(envelope)).status == 200
    assert runtime.worked == worked


def calls_of(caller):
    return chain_of(PairKey(caller.key.vacant_id, SERVER.vacant_id))


async def test_a_pair_that_was_refused_goes_on_where_it_was_when_its_replies_are_a_day_old():
    runtime, caller = NodeRuntime(), Caller()
    refused = None
    while refused is None:
        envelope = caller.next(LARGE)
        if (await runtime.send(envelope)).status == 507:
            refused = envelope
    small = NodeRuntime(store=runtime.store)
    assert (await small.send(refused)).status == 507
    await runtime.clock.advance(KEPT_SECONDS + 1)
    assert (await runtime.send(refused)).status == 200


async def test_a_pair_of_many_small_replies_never_ends():
    runtime, caller = NodeRuntime(pair=64 * 1000), Caller()
    for _ in range(300):
        assert (await runtime.send(caller.next())).status == 200
    assert runtime.worked == 300


async def test_a_reply_that_is_larger_than_what_is_left_is_not_stored_and_the_pair_is_where_it_was():
    async def verbose(envelope):
        return text(LARGE * 20 if envelope.payload.parts[0].text == "much" else "little", "ROLE_AGENT")

    runtime, caller = NodeRuntime(verbose), Caller()
    assert (await runtime.send(caller.next("little"))).status == 200
    seq, tip = caller.seq, caller.tip
    assert (await runtime.send(caller.next("much"))).status == 507
    caller.seq, caller.tip = seq, tip
    assert (await runtime.send(caller.next("little"))).status == 200
    assert runtime.quota.held == await runtime.store.held(REPLIES)


async def test_one_address_holds_a_32nd_whatever_number_of_keys_it_makes():
    runtime = NodeRuntime(total=32 * 50_000)
    statuses = [(await runtime.send(Caller(f"fresh {n}").next(LARGE))).status for n in range(12)]
    assert statuses.count(200) == 4
    assert await runtime.store.held(REPLIES) <= 50_000
    assert (await runtime.send(Caller("elsewhere").next(LARGE), "198.51.100.1")).status == 200


async def test_the_last_quarter_is_for_pairs_that_exist():
    runtime = NodeRuntime(total=40 * 1024)
    known = Caller("known")
    assert (await runtime.send(known.next(), "127.0.0.1")).status == 200
    while (await runtime.send(Caller(f"fresh {runtime.worked}").next("x" * 900), "127.0.0.1")).status == 200:
        pass
    assert await runtime.store.held(REPLIES) <= 30 * 1024
    assert (await runtime.send(known.next(), "127.0.0.1")).status == 200


async def test_pairs_count_although_their_replies_are_small():
    runtime = NodeRuntime(total=32 * 10 * 1024)
    statuses = [(await runtime.send(Caller(f"fresh {n}").next())).status for n in range(12)]
    assert statuses[-1] == 507
    assert await runtime.store.held(REPLIES) > 4 * 2 * CHAIN_BYTES


async def test_calls_that_fail_give_back_what_was_set_aside():
    async def broken(_envelope):
        raise ValueError

    runtime = NodeRuntime(broken)
    for n in range(5):
        assert (await runtime.send(Caller(str(n)).next(LARGE))).status == 500
    assert runtime.quota.held == 0
    began = asyncio.Event()

    async def endless(_envelope):
        began.set()
        await asyncio.Event().wait()

    slow = NodeRuntime(endless)
    call = asyncio.create_task(slow.send(Caller().next(LARGE)))
    await began.wait()
    assert slow.quota.held > 9000
    call.cancel()
    await asyncio.wait([call])
    assert slow.quota.held == 0


@pytest.mark.parametrize("peer", ["192.0.2.1", "127.0.0.1"])
async def test_what_is_held_is_exact_after_a_restart(store, peer):
    runtime = NodeRuntime(store=store)
    callers = [Caller(str(n)) for n in range(3)]
    for caller in callers * 4:
        assert (await runtime.send(caller.next("x" * 500), peer)).status == 200
    again = NodeRuntime(store=store)
    await again.quota.refresh()
    rows = 0
    for caller in callers:
        for number in range(1, 5):
            rows += len((await store.reply(calls_of(caller), number)).reply)
    assert again.quota.held == rows + 6 * CHAIN_BYTES


async def test_refused_first_envelopes_of_fresh_keys_are_counted_and_not_written_one_by_one():
    clock = VirtualClock()
    store = MemoryStore(clock, trail=AuditTrail("main", SERVER))
    budget = Budget(clock, Figures(new_pairs=1))
    server = Server(store, clock=clock, budget=budget, sole_writer=True)
    door = MessageSend(server.handler, Pipeline(Recorder(store, clock), clock, budget=budget))
    for number in range(600):
        body = server.http.build_request(
            "POST", "http://x", json=to_a2a_jsonrpc(Caller(f"fresh {number}").next())
        ).content
        headers = [("content-type", "application/json")]
        peer = {"client": (f"192.0.2.{number % 2}", 1)}
        answer = await ask(door, scope_of("POST", "/", headers, **peer), [body])
        assert answer.status == (200 if number < 2 else 429)
    door._pipeline.record.flush()
    await store.commit()
    entries = [entry async for entry in tail(store, "main", 1000)]
    assert [(entry.verification_result, entry.failed_step) for entry in entries] == [
        ("ENVELOPE_OK", None),
        ("ENVELOPE_OK", None),
        ("REFUSED", "envelope:rate_limited"),
    ]
    assert entries[-1].checks_passed[0] == "count:598"
