"""The whole HTTP application over a store in memory, asked without a server in between."""

from comity.http.app import HttpDoor, Readiness
from comity.http.guard import HttpAccess, TokenHolder
from comity.identity.protocol.keys import SigningKey
from comity.node.http_server import PingHandler
from comity.node.page import page_door
from comity.requests.budget import Budget
from comity.requests.metrics import Metrics
from comity.requests.pipeline import Pipeline
from comity.requests.record import Recorder
from comity.store.audit_trail import AuditTrail
from comity.store.memory import MemoryStore
from comity.testing import VirtualClock
from tests.http.asgi_calls import ask, scope_of

TOKEN = ("authorization", "Bearer right")
JSON = ("content-type", "application/json")
STATUS = {
    "ready": True,
    "state": "ready",
    "vacant_id": "ab" * 32,
    "short": "abababab",
    "did_key": "did:key:z6Mk",
    "url": "http://127.0.0.1:8420",
    "data": "/data",
    "flags": " --data /data",
    "environment": "test",
    "version": "1",
    "uptime": 3661.5,
    "calls": 3,
    "audit_entries": 5,
    "store": "memory",
    "encryption": "encrypted",
    "last_event": 0,
    "off": [],
    "panels": {"toy": {"title": "Toys", "rows": [("left", "7")]}},
}


class NodeRuntime:
    def __init__(self, status=STATUS, readiness=None, body_limit=1000):
        self.clock = VirtualClock()
        trail = AuditTrail("main", SigningKey.from_seed(bytes(32)))
        self.store = MemoryStore(self.clock, trail=trail)
        self.pipeline = Pipeline(Recorder(self.store, self.clock), self.clock, budget=None)
        self.entry = HttpAccess(
            lambda token: TokenHolder("admin") if token == "right" else None,
            self.clock,
            port=8420,
            secure=False,
        )
        self.status = status
        self.door = HttpDoor(
            pipeline=self.pipeline,
            entry=self.entry,
            metrics=Metrics("1", lambda: 1.0),
            ping=PingHandler(),
            readiness=self._readiness,
            status=self._status,
            body_limit=body_limit,
            budget=Budget(self.clock),
            page=page_door(self.entry, self._status, ()),
        )
        self.readiness = readiness or Readiness(True)

    async def _readiness(self):
        return self.readiness

    async def _status(self):
        if isinstance(self.status, Exception):
            raise self.status
        return self.status

    async def ask(self, method, path, *headers, parts=(b"",)):
        return await ask(self.door.app, scope_of(method, path, headers), parts)
