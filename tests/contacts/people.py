"""A set of contacts on a store of its own, which survives being opened again."""

from comity.contacts.service import Contacts
from comity.contacts.settings import ContactsSettings
from comity.identity.protocol.keys import SigningKey
from comity.requests.record import Recorder
from comity.store.audit_log import tail
from comity.store.audit_trail import AuditTrail
from comity.store.memory import MemoryDisk, MemoryStore
from tests.store.samples import HandClock

OWN = SigningKey.from_seed(b"own".ljust(32))


def id_of(name):
    return SigningKey.from_seed(name.encode().ljust(32)).vacant_id.hex()


class People:
    def __init__(self, **settings):
        self.clock = HandClock()
        self.disk = MemoryDisk()
        self.settings = ContactsSettings(**settings)

    async def open(self):
        self.store = MemoryStore(self.clock, self.disk, AuditTrail("main", OWN))
        self.record = Recorder(self.store, self.clock)
        self.contacts = Contacts(
            self.store, self.record, self.clock, own=OWN.vacant_id, unknown=self.settings
        )
        await self.contacts.load()
        return self.contacts

    async def results(self):
        """The kinds of the audit entries, in order."""
        return [entry.verification_result async for entry in tail(self.store, "main", 100)]
