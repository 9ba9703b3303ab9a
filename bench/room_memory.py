"""`python -m bench.room_memory [LINK [MESSAGES]]`: how much memory two nodes take after many messages and large files.

One node is in this process and one in another; they are warm before the first figure is taken. Each of them deals with
every message, half of which go there and half back. It fails where either of them has grown by `MOST_GROWTH`. Part of the
growth is SQLite's: the store's writer keeps up to 8 MiB of pages.
"""

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from bench.harness.loops import new_loop
from bench.harness.processes import MIB, memory_of
from bench.harness.room_nodes import Member, joined_member

BUILD = Path(__file__).resolve().parents[1] / "build"
MESSAGES = 10_000
AT_A_TIME = 20
STEP = 2_000
FILES, FILE_MIB = 16, 64
MOST_GROWTH = 20_000_000


async def talk(member: Member, count: int) -> None:
    """So many messages, half of them the answers to the others."""
    for start in range(0, count // 2, AT_A_TIME):
        sent = [f"message {start + number} " + "x" * 200 for number in range(AT_A_TIME)]
        await asyncio.gather(*(member.call("vdo_send", data=data, target="there") for data in sent))
        got: list[str] = []
        while len(got) < len(sent):
            got += await member.messages()
        if sorted(got) != sorted(sent):
            raise RuntimeError("what came back is not what was sent")


async def watch(kind: str, messages: int, folder: Path) -> bool:
    file = folder / "file.bin"
    await asyncio.to_thread(file.write_bytes, os.urandom(FILE_MIB * MIB))
    async with joined_member(kind, folder) as (member, other):
        pids = {"sender": os.getpid(), "receiver": other}

        def take(what: str) -> dict[str, int]:
            figures = {name: memory_of(pid).own for name, pid in pids.items()}
            shown = ", ".join(f"{name} {size / MIB:.1f} MiB" for name, size in figures.items())
            print(f"{what:40} {shown}  ({perf_counter() - begun:.0f} s)", flush=True)
            return figures

        begun = perf_counter()
        await talk(member, 1000)
        await member.send_file(file)
        first = take("warm: 1,000 messages, 64 MiB")
        for count in range(STEP, messages + 1, STEP):
            await talk(member, STEP)
            take(f"after {count:,} messages")
        for _ in range(FILES):
            await member.send_file(file)
        last = take(f"after {FILES * FILE_MIB:,} MiB of files")
        growth = {name: last[name] - first[name] for name in pids}
        print("growth: " + ", ".join(f"{name} {size / MIB:.1f} MiB" for name, size in growth.items()))
        return max(growth.values()) < MOST_GROWTH


def main(kind: str = "websocket", messages: str = str(MESSAGES)) -> int:
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="memory-", dir=BUILD) as folder:
        fits = new_loop().run_until_complete(watch(kind, int(messages), Path(folder).resolve()))
    print("less than 20 MB" if fits else "MORE THAN 20 MB")
    return int(not fits)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
