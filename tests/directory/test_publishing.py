"""A card that is published and kept up to date, in directories that forget, fail, or were told to hide it."""

import asyncio
import contextlib

import pytest
from starlette.applications import Starlette

from comity.directory.client import DirectoryClient
from comity.directory.doors import directory_routes
from comity.directory.publishing import KeptPublication, publish_card, refuse_unspecified
from comity.envelopes.protocol.card import RuntimeState, Visibility
from comity.requests.pipeline import Pipeline
from comity.requests.record import Recorder
from comity.store.audit_trail import AuditTrail
from comity.store.memory import MemoryStore
from comity.testing import VirtualClock
from comity.wire.errors import ConfigError, TargetRefusedError, UnreachableError
from tests.directory.publications import agent, card_of, hexes
from tests.directory.reference_registry import ReferenceRegistry
from tests.directory.test_directory import AsgiHttp
from tests.store.samples import KEY

ALICE = agent("alice")
URL = "http://directory.example"
ACTIVE, LOCAL, HIBERNATING = RuntimeState.ACTIVE, RuntimeState.LOCAL, RuntimeState.HIBERNATING


class Flaky:
    """A directory that cannot be reached while `down` names a reason."""

    def __init__(self, inner):
        self.inner = inner
        self.down = None
        self.moments = []
        self.clock = inner.clock

    async def request(self, method, url, json=None):
        self.moments.append(self.clock.monotonic())
        if self.down is not None:
            raise self.down
        return await self.inner.request(method, url, json)


class Agent:
    """An agent whose card is kept in a directory."""

    def __init__(self, http, state=LOCAL, card=None):
        self.clock = http.clock
        self.http = Flaky(http)
        self.state = state
        self.changed = asyncio.Event()
        self.reports = []
        self.directory = DirectoryClient(self.http, URL, clock=self.clock, key=ALICE)
        self.kept = KeptPublication(
            self.directory,
            URL,
            self.clock,
            card=lambda: card or card_of(ALICE, "sings songs"),
            state=lambda: self.state,
            changed=self.changed,
            activate=self.activate,
            notify=self.reports.append,
        )

    async def activate(self):
        self.set_state(ACTIVE)

    def set_state(self, state):
        self.state = state
        self.changed.set()

    async def settle(self, seconds=0.0):
        """Let time pass, and everybody act on it."""
        await self.clock.advance(seconds)
        for _ in range(200):
            await asyncio.sleep(0)

    @contextlib.asynccontextmanager
    async def running(self):
        task = asyncio.create_task(self.kept.run())
        try:
            await self.kept.attempted.wait()
            await self.settle()
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])


@pytest.fixture
def registry():
    registry = ReferenceRegistry()
    registry.clock = VirtualClock()
    return registry


@pytest.fixture
async def our_own():
    """A directory of ours, which also shows the state."""
    clock = VirtualClock()
    store = MemoryStore(clock, trail=AuditTrail("main", KEY))
    pipeline = Pipeline(Recorder(store, clock), clock, budget=None)
    http = AsgiHttp(Starlette(routes=directory_routes(pipeline=pipeline, store=store, clock=clock)))
    http.clock = clock
    yield http
    await http.client.aclose()


async def test_at_the_start_the_card_is_published_and_a_local_agent_becomes_active(registry):
    alice = Agent(registry)
    async with alice.running():
        assert alice.state is ACTIVE
        report = alice.kept.report
        assert (report.event_seq, report.visibility, report.state, report.problem) == (
            1,
            Visibility.PUBLIC,
            ACTIVE,
            "",
        )
        assert alice.reports == [report]
        assert list(registry.halos) == hexes(ALICE)


@pytest.mark.parametrize("state", [ACTIVE, HIBERNATING])
async def test_what_the_directory_has_is_not_published_again(registry, our_own, state):
    for http in (registry, our_own):
        alice = Agent(http, state)
        async with alice.running():
            await alice.settle(3600)
            assert len(alice.http.moments) > 12
            assert (await alice.directory.last_event(ALICE.vacant_id)).actor_seq == 1
        assert len(alice.reports) == 1


