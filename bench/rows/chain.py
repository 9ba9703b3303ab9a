"""Durable advances of chains: sixty-four callers who share commits, beside one commit for each.

All files lie in the same folder of a real disk, with the same tables, pragmas and checksums. The
raw rate of the disk is measured too: where a sync is nearly free, sharing one gains little and the
bar is only reported.
"""

import asyncio
import contextlib
import os
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from bench.harness.bars import AtLeast, WhereBelow
from bench.harness.callers import Ask, answers_per_second
from bench.harness.machine import is_in_memory
from bench.harness.measure import repeating
from bench.harness.row import Contender, Row, Setting, UnavailableError, Unit
from comity.identity.protocol.keys import SigningKey
from comity.runtime.system_clock import SystemClock
from comity.store.audit_chain import AuditDraft, timestamp
from comity.store.audit_trail import AuditTrail
from comity.store.interface import Advance, Answer, ChainKey, Store, Tip
from comity.store.sqlite import SqliteStore
from comity.store.sqlite.connection import migrate, open_writer

CALLERS = 64
SINGLE = "one transaction each"
RAW = "raw fdatasync"
FEW, MANY = 1_024, 1_000_000
FEW_STORED = f"with {FEW:,}"
BLOCK = bytes(4096)
SHORT, LONG = 1_000, 1_000_000
AFTER_FEW = f"after {SHORT:,}"
ENTRY_BYTES = 200
REPLY = bytes(900)
KEPT = 64
CHAINS = tuple(ChainKey("calls", f"{number:064x}", "f" * 64) for number in range(CALLERS))

Opened = Callable[[asyncio.Runner, Path, int], contextlib.AbstractContextManager[Sequence[Ask]]]
"""Callers of a store that holds so much."""

# Where the system has no fdatasync, fsync is what SQLite uses too.
_sync = getattr(os, "fdatasync", os.fsync)


@contextlib.contextmanager
def open_advance(setting: Setting) -> Iterator[Sequence[Contender]]:
    refuse_memory(setting.folder)
    with (
        asyncio.Runner() as runner,
        _grouped(runner, setting.folder / "grouped.db") as callers,
        _one_by_one(setting.folder / "single.db") as advance,
        _appending(setting.folder / "raw") as append,
    ):
        yield [
            Contender(
                f"comity, {CALLERS} callers", lambda: runner.run(answers_per_second(callers, setting.seconds))
            ),
            repeating(SINGLE, advance, setting.seconds),
            repeating(RAW, append, setting.seconds),
        ]


def refuse_memory(folder: Path) -> None:
    if is_in_memory(folder):
        raise UnavailableError("the build folder is kept in memory, where a sync costs nothing")


def _hash(seq: int) -> bytes:
    return seq.to_bytes(32, "big")


@contextlib.contextmanager
def _grouped(runner: asyncio.Runner, path: Path) -> Iterator[Sequence[Ask]]:
    store = runner.run(SqliteStore.open(path, SystemClock()))
    try:
        yield [_caller(store, chain) for chain in CHAINS]
    finally:
        runner.run(store.close())


def _caller(store: Store, chain: ChainKey) -> Ask:
    tip = Tip()

    async def ask() -> None:
        nonlocal tip
        (tip,) = await store.commit(
            Advance(chain=chain, expected=tip, to=Tip(tip.seq + 1, _hash(tip.seq + 1)))
        )

    return ask


@contextlib.contextmanager
def _one_by_one(path: Path) -> Iterator[Callable[[], None]]:
    connection = open_writer(path)
    try:
        migrate(connection, path)
        for chain in CHAINS:
            connection.execute(
                "INSERT INTO chain (book, sender, receiver) VALUES (?, ?, ?)",
                (chain.book, chain.sender, chain.receiver),
            )
        advances = 0

        def advance() -> None:
            nonlocal advances
            chain, seq = CHAINS[advances % CALLERS], advances // CALLERS
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(
                "UPDATE chain SET seq = ?, hash = ? "
                "WHERE book = ? AND sender = ? AND receiver = ? AND seq = ? AND hash = ?",
                (seq + 1, _hash(seq + 1), chain.book, chain.sender, chain.receiver, seq, _hash(seq)),
            )
            if connection.changes() != 1:
                raise ValueError(f"the chain is not at {seq}")
            connection.execute("COMMIT")
            advances += 1

        yield advance
    finally:
        connection.close()


@contextlib.contextmanager
def _appending(path: Path) -> Iterator[Callable[[], None]]:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def append() -> None:
        os.write(file, BLOCK)
        _sync(file)

    try:
        yield append
    finally:
        os.close(file)


