"""The chains of a pair verified: sound as they were written, and each alteration named by the number of its call."""

import contextlib

import httpx
import pytest
from msgspec.structs import replace

from comity.envelopes.pairs import read_pairs
from comity.envelopes.protocol.chain import PairKey
from comity.envelopes.protocol.envelope import from_a2a_message, to_a2a_jsonrpc, to_a2a_message
from comity.envelopes.queues import chain_of
from comity.envelopes.sealing import ReplyVault
from comity.envelopes.verification import verdict_of, verify_pairs
from comity.runtime.settings import AgentSettings, StoreSettings
from comity.store.audit_trail import log_of
from comity.store.interface import Advance, Append, DropReply, KeepReply, Tip
from comity.testing import running_node
from comity.wire import strict_json
from tests.envelopes.peers import Caller, text

AGENT = AgentSettings(behaviour="echo")


class Pair:
    """A node that somebody has called, and what is done to its database behind its back."""

    def __init__(self, node, caller):
        self.node = node
        self.caller = caller
        self.store = node.runtime.store
        self.requests = chain_of(PairKey(caller.key.vacant_id, node.vacant_id))
        self.replies = chain_of(PairKey(node.vacant_id, caller.key.vacant_id))

    async def call(self, times):
        async with httpx.AsyncClient(base_url=self.node.url) as client:
            for _ in range(times):
                body = to_a2a_jsonrpc(self.caller.next("hello"))
                assert (await client.post("/a2a/message/send", json=body)).status_code == 200

    async def change_reply(self, number, change):
        row = await self.store.reply(self.requests, number)
        vault = ReplyVault(self.node.runtime.current_vault)
        reply = change(vault.open(self.requests, number, row.reply))
        await self.store.commit(
            KeepReply(chain=self.requests, seq=number, digest=row.digest, reply=reply, at=row.at)
        )

    async def move(self, chain, *, seq=None, tip=None):
        now = await self.store.tip(chain)
        await self.store.commit(Advance(chain=chain, expected=now, to=Tip(seq or now.seq, tip or now.hash)))

    async def report(self):
        (report,) = await verify_pairs(
            self.store, self.node.vacant_id, [self.caller.key.vacant_id], self.node.runtime.current_vault
        )
        return report


@contextlib.asynccontextmanager
async def called(times, **settings):
    async with running_node(agent=AGENT, **settings) as node:
        pair = Pair(node, Caller(to_vid=node.vacant_id))
        await pair.call(times)
        yield pair


async def test_chains_that_nobody_has_touched_are_sound():
    async with called(5) as pair:
        report = await pair.report()
        assert (report.ok, report.calls, report.replies) == (True, 5, 5)
        assert verdict_of(report) == "sound; calls on record: 5, stored replies: 5"


async def test_of_a_long_chain_the_last_64_replies_are_stored_and_every_call_is_on_record():
    async with called(70) as pair:
        report = await pair.report()
        assert (report.ok, report.calls, report.replies) == (True, 70, 64)


@pytest.mark.parametrize("number", [1, 3, 5])
async def test_a_stored_reply_that_was_changed_is_named(number):
    async with called(5) as pair:
        await pair.change_reply(number, lambda reply: reply.replace(b"hello", b"hullo"))
        report = await pair.report()
        assert (report.ok, report.book, report.number) == (False, "serve", number)
        assert "not signed by this node" in report.message
        assert verdict_of(report).startswith(f"BAD: call to us, number {number}: ")


@pytest.mark.parametrize(
    ("opened", "message"),
    [
        (False, "its stored reply cannot be decrypted"),  # it is bound to its number
        (True, "its stored reply answers another request"),  # as earlier releases stored it
    ],
)
async def test_a_stored_reply_in_the_place_of_another_is_named(opened, message):
    async with called(5) as pair:
        second = (await pair.store.reply(pair.requests, 2)).reply
        if opened:
            second = ReplyVault(pair.node.runtime.current_vault).open(pair.requests, 2, second)
        await pair.change_reply(4, lambda _reply: second)
        report = await pair.report()
        assert (report.number, report.message) == (4, message)


