"""A relay of ours on a free port, with or without TLS and a token."""

import contextlib
from typing import NamedTuple

from cryptography.hazmat.primitives import hashes
from websockets.asyncio.client import connect

from comity.http.guard import Guard, HttpAccess
from comity.http.server import HttpServer
from comity.requests.budget import Budget
from comity.rooms.doors import SIGNAL_PATH, SignallingDoor
from comity.rooms.protocol.relay import SignallingRelay
from comity.runtime.system_clock import SystemClock
from tests.certificates import self_signed


class Scene:
    def __init__(self, server, relay):
        self.relay = relay
        self.stop = server.stop
        self.port = server.port
        self.url = server.url.replace("http", "ws", 1) + SIGNAL_PATH

    def come(self, query="", **options):
        return connect(self.url + query, proxy=None, max_size=None, compression=None, **options)


@contextlib.asynccontextmanager
async def running_relay(
    *, tls=(None, None), port=0, token=None, relay=None, budget=None, clock=None, **options
):
    relay = relay or SignallingRelay()
    clock = clock or SystemClock()
    server = HttpServer("127.0.0.1", port, cert=tls[0], key=tls[1])
    budget = budget or Budget(clock)
    if token is not None:
        options = {"knows_token": token.__eq__, "needs_token": True, **options}
    door = SignallingDoor(relay, clock, budget, **options)
    entry = HttpAccess(lambda _token: None, clock, port=server.port, secure=False)
    guard = Guard(door, entry, is_public=lambda _path: True, body_limit=1000, budget=budget)
    await server.start(guard, shutdown_seconds=0.2, websockets=(SIGNAL_PATH,))
    try:
        yield Scene(server, relay)
    finally:
        await server.stop()


class Certificate(NamedTuple):
    cert: object
    key: object
    sha256: str


def certificate(folder):
    """One that nobody signed but itself, for 127.0.0.1."""
    made, certificate, key = self_signed("localhost", "127.0.0.1")
    cert_file, key_file = folder / "cert.pem", folder / "key.pem"
    cert_file.write_bytes(certificate)
    key_file.write_bytes(key)
    return Certificate(cert_file, key_file, made.fingerprint(hashes.SHA256()).hex())
