"""The extensions of one or several processes over one store, in simulated time."""

from cryptography.fernet import Fernet

from comity.extensions.protocol.operations import ExtensionRules
from comity.extensions.service import ExtensionService
from comity.extensions.state import ExtensionStates
from comity.identity.protocol.keys import SigningKey
from comity.requests.caller import Caller
from comity.requests.pipeline import Pipeline
from comity.requests.record import Recorder
from comity.store.audit_trail import AuditTrail
from comity.store.memory import MemoryStore
from comity.store.vault import Vault
from comity.testing import SimulatedClock
from comity.vcp.contexts import Contexts
from comity.vcp.extension_host import OperationRequest
from comity.vcp.protocol.agreement import Identity, Session

KEY = SigningKey.from_seed(b"k" * 32)
ALL = tuple(f"VCP-X-{name}" for name in ("Personal", "Relational", "Torch", "Intent"))
ALICE = Caller(kind="vcp", id="creed:user:alice", address="198.51.100.7", proof="vcp token")


def session_of(owner="creed:user:alice", id_="ses_1", extensions=ALL):
    identity = None if owner is None else Identity(issuer="creed", subject="alice", owner=owner)
    return Session(id=id_, version="3.1", extensions=extensions, identity=identity)


class Processes:
    """`vault` may be replaced while they run."""

    def __init__(self, count=1, **named):
        self.clock = SimulatedClock()
        self.store = MemoryStore(self.clock, trail=AuditTrail("main", KEY))
        self.vault = Vault([Fernet.generate_key()])
        self.services = [self._service(**named) for _ in range(count)]
        self.service = self.services[0]

    def _service(self, **named):
        record = Recorder(self.store, self.clock)
        return ExtensionService(
            Pipeline(record, self.clock, budget=None),
            self.clock,
            states=ExtensionStates(self.store, self.clock, vault=lambda: self.vault),
            contexts=Contexts(self.store, self.clock),
            vault=lambda: self.vault,
            key=KEY,
            rules=named.pop("rules", ExtensionRules()),
            **named,
        )

    async def call(self, op, session=None, *, service=None, **args):
        request = OperationRequest(op=op, args=args, session=session or session_of())
        return await (service or self.service).perform(request, ALICE, "test")

    async def stored(self):
        found = [*await self.store.scan("vcp:session"), *await self.store.scan("vcp:owner")]
        return {key: held.value for key, held in found}
