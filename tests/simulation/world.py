"""A small world in simulated time: disks, fronts that serve them and crash, bad links, writers that insist.

Each disk is served by several fronts, as one database is by several processes; a writer may repeat its
question to any of them. For a while links misbehave and fronts crash: at any moment, right before a
commit, or between a commit and its acknowledgement. Then everything heals, so that every question gets
its final answer and the ledger of answers can be compared with what the disks hold, exactly.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from comity.identity.protocol.keys import SigningKey
from comity.store.audit_trail import AuditTrail
from comity.store.interface import Tip
from comity.store.memory import MemoryDisk, MemoryStore
from comity.testing.links import Faults, Randomness, SimulatedLink, simulated_pair
from comity.testing.loop import SimulatedClock, run_simulated
from comity.wire.errors import StoreUnavailableError
from comity.wire.link import LinkClosed, PeerLink
from tests.simulation import exchange
from tests.simulation.exchange import (
    LEASE_SECONDS,
    Answer,
    AskAdvance,
    AskFenced,
    AskIncrement,
    AskLease,
    AskRelease,
    AskTip,
    Question,
)
from tests.simulation.ledger import Ledger, reckon

KEY = SigningKey.from_seed(bytes(range(32)))
DISKS = 2
FRONTS = 2
WRITERS = 4
QUESTIONS = 8
CHAOS_SECONDS = 1.5
PATIENCE_SECONDS = 600.0
CHAINS = ("calls", "answers")
WEATHER = Faults(loss=0.08, duplication=0.12, reordering=0.3, cut=0.01)
FAIR = Faults()


class CrashingStore(MemoryStore):
    """A store that can be told to crash before or after one of its commits, in both cases unacknowledged."""

    doom: tuple[str, int] | None = None
    doomed: Callable[[str], None]

    def _commit_gathered(self) -> None:
        moment, left = self.doom or ("never", 1)
        if self._gathered:
            self.doom = (moment, left - 1)
        if left == 0 and moment == "before":
            self.doomed(moment)
        super()._commit_gathered()
        if left == 0 and moment == "after":
            self.doomed(moment)


class World:
    def __init__(self, seed: int, engine: type[CrashingStore] = CrashingStore) -> None:
        self.seed = seed
        self.engine = engine
        self.randomness = Randomness(seed)
        self.clock = SimulatedClock()
        self.disks = [MemoryDisk() for _ in range(DISKS)]
        self.ledgers = [Ledger() for _ in range(DISKS)]
        self.fronts = [
            [Front(self, disk, f"{disk}.{number}") for number in range(FRONTS)] for disk in range(DISKS)
        ]
        self.faults = WEATHER
        self.links: list[SimulatedLink] = []
        self.lines: list[str] = []
        self.happened: Counter[str] = Counter()

    @property
    def trace(self) -> bytes:
        return "\n".join(self.lines).encode()

    @property
    def all_fronts(self) -> list["Front"]:
        return [front for fronts in self.fronts for front in fronts]

    def tell(self, who: str, what: str) -> None:
        self.happened[what.partition(" ")[0]] += 1
        self.lines.append(f"{self.clock.monotonic():.6f} {who} {what}")

    async def live(self) -> None:
        """From the first question to the last answer, and then the reckoning."""
        fronts = [asyncio.create_task(front.live(), name=front.name) for front in self.all_fronts]
        work = asyncio.gather(*(Writer(self, f"w{number}").work() for number in range(WRITERS)))
        healing = asyncio.get_running_loop().call_later(CHAOS_SECONDS, self._heal)
        done, _ = await asyncio.wait([work, *fronts], timeout=PATIENCE_SECONDS, return_when="FIRST_COMPLETED")
        assert done, "the writers never get their answers"
        for task in done:
            task.result()
        healing.cancel()
        self._heal()
        for front in self.all_fronts:
            await front.up.wait()
        for disk in range(DISKS):
            await self.check(disk, final=True)

    def _heal(self) -> None:
        self.tell("world", "heals")
        self.faults = FAIR
        for link in self.links:
            link.faults = FAIR
        for front in self.all_fronts:
            front.spare()

    async def connect(self, front: "Front") -> PeerLink:
        if front.store is None:
            raise LinkClosed("nobody listens")
        here, there = simulated_pair(
            clock=self.clock,
            randomness=self.randomness.branch(f"link {len(self.links)}"),
            faults=self.faults,
        )
        self.links += [here, there]
        front.accept(there)
        return here

    async def check(self, disk: int, *, final: bool = False) -> None:
        store = next(front.store for front in self.fronts[disk] if front.store is not None)
        await reckon(store, self.ledgers[disk], CHAINS, final=final)


class Front:
    """One process that serves a disk, crashes, and starts again."""

    def __init__(self, world: World, disk: int, name: str) -> None:
        self.world = world
        self.disk = disk
        self.name = f"front {name}"
        self.store: CrashingStore | None = None
        self.up = asyncio.Event()
        self._down = asyncio.Event()
        self._draws = world.randomness.branch(self.name)
        self._spared = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}

    async def live(self) -> None:
        while True:
            self._start()
            await self.world.check(self.disk)
            await self._down.wait()
            await asyncio.sleep(self._draws.between(0.01, 0.1))

    def spare(self) -> None:
        """No crash any more; a front that is down still comes back."""
        self._spared = True
        if self._timer is not None:
            self._timer.cancel()
        if self.store is not None:
            self.store.doom = None

    def _start(self) -> None:
        world = self.world
        world.tell(self.name, "starts")
        delay = self._draws.choice([0.0, 0.001, 0.004])
        trail = AuditTrail(self.name, KEY)
        self.store = world.engine(world.clock, world.disks[self.disk], trail, commit_delay=delay)
        self.store.doomed = self._crash
        self._down.clear()
        self.up.set()
        if self._spared:
            return
        end = self._draws.choice(["moment", "before", "after"])
        if end == "moment":
            self._timer = asyncio.get_running_loop().call_later(
                self._draws.between(0.02, 0.4), self._crash, end
            )
        else:
            self.store.doom = (end, self._draws.integer(0, 4))

    def _crash(self, when: str) -> None:
        assert self.store is not None
        self.world.tell(self.name, f"crashes-{when}")
        store, self.store = self.store, None
        store.crash()
        for task in list(self._tasks):
            task.cancel()
        self.up.clear()
        self._down.set()

    def accept(self, link: PeerLink) -> None:
        self._spawn(self._serve(link))

    async def _serve(self, link: PeerLink) -> None:
        try:
            while True:
                self._spawn(self._answer(link, await link.receive()))
        except LinkClosed:
            return
        except asyncio.CancelledError:
            await link.close("the front crashed")
            raise

    async def _answer(self, link: PeerLink, question: bytes) -> None:
        assert self.store is not None
        try:
            answer = await exchange.answer(self.store, self.world.clock, question)
            await link.send(answer)
        except (LinkClosed, StoreUnavailableError):
            return
        self.world.tell(self.name, f"answers {answer[:60]!r}")

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine, name=self.name)
        self._tasks[task] = None
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task)
        if not task.cancelled():
            task.result()


class Writer:
    """Asks, waits, repeats the same bytes until it has an answer, and writes it into the ledger."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self._draws = world.randomness.branch(name)
        self._nonce = 0
        self._links: dict[Front, PeerLink] = {}

    async def work(self) -> None:
        for _ in range(QUESTIONS):
            disk = self._draws.integer(0, DISKS - 1)
            await self._draws.choice([self._advance, self._increment, self._lease])(disk)
            await asyncio.sleep(self._draws.between(0, 0.05))

    async def _advance(self, disk: int) -> None:
        ledger, chain = self.world.ledgers[disk], self._draws.choice(CHAINS)
        seen = ledger.highest(chain)
        answer, _ = await self._ask(disk, AskTip(chain, self._next()))
        tip = answer.tip
        while True:
            assert tip is not None
            assert tip.seq >= seen, f"{chain} stands at {tip.seq} after {seen} was acknowledged"
            answer, question = await self._ask(disk, AskAdvance(chain, tip, self.name, self._next()))
            if answer.ok:
                break
            tip = answer.tip
        to = Tip(tip.seq + 1, exchange.hash_after(tip, question))
        assert answer.tip == to
        assert (chain, to.seq) not in ledger.advanced, f"{chain} {to.seq} has two winners"
        ledger.advanced[chain, to.seq] = (to.hash, exchange.digest_of(question))
        ledger.audited.append(exchange.digest_of(question).hex())

    async def _increment(self, disk: int) -> None:
        ledger, counter = self.world.ledgers[disk], self._draws.choice(["sent", "heard"])
        _, question = await self._ask(disk, AskIncrement(counter, self.name, self._next()))
        ledger.incremented[counter] += 1
        ledger.audited.append(exchange.digest_of(question).hex())

    async def _lease(self, disk: int) -> None:
        ledger, name = self.world.ledgers[disk], "torch"
        answer, _ = await self._ask(disk, AskLease(name, self.name, self._next()))
        lease = answer.lease
        assert lease is not None
        ledger.grants.setdefault(name, []).append(lease)
        if not answer.ok:
            assert lease.holder != self.name, "refused for the sake of itself"
            return
        assert lease.holder == self.name
        for _ in range(self._draws.integer(0, 3)):
            if self._draws.chance(0.3):  # a holder that dozes off while its lease runs out
                await asyncio.sleep(2 * LEASE_SECONDS)
            answer, question = await self._ask(disk, AskFenced(lease, self._next()))
            if answer.ok:
                ledger.fenced.setdefault(name, []).append(exchange.digest_of(question))
                ledger.audited.append(exchange.digest_of(question).hex())
        if self._draws.chance(0.5):
            ledger.releases.setdefault((name, lease.token), self.world.clock.now())
            await self._ask(disk, AskRelease(lease, self._next()))

    def _next(self) -> int:
        self._nonce += 1
        return self._nonce

    async def _ask(self, disk: int, question: Question) -> tuple[Answer, bytes]:
        data = exchange.encode(question)
        digest = exchange.digest_of(data)
        while True:
            front = self._draws.choice(self.world.fronts[disk])
            self.world.tell(self.name, f"asks {front.name} {data[:60]!r}")
            try:
                async with asyncio.timeout(self._draws.between(0.02, 0.08)):
                    answer = await self._exchange(front, data, digest)
            except (LinkClosed, TimeoutError) as trouble:
                self.world.tell(self.name, f"repeats after {type(trouble).__name__}")
                await asyncio.sleep(self._draws.between(0.0, 0.02))
                continue
            self.world.tell(self.name, f"hears {answer.ok}")
            return answer, data

    async def _exchange(self, front: Front, data: bytes, digest: bytes) -> Answer:
        try:
            if front not in self._links:
                self._links[front] = await self.world.connect(front)
            link = self._links[front]
            await link.send(data)
            while (answer := exchange.read_answer(await link.receive())).to != digest:
                self.world.tell(self.name, "ignores an answer to an earlier question")
        except LinkClosed:
            self._links.pop(front, None)
            raise
        return answer


def simulate(seed: int, engine: type[CrashingStore] = CrashingStore) -> World:
    """The whole story of one seed. Whatever goes wrong carries the seed and how the story ended."""
    worlds: list[World] = []

    async def story() -> None:
        worlds.append(World(seed, engine))
        await worlds[0].live()

    try:
        run_simulated(story, seed)
    except Exception as error:
        error.add_note("\n".join(["…", *worlds[0].lines[-12:]]))
        raise
    return worlds[0]
