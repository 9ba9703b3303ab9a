"""What is held for whom: added up by the store itself, in the transaction that changes it."""

import random

import pytest

from comity.store.interface import (
    CHAIN_BYTES,
    REPLIES,
    Advance,
    Answer,
    ChainKey,
    DropReply,
    ForgetReplies,
    HeldItem,
    Hold,
    KeepReply,
    KeptReplies,
    PruneReplies,
    StoreConflict,
    Tip,
)

ANN, BOB = ChainKey("serve", "ann", "us"), ChainKey("serve", "bob", "us")
BACK = ChainKey("serve", "us", "ann")


def answer(number, size, *, chain=ANN, at=0.0, holder="a", **more):
    back = ChainKey("serve", "us", chain.sender)
    return Answer(
        calls=Advance(chain=chain, expected=tip(number - 1), to=tip(number), holder=holder),
        replies=Advance(chain=back, expected=tip(number - 1), to=tip(number), holder=holder),
        reply=b"x" * size,
        at=at,
        **more,
    )


def tip(number):
    return Tip(number, number.to_bytes(32, "big")) if number else Tip()


async def test_replies_and_their_chains_count_on_the_account_that_the_chain_began_with(store):
    await store.commit(answer(1, 100))
    await store.commit(answer(2, 50, holder="somebody else"))
    await store.commit(answer(1, 7, chain=BOB, holder="b"))
    assert await store.kept(ANN) == KeptReplies(150, "a")
    assert await store.held(REPLIES, "a") == 2 * CHAIN_BYTES + 150
    assert await store.held(REPLIES, "b") == 2 * CHAIN_BYTES + 7
    assert await store.held(REPLIES, "somebody else") == 0
    assert await store.held(REPLIES) == 4 * CHAIN_BYTES + 157


async def test_a_chain_nobody_has_heard_of_keeps_nothing(store):
    assert await store.kept(ANN) == KeptReplies(0, "")
    assert await store.held(REPLIES) == 0


async def test_what_replaces_a_reply_counts_instead_of_it(store):
    await store.commit(answer(1, 100))
    await store.commit(answer(2, 30, instead_of=1))
    assert await store.held(REPLIES, "a") == 2 * CHAIN_BYTES + 30
    await store.commit(KeepReply(chain=ANN, seq=2, digest=b"", reply=b"longer" * 10, at=0.0))
    assert await store.held(REPLIES, "a") == 2 * CHAIN_BYTES + 60
    await store.commit(KeepReply(chain=ANN, seq=2, digest=b"", reply=None, at=0.0))
    assert await store.held(REPLIES, "a") == 2 * CHAIN_BYTES


@pytest.mark.parametrize("before", [b"another", None], ids=["a reply", "no reply"])
@pytest.mark.parametrize("digest", [tip(2).hash, b"another"], ids=["same hash", "other hash"])
async def test_an_answer_takes_the_place_of_what_was_kept_under_its_number(store, digest, before):
    await store.commit(answer(1, 100))
    await store.commit(KeepReply(chain=ANN, seq=2, digest=digest, reply=before, at=0.0))
    await store.commit(answer(2, 30, at=5.0))
    kept = await store.reply(ANN, 2)
    assert (kept.digest, kept.reply) == (tip(2).hash, b"x" * 30)
    assert await store.held(REPLIES, "a") == 2 * CHAIN_BYTES + 130


async def test_what_is_forgotten_counts_no_more(store):
    for number in range(1, 6):
        await store.commit(answer(number, 10, at=float(number)))
    await store.commit(DropReply(chain=ANN, seq=1))
    assert (await store.kept(ANN)).bytes == 40
    await store.commit(PruneReplies(chain=ANN, keep=2, before=0.0))
    assert await store.held(REPLIES, "a") == 2 * CHAIN_BYTES + 20


async def test_old_replies_of_all_chains_are_forgotten_a_few_at_a_time(store):
    for number in range(1, 8):
        await store.commit(answer(number, 10, at=float(number)))
    await store.commit(answer(1, 10, chain=BOB, at=100.0))
    after = 0
    while after is not None:
        (after,) = await store.commit(ForgetReplies(before=100.0, after=after, rows=3))
    assert await store.kept(ANN) == KeptReplies(0, "a")
    assert (await store.kept(BOB)).bytes == 10
    assert await store.tip(ANN) == tip(7)


async def test_what_is_refused_counts_nothing(store):
    await store.commit(answer(1, 10))
    with pytest.raises(StoreConflict):
        await store.commit(Hold(quota="cards", item="x", holder="a", bytes=5), answer(1, 99))
    assert await store.held(REPLIES) == 2 * CHAIN_BYTES + 10
    assert await store.held("cards") == 0


async def test_a_thing_counts_with_its_newest_size_on_its_first_account(store):
    await store.commit(Hold(quota="cards", item="x", holder="a", bytes=100))
    await store.commit(Hold(quota="cards", item="y", holder="b", bytes=10))
    await store.commit(Hold(quota="cards", item="x", holder="b", bytes=70))
    assert await store.held_item("cards", "x") == HeldItem("a", 70)
    assert await store.held_item("cards", "z") is None
    assert (await store.held("cards", "a"), await store.held("cards", "b")) == (70, 10)
    assert await store.held("cards") == 80
    assert await store.held("other") == 0


async def test_a_thing_without_bytes_is_held_no_more(store):
    await store.commit(Hold(quota="cards", item="x", holder="a", bytes=100))
    await store.commit(Hold(quota="cards", item="x", holder="b", bytes=0))
    await store.commit(Hold(quota="cards", item="never", holder="b", bytes=0))
    assert await store.held_item("cards", "x") is None
    assert await store.held("cards") == 0
    await store.commit(Hold(quota="cards", item="x", holder="b", bytes=7))
    assert await store.held("cards", "b") == 7


async def test_whatever_happens_the_sums_are_those_of_the_rows_also_after_a_restart(open_store):
    seed = random.randrange(2**32)
    print("seed", seed)
    dice = random.Random(seed)
    store = await open_store()
    numbers = {ANN: 0, BOB: 0}
    for step in range(200):
        chain = dice.choice([ANN, BOB])
        number = numbers[chain]
        kind = dice.randrange(6)
        if kind < 3 or not number:
            number = numbers[chain] = number + 1
            instead = dice.choice([None, max(1, number - 3)])
            keep = dice.choice([None, 4])
            done = answer(
                number,
                dice.randrange(50),
                chain=chain,
                holder=chain.sender,
                at=float(step),
                instead_of=instead,
                keep=keep,
            )
        elif kind == 3:
            done = KeepReply(
                chain=chain,
                seq=dice.randint(1, number),
                digest=b"",
                reply=dice.choice([None, b"y" * 9]),
                at=float(step),
            )
        elif kind == 4:
            done = DropReply(chain=chain, seq=dice.randint(1, number))
        else:
            done = PruneReplies(chain=chain, keep=3, before=float(step - 20))
        await store.commit(done)
        if step == 100:
            store = await open_store()
    for chain in (ANN, BOB):
        kept = [await store.reply(chain, seq) for seq in range(1, numbers[chain] + 1)]
        rows = sum(len(one.reply or b"") for one in kept if one is not None)
        assert await store.kept(chain) == KeptReplies(rows, chain.sender)
        assert await store.held(REPLIES, chain.sender) == 2 * CHAIN_BYTES + rows
