"""Slow work in a process of its own: `python -m comity.actions.worker MODE [PLUGIN ...]`.

It reads one call after another from its standard input and writes each reply to its standard output, until its input ends.
A message is its length in eight bytes and a pickle; both ends are ours, and nobody else has the pipes. What a skill prints
goes to stderr.

| to the worker            | from the worker                                   |
|--------------------------|---------------------------------------------------|
| `("call", name, input)`  | `("fetch", urls)`: go on with `("pages", [Page])` |
|                          | `("outcome", Outcome)`                            |
|                          | `("refused", sentence)`                           |
|                          | `("failed", traceback)`, for the log              |
"""

import os
import pickle
import signal
import sys
import traceback
from collections.abc import Mapping
from typing import Any, BinaryIO, Final, cast

from comity.actions.library import Library, load_plugins
from comity.actions.protocol.action import Fetch, Mode
from comity.wire.errors import ActionError

try:
    import resource
except ImportError:  # Windows knows no such limit
    resource = None  # type: ignore[assignment]

LENGTH_BYTES: Final = 8
MEMORY_LIMIT: Final = 3 * 1024**3
NICE: Final = 5
"""Signatures and commits of the node go first."""

_OUT_OF_MEMORY: Final = "the work needs more memory than it may have; send less at once"


def encode(message: tuple[Any, ...]) -> bytes:
    body = pickle.dumps(message)
    return len(body).to_bytes(LENGTH_BYTES) + body


def serve(library: Library, incoming: BinaryIO, outgoing: BinaryIO) -> None:
    while (message := _read(incoming)) is not None:
        _, name, given = message
        try:
            reply = _work(library, name, given, incoming, outgoing)
        except ActionError as refused:
            reply = ("refused", refused.message)
        except MemoryError:
            reply = ("refused", _OUT_OF_MEMORY)
        except Exception:  # noqa: BLE001 - the guard of every handler
            reply = ("failed", traceback.format_exc())
        _write(outgoing, reply)


def _work(
    library: Library, name: str, given: Mapping[str, Any], incoming: BinaryIO, outgoing: BinaryIO
) -> tuple[Any, ...]:
    handler = library.handler(library.calls.entry(name).action)
    result = handler(given, library.mode)
    while isinstance(result, Fetch):
        _write(outgoing, ("fetch", result.urls))
        answer = _read(incoming)
        if answer is None:
            sys.exit(0)
        result = result.resume(answer[1])
    return "outcome", result


def _read(incoming: BinaryIO) -> tuple[Any, ...] | None:
    head = incoming.read(LENGTH_BYTES)
    if len(head) < LENGTH_BYTES:
        return None
    return cast("tuple[Any, ...]", pickle.loads(incoming.read(int.from_bytes(head))))  # noqa: S301 - from our own parent


def _write(outgoing: BinaryIO, message: tuple[Any, ...]) -> None:
    outgoing.write(encode(message))
    outgoing.flush()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for our parent, and we end with it
    mode, *plugins = sys.argv[1:]
    outgoing = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    if hasattr(os, "nice"):
        os.nice(NICE)
    serve(Library(cast("Mode", mode), load_plugins(plugins)), sys.stdin.buffer, outgoing)


if __name__ == "__main__":
    main()
