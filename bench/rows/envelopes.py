"""Signed envelopes, answered durably, beside others who answer with less.

Thirty-two callers on thirty-two pairs over kept connections; what they send is signed before time
starts to count, by the same code for every server that checks it. Ours verifies, chains, audits,
signs and syncs to disk before it answers. Beside it: the reference's design rebuilt (durable in WAL),
a stock a2a-sdk server (nothing signed or kept), and a bare echo of the same bytes.
"""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

import uvloop

from bench.baselines.reference_design import SEED
from bench.harness.bars import AtLeast
from bench.harness.http_load import request_bytes, streams_per_second
from bench.harness.row import Contender, Row, Setting, Unit
from bench.harness.servers import serving
from comity.core.envelope.carrier import to_a2a_jsonrpc
from comity.core.envelope.envelope import EMPTY_PREV_HASH, signed_envelope
from comity.core.envelope.message import A2AMessage, A2APart
from comity.core.identity.keys import SigningKey, VacantId
from comity.core.wire import strict_json
from comity.keys.identity import stored_vacant_id

CALLERS = 32
PATIENCE = 2.5
AHEAD = 500
"""Envelopes signed for each caller and turn; a server that answers them all is timed until it has."""

HEADERS = [("Content-Type", "application/json")]
TEXT = "a question of ordinary length, as agents put them to each other all day long " * 3


class _Stream:
    """What one caller sends: the next links of its chain to one server."""

    def __init__(self, number: int, url: str, target: VacantId) -> None:
        self._key = SigningKey.from_seed(f"caller {number}".encode().ljust(32))
        self._url = url
        self._target = target
        self._sent = 0
        self._signed: list[bytes] = []
        self._tip = EMPTY_PREV_HASH

    def ahead(self) -> list[bytes]:
        """The envelopes not sent yet, topped up; `sent` says afterwards how many were."""
        while len(self._signed) - self._sent < AHEAD:
            envelope = signed_envelope(
                from_vid=self._key.vacant_id,
                to_vid=self._target,
                payload=A2AMessage(parts=(A2APart(text=TEXT),)),
                sequence_no=len(self._signed) + 1,
                prev_envelope_hash=self._tip,
                idempotency_key=f"{self._key.vacant_id.short()}-{len(self._signed)}",
                timestamp=datetime.now(UTC),
                signing_key=self._key,
            )
            self._tip = envelope.compute_hash()
            body = strict_json.dumps(to_a2a_jsonrpc(envelope))
            self._signed.append(
                request_bytes("POST", f"{self._url}/a2a/message/send", headers=HEADERS, body=body)
            )
        return self._signed[self._sent : self._sent + AHEAD]

    def sent(self, count: int) -> None:
        self._sent += count


@contextlib.contextmanager
def open_round_trip(setting: Setting) -> Iterator[Sequence[Contender]]:
    folder = setting.folder
    up = [sys.executable, "-m", "comity", "up", "--json", "--agent", "echo"]
    node = [*up, "--port", "0", "--data", str(folder / "data")]
    reference = [sys.executable, "-m", "bench.baselines.reference_design", str(folder)]
    stock = [sys.executable, "-m", "bench.baselines.a2a_sdk_echo"]
    bare = [sys.executable, "-m", "bench.baselines.asgi_echo"]
    with contextlib.ExitStack() as running:
        urls = [
            running.enter_context(serving(command, folder / f"{name}.stderr"))
            for name, command in (("node", node), ("reference", reference), ("stock", stock), ("bare", bare))
        ]
        runner = running.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
        ours = stored_vacant_id(folder / "data")
        theirs = SigningKey.from_seed(SEED).vacant_id
        chained = _chained(runner, setting.seconds)
        yield [
            chained("comity, durable and audited", urls[0], ours),
            chained("the reference's design", urls[1], theirs),
            _repeated(runner, "a2a-sdk echo", urls[2], _plain(urls[2]), setting.seconds),
            chained("bare ASGI echo", urls[3], ours),
        ]


def _chained(runner: asyncio.Runner, seconds: float) -> Callable[[str, str, VacantId], Contender]:
    def contender(name: str, url: str, target: VacantId) -> Contender:
        streams = [_Stream(number, url, target) for number in range(CALLERS)]

        def turn() -> float:
            requests = [stream.ahead() for stream in streams]
            rate, counts = runner.run(streams_per_second(url, requests, PATIENCE * seconds))
            for stream, count in zip(streams, counts, strict=True):
                stream.sent(count)
            return rate

        return Contender(name, turn)

    return contender


def _repeated(runner: asyncio.Runner, name: str, url: str, request: bytes, seconds: float) -> Contender:
    requests = [[request] * AHEAD * 4 for _ in range(CALLERS)]
    return Contender(name, lambda: runner.run(streams_per_second(url, requests, PATIENCE * seconds))[0])


def _plain(url: str) -> bytes:
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "SendMessage",
        "params": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": TEXT}]}},
    }
    headers = [*HEADERS, ("A2A-Version", "1.0")]
    return request_bytes("POST", f"{url}/", headers=headers, body=strict_json.dumps(body))


ROWS = (
    Row(
        name="envelope-round-trip",
        title="signed call and signed reply, 32 callers on 32 pairs",
        unit=Unit.RATE,
        open=open_round_trip,
        bars=(
            AtLeast(15, "the reference's design"),
            AtLeast(3, "a2a-sdk echo"),
            AtLeast(0.5, "bare ASGI echo"),
        ),
    ),
)
