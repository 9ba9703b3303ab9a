"""Ports for servers whose port must be known before they start, or that start again at the same one."""

import os
import secrets
import socket

# below those that a system gives out by itself: no outgoing connection and no server at "any port" takes one of them
FIRST, COUNT = 20_000, 12_000

_given: set[int] = set()


def unused_port() -> int:
    """Where nobody listens. No two calls give the same one, in none of the processes that share the tests."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    while True:
        port = FIRST + secrets.randbelow(COUNT // workers) * workers + worker
        if port not in _given and _is_free(port):
            _given.add(port)
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
