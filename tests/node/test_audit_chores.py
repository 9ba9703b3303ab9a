"""What a node does for its audit record by itself: it enters the heads of other chains, and builds a missing tree."""

import pytest

from comity.identity.key_files import load_identity
from comity.runtime.system_clock import SystemClock
from comity.store import audit_chain as audit
from comity.store import audit_trail
from comity.store.audit_log import heads
from comity.store.audit_trail import HEADS, AuditTrail, HeadFile, sign_head
from comity.store.audit_tree import TREES
from comity.store.interface import Delete, Put, scan_all
from comity.store.sqlite import SqliteStore
from comity.testing import VirtualClock, running_node
from tests.store.samples import draft


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


async def results_of(store):
    return [
        audit.decode(record.data).verification_result for record in await store.read("audit:main", limit=1000)
    ]


async def until(node, clock, result):
    for _ in range(400):  # chores read in threads of the store
        await clock.advance(0)
        await node.store.commit()
        if result in await results_of(node.store):
            return True
    return False


async def test_heads_of_other_chains_enter_the_chain_of_the_node_when_they_change(data):
    clock = VirtualClock()
    async with running_node(data, clock=clock) as node:
        trail = AuditTrail("cli", node.runtime.key, HeadFile(data / "audit" / "cli.head"))
        other = await SqliteStore.open(data / "comity.db", SystemClock(), trail)
        await other.commit(audit=[draft("CALL_SENT")])
        clock.jump(61)
        assert await until(node, clock, "AUDIT_HEAD")
        (head,) = [held for chain, held in await heads(node.store) if chain == "cli"]
        (entry,) = [
            entry
            for record in await node.store.read("audit:main")
            if (entry := audit.decode(record.data)).verification_result == "AUDIT_HEAD"
        ]
        assert entry.content_hash == f"cli:1:{head.entry_hash}"
        clock.jump(61)
        for _ in range(50):
            await clock.advance(0)
            await node.store.commit()
        assert (await results_of(node.store)).count("AUDIT_HEAD") == 1
        await other.close()


async def test_a_long_record_of_an_earlier_release_gets_its_tree_while_the_node_runs(data, monkeypatch):
    async with running_node(data):
        pass
    key = load_identity(data)
    store = await SqliteStore.open(data / "comity.db", SystemClock())
    position = await store.end("audit:main")
    last = audit.decode((await store.read("audit:main", after=position - 1))[0].data)
    head = audit.AuditHead(chain="main", position=position, entry_hash=last.entry_hash, at=last.created_at)
    rows = [Delete(space=TREES, key=each) async for each, _ in scan_all(store, TREES)]
    await store.commit(Put(space=HEADS, key="main", value=sign_head(head, key)), *rows)
    await store.close()
    monkeypatch.setattr(audit_trail, "_CATCH_UP", 0)
    clock = VirtualClock()
    async with running_node(data, clock=clock) as node:
        assert node.runtime.trail.lacks_tree
        clock.jump(61)
        assert await until(node, clock, "AUDIT_TREE_BUILT")
        await node.runtime.note("TEST")
        ((_, newest),) = await heads(node.store)
        assert newest.size == newest.position
    async with running_node(data) as node:
        assert not node.runtime.trail.lacks_tree
