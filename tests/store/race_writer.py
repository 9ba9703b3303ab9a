"""One of several processes that want the same numbers of one chain. Prints those it won.

Usage: race_writer.py FOLDER NAME LAST
"""

import asyncio
import sys
from pathlib import Path

from comity.store.interface import Advance, ChainKey, StoreConflict, Tip
from comity.store.sqlite import SqliteStore
from tests.store.samples import WallClock

CHAIN = ChainKey("race", "everybody", "store")


async def main(folder: Path, name: str, last: int) -> None:
    store = await SqliteStore.open(folder / "comity.db", WallClock())
    print("ready", flush=True)
    sys.stdin.readline()
    at = await store.tip(CHAIN)
    while at.seq < last:
        mine = Tip(at.seq + 1, f"{name}:{at.seq + 1}".encode().ljust(32))
        try:
            await store.commit(Advance(chain=CHAIN, expected=at, to=mine))
        except StoreConflict as lost:
            at = lost.current
        else:
            print(mine.seq, flush=True)
            at = mine
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
