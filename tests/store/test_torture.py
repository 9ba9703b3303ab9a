"""Processes killed while they write, and processes that want the same thing."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from comity.store.audit_log import verify_chain
from comity.store.interface import ChainKey, Tip
from comity.store.sqlite import SqliteStore
from tests.places import ROOT
from tests.store.samples import KEY, WallClock, trail_at
from tests.store.torture_writer import KEPT

ROUNDS = int(os.environ.get("COMITY_TORTURE_ROUNDS", "25"))
CALLERS = 16


def start(module: str, *arguments: str, **options) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, **options
    )


def write_until_killed(folder: Path, after: int, kind: str) -> dict[int, int]:
    """Start a writer, kill it after so many acknowledgements; the last one each caller got."""
    acknowledged: dict[int, int] = {}
    with start("tests.store.torture_writer", str(folder), str(CALLERS), kind) as process:
        assert process.stdout.readline().startswith("open ")
        for count, line in enumerate(process.stdout):
            if count == after:
                process.send_signal(signal.SIGKILL)
            if line.endswith("\n"):
                caller, seq = map(int, line.split())
                acknowledged[caller] = seq
    assert process.returncode == -signal.SIGKILL
    return acknowledged


@pytest.mark.parametrize("kind", ["changes", "answers"])
@pytest.mark.torture
async def test_kill_nine_loses_no_acknowledged_write_and_tears_none(tmp_path, kind):
    seed = random.randrange(2**32)
    print(f"seed {seed}, {ROUNDS} rounds")
    chance = random.Random(seed)
    for _ in range(ROUNDS):
        acknowledged = write_until_killed(tmp_path, chance.randrange(1, 1500), kind)
        store = await SqliteStore.open(tmp_path / "comity.db", WallClock(), trail_at(tmp_path))
        total = 0
        for caller in range(CALLERS):
            chain = ChainKey("torture", f"caller-{caller}", "store")
            tip = await store.tip(chain)
            assert tip.seq >= acknowledged.get(caller, 0), "an acknowledged write was lost"
            assert tip.hash == tip.seq.to_bytes(32, "big")
            assert await whole(store, chain, tip, kind), "a transaction was torn"
            total += tip.seq
        assert await store.end("audit:main") == total, "a change and its audit entry were parted"
        await store.close()
    store = await SqliteStore.open(tmp_path / "comity.db", WallClock())
    report = await verify_chain(store, "main", KEY.vacant_id.public, tmp_path / "audit")
    assert (report.ok, report.message) == (True, None)
    await store.close()


async def whole(store: SqliteStore, chain: ChainKey, tip: Tip, kind: str) -> bool:
    """Whether all parts of the last transaction are there, and none of a later one."""
    if kind == "changes":
        value = await store.get("torture", chain.sender)
        at = await store.end(f"torture:{chain.sender}")
        return int(value.value if value else b"0") == tip.seq == at
    seqs = range(max(1, tip.seq - KEPT), tip.seq + 2)
    kept = {seq: int(found.reply) for seq in seqs if (found := await store.reply(chain, seq))}
    replied = await store.tip(ChainKey(chain.book, chain.receiver, chain.sender))
    return replied == tip and kept == {seq: seq for seq in range(max(1, tip.seq - KEPT + 1), tip.seq + 1)}


@pytest.mark.torture
async def test_eight_processes_race_for_the_same_numbers_and_each_has_one_winner(tmp_path):
    await (await SqliteStore.open(tmp_path / "comity.db", WallClock())).close()
    names = [f"p{number}" for number in range(8)]
    racers = [
        start("tests.store.race_writer", str(tmp_path), name, "200", stdin=subprocess.PIPE) for name in names
    ]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    won = [seq for racer in racers for seq in map(int, racer.communicate()[0].split())]
    assert [racer.returncode for racer in racers] == [0] * 8
    assert sorted(won) == list(range(1, 201))
