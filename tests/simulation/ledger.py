"""What the writers were told, and the reckoning: whether a store agrees with it.

What was acknowledged is there, whole, in one line of history, at any moment. At the end, when every
question has its final answer, nothing else is there either.

A reckoning reads the store in several steps; the store in memory answers each of them without letting
anybody else go first.
"""

import itertools
from collections import Counter
from collections.abc import Sequence

import msgspec

from comity.store import audit_chain as audit
from comity.store.audit_trail import log_of
from comity.store.interface import Lease, Store, Tip
from tests.simulation import exchange
from tests.simulation.exchange import LEASE_SECONDS, ChainRecord, FencedRecord


class Ledger:
    """What the writers of one disk were told: the truth that the disk has to agree with."""

    def __init__(self) -> None:
        self.advanced: dict[tuple[str, int], tuple[bytes, bytes]] = {}
        self.incremented: Counter[str] = Counter()
        self.fenced: dict[str, list[bytes]] = {}
        self.audited: list[str] = []
        self.grants: dict[str, list[Lease]] = {}
        self.releases: dict[tuple[str, int], float] = {}

    def highest(self, chain: str) -> int:
        return max((seq for name, seq in self.advanced if name == chain), default=0)


async def reckon(store: Store, ledger: Ledger, chains: Sequence[str], *, final: bool) -> None:
    for chain in chains:
        await _check_chain(store, ledger, chain, final=final)
    await _check_counters(store, ledger, final=final)
    await _check_leases(store, ledger, final=final)
    if final:
        await _check_audit(store, ledger)


async def _check_chain(store: Store, ledger: Ledger, chain: str, *, final: bool) -> None:
    records = await store.read(exchange.chain_log(chain))
    tip = await store.tip(exchange.chain_key(chain))
    previous = Tip().hash
    history = {}
    for seq, record in enumerate(records, start=1):
        entry = msgspec.json.decode(record.data, type=ChainRecord)
        assert record.position == seq, f"the log of {chain} has {record.position} in the place of {seq}"
        assert entry.previous == previous, f"{chain} {seq} does not follow {seq - 1}"
        kept = await store.reply(exchange.chain_key(chain), seq)
        own = kept is not None and kept.digest == entry.question
        assert own, f"the answer kept for {chain} {seq} is not its own"
        history[chain, seq] = (entry.hash, entry.question)
        previous = entry.hash
    assert tip == Tip(len(records), previous), f"the tip of {chain} is not the end of its history"
    told = {key: value for key, value in ledger.advanced.items() if key[0] == chain}
    lost = [key for key, value in told.items() if history.get(key) != value]
    assert not lost, f"acknowledged and lost: {lost}"
    assert not final or history == told, f"never acknowledged: {sorted(history.keys() - told.keys())}"


async def _check_counters(store: Store, ledger: Ledger, *, final: bool) -> None:
    for counter in ("sent", "heard"):
        held = await store.get("counters", counter)
        value = int(held.value) if held else 0
        told = ledger.incremented[counter]
        assert value == told if final else value >= told, f"{counter} is {value}, acknowledged {told}"


async def _check_leases(store: Store, ledger: Ledger, *, final: bool) -> None:
    for name, grants in ledger.grants.items():
        holders: dict[int, str] = {}
        begins: dict[int, float] = {}
        ends: dict[int, float] = {}
        for lease in grants:
            holder = holders.setdefault(lease.token, lease.holder)
            assert holder == lease.holder, (
                f"{name} token {lease.token} is held by {holder} and {lease.holder}"
            )
            begun = lease.expires_at - LEASE_SECONDS
            begins[lease.token] = min(begun, begins.get(lease.token, begun))
            ends[lease.token] = max(lease.expires_at, ends.get(lease.token, 0.0))
        tokens = sorted(holders)
        for earlier, later in itertools.pairwise(tokens):
            end = min(ends[earlier], ledger.releases.get((name, earlier), ends[earlier]))
            assert begins[later] >= end - 1e-6, f"{name} was held under {earlier} and {later} at once"
        records = await store.read(exchange.fenced_log(name))
        fenced = [msgspec.json.decode(record.data, type=FencedRecord) for record in records]
        order = [record.token for record in fenced]
        assert order == sorted(order), f"{name} was written under tokens {order}: a fence did not hold"
        strangers = [record for record in fenced if holders.get(record.token, record.holder) != record.holder]
        assert not strangers, f"{name} was written by somebody who did not hold it: {strangers}"
        written, told = [record.question for record in fenced], ledger.fenced.get(name, [])
        assert len(set(written)) == len(written), "a fenced record was written twice"
        assert set(written) >= set(told), "a fenced record was acknowledged and lost"
        assert not final or len(written) == len(told), "a fenced record was written and never acknowledged"


async def _check_audit(store: Store, ledger: Ledger) -> None:
    requests = []
    for log in await store.logs(log_of("")):
        entries = [audit.decode(record.data) for record in await store.read(log)]
        verdict = audit.verify(entries)
        assert verdict.ok, f"{log}: {verdict.message}"
        requests += [entry.request_id_hash for entry in entries]
    assert sorted(map(str, requests)) == sorted(ledger.audited), "the audit log is not what was acknowledged"
