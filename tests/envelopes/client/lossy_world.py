"""Callers and a called node in simulated time, and between them a network that loses what it can.

The called node is the real handler behind the real door, on a store that crashes: at any moment, right
before a commit, or between a commit and its acknowledgement. Restarted, it opens the same disk. The
callers are real too, and may crash in the same ways.
"""

import asyncio
from collections.abc import Callable

from comity.agents.residence import make_card
from comity.envelopes.client.calls import DispatchResult
from comity.envelopes.client.conversation import Retries
from comity.envelopes.client.dispatcher import Dispatcher
from comity.envelopes.client.pair import CALL_BOOK
from comity.envelopes.protocol.chain import PairKey
from comity.envelopes.protocol.envelope import VacantEnvelope
from comity.envelopes.protocol.message import A2AMessage, A2APart
from comity.envelopes.queues import SERVE_BOOK, chain_of
from comity.envelopes.server import EnvelopeHandler, MessageSend
from comity.http.client import HttpResponse
from comity.identity.protocol.keys import SigningKey
from comity.requests.pipeline import Pipeline
from comity.requests.record import Recorder
from comity.store.audit_trail import AuditTrail
from comity.store.interface import Tip
from comity.store.memory import MemoryDisk, MemoryStore
from comity.testing.links import Randomness
from comity.testing.loop import SimulatedClock
from comity.wire.errors import NoAnswerError, StoreUnavailableError, UnreachableError
from tests.envelopes.client.model_target import message, text_of

ENDPOINT = "https://node.example/a2a/message/send"
NODE = SigningKey.from_seed(b"\x63" * 32)
CLIENT_TIMEOUT = 3.0
INSISTENT = Retries(attempts=1000, first_wait=0.05, longest_wait=0.4)


class CrashingStore(MemoryStore):
    """`omen` is asked around each commit and may let the process die there."""

    omen: Callable[[], bool] = staticmethod(lambda: False)
    die: Callable[[], None]

    def _commit_gathered(self) -> None:
        if self._gathered and self.omen():
            self.die()
            return
        super()._commit_gathered()
        if self._unacknowledged and self.omen():
            self.die()


class CalledNode:
    def __init__(self, clock: SimulatedClock, randomness: Randomness, *, crashing: float) -> None:
        self._clock = clock
        self._randomness = randomness
        self._crashing = crashing
        self._at_work: set[asyncio.Task[None]] = set()
        self.disk = MemoryDisk()
        self.card = make_card(NODE, "anything", ENDPOINT)
        self.crashes = 0
        self.runs: list[str] = []
        self.start()

    def start(self) -> None:
        delay = self._randomness.between(0, 0.01)
        self.store = CrashingStore(self._clock, self.disk, AuditTrail("main", NODE), commit_delay=delay)
        self.store.omen = lambda: self._randomness.chance(self._crashing)
        self.store.die = self.crash
        handler = EnvelopeHandler(
            key=NODE,
            behaviour=self._behave,
            state_provider=lambda: "ACTIVE",
            store=self.store,
            clock=self._clock,
            deadline=60.0,
        )
        self._door = MessageSend(
            handler, Pipeline(Recorder(self.store, self._clock), self._clock, budget=None)
        )
        self.up = True

    def crash(self) -> None:
        self.up = False
        self.crashes += 1
        for task in self._at_work:
            task.cancel()
        self.store.crash()
        asyncio.get_running_loop().call_later(self._randomness.between(0.01, 0.5), self.start)

    def calm(self) -> None:
        self._crashing = 0.0

    def take(self, body: bytes) -> asyncio.Future[HttpResponse]:
        """The answer, unless the node dies over it: then it never comes."""
        answered: asyncio.Future[HttpResponse] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._serve(body, answered))
        self._at_work.add(task)
        task.add_done_callback(self._at_work.discard)
        return answered

    async def _serve(self, body: bytes, answered: asyncio.Future[HttpResponse]) -> None:
        said: list[dict] = []

        async def receive():
            return {"type": "http.request", "body": body}

        async def send(event):
            said.append(event)

        scope = {
            "type": "http",
            "method": "POST",
            "client": ("198.51.100.1", 1),
            "headers": [(b"content-type", b"application/json")],
        }
        store = self.store
        try:
            await self._door(scope, receive, send)
        except asyncio.CancelledError:
            return
        if store is self.store and self.up and not answered.done():
            headers = {name.decode(): value.decode() for name, value in said[0]["headers"]}
            answered.set_result(HttpResponse(said[0]["status"], headers, said[1]["body"]))

    async def _behave(self, envelope: VacantEnvelope) -> A2AMessage:
        self.runs.append(envelope.idempotency_key)
        await self._clock.sleep(self._randomness.between(0, 0.05))
        return A2AMessage(role="ROLE_AGENT", parts=(A2APart(text=f"echo {text_of(envelope)}"),))


