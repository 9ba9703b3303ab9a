"""Links between two processes on 127.0.0.1: how many MiB a second they carry, and how long a round trip takes.

Ours is a channel of our link; beside it stands the bare thing that it is made of. Messages have 64 KiB, or 32 bytes for
the round trip. These are also the baselines of what is built on links.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.baselines.file_loops import MESSAGE, answer_hashed, answer_kept
from bench.baselines.raw_links import HERE, THERE, Hear, RawLink, Tell
from bench.harness.bars import AtLeast
from bench.harness.loops import Loop, new_loop
from bench.harness.row import Contender, Row, Setting, UnavailableError, Unit
from comity.rooms.links.webrtc import IceSettings, Library, WebRtcLink, available_libraries, new_connection
from comity.rooms.links.websocket import WebSocketListener, use_ticket

MIB = 1024 * 1024
KINDS = ("websocket", "wrtc", "aiortc")
_OTHER = "import sys; from bench.rows.links import main; main(*sys.argv[1:])"


async def our_websocket_here(folder: Path, hear: Hear) -> RawLink:
    link = await use_ticket(folder / "tickets", await hear())
    if link is None:
        raise RuntimeError("there is no ticket")
    return await link.open_channel("x-bench")


async def our_websocket_there(folder: Path, tell: Tell) -> RawLink:
    ticket = await WebSocketListener(folder / "tickets").lay_ticket()
    tell(ticket.name)
    return await (await ticket.wait_link()).accept_channel()


async def our_webrtc_here(library: Library, tell: Tell, hear: Hear) -> RawLink:
    link, found = await _webrtc(library, is_offerer=True)
    tell([await link.offer(), found])
    answer, candidates = await hear()
    await link.accept(answer)
    await _add(link, candidates)
    await link.wait_open()
    return await link.open_channel("x-bench")


async def our_webrtc_there(library: Library, tell: Tell, hear: Hear) -> RawLink:
    link, found = await _webrtc(library, is_offerer=False)
    offer, candidates = await hear()
    answer = await link.answer(offer)
    await asyncio.sleep(0.2)  # candidates of this machine are found at once
    tell([answer, found])
    await _add(link, candidates)
    return await link.accept_channel()


async def _webrtc(library: Library, *, is_offerer: bool) -> tuple[WebRtcLink, list[Any]]:
    found: list[Any] = []
    link = WebRtcLink(
        await new_connection(IceSettings(), library),
        is_offerer=is_offerer,
        candidate=lambda told: found.append((told.candidate, told.mid, told.line)),
    )
    return link, found


async def _add(link: WebRtcLink, candidates: list[Any]) -> None:
    from comity.rooms.protocol.signalling import IceCandidate

    await link.add_candidates([IceCandidate(*candidate) for candidate in candidates])


async def open_here(kind: str, folder: Path, tell: Tell, hear: Hear) -> RawLink:
    name, _, ours = kind.partition("-")
    if not ours:
        return await HERE[name](tell, hear)
    if name == "websocket":
        return await our_websocket_here(folder, hear)
    return await our_webrtc_here("wrtc" if name == "wrtc" else "aiortc", tell, hear)


async def open_there(kind: str, folder: Path, tell: Tell, hear: Hear) -> RawLink:
    name, _, ours = kind.partition("-")
    if not ours:
        return await THERE[name](tell, hear)
    if name == "websocket":
        return await our_websocket_there(folder, tell)
    return await our_webrtc_there("wrtc" if name == "wrtc" else "aiortc", tell, hear)


async def answer(link: RawLink) -> None:
    """The other process: text is echoed, bytes are counted until the text that ends them."""
    count = 0
    while True:
        message = await link.receive()
        if isinstance(message, bytes):
            count += len(message)
        else:
            await link.send(f"{message} {count}")
            count = 0


async def carry(link: RawLink, seconds: float) -> float:
    """MiB a second, until the other side has all of it."""
    message, sent, start = bytes(MESSAGE), 0, perf_counter()
    while perf_counter() - start < seconds:
        for _ in range(16):
            await link.send(message)
        sent += 16 * MESSAGE
    await link.send("end")
    told = str(await link.receive())
    if told != f"end {sent}":
        raise ValueError(f"of {sent} bytes the other side told: {told}")
    return sent / MIB / (perf_counter() - start)


async def go_and_return(link: RawLink, seconds: float) -> float:
    """Seconds for one round trip."""
    rounds, start = 0, perf_counter()
    while (elapsed := perf_counter() - start) < seconds:
        await link.send("x" * 32)
        await link.receive()
        rounds += 1
    return elapsed / rounds


@contextlib.contextmanager
def joined(kind: str, folder: Path, loop: Loop, answers: str = "counting") -> Iterator[RawLink]:
    """One end of a link whose other end is in another process, which `answers` as ANSWERS say."""
    with subprocess.Popen(
        [sys.executable, "-c", _OTHER, kind, str(folder), answers],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        writes, reads = process.stdin, process.stdout

        def tell(value: Any) -> None:
            writes.write(json.dumps(value).encode() + b"\n")
            writes.flush()

        async def hear() -> Any:
            return json.loads(await asyncio.to_thread(reads.readline))

        try:
            yield loop.run(open_here(kind, folder, tell, hear))
        finally:
            process.kill()


def opener(
    kind: str, measured: Callable[[RawLink, float], Coroutine[Any, Any, float]]
) -> Callable[[Setting], contextlib.AbstractContextManager[Sequence[Contender]]]:
    @contextlib.contextmanager
    def open_row(setting: Setting) -> Iterator[Sequence[Contender]]:
        if kind != "websocket" and kind not in available_libraries():
            raise UnavailableError(f"{kind} is not installed")
        loop = Loop()
        try:
            with (
                joined(f"{kind}-ours", setting.folder, loop) as ours,
                joined(kind, setting.folder, loop) as raw,
            ):
                yield [
                    Contender(f"our link over {kind}", lambda: loop.run(measured(ours, setting.seconds))),
                    Contender(f"bare {kind}", lambda: loop.run(measured(raw, setting.seconds))),
                ]
        finally:
            loop.close()

    return open_row


ROWS = (
    *(
        Row(
            name=f"link-{kind}",
            title=f"a link over {kind}: MiB a second, messages of 64 KiB",
            unit=Unit.RATE,
            open=opener(kind, carry),
            bars=(AtLeast(0.7, f"bare {kind}"),),
        )
        for kind in KINDS
    ),
    *(
        Row(
            name=f"link-{kind}-trip",
            title=f"a link over {kind}: a round trip of 32 bytes",
            unit=Unit.TIME,
            open=opener(kind, go_and_return),
            bars=(AtLeast(0.5, f"bare {kind}"),),
        )
        for kind in KINDS
    ),
)


async def other_process(kind: str, folder: Path, answers: str) -> None:
    def tell(value: Any) -> None:
        print(json.dumps(value), flush=True)

    async def hear() -> Any:
        return json.loads(await asyncio.to_thread(sys.stdin.readline))

    await ANSWERS[answers](await open_there(kind, folder, tell, hear), folder)


ANSWERS: dict[str, Callable[[RawLink, Path], Coroutine[Any, Any, None]]] = {
    "counting": lambda link, _folder: answer(link),
    "hashing": lambda link, _folder: answer_hashed(link),
    "keeping": answer_kept,
}


def main(kind: str, folder: str, answers: str) -> None:
    new_loop().run_until_complete(other_process(kind, Path(folder), answers))
