import asyncio

import pytest

from comity.store.interface import StoreConflict
from comity.store.jti import SPACE, JtiReplayCache, claim_of
from comity.wire.errors import InvalidError, OverloadedError
from tests.store.samples import draft

HOUR = 3600.0


@pytest.fixture
def cache(store, clock):
    return JtiReplayCache(store, clock)


async def test_an_id_is_claimed_once(cache, clock):
    until = clock.time + HOUR
    assert await cache.claim("creed", "j-1", until)
    assert not await cache.claim("creed", "j-1", until)
    assert not await cache.claim("creed", "j-1", until + HOUR)
    assert await cache.claim("creed", "j-2", until)
    assert await cache.claim("other", "j-1", until)


async def test_the_key_is_the_contracts_and_lives_as_long_as_the_object(cache, store, clock):
    await cache.claim("creed", "j-1", clock.time + HOUR)
    held = await store.get(SPACE, "vcp:jti:creed:j-1")
    assert held.expires_at == clock.time + HOUR
    clock.time += HOUR - 1
    assert not await cache.claim("creed", "j-1", clock.time + HOUR)
    clock.time += 1
    assert await store.get(SPACE, "vcp:jti:creed:j-1") is None
    assert await cache.claim("creed", "j-1", clock.time + HOUR)


async def test_of_many_at_once_exactly_one_wins(cache, clock):
    won = await asyncio.gather(*(cache.claim("creed", "j-1", clock.time + HOUR) for _ in range(20)))
    assert sorted(won) == [False] * 19 + [True]


async def test_a_claim_outlives_the_process(open_store, clock):
    assert await JtiReplayCache(await open_store(), clock).claim("creed", "j-1", clock.time + HOUR)
    assert not await JtiReplayCache(await open_store(), clock).claim("creed", "j-1", clock.time + HOUR)


async def test_two_processes_on_one_store_do_not_both_win(store, clock):
    one, other = JtiReplayCache(store, clock), JtiReplayCache(store, clock)
    assert await one.claim("creed", "j-1", clock.time + HOUR)
    assert not await other.claim("creed", "j-1", clock.time + HOUR)


@pytest.mark.parametrize("expires_in", [0.0, -1.0, float("inf"), float("nan")])
async def test_what_has_expired_or_never_does_is_refused(cache, store, clock, expires_in):
    with pytest.raises(InvalidError, match="expired"):
        await cache.claim("creed", "j-1", clock.time + expires_in)
    assert await store.scan(SPACE) == []


@pytest.mark.parametrize("text", ["", "a" * 257, "a\n", "a\x00", "\ud800"])
async def test_an_id_is_short_and_printable(cache, clock, text):
    with pytest.raises(InvalidError, match="jti"):
        await cache.claim("creed", text, clock.time + HOUR)
    with pytest.raises(InvalidError, match="issuer"):
        await cache.claim(text, "j-1", clock.time + HOUR)
    assert await cache.claim("ü" * 256, "é" * 256, clock.time + HOUR)


async def test_an_issuer_cannot_claim_the_ids_of_another(cache, clock):
    assert await cache.claim("a", "b:c", clock.time + HOUR)
    assert await cache.claim("a:b", "c", clock.time + HOUR)
    assert await cache.claim("a%3Ab", "c", clock.time + HOUR)


class TestTheLimit:
    async def test_beyond_it_claims_are_refused_and_nothing_is_forgotten(self, store, clock):
        cache = JtiReplayCache(store, clock, limit=3)
        for number in range(3):
            assert await cache.claim("creed", f"j-{number}", clock.time + HOUR + number)
        with pytest.raises(OverloadedError, match="creed") as refusal:
            await cache.claim("creed", "j-9", clock.time + HOUR)
        assert refusal.value.retry_after == HOUR
        assert len(await store.scan(SPACE)) == 3
        assert await cache.claim("other", "j-9", clock.time + HOUR)

    async def test_what_expires_makes_room(self, store, clock):
        cache = JtiReplayCache(store, clock, limit=2)
        assert await cache.claim("creed", "late", clock.time + HOUR)
        assert await cache.claim("creed", "soon", clock.time + 10)
        clock.time += 10
        assert await cache.claim("creed", "next", clock.time + HOUR)
        with pytest.raises(OverloadedError):
            await cache.claim("creed", "last", clock.time + HOUR)

    async def test_nobody_is_told_to_come_back_within_a_second(self, store, clock):
        cache = JtiReplayCache(store, clock, limit=1)
        assert await cache.claim("creed", "j-1", clock.time + 0.2)
        with pytest.raises(OverloadedError) as refusal:
            await cache.claim("creed", "j-2", clock.time + HOUR)
        assert refusal.value.retry_after == 1

    async def test_a_replay_takes_no_room(self, store, clock):
        cache = JtiReplayCache(store, clock, limit=2)
        assert await cache.claim("creed", "j-1", clock.time + HOUR)
        for _ in range(3):
            assert not await cache.claim("creed", "j-1", clock.time + HOUR)
        assert await cache.claim("creed", "j-2", clock.time + HOUR)

    async def test_claims_on_their_way_count(self, store, clock):
        cache = JtiReplayCache(store, clock, limit=5)
        claims = (cache.claim("creed", f"j-{number}", clock.time + HOUR) for number in range(9))
        results = await asyncio.gather(*claims, return_exceptions=True)
        assert results.count(True) == 5
        assert sum(isinstance(result, OverloadedError) for result in results) == 4

    async def test_what_was_claimed_before_a_restart_counts(self, open_store, clock):
        store = await open_store()
        await store.commit(*(claim_of("creed", f"j-{n:04}", clock.time + HOUR) for n in range(1201)))
        await store.commit(claim_of("creeds", "j-1", clock.time + HOUR))
        cache = JtiReplayCache(await open_store(), clock, limit=1202)
        assert await cache.claim("creed", "first", clock.time + HOUR)
        with pytest.raises(OverloadedError):
            await cache.claim("creed", "second", clock.time + HOUR)


async def test_a_claim_may_be_part_of_a_transaction_and_carries_its_audit_entry(cache, store, clock):
    assert await cache.claim("creed", "j-1", clock.time + HOUR, audit=[draft("CLAIMED")])
    (log,) = await store.logs("audit")
    entries = await store.end(log)
    assert not await cache.claim("creed", "j-1", clock.time + HOUR, audit=[draft("CLAIMED")])
    assert await store.end(log) == entries
    with pytest.raises(StoreConflict):
        await store.commit(
            claim_of("creed", "j-2", clock.time + HOUR), claim_of("creed", "j-1", clock.time + HOUR)
        )
    assert await cache.claim("creed", "j-2", clock.time + HOUR)