class Network:
    """Loses requests, loses replies, delivers twice, and takes its time."""

    def __init__(
        self, clock: SimulatedClock, randomness: Randomness, node: CalledNode, *, loss: float
    ) -> None:
        self._clock = clock
        self._randomness = randomness
        self._node = node
        self._loss = loss
        self._stray: set[asyncio.Task[None]] = set()
        self.lost = 0

    def calm(self) -> None:
        self._loss = 0.0

    async def request(self, method, url, json=None, headers=None, *, body=None) -> HttpResponse:
        assert (method, url) == ("POST", ENDPOINT)
        draw = self._randomness
        await self._clock.sleep(draw.between(0.001, 0.02))
        if not self._node.up:
            raise UnreachableError("nobody is there")
        if self._loses():
            await self._clock.sleep(CLIENT_TIMEOUT)
            raise NoAnswerError("the request was lost")
        if draw.chance(self._loss):
            straggler = asyncio.create_task(self._deliver_late(body))
            self._stray.add(straggler)
            straggler.add_done_callback(self._stray.discard)
        try:
            async with asyncio.timeout(CLIENT_TIMEOUT):
                answer = await self._node.take(body)
        except TimeoutError:
            raise NoAnswerError("no answer came") from None
        await self._clock.sleep(draw.between(0.001, 0.02))
        if self._loses():
            raise NoAnswerError("the reply was lost")
        return answer

    def _loses(self) -> bool:
        lost = self._randomness.chance(self._loss)
        self.lost += lost
        return lost

    async def _deliver_late(self, body: bytes) -> None:
        await self._clock.sleep(self._randomness.between(0, 2))
        if self._node.up:
            self._node.take(body)


class Caller:
    """A process that calls, crashes, and calls again under the same key until it has its answer."""

    def __init__(
        self,
        name: int,
        clock: SimulatedClock,
        randomness: Randomness,
        network: Network,
        *,
        crashing: float = 0.0,
    ) -> None:
        self.key = SigningKey.from_seed(bytes([name]) * 32)
        self.name = name
        self._clock = clock
        self._randomness = randomness
        self._network = network
        self._crashing = crashing
        self.disk = MemoryDisk()
        self.crashes = 0
        self._start()

    def calm(self) -> None:
        self._crashing = 0.0

    def _start(self) -> None:
        self.store = CrashingStore(self._clock, self.disk)
        self.store.omen = lambda: self._randomness.chance(self._crashing)
        self.store.die = self._die
        self.dispatcher = Dispatcher(
            self.store,
            self.key,
            self._clock,
            self._network,
            retries=INSISTENT,
            holder=f"process {self.name}",
            record=Recorder(self.store, self._clock, audited=False),
        )

    def _die(self) -> None:
        self.crashes += 1
        self.store.crash()

    async def call(self, card, text: str) -> DispatchResult:
        return await self.dispatcher.call(card, message(text))

    async def call_until_answered(self, card, text: str) -> DispatchResult:
        while True:
            try:
                return await self.dispatcher.call(card, message(text), idempotency_key=f"key of {text}")
            except StoreUnavailableError:
                self._start()

    def agrees_with(self, node: CalledNode) -> bool:
        here, there = self.key.vacant_id, NODE.vacant_id
        return all(
            self.disk.tips.get(chain_of(pair, CALL_BOOK), Tip())
            == node.disk.tips.get(chain_of(pair, SERVE_BOOK), Tip())
            for pair in (PairKey(here, there), PairKey(there, here))
        )

    def accepted_by(self, node: CalledNode) -> int:
        return node.disk.tips.get(chain_of(PairKey(self.key.vacant_id, NODE.vacant_id)), Tip()).seq