async def test_even_with_the_key_of_the_node_a_stored_reply_cannot_be_replaced_unseen():
    async with called(3) as pair:

        def forge(reply):
            true = from_a2a_message(strict_json.loads(reply))
            other = replace(true, payload=text("I never said that"))
            return strict_json.dumps(to_a2a_message(other.signed(pair.node.runtime.key)))

        await pair.change_reply(1, forge)
        report = await pair.report()
        assert (report.number, report.message) == (
            1,
            "its stored reply is not the one that the audit record has seen",
        )


async def test_a_stored_reply_that_is_no_message_is_named():
    async with called(2) as pair:
        await pair.change_reply(2, lambda _reply: b"{")
        report = await pair.report()
        assert (report.number, report.message.startswith("its stored reply cannot be read: ")) == (2, True)


async def test_a_reply_that_is_missing_between_others_is_named():
    async with called(5) as pair:
        await pair.store.commit(DropReply(chain=pair.requests, seq=3))
        report = await pair.report()
        assert (report.number, report.message) == (3, "its stored reply is missing")


async def test_replies_that_were_forgotten_with_time_are_no_fault():
    async with called(5) as pair:
        for number in range(1, 6):
            await pair.store.commit(DropReply(chain=pair.requests, seq=number))
        report = await pair.report()
        assert (report.ok, report.calls, report.replies) == (True, 5, 0)


@pytest.mark.parametrize("chain", ["requests", "replies"])
@pytest.mark.parametrize("replies", ["stored", "forgotten"])
async def test_another_end_of_a_chain_is_found_with_stored_replies_and_without(chain, replies):
    async with called(3) as pair:
        if replies == "forgotten":
            for number in range(1, 4):
                await pair.store.commit(DropReply(chain=pair.requests, seq=number))
        await pair.move(getattr(pair, chain), tip=bytes(range(32)))
        report = await pair.report()
        assert (report.ok, report.number) == (False, 3)
        assert "end on" in report.message


@pytest.mark.parametrize("seq", [2, 4])
async def test_a_number_that_was_changed_is_found_although_the_hash_is_right(seq):
    async with called(3) as pair:
        for number in range(1, 4):
            await pair.store.commit(DropReply(chain=pair.requests, seq=number))
        await pair.move(pair.requests, seq=seq)
        report = await pair.report()
        assert not report.ok
        assert report.message == f"the audit record has 3 answered requests, the chain ends at {seq}"


async def test_an_audit_record_that_is_bad_proves_nothing():
    async with called(2) as pair:
        log = log_of(pair.node.runtime.chain)
        await pair.store.commit(Append(log=log, data=b"nonsense"))
        report = await pair.report()
        assert (report.ok, report.number) == (False, None)
        assert report.message.startswith("chain main of the audit record: audit entry ")


async def test_a_node_goes_on_answering_while_its_chains_are_verified():
    async with called(70) as pair:
        more = 0

        def seen(_entries):
            nonlocal more
            more += 1

        (before,) = await verify_pairs(
            pair.store,
            pair.node.vacant_id,
            [pair.caller.key.vacant_id],
            pair.node.runtime.current_vault,
            seen=seen,
        )
        await pair.call(10)
        assert (before.ok, more > 0) == (True, True)
        assert (await pair.report()).calls == 80


@pytest.mark.parametrize("engine", ["sqlite", "memory"])
async def test_all_pairs_are_listed_whatever_the_engine_of_the_store(engine):
    async with called(2, store=StoreSettings(engine=engine)) as pair:
        (peer,) = await read_pairs(pair.store, pair.node.vacant_id.hex(), pair.node.runtime.current_vault)
    assert peer.vacant_id == pair.caller.key.vacant_id.hex()
    assert (peer.serve.requests.seq, peer.serve.replies.seq, peer.serve.stored_replies) == (2, 2, 2)
    assert (peer.serve.pending, peer.call) == (0, None)