async def test_a_directory_that_forgot_the_card_has_it_again_after_ten_minutes(registry):
    alice = Agent(registry)
    async with alice.running():
        registry.halos.clear()
        registry.events.clear()
        registry.keys.clear()
        await alice.settle(599)
        assert registry.halos == {}
        await alice.settle(2)
        assert list(registry.halos) == hexes(ALICE)


async def test_a_directory_that_lost_the_card_and_kept_the_events_gets_it_again(registry):
    alice = Agent(registry)
    async with alice.running():
        registry.halos.clear()
        await alice.settle(601)
        assert list(registry.halos) == hexes(ALICE)
        assert registry.events[-1]["actor_seq"] == 2


async def test_a_directory_that_shows_a_hidden_card_not_even_to_its_owner_is_not_told_again(registry):
    alice = Agent(registry, ACTIVE)
    registry._card = lambda *_: (403, {"detail": "not visible"})
    async with alice.running():
        await alice.settle(3600)
        assert len(registry.events) == 1
        assert alice.kept.report.problem == ""


async def test_a_new_card_replaces_the_old_one_at_the_start(registry):
    async with Agent(registry).running():
        pass
    alice = Agent(registry, ACTIVE, card_of(ALICE, "dances"))
    async with alice.running():
        assert await alice.directory.card(ALICE.vacant_id) == card_of(ALICE, "dances")


async def test_a_directory_that_cannot_be_reached_is_asked_again_less_and_less_often(registry):
    alice = Agent(registry)
    alice.http.down = UnreachableError("nobody is there")
    async with alice.running():
        assert alice.kept.report.problem == "nobody is there"
        assert alice.state is LOCAL
        await alice.settle(2000)
        assert alice.http.moments == [0, 15, 45, 105, 225, 465, 945, 1545]
        assert [report.problem for report in alice.reports] == ["nobody is there"]
        alice.http.down = None
        await alice.settle(200)
        assert (alice.kept.report.problem, alice.kept.report.event_seq) == ("", 1)
        assert alice.state is ACTIVE
        assert len(alice.reports) == 2


async def test_a_failure_later_on_keeps_what_is_known(registry):
    alice = Agent(registry)
    async with alice.running():
        alice.http.down = TargetRefusedError("that is a private address")
        await alice.settle(601)
        report = alice.kept.report
        assert (report.event_seq, report.visibility) == (1, Visibility.PUBLIC)
        assert report.problem.endswith("add its host to dispatch.allowed_hosts")


async def test_a_card_that_its_owner_hid_stays_hidden(registry, our_own):
    for http in (registry, our_own):
        alice = Agent(http)
        async with alice.running():
            hidden = await publish_card(
                alice.directory, card_of(ALICE, "sings songs"), Visibility.NONE, ACTIVE
            )
            assert hidden.changed
            await alice.settle(1300)
            assert await alice.directory.search("songs") == []
        again = Agent(http, card=card_of(ALICE, "sings louder songs"))
        async with again.running():
            assert again.kept.report.visibility is Visibility.NONE
            assert again.state is LOCAL
            assert await alice.directory.search("songs") == []
            assert await alice.directory.card(ALICE.vacant_id) == card_of(ALICE, "sings louder songs")


async def test_a_change_of_the_state_is_told_at_once(our_own):
    alice = Agent(our_own)
    async with alice.running():
        assert len(await alice.directory.search("songs")) == 1
        for state, found in ((HIBERNATING, 1), (RuntimeState.SUNK, 0), (ACTIVE, 1), (LOCAL, 0)):
            alice.set_state(state)
            await alice.settle()
            assert await alice.directory.state_of(ALICE.vacant_id) is state
            assert len(await alice.directory.search("songs")) == found
        await alice.settle(1300)
        assert alice.state is LOCAL, "what the owner decided stays"


@pytest.mark.parametrize("state", [RuntimeState.SUNK, RuntimeState.ARCHIVED])
async def test_an_agent_that_is_gone_is_not_put_into_a_directory(registry, state):
    alice = Agent(registry, state)
    async with alice.running():
        assert registry.halos == {}
        assert alice.kept.report.problem == f"the agent is {state} and takes no calls"


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_a_card_for_all_addresses_is_refused_with_what_to_set(host):
    with pytest.raises(ConfigError, match=r"set agent\.endpoint to its public URL"):
        refuse_unspecified(card_of(ALICE, endpoint=f"https://{host}:8420/a2a/message/send"))
