"""Signed envelopes, answered durably, beside others who answer with less.

Thirty-two callers on thirty-two pairs over kept connections. Ours verifies, chains, audits, signs and
syncs to disk before it answers. Beside it: the reference's design rebuilt (durable in WAL), a stock
a2a-sdk server (nothing signed or kept), and a bare echo of the same bytes on the same server.

In a *round trip* each caller does what a caller does: it signs its call and verifies the answer while
time counts, whatever server it talks to (an unsigned answer is only read). *Serving* takes the callers'
work out: all is signed beforehand and answers are not looked at.
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
from comity.envelopes.protocol.envelope import (
    EMPTY_PREV_HASH,
    from_a2a_jsonrpc,
    from_a2a_result,
    signed_envelope,
    to_a2a_jsonrpc,
)
from comity.envelopes.protocol.message import A2AMessage, A2APart
from comity.identity.key_files import stored_vacant_id
from comity.identity.protocol.keys import SigningKey, VacantId
from comity.wire import strict_json

CALLERS = 32
PATIENCE = 2.5
AHEAD = 400
"""Envelopes signed beforehand for each caller and turn of serving; a server that is done with them all is
timed until it was.
"""
HEADERS = [("Content-Type", "application/json")]
TEXT = "a question of ordinary length, as agents put them to each other all day long " * 3

REFERENCE = "the reference's design"
STOCK = "a2a-sdk echo"
BARE = "bare ASGI echo"


class Caller:
    """Signs the next link of its chain to one server, each time it is asked."""

    def __init__(self, number: int, url: str, target: VacantId) -> None:
        self._key = SigningKey.from_seed(f"caller {number}".encode().ljust(32))
        self._url = url
        self._target = target
        self._number = 0
        self._tip = EMPTY_PREV_HASH
        self._waiting: list[bytes] = []

    def calls(self) -> Iterator[bytes]:
        """Each is signed when it is sent."""
        while True:
            yield self._waiting.pop(0) if self._waiting else self._next()

    def signed_ahead(self, count: int = AHEAD) -> Iterator[bytes]:
        """All are signed now; what is not sent this time is sent first the next time."""
        self._waiting += self.sign_ahead(count - len(self._waiting))
        while self._waiting:
            yield self._waiting.pop(0)

    def sign_ahead(self, count: int) -> list[bytes]:
        """So many, to be sent in this order."""
        return [self._next() for _ in range(count)]

    def _next(self) -> bytes:
        self._number += 1
        envelope = signed_envelope(
            from_vid=self._key.vacant_id,
            to_vid=self._target,
            payload=A2AMessage(parts=(A2APart(text=TEXT),)),
            sequence_no=self._number,
            prev_envelope_hash=self._tip,
            idempotency_key=f"{self._key.vacant_id.short()}-{self._number}",
            timestamp=datetime.now(UTC),
            signing_key=self._key,
        )
        self._tip = envelope.compute_hash()
        body = strict_json.dumps(to_a2a_jsonrpc(envelope))
        return request_bytes("POST", f"{self._url}/a2a/message/send", headers=HEADERS, body=body)


class _Servers:
    def __init__(self, setting: Setting, running: contextlib.ExitStack) -> None:
        folder = setting.folder
        up = [sys.executable, "-m", "comity", "up", "--json", "--agent", "echo", "--port", "0"]
        commands = {
            "node": [*up, "--data", str(folder / "data")],
            "reference": [sys.executable, "-m", "bench.baselines.reference_design", str(folder)],
            "stock": [sys.executable, "-m", "bench.baselines.a2a_sdk_echo"],
            "bare": [sys.executable, "-m", "bench.baselines.asgi_echo"],
        }
        self.node, self.reference, self.stock, self.bare = (
            running.enter_context(serving(command, folder / f"{name}.stderr"))
            for name, command in commands.items()
        )
        self.ours = stored_vacant_id(folder / "data")
        self.theirs = SigningKey.from_seed(SEED).vacant_id
        self._runner = running.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
        self._seconds = PATIENCE * setting.seconds

    def run(
        self, url: str, streams: Sequence[Iterator[bytes]], checks: Sequence[Callable[[bytes], None]] | None
    ) -> float:
        return self._runner.run(streams_per_second(url, streams, self._seconds, checks=checks))[0]

    def round_trip(self, name: str, url: str, target: VacantId, check: Callable[[bytes], None]) -> Contender:
        callers = [Caller(number, url, target) for number in range(CALLERS)]
        return Contender(name, lambda: self.run(url, [each.calls() for each in callers], [check] * CALLERS))

    def served(self, name: str, url: str, target: VacantId) -> Contender:
        callers = [Caller(number, url, target) for number in range(CALLERS)]

        def turn() -> float:
            streams = [each.signed_ahead() for each in callers]
            return self.run(url, streams, None)

        return Contender(name, turn)

    def unsigned(self, name: str, check: Callable[[bytes], None] | None) -> Contender:
        def again(request: bytes) -> Iterator[bytes]:
            while True:
                yield request

        streams = [again(_unsigned(self.stock)) for _ in range(CALLERS)]
        checks = [check] * CALLERS if check else None
        return Contender(name, lambda: self.run(self.stock, streams, checks))


@contextlib.contextmanager
def open_round_trip(setting: Setting) -> Iterator[Sequence[Contender]]:
    with contextlib.ExitStack() as running:
        servers = _Servers(setting, running)
        yield [
            servers.round_trip("comity, durable and audited", servers.node, servers.ours, _verified_reply),
            servers.round_trip(REFERENCE, servers.reference, servers.theirs, _verified_reply),
            servers.unsigned(STOCK, _read),
            servers.round_trip(BARE, servers.bare, servers.ours, _verified_echo),
        ]


@contextlib.contextmanager
def open_serving(setting: Setting) -> Iterator[Sequence[Contender]]:
    with contextlib.ExitStack() as running:
        servers = _Servers(setting, running)
        yield [
            servers.served("comity, durable and audited", servers.node, servers.ours),
            servers.served(REFERENCE, servers.reference, servers.theirs),
            servers.unsigned(STOCK, None),
            servers.served(BARE, servers.bare, servers.ours),
        ]


def _verified_reply(body: bytes) -> None:
    if not from_a2a_result(strict_json.loads(body)).verify():
        raise ValueError("the reply does not verify")


def _verified_echo(body: bytes) -> None:
    if not from_a2a_jsonrpc(strict_json.loads(body)).verify():
        raise ValueError("the echo does not verify")


def _read(body: bytes) -> None:
    if "result" not in strict_json.loads(body):
        raise ValueError("the answer is no result")


def _unsigned(url: str) -> bytes:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": TEXT}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    headers = [*HEADERS, ("A2A-Version", "1.0")]
    return request_bytes("POST", f"{url}/", headers=headers, body=strict_json.dumps(body))


ROWS = (
    Row(
        name="envelope-round-trip",
        title="sign, call, be answered, verify: 32 callers on 32 pairs",
        unit=Unit.RATE,
        open=open_round_trip,
        bars=(AtLeast(15, REFERENCE), AtLeast(3, STOCK), AtLeast(0.5, BARE)),
    ),
    Row(
        name="envelope-serving",
        title="the same, signed beforehand and not looked at afterwards",
        unit=Unit.RATE,
        open=open_serving,
    ),
)