@contextlib.contextmanager
def _by_size(setting: Setting, opened: Opened, sizes: dict[str, int]) -> Iterator[Sequence[Contender]]:
    """The same callers on stores that hold more and less."""
    refuse_memory(setting.folder)
    with contextlib.ExitStack() as stores:
        runner = stores.enter_context(asyncio.Runner())
        callers = {
            name: stores.enter_context(opened(runner, setting.folder / f"{size}.db", size))
            for name, size in sizes.items()
        }
        yield [
            Contender(name, partial(_rate, runner, asking, setting.seconds))
            for name, asking in callers.items()
        ]


def _rate(runner: asyncio.Runner, callers: Sequence[Ask], seconds: float) -> float:
    return runner.run(answers_per_second(callers, seconds))


@contextlib.contextmanager
def _populated(runner: asyncio.Runner, path: Path, pairs: int) -> Iterator[Sequence[Ask]]:
    """Callers who each advance any of their share of so many stored pairs."""
    store = runner.run(SqliteStore.open(path, SystemClock()))
    runner.run(store.close())
    connection = open_writer(path)
    connection.execute(
        "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?) "
        "INSERT INTO chain (book, sender, receiver, seq, hash) "
        "SELECT 'calls', printf('%064x', i * 7919), printf('%064x', 1), 1, zeroblob(32) FROM n",
        (pairs,),
    )
    connection.close()
    store = runner.run(SqliteStore.open(path, SystemClock()))
    try:
        yield [_roaming(store, pairs, share) for share in range(CALLERS)]
    finally:
        runner.run(store.close())


def _roaming(store: Store, pairs: int, share: int) -> Ask:
    chance = random.Random(share)
    tips: dict[int, Tip] = {}

    async def ask() -> None:
        pair = chance.randrange(pairs // CALLERS) * CALLERS + share
        tip = tips.get(pair, Tip(1))
        chain = ChainKey("calls", f"{pair * 7919:064x}", f"{1:064x}")
        (tips[pair],) = await store.commit(
            Advance(chain=chain, expected=tip, to=Tip(tip.seq + 1, _hash(tip.seq + 1)))
        )

    return ask


@contextlib.contextmanager
def _with_history(runner: asyncio.Runner, path: Path, envelopes: int) -> Iterator[Sequence[Ask]]:
    """Callers of a store that has answered so many, and keeps what a node keeps of each."""
    clock = SystemClock()
    store = runner.run(SqliteStore.open(path, clock))
    runner.run(store.close())
    connection = open_writer(path)
    connection.execute("INSERT INTO log (name, \"end\") VALUES ('before', ?)", (envelopes,))
    connection.execute(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
        "INSERT INTO record (log, position, data) SELECT log.id, i, zeroblob(?) FROM n, log",
        (envelopes, ENTRY_BYTES),
    )
    connection.close()
    trail = AuditTrail("main", SigningKey.from_seed(bytes(32)))
    store = runner.run(SqliteStore.open(path, clock, trail))
    try:
        yield [_answering(store, chain, envelopes // CALLERS) for chain in CHAINS]
    finally:
        runner.run(store.close())


def _answering(store: Store, chain: ChainKey, answered: int) -> Ask:
    back = ChainKey(chain.book, chain.receiver, chain.sender)
    entry = [AuditDraft(verification_result="OK", created_at=timestamp(0.0))]
    tip, number = Tip(), answered

    async def ask() -> None:
        nonlocal tip, number
        number += 1
        to = Tip(number, _hash(number))
        await store.commit(
            Answer(
                calls=Advance(chain=chain, expected=tip, to=to),
                replies=Advance(chain=back, expected=tip, to=to),
                reply=REPLY,
                at=0.0,
                instead_of=number - KEPT if number - answered > KEPT else None,
            ),
            audit=entry,
        )
        tip = to

    return ask


ROWS = (
    Row(
        name="chain-advance",
        title="durable advances of chains",
        unit=Unit.RATE,
        open=open_advance,
        bars=(AtLeast(8, of=SINGLE, where=WhereBelow(RAW, 5000)),),
    ),
    Row(
        name="chain-advance-population",
        title="durable advances of any of the pairs that are stored",
        unit=Unit.RATE,
        open=partial(
            _by_size, opened=_populated, sizes={f"with {MANY:,} pairs stored": MANY, FEW_STORED: FEW}
        ),
    ),
    Row(
        name="chain-advance-history",
        title="durable, audited answers of 64 pairs, by how many envelopes were stored before",
        unit=Unit.RATE,
        open=partial(
            _by_size, opened=_with_history, sizes={f"after {LONG:,} envelopes": LONG, AFTER_FEW: SHORT}
        ),
        bars=(AtLeast(0.8, of=AFTER_FEW),),
    ),
)
