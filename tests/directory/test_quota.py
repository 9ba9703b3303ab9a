"""Cards are limited in bytes, for each address and in all; refreshing one's own goes on longest."""

import pytest

from comity.envelopes.protocol.errors import SequenceMonotonicityError
from comity.requests.budget import CARDS, Quota
from comity.store.sqlite import SqliteStore
from comity.wire.errors import StorageFullError
from tests.directory.publications import Directory, agent, publication

TEXT = "w" * 8000


class NodeRuntime:
    def __init__(self, store, clock, total):
        quota = Quota(store, clock, name=CARDS, total=total, has_share=lambda peer: peer != "127.0.0.1")
        self.store, self.quota = store, quota
        self.directory = Directory(store, clock, quota)

    async def publish(self, name, seq=1, text=TEXT, peer="192.0.2.7", **members):
        await self.directory.publish(publication(agent(name), text, seq=seq, **members), peer)

    async def flood(self, **named):
        """Cards of fresh keys until one is refused: how many were stored, and the refusal."""
        for number in range(1500):
            try:
                await self.publish(number, **named)
            except StorageFullError as refusal:
                return number, refusal.message
        raise AssertionError("nobody was refused")


@pytest.fixture
async def store(open_directory):
    return (await open_directory()).store


async def test_cards_of_fresh_keys_fill_the_share_of_an_address_and_no_more(store, clock):
    runtime = NodeRuntime(store, clock, total=32 * 200_000)
    stored, refusal = await runtime.flood()
    assert refusal.startswith("what is stored for this address would exceed its 200,000 bytes of cards")
    assert 3 < stored < 20
    assert 160_000 < await store.held(CARDS) <= 200_000
    await runtime.publish("elsewhere", peer="198.51.100.1")
    assert len(await runtime.directory.found(limit=100)) == stored + 1


async def test_in_all_they_fill_three_quarters_and_the_rest_is_for_those_who_are_there(store, clock):
    runtime = NodeRuntime(store, clock, total=1_000_000)
    await runtime.publish("known", text="short", peer="127.0.0.1")
    _, refusal = await runtime.flood(peer="127.0.0.1")
    assert "no room for" in refusal
    assert 700_000 < await store.held(CARDS) <= 750_000
    await runtime.publish("known", seq=2, peer="127.0.0.1")
    assert await runtime.directory.found("short") == []


async def test_refreshing_a_card_counts_what_is_added_and_not_the_card_again(store, clock):
    runtime = NodeRuntime(store, clock, total=32 * 1_000_000)
    await runtime.publish("ann")
    first = await store.held(CARDS)
    for seq in range(2, 12):
        await runtime.publish("ann", seq=seq)
    assert await store.held(CARDS) - first < 10 * 1500
    await runtime.publish("ann", seq=12, text="short")
    assert await store.held(CARDS) < first + 11 * 1500 - 8000


async def test_a_publication_that_is_refused_or_repeated_counts_nothing(store, clock):
    runtime = NodeRuntime(store, clock, total=32 * 1_000_000)
    await runtime.publish("ann")
    held = await store.held(CARDS)
    with pytest.raises(SequenceMonotonicityError):
        await runtime.publish("ann", seq=7)
    await runtime.publish("ann")
    assert await store.held(CARDS) == held == runtime.quota.held


async def test_what_is_counted_is_what_it_takes_on_the_disk(tmp_path, clock):
    store = await SqliteStore.open(tmp_path / "comity.db", clock)
    runtime = NodeRuntime(store, clock, total=10**9)
    runtime.directory.pipeline.record._audited = False
    empty = (tmp_path / "comity.db").stat().st_size
    for number in range(60):
        words = " ".join(f"word{number * 1000 + n}" for n in range(800))
        declared = [" ".join(f"skill{number * 3000 + n * 80 + m}" for m in range(80)) for n in range(30)]
        await runtime.publish(number, text=words, declared_capabilities=declared)
    held = await store.held(CARDS)
    await store.close()
    grown = (tmp_path / "comity.db").stat().st_size - empty
    assert grown / 1.5 < held < grown * 1.5
