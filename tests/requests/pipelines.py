"""What the tests of the pipeline are made of: a handler that does as it is asked, a store that can be held back."""

import asyncio
import contextlib
import functools

from comity.identity.protocol.keys import SigningKey
from comity.requests.handler import Admission, HandlerResult, Identified, Request
from comity.requests.pipeline import Pipeline
from comity.requests.record import Recorder
from comity.store.audit_chain import AuditEntry
from comity.store.audit_log import tail
from comity.store.audit_trail import AuditTrail
from comity.store.group_commit import Written
from comity.store.interface import Delete, Put
from comity.store.memory import MemoryStore
from comity.testing import SimulatedClock, run_simulated
from comity.wire.machine import Clock
from tests.callers import OWNER, STRANGER, signer

KEY = SigningKey.from_seed(bytes(range(32)))
ANN = signer("ann")
ARRIVAL = Request(door="test", caller=STRANGER, body={})


def simulated(story):
    """An async test in simulated time."""

    @functools.wraps(story)
    def test(*args, **named):
        run_simulated(lambda: story(*args, **named))

    return test


async def settle():
    """Let everybody act who can without time passing."""
    for _ in range(50):
        await asyncio.sleep(0)


class HeldStore(MemoryStore):
    """Commits wait while it is held. `written` tells what each transaction consisted of."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock, trail=AuditTrail("main", KEY))
        self.held = False
        self.written: list[tuple[tuple, tuple]] = []
        self.refusals: list[Exception] = []
        self._waiting: list = []

    def submit(self, operations, audit=()):
        self.written.append((tuple(operations), tuple(audit)))
        future = Written(loop=asyncio.get_running_loop())
        if self.refusals:
            future.set_exception(self.refusals.pop(0))
            return future
        self._waiting.append((operations, audit, future))
        if not self.held:
            self.release()
        return future

    def release(self) -> None:
        waiting, self._waiting = self._waiting, []
        for operations, audit, future in waiting:
            super().submit(operations, audit).add_done_callback(functools.partial(_pass_on, future))

    async def entries(self) -> list[AuditEntry]:
        return [entry async for entry in tail(self, "main", 1000)]

    async def results(self) -> list[str]:
        return [entry.verification_result for entry in await self.entries()]


def _pass_on(future, done):
    if not future.done():
        if done.exception() is None:
            future.set_result(done.result())
        else:
            future.set_exception(done.exception())


class Shop:
    """Takes one slot per call before it works, and puts the sale beside it when it answers.

    Each step that is named is replaced: by an exception to raise, or by an async function of the call.
    """

    name = "shop"
    deadline = 5.0

    def __init__(self, **instead) -> None:
        self.steps: list[str] = []
        self.instead = instead
        self.lock = contextlib.nullcontext()

    def identify(self, request):
        self.steps.append("identify")
        if failure := self.instead.get("identify"):
            raise failure
        return Identified(self.instead.get("caller", OWNER))

    @contextlib.asynccontextmanager
    async def hold(self, call):
        self.steps.append("hold")
        async with self.lock:
            yield
        self.steps.append("let go")

    async def admit(self, call):
        await self._step("admit", call)
        return self.instead.get(
            "admission",
            Admission(operations=(Put(space="slot", key="1", value=b"", expect=0),), checks=("stock",)),
        )

    def knows(self, call):
        return self.instead.get("known", False)

    async def handle(self, call):
        await self._step("handle", call)
        return "goods"

    async def seal(self, call, result):
        await self._step("seal", call)
        return self.instead.get(
            "sealed", HandlerResult(reply=result, operations=(Put(space="sale", key="1", value=b"goods"),))
        )

    async def undo(self, call):
        await self._step("undo", call)
        return (Delete(space="slot", key="1"),)

    async def answer_conflict(self, call, conflict):
        await self._step("answer conflict", call)
        return self.instead.get("answered", HandlerResult(reply="what the other one sold"))

    async def _step(self, name, call):
        self.steps.append(name)
        instead = self.instead.get(name)
        if isinstance(instead, BaseException):
            raise instead
        if instead is not None:
            await instead(call)


A_LOOK = HandlerResult(reply="a look")


class Window:
    """A shop that only shows: no state before, none after."""

    name = "window"
    deadline = 5.0

    def __init__(self, sealed=A_LOOK, **instead):
        self.shop = Shop(admission=Admission(checks=("glass",)), sealed=sealed, **instead)

    def __getattr__(self, name):
        return getattr(self.shop, name)


class Observing:
    """In the place of metrics."""

    def __init__(self, observed):
        self._observed = observed

    def observe(self, room, outcome, seconds):
        self._observed.append((room, outcome, seconds))

    def count(self, room, outcome):
        self._observed.append((room, outcome, 0.0))


class NodeRuntime:
    """A store, a pipeline over it, and what was observed."""

    def __init__(self, **named) -> None:
        self.clock = SimulatedClock()
        self.store = HeldStore(self.clock)
        self.observed: list[tuple[str, str, float]] = []
        named.setdefault("budget", None)
        self.record = Recorder(
            self.store,
            self.clock,
            metrics=Observing(self.observed),
            level=named.pop("level", "standard"),
            audited=named.pop("audited", True),
        )
        self.pipeline = Pipeline(self.record, self.clock, **named)

    async def take(self, room, request=ARRIVAL):
        return await self.pipeline.run(room, request)

    def begin(self, room, request=ARRIVAL):
        return asyncio.create_task(self.pipeline.run(room, request))

    async def slot(self):
        return await self.store.get("slot", "1") is not None

    async def sale(self):
        return await self.store.get("sale", "1") is not None
