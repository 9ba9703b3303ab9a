"""What every engine does with chains and the replies kept for them, word for word the same."""

import asyncio

import msgspec
import pytest

from comity.store.audit_log import verify_chain
from comity.store.interface import (
    Advance,
    ChainKey,
    DropReply,
    KeepReply,
    PruneReplies,
    StoreConflict,
    StoredChain,
    StoredReply,
    Tip,
)
from tests.store.chain_steps import BACK, CHAIN, OTHER, answer, step, tip
from tests.store.samples import KEY, draft


class TestChains:
    async def test_an_unknown_pair_is_at_its_beginning(self, store):
        assert await store.tip(CHAIN) == Tip(0, bytes(32))

    async def test_each_step_needs_the_one_before(self, store):
        assert await store.commit(step(1)) == (tip(1),)
        await store.commit(step(2))
        assert await store.tip(CHAIN) == tip(2)

    async def test_all_chains_of_a_party_come_with_what_is_kept_for_them(self, store):
        asked = ChainKey("call", "bob", "carol")
        await store.commit(step(1), step(2), step(1, OTHER), step(1, asked), step(1, BACK))
        await store.commit(
            KeepReply(chain=CHAIN, seq=1, digest=b"d", reply=b"r", at=1.0),
            KeepReply(chain=CHAIN, seq=2, digest=b"d", reply=None, at=2.0),
        )
        called, back = StoredChain(CHAIN, tip(2), 1, 1), StoredChain(BACK, tip(1), 0, 0)
        assert await store.chains("alice") == [called, back]
        others = [StoredChain(OTHER, tip(1), 0, 0), StoredChain(asked, tip(1), 0, 0)]
        assert await store.chains("bob") == [called, *others, back]
        assert await store.chains("nobody") == []

    async def test_directions_and_books_are_apart(self, store):
        other_book = ChainKey("call", "alice", "bob")
        await store.commit(step(1), step(1, BACK))
        assert await store.tip(other_book) == Tip()
        assert await store.tip(BACK) == tip(1)

    @pytest.mark.parametrize(
        "wrong",
        [
            step(1),
            step(3),
            Advance(chain=CHAIN, expected=Tip(1, b"x" * 32), to=tip(2)),
            Advance(chain=CHAIN, expected=Tip(0, b"\1" * 32), to=tip(2)),
        ],
    )
    async def test_a_loser_learns_the_current_state(self, store, wrong):
        await store.commit(step(1))
        with pytest.raises(StoreConflict) as conflict:
            await store.commit(wrong)
        assert conflict.value.current == tip(1)
        assert await store.tip(CHAIN) == tip(1)

    async def test_of_many_at_once_exactly_one_wins(self, store):
        rivals = [Advance(chain=CHAIN, expected=Tip(), to=Tip(1, bytes([n]) * 32)) for n in range(50)]
        results = await asyncio.gather(*(store.commit(rival) for rival in rivals), return_exceptions=True)
        winners = [result for result in results if not isinstance(result, StoreConflict)]
        assert winners == [(await store.tip(CHAIN),)]

    async def test_the_largest_number_is_kept_exactly(self, store):
        top = Tip(2**63 - 1, b"z" * 32)
        await store.commit(Advance(chain=CHAIN, expected=Tip(), to=top))
        assert await store.tip(CHAIN) == top


