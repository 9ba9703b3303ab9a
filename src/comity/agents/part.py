"""The agent of this node: signed calls, its card and its state, and its tools of MCP."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from comity.actions.part import action_limits
from comity.contacts.part import consent_of, contacts_of
from comity.envelopes.part import witnesses_of
from comity.identity.protocol.rights import Right
from comity.requests.caller import OWN_PROCESS
from comity.requests.handler import Request
from comity.runtime.lazy import late
from comity.runtime.part import (
    Chore,
    Fact,
    OpenNode,
    Panel,
    Part,
    RowButton,
    Table,
    View,
    ViewPage,
    ViewQuery,
    paged,
)
from comity.runtime.settings import Settings
from comity.runtime.upkeep import Audit, Limits
from comity.vcp.part import Vcp
from comity.wire import strict_json
from comity.wire.errors import ComityError, InvalidError, NotFoundError

if TYPE_CHECKING:
    from starlette import routing

    from comity.agents import behaviour, calling, prompts, residence
    from comity.agents import tools as call_tools
    from comity.directory import cards as directory_cards
    from comity.directory import client as directory_client
    from comity.directory import outcomes, publishing
    from comity.envelopes import app as cards
    from comity.envelopes import features, pairs, server, successions, verification
    from comity.envelopes import tools as vacant_tools
    from comity.envelopes.client import dispatcher, routes
    from comity.envelopes.client import keys as call_keys
    from comity.envelopes.protocol import envelope
    from comity.envelopes.protocol.card import CapabilityCard
    from comity.envelopes.protocol.envelope import Behaviour
    from comity.envelopes.protocol.resident import ResidentForm
    from comity.http import app as http_app
    from comity.http import asgi
    from comity.http.asgi import Receive, Scope
    from comity.identity.protocol import keys
    from comity.mcp.protocol.catalog import Prompt, Tool
    from comity.requests import record
    from comity.runtime import node_runtime
    from comity.runtime.node_runtime import NodeRuntime
else:
    routing = late("starlette.routing")
    behaviour = late("comity.agents.behaviour")
    calling = late("comity.agents.calling")
    prompts = late("comity.agents.prompts")
    residence = late("comity.agents.residence")
    call_tools = late("comity.agents.tools")
    directory_cards = late("comity.directory.cards")
    directory_client = late("comity.directory.client")
    outcomes = late("comity.directory.outcomes")
    publishing = late("comity.directory.publishing")
    cards = late("comity.envelopes.app")
    features = late("comity.envelopes.features")
    pairs = late("comity.envelopes.pairs")
    verification = late("comity.envelopes.verification")
    server = late("comity.envelopes.server")
    successions = late("comity.envelopes.successions")
    vacant_tools = late("comity.envelopes.tools")
    call_keys = late("comity.envelopes.client.keys")
    routes = late("comity.envelopes.client.routes")
    dispatcher = late("comity.envelopes.client.dispatcher")
    envelope = late("comity.envelopes.protocol.envelope")
    http_app = late("comity.http.app")
    asgi = late("comity.http.asgi")
    keys = late("comity.identity.protocol.keys")
    record = late("comity.requests.record")
    node_runtime = late("comity.runtime.node_runtime")

PAIRS_VERIFY_PATH = "/v1/pairs/verify"

_MAX_REQUEST_BYTES = 1000
_MAX_VERDICTS = 200
_MAX_LINES_SHOWN = 20
_MAX_LINES_READ = 200
_TIDY_EVERY = 3600.0
_LOOK_EVERY = 30.0
_AT_REST = frozenset({"HIBERNATING", "SUNK", "ARCHIVED"})


def _successions(runtime: "NodeRuntime") -> "successions.Successions":
    return successions.Successions(runtime.store, runtime.record, runtime.key, runtime.line)


class Agent(Part):
    name = "agent"
    tool_group = "vacant"
    instructions = "vacant_* are this node's own agent behind signed envelopes."
    rights: ClassVar[Mapping[str, Right]] = MappingProxyType({PAIRS_VERIFY_PATH: "act"})

    @classmethod
    def tools(cls, runtime: OpenNode) -> "Iterable[Tool]":
        async def resident() -> "vacant_tools.Resident":
            return (await runtime()).find(cls).resident

        return vacant_tools.vacant_tools(resident)

    async def open(self, runtime: "NodeRuntime") -> None:
        self._runtime = runtime
        self.views = [View("agent", "Agent", self._view), View("pairs", "Conversations", self._pairs)]
        form = residence.vacant_form(runtime.vacant_id)
        self.resident = vacant_tools.Resident(form, runtime.pipeline, None)
        self.state_handler: residence.StateHandler
        self.state_changed = asyncio.Event()
        self._behaviour: Behaviour | None = None
        self._verdicts: dict[str, str] = {}
        self.is_published = False
        """Whether its card is public in the directory where the node publishes it; in its own it is looked up."""
        self._is_listed = False
        self.chores = [Chore(_LOOK_EVERY, self._look_up_own_card)]
        # closed after the doors: their calls may still need the behaviour
        runtime.stack.push_async_callback(self._close)

    async def _view(self, _query: ViewQuery) -> ViewPage:
        runtime, form = self._runtime, self.resident.form
        card = form.capability_card
        facts = [Fact("Identity", form.identity.hex(), copy=True)]
        if self.resident.handler is None or card is None:
            start = Fact("Start the node with one", "comity up --agent echo", copy=True)
            return ViewPage(facts=[*facts, Fact("Agent", "none"), start])
        state = form.runtime_state.value
        agent = runtime.settings.agent
        return ViewPage(
            facts=[
                *facts,
                Fact("State", state, mark="bad" if state in _AT_REST else "good"),
                Fact("Name", agent.name or form.identity.short()),
                Fact("Answers with", agent.behaviour),
                Fact("Offers", card.capability_text),
                Fact("Endpoint", card.endpoint or "none", copy=True),
                Fact("Version of the card", str(card.halo_version)),
                Fact("Card", runtime.url + "/.well-known/agent-card.json", copy=True),
                Fact("Call it", f"comity call {card.endpoint} hello", copy=True),
            ]
        )

    async def _pairs(self, query: ViewQuery) -> ViewPage:
        columns = ("agent", "book", "requests", "replies", "last request", "last reply", "verified")
        rows: list[tuple[str, ...]] = []
        for peer in await self._peers():
            whole_id, verdict = peer.vacant_id, self._verdict(peer.vacant_id)
            books = [("calls to us", peer.serve), ("calls by us", peer.call)]
            for each in peer.earlier:
                books += [("calls to our former key", each.serve), ("calls by our former key", each.call)]
            for book, held in books:
                if held is not None:
                    counts = f"{held.requests.seq:,}", f"{held.replies.seq:,}"
                    tips = held.requests.tip[:16], held.replies.tip[:16]
                    rows.append((peer.vacant_id[:16], book, *counts, *tips, verdict, whole_id))
                    whole_id = verdict = ""  # a pair is verified as one, so its first row says it
        page, more = paged(rows, query)
        shown, ids = [row[:-1] for row in page], [row[-1] for row in page]
        button = RowButton("Verify", PAIRS_VERIFY_PATH, "agent", ids)
        empty = "no signed call yet; the view Agent shows how to call this one"
        return ViewPage(tables=[Table(columns, shown, more=more, empty=empty, button=button)])

    async def panel(self) -> Panel | None:
        """Show the other identities that replaced a key."""
        runtime = self._runtime
        lines = await successions.known_lines(runtime.store, _MAX_LINES_READ)
        own = {each.hex() for each in (runtime.line.current, *runtime.line.former)}
        others = [line for line in lines if line.root not in own]
        rows = [(line.root[:12], successions.in_words(line)) for line in others[:_MAX_LINES_SHOWN]]
        return Panel("Replaced keys of others", rows) if rows else None

    async def _peers(self) -> "list[pairs.Peer]":
        runtime = self._runtime
        line = runtime.line
        former = [each.hex() for each in line.former]
        return await pairs.read_pairs(runtime.store, line.current.hex(), runtime.current_vault, former=former)

    def _verdict(self, vacant_id: str) -> str:
        running = self._runtime.find(Audit).verification
        if running.is_running and running.what == vacant_id:
            return f"under way, {running.checked:,} entries checked"
        return self._verdicts.get(vacant_id, "")

    async def _verify_pair(self, scope: "Scope", receive: "Receive") -> dict[str, bool]:
        body = await asgi.read_json_body(scope, receive, _MAX_REQUEST_BYTES, "the body")
        asked = strict_json.loads(body)
        name = asked.get("agent") if isinstance(asked, dict) else None
        if not isinstance(name, str):
            raise InvalidError("agent must be the id of an agent: 64 hex digits")
        peer = keys.VacantId.from_hex(name)
        if all(known.vacant_id != peer.hex() for known in await self._peers()):
            raise NotFoundError("this node has no chain with that agent; the view `pairs` lists all")

        async def verify(seen: Callable[[int], None]) -> None:
            self._verdicts.pop(peer.hex(), None)
            self._verdicts[peer.hex()] = await self._verdict_on(peer, seen)
            if len(self._verdicts) > _MAX_VERDICTS:
                self._verdicts.pop(next(iter(self._verdicts)))

        return {"started": self._runtime.find(Audit).verification.begin(peer.hex(), verify)}

    async def _verdict_on(self, peer: "keys.VacantId", seen: Callable[[int], None]) -> str:
        runtime = self._runtime
        heads = runtime.find(Audit).heads
        try:
            (report,) = await verification.verify_pairs(
                runtime.store,
                runtime.vacant_id,
                [peer],
                runtime.current_vault,
                heads,
                seen,
                line=runtime.line.statements,
            )
        except ComityError as fault:
            return fault.message
        return verification.verdict_of(report)

    async def serve(self, runtime: "NodeRuntime") -> None:
        verify = asgi.Endpoint("POST", self._verify_pair, feature="pairs", record=runtime.record)
        self.routes = [routing.Route(PAIRS_VERIFY_PATH, verify)]
        agent, limit = runtime.settings.agent, runtime.settings.http.body_limit
        # 404 to everybody where they do not exist
        self.public = {cards.AGENT_CARD_PATH, cards.CHAIN_RESET_PATH}
        if not agent.behaviour:
            return
        endpoint = agent.endpoint or runtime.url + envelope.MESSAGE_SEND_PATH
        form = await residence.resident_form(
            runtime.store, runtime.key, agent.offer, endpoint, self._policy(runtime)
        )

        def sign_again() -> None:
            """Name the outside door of now in the card."""
            card = residence.make_card(runtime.key, agent.offer, endpoint, self._policy(runtime))
            if card != form.capability_card:
                form.capability_card, form.substrate_spec = card, card.substrate_spec
                self.state_changed.set()

        runtime.outside.watch(sign_again)
        handler = self._make_handler(runtime, form)
        self.state_handler = residence.StateHandler(form, runtime.store, self.state_changed.set)
        self.resident = vacant_tools.Resident(form, runtime.pipeline, handler)
        self.hot = {envelope.MESSAGE_SEND_PATH: server.MessageSend(handler, runtime.pipeline, limit)}
        contacts_of(runtime).is_public = lambda: self.is_published or self._is_listed
        await self._look_up_own_card()
        state = http_app.HandlerRoute(self.state_handler, runtime.pipeline, limit)
        name = agent.name or form.identity.short()
        self.routes.append(routing.Route("/v1/state", state))
        self.routes += cards.card_routes(lambda: form, name, agent.freshness_seconds)
        self.public |= {envelope.MESSAGE_SEND_PATH, *cards.CARD_PATHS}

    @staticmethod
    def _policy(runtime: "NodeRuntime") -> dict[str, Any]:
        """Return what the card says of keys and of the outside door."""
        door = runtime.outside
        said = {"addresses": door.addresses(), "pin": door.pin}
        outside = {routes.OUTSIDE_POLICY: said} if said["addresses"] else {}
        return {**runtime.line.policy(), **outside}

    def _make_handler(self, runtime: "NodeRuntime", form: "ResidentForm") -> "server.EnvelopeHandler":
        agent, vcp = runtime.settings.agent, runtime.find_open(Vcp)
        self._behaviour = behaviour.load_behaviour(
            agent.behaviour,
            system_prompt=agent.system_prompt,
            tell_context=agent.tell_context,
            key_variable=agent.key_variable,
            timeout=agent.deadline_seconds,
            limits=action_limits(runtime.settings.actions) if agent.behaviour == "actions" else None,
        )
        return server.EnvelopeHandler(
            behaviour=self._behaviour,
            context_of=None if vcp is None else vcp.service.context_of,
            consent=consent_of(runtime),
            deadline=agent.deadline_seconds,
            features=features.Features([_successions(runtime), *witnesses_of(runtime)]),
            **server.node_options(runtime, lambda: form.runtime_state, runtime.find(Limits).replies),
        )

    async def _look_up_own_card(self) -> None:
        """Note whether the directory of this node shows the card to everybody."""
        record = await directory_cards.read_record(self._runtime.store, self._runtime.vacant_id)
        self._is_listed = record is not None and record.in_service and record.shown == "PUBLIC"

    async def _close(self) -> None:
        if self._behaviour is not None:
            await behaviour.close_behaviour(self._behaviour)


# Calls from this node to agents of other owners: the tools `find_agents` and `call_agent`, and the prompts.


class Calling(Part):
    name = "calling"
    tool_group = "agents"
    tool_right = "agents"
    instructions = (
        "find_agents finds agents by what they offer; call_agent sends one of them a message, signed and numbered by "
        "this node, and gives its verified reply."
    )

    @classmethod
    def tools(cls, runtime: OpenNode) -> "Iterable[Tool]":
        return call_tools.agent_tools(lambda: cls._handler(runtime))

    @classmethod
    def prompts(cls, runtime: OpenNode) -> "Iterable[Prompt]":
        return prompts.node_prompts(lambda: cls._handler(runtime))

    @classmethod
    async def _handler(cls, runtime: OpenNode) -> "call_tools.CallHandler":
        opened = await runtime()
        return opened.find(cls).agents, opened.pipeline

    async def open(self, runtime: "NodeRuntime") -> None:
        settings = runtime.settings
        own, known = runtime.open_http(call_tools.MAX_CALL_SECONDS), _successions(runtime)
        heard = outcomes.CallOutcomes(runtime.store, runtime.clock)
        runtime.stack.push_async_callback(heard.flush)
        calls = dispatcher.Dispatcher(
            runtime.store,
            runtime.key,
            runtime.clock,
            own,
            holder=runtime.chain,
            record=runtime.record,
            outcomes=heard,
            features=features.Features([known, *witnesses_of(runtime)]),
            cards=known,
            vault=runtime.current_vault,
            keeping=call_keys.keeping_of(runtime.settings.record),
        )
        self.chores = [Chore(outcomes.FLUSH_SECONDS, heard.flush), Chore(_TIDY_EVERY, calls.tidy)]
        self.agents = calling.AgentsHandler(
            calling.OutgoingCalls(
                runtime.store,
                runtime.key,
                runtime.clock,
                dispatcher=calls,
                outcomes=heard,
                http=own,
                public_http=runtime.open_public_http(call_tools.MAX_CALL_SECONDS),
                directory=settings.directory.url,
                seconds=settings.dispatch.timeout_seconds,
            )
        )


# The node publishes its agent in a directory by itself: `comity up --directory URL`, or `directory.publish`.

log = logging.getLogger("comity.publication")


class Publishing(Part):
    name = "publishing"

    @classmethod
    def is_wanted(cls, settings: Settings) -> bool:
        return super().is_wanted(settings) and settings.directory.publish and bool(settings.agent.behaviour)

    async def serve(self, runtime: "NodeRuntime") -> None:
        self._runtime = runtime
        settings, agent = runtime.settings, runtime.find(Agent)
        http = runtime.open_http(settings.dispatch.timeout_seconds)
        form = agent.resident.form

        def card() -> "CapabilityCard":
            assert form.capability_card is not None, "an agent that is served has a card"
            return form.capability_card

        url = settings.directory.url.rstrip("/")
        self.kept = publishing.KeptPublication(
            directory_client.DirectoryClient(http, url, clock=runtime.clock, key=runtime.key),
            url,
            runtime.clock,
            card=card,
            state=lambda: form.runtime_state,
            changed=agent.state_changed,
            activate=self._activate,
            notify=self._record,
        )
        await runtime.stack.enter_async_context(node_runtime.running(self.kept.run()))

    async def panel(self) -> Panel:
        report = self.kept.report
        rows = [("directory", report.directory), ("published", report.in_words())]
        return Panel("Publication", rows)

    async def _activate(self) -> None:
        request = Request(door="node", caller=OWN_PROCESS, body={"state": "ACTIVE"})
        await self._runtime.pipeline.run(self._runtime.find(Agent).state_handler, request)

    def _record(self, report: "publishing.PublicationReport") -> None:
        """Record a publication or a problem."""
        self._runtime.find(Agent).is_published = not report.problem and report.visibility == "PUBLIC"
        if report.problem:
            log.warning("the card is not up to date in %s: %s", report.directory, report.problem)
        self._runtime.record.note(
            record.Act(
                feature="directory",
                result="CARD_NOT_PUBLISHED" if report.problem else "CARD_PUBLISHED",
                caller=OWN_PROCESS,
                failed_step="directory" if report.problem else None,
                about=report.directory,
            )
        )
