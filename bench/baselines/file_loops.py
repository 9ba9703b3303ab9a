"""The least that sends a file: plain loops over a link, messages of 64 KiB.

`send_counted` knows no more than that all bytes arrived, `send_hashed` has one SHA-256 at each end, and
`stop_and_wait` sends the next message when the last one is acknowledged. Each returns when the other side has
everything.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

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
    digest = hashlib.sha256()
    while True:
        message = await link.receive()
        if isinstance(message, bytes):
            digest.update(message)
        else:
            await link.send(digest.hexdigest())
            digest = hashlib.sha256()


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
