"""`comity prune`: what is old goes, and the record can still be verified."""

import asyncio
import json

from comity.identity.key_files import load_identity
from comity.runtime.settings import AgentSettings
from comity.runtime.system_clock import SystemClock
from comity.store.audit_chain import AuditDraft, timestamp
from comity.store.audit_trail import AuditTrail, HeadFile
from comity.store.interface import Advance, ChainKey, KeepReply, Tip
from comity.store.sqlite import SqliteStore

DAY = 86_400.0


def write(data, days, *, replies=()):
    """An entry for each age in days, and replies of that age, in the chain `old`."""
    key = load_identity(data)
    clock = SystemClock()

    async def fill():
        trail = AuditTrail("old", key, HeadFile(data / "audit" / "old.head"))
        store = await SqliteStore.open(data / "comity.db", clock, trail)
        for age in days:
            moment = timestamp(clock.now() - age * DAY)
            await store.commit(audit=[AuditDraft(verification_result="OLD", created_at=moment)])
        chain = ChainKey("serve", "a", "b")
        for seq, age in enumerate(replies, 1):
            before = Tip() if seq == 1 else Tip(seq - 1, bytes([seq - 1]) * 32)
            await store.commit(
                Advance(chain=chain, expected=before, to=Tip(seq, bytes([seq]) * 32)),
                KeepReply(
                    chain=chain, seq=seq, digest=bytes(32), reply=bytes(2_000_000), at=clock.now() - age * DAY
                ),
            )
        await store.close()

    asyncio.run(fill())


def test_old_entries_and_replies_go_and_the_rest_verifies(comity, data, identity):
    write(data, [400, 300, 200, 50, 1], replies=(3, 2, 0))
    before = (data / "comity.db").stat().st_size
    said = comity("prune", "--days", "100", "--yes", "--json")
    assert said.code == 0, said.err
    result = json.loads(said.out)
    assert result["audit_entries"] == 3
    assert result["reply_bytes"] == 4_000_000
    assert result["compacted"] is True
    assert result["file_bytes"] == (data / "comity.db").stat().st_size < before - 3_000_000
    verified = comity("audit", "verify", "--json")
    assert verified.code == 0
    assert {chain["chain"]: chain["entries"] for chain in json.loads(verified.out)["chains"]} == {
        "cli": 1,
        "old": 2,
    }
    assert "AUDIT_PRUNED" in comity("audit", "tail").out
    again = json.loads(comity("prune", "--days", "100", "--yes", "--json").out)
    assert (again["audit_entries"], again["reply_bytes"]) == (0, 0)


def test_beside_a_running_node_the_file_keeps_its_size_and_the_node_goes_on(comity, data, neighbourhood):
    node = neighbourhood.node(data, agent=AgentSettings(behaviour="echo"))
    write(data, [400, 1])
    said = comity("prune", "--days", "100", "--yes")
    assert said.code == 0, said.err
    assert "audit entries  1 deleted" in said.out
    assert "The file keeps its size while a node runs" in said.out
    neighbourhood.run(node.runtime.note("STILL_HERE"))
    assert comity("audit", "verify").code == 0


def test_nobody_is_asked_to_guess_what_is_old(comity, data, identity):
    write(data, [400])
    said = comity("prune", "--yes")
    assert said.code == 2
    assert "audit.retention_days is 0, which keeps every entry; name a number with --days DAYS" in said.err
    assert "--days must be a whole number from 1 to 36500" in comity("prune", "--days", "0", "--yes").err
    assert "this needs a confirmation" in comity("prune", "--days", "100").err
    (data / "config.toml").write_text("[audit]\nretention_days = 100\n")
    assert comity("prune", "--yes").code == 0


def test_without_a_database_there_is_nothing_to_delete(comity, data, identity):
    said = comity("prune", "--days", "9", "--yes")
    assert said.code == 1
    assert "there is nothing to delete" in said.err
