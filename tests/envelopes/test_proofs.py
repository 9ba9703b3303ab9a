"""`comity chain verify` is never wrong: every honest history is sound, and every byte that is altered is found and named.

A sample runs with the other tests; `COMITY_PROOF_ROUNDS=1000` runs all of it.
"""

import copy
import os

import pytest
from msgspec.structs import replace

from comity.envelopes.client.pair import CALL_SPACE
from comity.store.audit_chain import AuditHead, privacy_hash
from comity.store.audit_trail import read_signed_head, sign_head
from comity.store.interface import ChainKey
from comity.testing.links import Randomness
from tests.envelopes.proof_world import OWN, World

ROUNDS = int(os.environ.get("COMITY_PROOF_ROUNDS", "40"))
PIECES = 4


@pytest.mark.parametrize("piece", range(PIECES))
async def test_every_honest_history_is_sound_whoever_wrote_it(tmp_path, piece):
    wrong, calls = [], 0
    for seed in range(piece, ROUNDS, PIECES):
        random = Randomness(seed)
        world = World(tmp_path / str(seed), random, old=seed % 3 == 0)
        await world.live(random.integer(4, 24))
        reports = await world.reports()
        calls += sum(report.calls for report in reports)
        wrong += [(seed, report.book, report.number, report.message) for report in reports if not report.ok]
        await world.end()
    assert wrong == []
    assert calls > ROUNDS // PIECES


class Mutation:
    """One alteration of what is stored, behind the back of the program."""

    def __init__(self, world, random):
        self.random = random
        self.disk = copy.deepcopy(world.disk)
        self.what = random.choice([self.tip, self.record, self.reply, self.digest, self.entry, self.head])()

    def flipped(self, data):
        """The same bytes with one of them altered, left out or doubled."""
        at = self.random.integer(0, len(data) - 1)
        match self.random.integer(1, 4):
            case 1:
                return data[:at] + data[at + 1 :]
            case 2:
                return data[:at] + data[at : at + 1] + data[at:]
            case _:
                other = data[at] ^ (1 << self.random.integer(0, 7))
                return data[:at] + bytes([other]) + data[at + 1 :]

    def pick(self, table, wanted=lambda _key, _value: True):
        """A row of a table, or None."""
        rows = [key for key, value in table.items() if wanted(key, value)]
        return self.random.choice(rows) if rows else None

    def tip(self):
        key = self.pick(self.disk.tips, lambda _key, tip: tip.seq > 0)
        if key is None:
            return None
        tip = self.disk.tips[key]
        if self.random.chance(0.5):
            self.disk.tips[key] = replace(tip, seq=max(0, tip.seq + self.random.choice([-1, 1, 7])))
        else:
            flipped = self.flipped(tip.hash + b"\0")[:32]
            self.disk.tips[key] = replace(tip, hash=flipped)
        return None if self.disk.tips[key] == tip else ("peer", key)

    def value(self, space):
        key = self.pick(self.disk.values, lambda key, _value: key[0] == space)
        if key is None:
            return None
        held = self.disk.values[key]
        altered = self.flipped(held.value)
        self.disk.values[key] = replace(held, value=altered)
        return None if altered == held.value else key

    def record(self):
        key = self.value(CALL_SPACE)
        return key and ("peer", ChainKey("call", *key[1].split(":")))

    def reply(self):
        key = self.pick(self.disk.replies, lambda _key, row: row.reply is not None)
        if key is None:
            return None
        row = self.disk.replies[key]
        self.disk.replies[key] = replace(row, reply=self.flipped(row.reply))
        return None if self.disk.replies[key] == row else ("peer", key[0])

    def digest(self):
        key = self.pick(self.disk.replies, lambda _key, row: row.reply is not None)
        if key is None:
            return None
        row = self.disk.replies[key]
        self.disk.replies[key] = replace(row, digest=self.flipped(row.digest))
        return None if self.disk.replies[key] == row else ("peer", key[0])

    def entry(self):
        key = self.pick(self.disk.records, lambda key, _value: key[0].startswith("audit:"))
        if self.random.chance(0.2):
            del self.disk.records[key]
            return ("chain", key[0])
        data = self.disk.records[key]
        self.disk.records[key] = self.flipped(data)
        return None if self.disk.records[key] == data else ("chain", key[0])

    def head(self):
        key = self.value(self.random.choice(["audit-head", "audit-checkpoint"]))
        return key and ("chain", f"audit:{key[1]}")


@pytest.mark.parametrize("piece", range(PIECES))
async def test_every_alteration_of_what_is_stored_is_found_and_named(tmp_path, piece):
    missed, done = [], 0
    for seed in range(piece, ROUNDS, PIECES * 10):
        random = Randomness(f"altered {seed}")
        world = World(tmp_path / str(seed), random)
        await world.live(24)
        await world.end()
        sound = await world.reports()
        assert all(report.ok for report in sound)
        tries = 0
        while sound and tries < 10:
            mutation = Mutation(world, random)
            if mutation.what is None:
                continue
            kind, place = mutation.what
            tries += 1
            reports = await world.reports(mutation.disk)
            if kind == "peer" and any(each.partial for each in reports):
                continue  # what would say so was pruned, and the report says that
            done += 1
            bad = [each for each in reports if not each.ok]
            if not bad or not named(kind, place, bad):
                missed.append((seed, kind, place, bad))
    assert missed == []
    assert done >= ROUNDS // PIECES // 2


def named(kind, place, bad):
    """Whether the reports say where the damage is."""
    if kind == "chain":
        chain = place.removeprefix("audit:")
        return all(f"chain {chain} of the audit record: audit entry " in each.message for each in bad)
    (report,) = bad
    peer = place.receiver if place.sender == OWN.vacant_id.hex() else place.sender
    return report.vacant_id == peer and report.book == place.book and report.number is not None


def test_a_signature_in_capital_letters_is_not_the_one_that_was_written():
    signed = read_signed_head(sign_head(AuditHead(chain="main", position=1, entry_hash="0", at="now"), OWN))
    assert signed.proven(OWN.vacant_id.public)
    assert not replace(signed, signature=signed.signature.upper()).proven(OWN.vacant_id.public)


async def test_calls_on_record_of_which_nothing_is_stored_are_found(tmp_path):
    world = World(tmp_path, Randomness(1))
    for _ in range(3):
        await world.serve("main")
    await world.end()
    gone = next(chain.sender for chain in world.disk.tips if chain.receiver == OWN.vacant_id.hex())
    for table in (world.disk.tips, world.disk.holders):
        for chain in [chain for chain in table if gone in (chain.sender, chain.receiver)]:
            del table[chain]
    (bad,) = [report for report in await world.reports() if not report.ok]
    assert (bad.vacant_id, bad.book) == (privacy_hash(f"vacant:{gone}"), "serve")
    assert "nothing of them is stored" in bad.message