class TestReplies:
    async def test_a_kept_reply_is_found_by_its_number(self, store):
        await store.commit(KeepReply(chain=CHAIN, seq=1, digest=b"d", reply=b"answer", at=5.0))
        assert await store.reply(CHAIN, 1) == StoredReply(1, b"d", b"answer", 5.0)
        assert await store.reply(CHAIN, 2) is None
        assert await store.reply(BACK, 1) is None

    async def test_a_pending_one_is_replaced_and_dropped(self, store):
        await store.commit(KeepReply(chain=CHAIN, seq=1, digest=b"d", reply=None, at=5.0))
        assert (await store.reply(CHAIN, 1)).reply is None
        await store.commit(KeepReply(chain=CHAIN, seq=1, digest=b"e", reply=b"r", at=6.0))
        assert (await store.reply(CHAIN, 1)).digest == b"e"
        assert await store.commit(DropReply(chain=CHAIN, seq=1)) == (True,)
        assert await store.commit(DropReply(chain=CHAIN, seq=1)) == (False,)
        assert await store.reply(CHAIN, 1) is None

    async def test_keeping_a_reply_does_not_move_the_chain(self, store):
        await store.commit(KeepReply(chain=CHAIN, seq=1, digest=b"d", reply=None, at=5.0))
        assert await store.tip(CHAIN) == Tip()
        await store.commit(step(1))

    async def test_pruning_bounds_the_window_by_number_and_by_age_and_spares_the_newest(self, store):
        for seq in range(1, 11):
            await store.commit(KeepReply(chain=CHAIN, seq=seq, digest=b"d", reply=b"r", at=float(seq)))
        assert await store.commit(PruneReplies(chain=CHAIN, keep=6, before=0.0)) == (4,)
        assert [seq for seq in range(1, 11) if await store.reply(CHAIN, seq)] == [5, 6, 7, 8, 9, 10]
        assert await store.commit(PruneReplies(chain=CHAIN, keep=6, before=7.0)) == (2,)
        assert [seq for seq in range(1, 11) if await store.reply(CHAIN, seq)] == [7, 8, 9, 10]
        assert await store.commit(PruneReplies(chain=CHAIN, keep=1, before=99.0)) == (3,)
        assert await store.commit(PruneReplies(chain=CHAIN, keep=0, before=99.0)) == (0,)
        assert await store.reply(CHAIN, 10)
        assert await store.commit(PruneReplies(chain=BACK, keep=1, before=99.0)) == (0,)


