"""What the tests of the directory are made of: agents, their cards, and signed publications."""

from hashlib import blake2b

from comity.directory.doors import DirectoryQuery, DirectoryReads
from comity.directory.protocol.signed_requests import prove_reader, register_event
from comity.directory.publish import PublishHandler, read_publication
from comity.directory.superseding import Superseding
from comity.envelopes.protocol.card import CapabilityCard, Visibility, serialize
from comity.envelopes.successions import Successions
from comity.identity.protocol.keys import SigningKey, VacantId
from comity.identity.succession_files import OwnLine
from comity.requests.caller import anonymous
from comity.requests.handler import Request
from comity.requests.pipeline import Pipeline
from comity.requests.record import Recorder
from comity.store.interface import Store

HOST = "directory.example"
PEER = "192.0.2.7"


def agent(name: object) -> SigningKey:
    return SigningKey.from_seed(blake2b(str(name).encode(), digest_size=32).digest())


def card_of(key: SigningKey, text: str = "echo what is said", **members) -> CapabilityCard:
    members.setdefault("endpoint", "https://agent.example/a2a/message/send")
    return CapabilityCard(vacant_id=key.vacant_id, capability_text=text, **members).signed(key)


def publication(key: SigningKey, text: str = "echo what is said", *, seq: int = 1, card=None, **members):
    """The body of a publication that is in order, but for the members that are given otherwise."""
    card = card or card_of(key, text)
    signer = members.pop("signer", key)
    members.setdefault("visibility", "PUBLIC")
    members.setdefault("event_idempotency_key", f"register:{seq}")
    members.setdefault("event_ts_ms", 1_767_225_600_000 + seq % 1000)
    event = register_event(
        card,
        Visibility(members["visibility"]),
        idempotency_key=members["event_idempotency_key"],
        ts_ms=members["event_ts_ms"],
        actor_seq=seq,
    ).signed(signer)
    return {
        "capability_card_blob_hex": serialize(card).hex(),
        "runtime_state": "ACTIVE",
        "event_actor_seq": seq,
        "event_signature_hex": event.signature.hex(),
        **members,
    }


DIRECTORY = agent("the directory itself")


class Directory:
    """The handlers of a directory over one store, reached as a door reaches them."""

    def __init__(self, store: Store, clock, quota=None) -> None:
        self.store = store
        self.clock = clock
        self.record = Recorder(store, clock)
        self.pipeline = Pipeline(self.record, clock, budget=None)
        known = Successions(store, self.record, DIRECTORY, OwnLine(DIRECTORY.vacant_id))
        self.handler = PublishHandler(store, quota, Superseding(store, known))
        self.reads = DirectoryReads(store, clock)

    async def publish(self, body, peer=PEER):
        request = Request(door="test", caller=anonymous(peer), body=read_publication(body))
        return await self.pipeline.run(self.handler, request)

    async def ask(self, name: str, subject=None, reader: SigningKey | None = None, **query):
        """Ask one of the four handlers, with the proof of `reader` if there is one."""
        path = f"/v1/{name}/{_hex(subject)}"
        proof = {} if reader is None else prove_reader(reader, host=HOST, path=path, now=self.clock.now())
        asked = {key: str(value) for key, value in query.items()}
        question = DirectoryQuery(host=HOST, path=path, query={**proof, **asked}, subject=_hex(subject))
        handler = getattr(self.reads, name)
        return await self.pipeline.run(handler, Request(door="test", caller=anonymous(PEER), body=question))

    async def found(self, capability: str = "", **query) -> list[str]:
        """The ids that a search finds, in order."""
        answer = await self.ask("query", capability=capability, **query)
        return [match["vacant_id"] for match in answer["matches"]]


def _hex(subject) -> str:
    if isinstance(subject, SigningKey):
        return subject.vacant_id.hex()
    return subject.hex() if isinstance(subject, VacantId) else str(subject)


def hexes(*keys: SigningKey) -> list[str]:
    return [key.vacant_id.hex() for key in keys]
