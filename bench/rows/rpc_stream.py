"""Requests read off a byte stream, in chunks as a pipe delivers them.

The baselines have the whole stream in hand, know that it is lines, and take each line on trust: no
limit, no framing to tell apart, no look at what JSON-RPC demands.
"""

import contextlib
import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import orjson

from bench.harness.measure import computing
from bench.harness.row import Contender, Row, Setting, Unit
from bench.rows.messages import tool_calls
from comity.wire.jsonrpc import RpcRequest, RpcStream

MESSAGES = 1000
CHUNK_BYTES = 65_536
LIMIT = 1_048_576


@contextlib.contextmanager
def open_requests(setting: Setting) -> Iterator[Sequence[Contender]]:
    data = tool_calls(MESSAGES)
    chunks = [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]
    requests = [message for message in _received(chunks) if isinstance(message, RpcRequest)]
    if [request.params for request in requests] != [json.loads(line)["params"] for line in data.splitlines()]:
        raise ValueError("the stream did not give back what was put into it")

    def contender(name: str, read: Callable[[], Iterator[Any]]) -> Contender:
        return computing(name, lambda: deque(read(), maxlen=0), setting.seconds, each=MESSAGES)

    yield [
        contender("comity RpcStream", lambda: _received(chunks)),
        contender("splitlines, json", lambda: map(json.loads, data.splitlines())),
        contender("splitlines, orjson", lambda: map(orjson.loads, data.splitlines())),
    ]


def _received(chunks: Sequence[bytes]) -> Iterator[Any]:
    stream = RpcStream(LIMIT)
    for chunk in chunks:
        yield from stream.receive(chunk)


ROWS = (
    Row(
        name="rpc-stream",
        title="JSON-RPC requests of 160 bytes read off a stream of lines",
        unit=Unit.PROCESSOR_RATE,
        open=open_requests,
    ),
)
