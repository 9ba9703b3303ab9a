"""The least that sends a file: plain loops over a link, messages of 64 KiB.

`send_counted` knows no more than that all bytes arrived, `send_hashed` has one SHA-256 at each end (and its other side may
keep the file, synced to the disk), and `stop_and_wait` sends the next message when the last one is acknowledged. Each
returns when the other side has everything.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.baselines.raw_links import RawLink

MESSAGE = 64 * 1024


def messages_of(file: Path) -> Iterator[bytes]:
    with file.open("rb") as source:
        while message := source.read(MESSAGE):
            yield message


async def send_counted(link: RawLink, file: Path) -> None:
    size = 0
    for message in messages_of(file):
        await link.send(message)
        size += len(message)
    await link.send("end")
    _check(str(await link.receive()), f"end {size}")


async def send_hashed(link: RawLink, file: Path) -> None:
    digest = hashlib.sha256()
    for message in messages_of(file):
        digest.update(message)
        await link.send(message)
    await link.send("end")
    _check(str(await link.receive()), digest.hexdigest())


async def answer_hashed(link: RawLink) -> None:
    """The other side of `send_hashed`."""
    while True:
        await _take_hashed(link, lambda _message: None)


async def answer_kept(link: RawLink, folder: Path) -> None:
    """The other side of `send_hashed`, which has the file on its disk before it answers."""
    while True:
        with (folder / "kept.bin").open("wb", buffering=0) as file:
            await _take_hashed(link, file.write, lambda file=file: os.fsync(file.fileno()))  # type: ignore[misc]


async def _take_hashed(
    link: RawLink, keep: Callable[[bytes], Any], sync: Callable[[], None] = lambda: None
) -> None:
    digest = hashlib.sha256()
    while isinstance(message := await link.receive(), bytes):
        digest.update(message)
        keep(message)
    sync()
    await link.send(digest.hexdigest())


async def stop_and_wait(link: RawLink, file: Path) -> None:
    for message in messages_of(file):
        await link.send(message)
        _check(str(await link.receive()), "ack")


async def answer_each(link: RawLink) -> None:
    """The other side of `stop_and_wait`."""
    while True:
        await link.receive()
        await link.send("ack")


def _check(told: str, wanted: str) -> None:
    if told != wanted:
        raise ValueError(f"the other side should have told {wanted}, and told {told}")
