"""Context exchanges in one VCP session with all its extensions, one after the other, by an owner.

Each declares a signal and a wish, is applied, encrypted, stored with its audit entry, and answered with what the
extensions know. Beside it the same messages on a bare connection are read, encrypted, stored and answered.
"""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter

from websockets.asyncio.client import ClientConnection, connect

from bench.harness.bars import AtLeast
from bench.harness.row import Contender, Row, Setting, Unit
from bench.harness.servers import serving
from comity.identity.key_files import create_identity
from comity.identity.protocol.tokens import issue_a
from comity.wire import strict_json

BARE = "read, encrypt, store, answer"
EXTENSIONS = ["VCP-X-Personal", "VCP-X-Relational", "VCP-X-Torch", "VCP-X-Intent"]
PATIENCE = 2.5


@contextlib.contextmanager
def open_contexts(setting: Setting) -> Iterator[Sequence[Contender]]:
    data = setting.folder / "data"
    key = create_identity(data)
    issuer = key.vacant_id.hex()
    hello = {
        "type": "vcp-hello",
        "version": "3.1",
        "extensions": EXTENSIONS,
        "identity": issue_a(key, issuer=issuer, kind="user", subject="bench"),
    }
    with _servers(setting, data) as (node, bare), asyncio.Runner() as runner:
        session = runner.run(_connected(node))
        ack = runner.run(_ask(session, hello))
        if ack["supported"] != EXTENSIONS:
            raise ValueError(f"the node does not support the extensions: {ack}")
        beside = runner.run(_connected(bare))
        try:
            yield [
                Contender("comity, context exchanges", _per_second(runner, session, setting.seconds)),
                Contender(BARE, _per_second(runner, beside, setting.seconds)),
            ]
        finally:
            runner.run(session.close())
            runner.run(beside.close())


@contextlib.contextmanager
def _servers(setting: Setting, data: Path) -> Iterator[tuple[str, str]]:
    up = [sys.executable, "-m", "comity", "up", "--json", "--port", "0", "--data", str(data)]
    bare = [sys.executable, "-m", "bench.baselines.sealed_store", str(setting.folder / "bare.db")]
    with (
        serving(up, setting.folder / "node.stderr") as node,
        serving(bare, setting.folder / "bare.stderr") as beside,
    ):
        yield node.replace("http", "ws", 1) + "/vcp", beside.replace("http", "ws", 1) + "/"


async def _connected(url: str) -> ClientConnection:
    return await connect(url, compression=None, proxy=None, ping_interval=None)


async def _ask(connection: ClientConnection, message: object) -> dict[str, object]:
    await connection.send(strict_json.dumps(message).decode())
    answer: dict[str, object] = strict_json.loads(str(await connection.recv()).encode())
    return answer


def _per_second(runner: asyncio.Runner, connection: ClientConnection, seconds: float) -> Callable[[], float]:
    async def measured() -> float:
        count, start = 0, perf_counter()
        end = start + PATIENCE * seconds
        while perf_counter() < end:
            signal = {"category": "tense", "intensity": 1 + count % 5}
            wishes = {"depth": 1 + count % 5, "formality": 3}
            message = {"personal": {"emotional_tone": signal}, "generation_preferences": wishes}
            answer = await _ask(connection, message)
            if not answer.get("accepted"):
                raise ValueError(f"the context was refused: {answer}")
            count += 1
        return count / (perf_counter() - start)

    return lambda: runner.run(measured())


ROWS = (
    Row(
        name="vcp-contexts",
        title="context exchanges in one session",
        unit=Unit.RATE,
        open=open_contexts,
        bars=(AtLeast(0.4, BARE),),
    ),
)
