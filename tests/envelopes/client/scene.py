"""Alice, who calls, and Bob, who answers, with a wire between them that does as it is told."""

from functools import partial
from inspect import signature

from comity.envelopes.client.conversation import Retries
from comity.envelopes.client.dispatcher import Dispatcher
from comity.envelopes.client.pair import CALL_BOOK
from comity.envelopes.protocol.chain import ReplayState
from comity.identity.protocol.keys import SigningKey
from comity.requests.record import Recorder
from comity.store.interface import ChainKey, Tip
from comity.store.memory import MemoryDisk, MemoryStore
from comity.testing.loop import SimulatedClock, run_simulated
from comity.wire.errors import NoAnswerError, UnreachableError
from tests.envelopes.client.model_target import ModelTarget, Wire, message, text_of

ALICE, BOB, EVE = (SigningKey.from_seed(bytes([n]) * 32) for n in (1, 2, 3))
LOST = "lose the reply"
REQUEST_LOST = NoAnswerError("the wire lost the request")
NOBODY = UnreachableError("nobody is there")
RETRIES = Retries(attempts=3)


class Scene:
    """Alice, who calls, and Bob, who answers, in simulated time."""

    def __init__(self, *, strict=False, dialects=("seed",), retries=RETRIES):
        self.clock = SimulatedClock()
        self.bob = ModelTarget(BOB, strict=strict, dialects=dialects)
        self.wire = Wire(self.bob)
        self.disk = MemoryDisk()
        self.retries = retries
        self.alice = self.caller()

    def caller(self, *, disk=None, http=None, **more):
        store = MemoryStore(self.clock, disk or self.disk)
        http = http or self.wire
        record = Recorder(store, self.clock, audited=False)
        return Dispatcher(store, ALICE, self.clock, http, retries=self.retries, record=record, **more)

    async def say(self, text="hello", caller=None, card=None, caller_=None, **more):
        more |= {"caller": caller_} if caller_ else {}
        result = await (caller or self.alice).call(card or self.bob.card(), message(text), **more)
        return text_of(result.response_envelope)

    def tips(self):
        """Where Alice believes both chains to stand."""
        a, b = ALICE.vacant_id.hex(), BOB.vacant_id.hex()
        return (
            self.disk.tips.get(ChainKey(CALL_BOOK, a, b), Tip()),
            self.disk.tips.get(ChainKey(CALL_BOOK, b, a), Tip()),
        )

    def agrees(self):
        """Both sides have the same picture of both chains."""
        accepted = self.bob.accepted.get(ALICE.vacant_id, ReplayState())
        replied = self.bob.replied.get(ALICE.vacant_id, ReplayState())
        return self.tips() == (
            Tip(accepted.last_sequence_no, accepted.chain_tip),
            Tip(replied.last_sequence_no, replied.chain_tip),
        )

    def seqs(self):
        return [envelope.sequence_no for envelope in self.wire.sent]

    def leases(self):
        return [lease for lease in self.disk.leases.values() if lease.expires_at > self.clock.now()]


def simulated(test):
    """The test runs in simulated time: retries and their waits take none."""

    def run(**fixtures):
        run_simulated(partial(test, **fixtures))

    run.__name__, run.__doc__, run.__signature__ = test.__name__, test.__doc__, signature(test)
    return run
