"""A process that writes for its life: 16 callers, one line on stdout for each acknowledged write.

Usage: torture_writer.py FOLDER CALLERS. Each transaction advances a chain, sets a value, appends to
a log and leaves an audit entry; so a torn one would show.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

from comity.store.operations import Advance, Append, ChainKey, Put, Tip
from comity.store.sqlite import SqliteStore
from tests.store.samples import WallClock, draft, trail_at


def hash_of(seq: int) -> bytes:
    return seq.to_bytes(32, "big")


async def write_for_life(store: SqliteStore, caller: int) -> None:
    chain = ChainKey("torture", f"caller-{caller}", "store")
    at = await store.tip(chain)
    while True:
        to = Tip(at.seq + 1, hash_of(at.seq + 1))
        await store.commit(
            Advance(chain=chain, expected=at, to=to),
            Put(space="torture", key=chain.sender, value=b"%d" % to.seq),
            Append(log=f"torture:{caller}", data=b"%d" % to.seq),
            audit=[draft("TORTURE")],
        )
        os.write(1, b"%d %d\n" % (caller, to.seq))
        at = to


async def main(folder: Path, callers: int) -> None:
    began = time.monotonic()
    store = await SqliteStore.open(folder / "comity.db", WallClock(), trail_at(folder))
    print(f"open {time.monotonic() - began:.3f}", flush=True)
    await asyncio.gather(*(write_for_life(store, caller) for caller in range(callers)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
