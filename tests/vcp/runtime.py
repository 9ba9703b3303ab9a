"""A session service in simulated time, clients on loopback links, and ways to look at what it left behind."""

import asyncio
import json

import msgspec
from cryptography.fernet import Fernet

from comity.identity.protocol.keys import SigningKey
from comity.identity.protocol.tokens import IdentityMode, Issuer, IssuerRegistry, SignatureKey, issue_a
from comity.requests.budget import Budget, Figures
from comity.requests.metrics import Metrics
from comity.requests.record import Recorder
from comity.store.audit_chain import decode
from comity.store.audit_trail import AuditTrail, log_of
from comity.store.memory import MemoryStore
from comity.store.vault import Vault
from comity.testing import SimulatedClock
from comity.testing.loopback import LoopbackLink, loopback_pair
from comity.vcp.contexts import Contexts
from comity.vcp.identity import IdentityChecker
from comity.vcp.protocol.agreement import Identity
from comity.vcp.protocol.built_in import built_in
from comity.vcp.protocol.negotiation import ServerPolicy
from comity.vcp.protocol.registry import ExtensionRegistry
from comity.vcp.service import VcpServer
from comity.vcp.sessions import RunningFeatures

KEY = SigningKey.from_seed(bytes(range(32)))
ISSUER_KEY = SigningKey.from_seed(bytes(32))
VAULT_KEY = Fernet.generate_key()
PERSONAL, RELATIONAL, TORCH = "VCP-X-Personal", "VCP-X-Relational", "VCP-X-Torch"
WIRE = "🧑⚕️:💬:🔒:🌙:🏠:👤:📱:🧘:🇬🇧"
STRANGER = "198.51.100.7"
ALICE = Identity(issuer="creed", subject="alice", owner="creed:user:alice")

ISSUERS = IssuerRegistry([Issuer(name="creed", signature_keys=(SignatureKey(ISSUER_KEY.vacant_id.public),))])


def token(subject="alice"):
    return issue_a(ISSUER_KEY, issuer="creed", kind="user", subject=subject)


def registry():
    return ExtensionRegistry(built_in()[name] for name in (PERSONAL, RELATIONAL))


def hello(*extensions, **members):
    return {"type": "vcp-hello", "version": "3.1", "extensions": list(extensions)} | members


class Link(LoopbackLink):
    """One end of a loopback link, at an address, with the limit that VCP moves."""

    @classmethod
    def pair(cls, peer):
        server, client = loopback_pair(max_message_bytes=1 << 22)
        server.__class__ = cls
        server.peer = peer
        server.allowed = None
        return server, client

    def allow(self, message_bytes):
        self.allowed = message_bytes


class NodeRuntime:
    """All that a service stands on. `vault` may be replaced while it runs."""

    def __init__(
        self,
        *,
        clock=None,
        store=None,
        mode=IdentityMode.VERIFIED,
        checker=None,
        ttl=900.0,
        production=False,
        **named,
    ):
        self.clock = clock or SimulatedClock()
        self.store = store or MemoryStore(self.clock, trail=AuditTrail("main", KEY))
        self.vault = Vault([VAULT_KEY])
        self.features = RunningFeatures(self.clock, vault=lambda: self.vault)
        self.counted = []
        policy = {
            "core_features": self.features.running(),
            "registry": registry(),
            "environment": "production" if production else "test",
            "server_id": "test-server",
        } | {name: named.pop(name) for name in tuple(named) if name in ServerPolicy.__struct_fields__}
        figures = {name: named.pop(name) for name in tuple(named) if name in Figures.__struct_fields__}
        self.budget = Budget(self.clock, Figures(**figures))
        self.metrics = Metrics("1", lambda: 1.0)
        self.record = Recorder(self.store, self.clock, metrics=self.metrics)
        refuse = self.record.refuse

        def count(room, code):
            self.counted.append((room, code))
            refuse(room, code)

        self.record.refuse = count
        self.service = VcpServer(
            self.record,
            self.clock,
            policy=ServerPolicy(**policy),
            features=self.features,
            desk=checker or IdentityChecker(self.clock, mode=mode, issuers=ISSUERS),
            contexts=Contexts(self.store, self.clock, ttl=ttl),
            vault=lambda: self.vault,
            budget=self.budget,
            **named,
        )

    def connect(self, peer=STRANGER):
        link, client = Link.pair(peer)
        return Client(client, link, asyncio.create_task(self.service.serve(link)))

    async def entries(self):
        await asyncio.sleep(0)
        records = await self.store.read(log_of("main"))
        return [decode(found.data) for found in records]

    async def results(self):
        return [entry.verification_result for entry in await self.entries()]


class SlowChecker:
    """It makes up its mind after `seconds`."""

    def __init__(self, seconds):
        self._seconds = seconds

    async def check(self, token, decided):
        await asyncio.sleep(self._seconds)
        return ALICE

    async def check_open(self, session):
        await asyncio.sleep(0)

    async def check_bundle(self, bundle, stapled, session):
        await asyncio.sleep(0)
        return ""


class Client:
    def __init__(self, link, theirs, served):
        self._link = link
        self.theirs = theirs
        self.served = served

    async def say(self, message):
        await self._link.send(message if isinstance(message, bytes) else msgspec.json.encode(message))

    async def hear(self):
        return json.loads(await self._link.receive())

    async def ask(self, message):
        await self.say(message)
        return await self.hear()

    async def close(self):
        await self._link.close("bye")
        return await self.served
