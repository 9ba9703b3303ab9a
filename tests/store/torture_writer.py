"""A process that writes for its life: 16 callers, one line on stdout for each acknowledged write.

Usage: torture_writer.py FOLDER CALLERS KIND. Each transaction of the kind `changes` advances a chain, sets a value,
appends to a log and leaves an audit entry; one of the kind `answers` answers a call. So a torn one would show.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

from comity.store.interface import Advance, Answer, Append, ChainKey, Operation, Put, Tip
from comity.store.sqlite import SqliteStore
from tests.store.samples import WallClock, draft, trail_at


def hash_of(seq: int) -> bytes:
    return seq.to_bytes(32, "big")


KEPT = 8
"""Answers of each chain; an older one makes room."""


def changes(chain: ChainKey, at: Tip, to: Tip) -> tuple[Operation, ...]:
    return (
        Advance(chain=chain, expected=at, to=to),
        Put(space="torture", key=chain.sender, value=b"%d" % to.seq),
        Append(log=f"torture:{chain.sender}", data=b"%d" % to.seq),
    )


def answers(chain: ChainKey, at: Tip, to: Tip) -> tuple[Operation, ...]:
    back = ChainKey(chain.book, chain.receiver, chain.sender)
    reply = Advance(chain=back, expected=at, to=to)
    call = Advance(chain=chain, expected=at, to=to)
    replaced = to.seq - KEPT if to.seq > KEPT else None
    return (Answer(calls=call, replies=reply, reply=b"%d" % to.seq, at=1.0, instead_of=replaced),)


KINDS = {"changes": changes, "answers": answers}


async def write_for_life(store: SqliteStore, caller: int, kind: str) -> None:
    chain = ChainKey("torture", f"caller-{caller}", "store")
    at = await store.tip(chain)
    while True:
        to = Tip(at.seq + 1, hash_of(at.seq + 1))
        await store.commit(*KINDS[kind](chain, at, to), audit=[draft("TORTURE")])
        os.write(1, b"%d %d\n" % (caller, to.seq))
        at = to


async def main(folder: Path, callers: int, kind: str) -> None:
    began = time.monotonic()
    store = await SqliteStore.open(folder / "comity.db", WallClock(), trail_at(folder))
    print(f"open {time.monotonic() - began:.3f}", flush=True)
    await asyncio.gather(*(write_for_life(store, caller, kind) for caller in range(callers)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
