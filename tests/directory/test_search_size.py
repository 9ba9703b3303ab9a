"""A search in a directory of 50,000 cards visits what it answers with, not what there is.

Work is counted in steps of SQLite's virtual machine, which do not depend on the machine it runs on.
"""

import asyncio

import apsw
import pytest

from comity.directory.cards import CardRecord, keep_record, read_record, search_capability
from comity.directory.events import lineage
from comity.envelopes.protocol.card import CapabilityCard, RuntimeState, Visibility, serialize
from comity.identity.protocol.keys import VacantId
from comity.store.sqlite import SqliteStore, reads
from comity.store.sqlite.connection import open_reader
from comity.testing import VirtualClock

CARDS = 50_000
BATCH = 5_000
TRADES = ["translate", "summarise", "audit", "review", "paint", "compile", "index", "route", "plan", "draft"]
STEPS = 15_000
"""No statement takes more. Looking at every card takes at least eight steps for each of them."""


def record(number: int) -> CardRecord:
    card = CapabilityCard(
        vacant_id=vacant_id(number), capability_text=f"{TRADES[number % 10]} for guild{number // 10} members"
    )
    return CardRecord(
        vacant_id=card.vacant_id.hex(),
        card=serialize(card).decode(),
        card_hash="00" * 32,
        halo_version=1,
        runtime_state=RuntimeState.ACTIVE,
        visibility=Visibility.PUBLIC if number % 5 else Visibility.NONE,
        declared_capabilities=(),
        event_seq=1,
        published_at=0.0,
        base_model_family=f"family{number % 4}",
        parent_id=vacant_id(number // 10).hex() if number else None,
    )


def vacant_id(number: int) -> VacantId:
    return VacantId(number.to_bytes(32, "big"))


async def fill(path):
    store = await SqliteStore.open(path, VirtualClock())
    for start in range(0, CARDS, BATCH):
        await store.commit(*(keep_record(record(n))[0] for n in range(start, start + BATCH)))
    await store.close()


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("size") / "comity.db"
    asyncio.run(fill(path))
    return path


@pytest.fixture
def taken(monkeypatch):
    """The steps that each statement took, since the test began."""
    steps = []

    def note(event):
        if "document_text_" not in event["sql"]:  # the index's own reading, which grows with the matches
            steps.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])

    def open_traced(path):
        connection = open_reader(path)
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, note)
        return connection

    monkeypatch.setattr(reads, "open_reader", open_traced)
    return steps


@pytest.fixture
async def store(database, taken):
    opened = await SqliteStore.open_for_reading(database, VirtualClock())
    taken.clear()
    yield opened
    await opened.close()


pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"query": "guild4242", "limit": 100}, 8),
        ({"query": "guild42", "limit": 100}, 100),
        ({"query": "guild4242 paint"}, 1),
        ({"query": "guild4242 nothing"}, 0),
        ({"query": "guild42", "family": "family1", "limit": 100}, 100),
        ({"query": "guild4242", "include_local": True}, 10),
        ({}, 20),
        ({"family": "family1", "limit": 10}, 10),
        ({"family": "no such family"}, 0),
    ],
)
async def test_a_search_reads_what_it_finds(store, taken, asked, expected):
    found = await search_capability(store=store, **asked)
    assert len(found) == expected
    assert max(taken) < STEPS


async def test_a_card_is_looked_up(store, taken):
    for number in (42, 45):  # one that is found, and one that is hidden
        assert (await read_record(store, vacant_id(number))).vacant_id == vacant_id(number).hex()
    assert max(taken) < STEPS


async def test_children_are_looked_up(store, taken):
    parent = await read_record(store, vacant_id(421))
    assert len((await lineage(store, parent, "descendants", 1)).nodes) == 8
    assert max(taken) < STEPS