class TestAnswers:
    async def test_an_answer_moves_both_chains_and_is_kept_for_its_call(self, store):
        assert await store.commit(answer(1)) == (None,)
        await store.commit(answer(2, b"second"))
        assert await store.tip(CHAIN) == await store.tip(BACK) == tip(2)
        assert await store.reply(CHAIN, 2) == StoredReply(2, tip(2).hash, b"second", 2.0)
        assert await store.reply(BACK, 2) is None

    @pytest.mark.parametrize(("calls", "replies", "current"), [(2, 1, 2), (4, 3, 2), (3, 3, 1), (3, 1, 1)])
    async def test_one_that_finds_a_chain_elsewhere_changes_nothing_and_names_it(
        self, store, calls, replies, current
    ):
        await store.commit(answer(1))
        await store.commit(step(2))
        with pytest.raises(StoreConflict) as conflict:
            await store.commit(answer(calls, b"other", replied=replies))
        assert conflict.value.current == tip(current)
        assert (await store.tip(CHAIN), await store.tip(BACK)) == (tip(2), tip(1))
        assert await store.reply(CHAIN, calls) is None

    async def test_many_at_once_of_old_pairs_and_new_ones_are_each_told_their_own_outcome(self, store):
        pairs = [ChainKey("serve", f"caller {n}", "bob") for n in range(77)]
        for pair in pairs[::2]:
            await store.commit(answer(1, chain=pair))
        stale = {pairs[10], pairs[40]}
        works = {
            pair: store.submit(
                [answer(2 if n % 2 == 0 and pair not in stale else 1, str(n).encode(), chain=pair)]
            )
            for n, pair in enumerate(pairs)
        }
        outcomes = await asyncio.gather(*works.values(), return_exceptions=True)
        for n, (pair, outcome) in enumerate(zip(works, outcomes, strict=True)):
            at = 1 if n % 2 or pair in stale else 2
            assert isinstance(outcome, StoreConflict) == (pair in stale)
            assert await store.tip(pair) == tip(at)
            assert (await store.reply(pair, at)).reply == (b"reply" if pair in stale else str(n).encode())

    async def test_answers_of_known_pairs_are_audited_each_with_its_own_entry(self, store):
        pairs = [ChainKey("serve", f"caller {n}", "bob") for n in range(100)]
        for number in (1, 2, 3):
            works = [store.submit([answer(number, chain=pair)], [draft()]) for pair in pairs]
            assert [await work for work in works] == [(None,)] * len(pairs)
            assert await store.end("audit:main") == number * len(pairs)
        assert {await store.tip(pair) for pair in pairs} == {tip(3)}
        assert await store.reply(pairs[7], 3) == StoredReply(3, tip(3).hash, b"reply", 3.0)
        assert (await verify_chain(store, "main", KEY.vacant_id.public)).ok

    async def test_one_that_conflicts_leaves_no_entry_and_its_neighbours_go_on(self, store):
        pairs = [ChainKey("serve", f"caller {n}", "bob") for n in range(20)]
        for pair in pairs:
            await store.commit(answer(1, chain=pair), audit=[draft()])
        numbers = [1 if n in {3, 11} else 2 for n in range(20)]
        works = [
            store.submit([answer(number, chain=pair)], [draft()])
            for number, pair in zip(numbers, pairs, strict=True)
        ]
        outcomes = await asyncio.gather(*works, return_exceptions=True)
        assert [isinstance(outcome, StoreConflict) for outcome in outcomes] == [n == 1 for n in numbers]
        assert await store.end("audit:main") == 20 + 18
        assert (await verify_chain(store, "main", KEY.vacant_id.public)).ok

    @pytest.mark.parametrize("audited", [True, False])
    async def test_an_answer_may_forget_older_ones(self, store, audited):
        audit = [draft()] if audited else []
        for seq in range(1, 11):
            await store.commit(answer(seq), answer(seq, chain=OTHER), audit=audit)

        async def kept(chain):
            return [seq for seq in range(1, 14) if await store.reply(chain, seq)]

        await store.commit(msgspec.structs.replace(answer(11), keep=6), audit=audit)
        assert await kept(CHAIN) == [6, 7, 8, 9, 10, 11]
        await store.commit(msgspec.structs.replace(answer(12), keep=6, before=10.0), audit=audit)
        assert await kept(CHAIN) == [10, 11, 12]
        await store.commit(msgspec.structs.replace(answer(13), keep=0, before=99.0), audit=audit)
        assert await kept(CHAIN) == [13]
        assert await kept(OTHER) == list(range(1, 11))

    @pytest.mark.parametrize("audited", [True, False])
    async def test_an_answer_may_take_the_place_of_an_older_one(self, store, audited):
        audit = [draft()] if audited else []
        for seq in range(1, 4):
            await store.commit(answer(seq), answer(seq, chain=OTHER), audit=audit)
        await store.commit(KeepReply(chain=CHAIN, seq=6, digest=b"d", reply=None, at=3.0))

        async def kept(chain):
            return [seq for seq in range(1, 8) if await store.reply(chain, seq)]

        await store.commit(msgspec.structs.replace(answer(4, b"4"), instead_of=2), audit=audit)
        assert await kept(CHAIN) == [1, 3, 4, 6]
        await store.commit(msgspec.structs.replace(answer(5, b"5"), instead_of=2), audit=audit)
        assert await kept(CHAIN) == [1, 3, 4, 5, 6]
        await store.commit(msgspec.structs.replace(answer(6, b"6"), instead_of=3), audit=audit)
        assert await kept(CHAIN) == [1, 4, 5, 6]
        await store.commit(msgspec.structs.replace(answer(7, b"7"), instead_of=4, keep=2), audit=audit)
        assert await kept(CHAIN) == [6, 7]
        assert await store.reply(CHAIN, 6) == StoredReply(6, tip(6).hash, b"6", 6.0)
        assert await store.reply(CHAIN, 7) == StoredReply(7, tip(7).hash, b"7", 7.0)
        assert await kept(OTHER) == [1, 2, 3]

    async def test_in_one_batch_each_finds_what_the_one_before_it_left(self, store):
        prune = PruneReplies(chain=CHAIN, keep=1, before=0.0)
        works = [
            store.submit([answer(1), answer(2)]),
            store.submit([answer(3), prune]),
            store.submit([step(4)]),
            store.submit([answer(5, replied=4)]),
        ]
        assert [await work for work in works] == [(None, None), (None, 2), (tip(4),), (None,)]
        assert [seq for seq in range(1, 6) if await store.reply(CHAIN, seq)] == [3, 5]
