"""The node: the one place where it is all put together. It wires, it decides nothing.

Starting goes from the inside out (folder, keys, store, walk, doors), stopping from the outside in;
what was started is stopped even when a later step fails.
"""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypedDict

from starlette.routing import BaseRoute, Route

from comity import __version__
from comity.agents.behaviour import Behaviour, close_behaviour
from comity.agents.load import load_behaviour
from comity.bus.in_process import InProcessBus
from comity.clients.pages import Pages
from comity.config import Settings
from comity.core.caller import OWN_PROCESS
from comity.core.card.resident import ResidentForm
from comity.core.clock import Clock
from comity.core.errors import ComityError, StoreError, StoreFullError
from comity.core.guard.audit import timestamp
from comity.core.identity.keys import SigningKey, VacantId
from comity.doors.a2a.card import CARD_PATHS, card_routes
from comity.doors.a2a.message_send import MESSAGE_SEND_PATH, MessageSend
from comity.doors.actions.http import action_routes
from comity.doors.directory import directory_routes, is_directory_path
from comity.doors.events import EVENTS_PATH, EventsEndpoint
from comity.doors.http.app import HttpDoor, Readiness, RoomRoute
from comity.doors.http.asgi import App
from comity.doors.http.entry import Entry
from comity.doors.http.server import HttpServer, PortTakenError, bind, tls_context
from comity.doors.mcp.http import MCP_PATH
from comity.doors.mcp.oauth import ResourceServer
from comity.doors.mcp.vacant_tools import Resident
from comity.doors.vcp.tcp import TcpDoor
from comity.doors.vcp.websocket import VCP_PATH, VcpOverWebSocket
from comity.keys.identity import create_identity, has_identity, load_identity
from comity.keys.private import ensure_private_folder
from comity.keys.tokens import TOKEN_FILE, load_or_create_token, same_token
from comity.keys.vault_key import VAULT_KEY_FILE, VAULT_KEY_VARIABLE, load_or_create_vault_keys
from comity.node_mcp import McpSide
from comity.node_mcp_doors import mcp_endpoint, open_socket, resource_server
from comity.node_vcp import vcp_side
from comity.pipeline.actions.library import Library
from comity.pipeline.actions.plugins import announced_plugins
from comity.pipeline.actions.runner import ActionLimits, Allowance, Runner
from comity.pipeline.budget import Budget, Figures
from comity.pipeline.envelopes.room import KEPT_SECONDS, EnvelopeRoom
from comity.pipeline.events import Events
from comity.pipeline.housekeeping import keep_house
from comity.pipeline.metrics import Metrics
from comity.pipeline.ping import PingRoom
from comity.pipeline.record import Act, Recorder
from comity.pipeline.residence import StateRoom, resident_form, vacant_form
from comity.pipeline.storage import CARDS, Quota
from comity.pipeline.tracing import open_tracing
from comity.pipeline.vcp.over_mcp import VcpOverMcp
from comity.pipeline.walk import Walk
from comity.store.audit_log import prune
from comity.store.audit_trail import AuditTrail, log_of, open_head_file
from comity.store.claim import FolderClaim, RunningNode
from comity.store.memory import MemoryStore
from comity.store.operations import REPLIES, ForgetReplies
from comity.store.protocol import Store
from comity.store.sqlite import SqliteStore
from comity.store.vault import Vault
from comity.system_clock import SystemClock

log = logging.getLogger("comity.node")

DATABASE_FILE = "comity.db"
HEADS_FOLDER = "audit"
MAIN_CHAIN = "main"

_REFUSALS_EVERY = 60.0
_LOOK_EVERY = 60.0
_TRY_STORE_EVERY = 5.0
_PRUNE_EVERY = 3600.0
_DAY = 86_400.0


class RoomsOverHttp(TypedDict):
    hot: Mapping[str, App]
    sockets: Mapping[str, App]
    routes: list[BaseRoute]
    is_public: Callable[[str], bool]


class Node:
    def __init__(
        self,
        settings: Settings,
        *,
        passphrase: str | None = None,
        may_move_port: bool = False,
        guest: bool = False,
        clock: Clock | None = None,
    ) -> None:
        """`may_move_port`: a taken port is replaced by a free one, and `notices` says so. A `guest` opens no
        doors and shares the data folder with whoever else works in it.
        """
        self._guest = guest
        self.settings = settings
        self.notices: list[str] = []
        self.url = ""
        self.entry_link = ""
        self._chain = MAIN_CHAIN
        self._behaviour: Behaviour | None = None
        self._passphrase = passphrase
        self._may_move_port = may_move_port
        self._clock: Clock = clock or SystemClock()
        self._started_at = self._clock.monotonic()
        self._stopping = asyncio.Event()
        self._closing = asyncio.Lock()
        self._heeded: list[signal.Signals] = []
        self._opened = contextlib.AsyncExitStack()

    @property
    def vacant_id(self) -> VacantId:
        return self._key.vacant_id

    async def start(self) -> None:
        try:
            await self._open_rooms()
            if not self._guest:
                await self._open_doors()
        except BaseException:
            try:
                await self._opened.aclose()
            except Exception:  # the caller hears of the first failure, not of this one
                log.exception("what had been started could not be stopped in order")
            raise

    async def stop(self) -> None:
        """Whoever asks second waits for the first to be done."""
        self._stopping.set()
        async with self._closing:
            try:
                await self._opened.aclose()
            finally:  # until now a second signal must not cut the stopping short
                while self._heeded:
                    asyncio.get_running_loop().remove_signal_handler(self._heeded.pop())

    async def wait_stopped(self) -> None:
        """Until somebody asks us to stop: SIGTERM, SIGINT, or `ask_to_stop`."""
        loop = asyncio.get_running_loop()
        for asked in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):  # Windows has Ctrl-C only
                loop.add_signal_handler(asked, self.ask_to_stop)
                self._heeded.append(asked)
        await self._stopping.wait()

    def ask_to_stop(self) -> None:
        self._stopping.set()

    async def _open_rooms(self) -> None:
        data = self.settings.data
        await asyncio.to_thread(ensure_private_folder, data)
        if not self._guest:
            self._claim = FolderClaim(data)
            self._opened.callback(self._claim.release)
        self._key = await asyncio.to_thread(self._identity)
        self._token = load_or_create_token(data / TOKEN_FILE)
        keys = load_or_create_vault_keys(data / VAULT_KEY_FILE, os.environ.get(VAULT_KEY_VARIABLE))
        vault = self.settings.vault
        self.vault = Vault(keys, environment=self.settings.environment, plaintext=vault.plaintext)
        self._key_file = None if VAULT_KEY_VARIABLE in os.environ else data / VAULT_KEY_FILE
        self.store = await self._open_store(data)
        self._opened.push_async_callback(self.store.close)
        self._metrics = Metrics(__version__, lambda: self._clock.monotonic() - self._started_at)
        self.budget = Budget(self._clock, Figures.of(self.settings))
        self.bus = InProcessBus()
        self._opened.push_async_callback(self.bus.close)
        self.events = Events(self.bus)
        tracing = open_tracing(os.environ, self.notices.append)
        if tracing is not None:
            self._opened.push_async_callback(tracing.close)
        self.record = (Recorder if tracing is None else tracing.recorder)(
            self.store,
            self._clock,
            metrics=self._metrics,
            events=self.events,
            level=self.settings.audit.level,
        )
        self.walk = (Walk if tracing is None else tracing.walk)(self.record, self._clock, budget=self.budget)
        self.replies, self.cards = self._quota(REPLIES), self._quota(CARDS)
        await self._look_at_quotas()
        self._metrics.show_limits(self.budget, (self.replies, self.cards))
        self.vcp, self.vcp_rooms = vcp_side(
            self.store,
            self._clock,
            self.settings,
            identity=self.vacant_id,
            vault=self._vault_now,
            budget=self.budget,
            record=self.record,
            uptime=lambda: self._clock.monotonic() - self._started_at,
            opened=self._opened,
        )
        self.vcp_over_mcp = VcpOverMcp(self.vcp, self._clock)
        self.mcp = self._mcp_side()
        self.resident = Resident(vacant_form(self.vacant_id), self.walk, None)
        await self._note("NODE_STARTED")
        self._opened.push_async_callback(self._note, "NODE_STOPPED")
        self._opened.callback(self.record.flush)
        housekeeping = asyncio.create_task(
            keep_house(
                self._clock,
                [
                    (_REFUSALS_EVERY, self._write_refusals),
                    (_LOOK_EVERY, self._look_at_quotas),
                    (_PRUNE_EVERY, self._forget_replies),
                    (_PRUNE_EVERY, self._forget),
                    (_TRY_STORE_EVERY, self._try_store_again),
                ],
            )
        )
        self._opened.push_async_callback(_end, housekeeping)
        plugins = await asyncio.to_thread(announced_plugins, self.notices.append)
        pages = Pages(allow=self.settings.dispatch.allowed_hosts)
        self.actions = Runner(Library("enhanced", plugins), pages, limits=self._action_limits())
        self._opened.push_async_callback(self.actions.aclose)
        self._opened.push_async_callback(self._dismiss_agent)  # after the doors: they may still need it

    def _identity(self) -> SigningKey:
        data = self.settings.data
        if has_identity(data):
            return load_identity(data, passphrase=self._passphrase)
        return create_identity(data, passphrase=self._passphrase)

    async def _open_store(self, data: Path) -> Store:
        if self.settings.store.engine == "memory":
            return MemoryStore(self._clock, trail=AuditTrail(self._chain, self._key))
        self._chain, head_file = open_head_file(data / HEADS_FOLDER, MAIN_CHAIN)
        return await SqliteStore.open(
            data / DATABASE_FILE, self._clock, AuditTrail(self._chain, self._key, head_file)
        )

    def _vault_now(self) -> Vault:
        """The vault, unless its key was taken away while the node runs."""
        if self._key_file is None or self._key_file.exists():
            return self.vault
        return Vault([], environment=self.settings.environment)

    async def _open_doors(self) -> None:
        settings = self.settings
        server = self._listen()
        self._opened.push_async_callback(server.stop)
        self.url = server.url
        entry = Entry(
            lambda token: same_token(token, self._token),
            self._clock,
            port=server.port,
            secure=settings.tls.cert is not None,
        )
        visitors = await resource_server(settings, self.url, self._clock, self._opened)
        door = HttpDoor(
            walk=self.walk,
            entry=entry,
            metrics=self._metrics,
            ping=PingRoom(),
            readiness=self._readiness,
            status=self.status,
            body_limit=settings.http.body_limit,
            hosts=(settings.host, *settings.http.allowed_hosts),
            origins=settings.http.allowed_origins,
            budget=self.budget,
            proxies=settings.http.trusted_proxies,
            visitors=visitors,
            **await self._rooms_over_http(visitors),
        )
        await server.start(
            door.app,
            shutdown_seconds=settings.http.shutdown_seconds,
            refused=lambda code: self.record.refuse("http", code),
            hung_up=lambda: self.record.count("http", "hung_up"),
            websockets=[VCP_PATH],
        )
        if settings.vcp.tcp_port:
            listening = bind(settings.host, settings.vcp.tcp_port)
            tcp = TcpDoor(self.vcp, listening, tls_context(settings.tls.cert, settings.tls.key))
            self._opened.push_async_callback(tcp.stop)
            await tcp.start()
        self.entry_link = self.url + entry.new_link()
        self._claim.announce(
            RunningNode(
                pid=os.getpid(),
                url=self.url,
                vacant_id=self.vacant_id.hex(),
                mcp_socket=await open_socket(self.mcp, settings.data, self._opened),
            )
        )
        self._opened.callback(self.mcp.changes.closing.set)  # so that the doors need not wait for subscribers
        self._opened.callback(self._claim.withdraw)

    def _mcp_side(self) -> McpSide:
        async def opened() -> "Node":
            return self

        side = McpSide(
            opened,
            self._clock,
            tally=self.record.tally,
            secret=self._key.seed,
        )
        self._opened.push_async_callback(side.close)
        return side

    async def _rooms_over_http(self, visitors: ResourceServer | None) -> RoomsOverHttp:
        """The paths of the rooms that are open, and which of them need no token."""
        settings = self.settings
        mcp = mcp_endpoint(self.mcp, self.vcp_over_mcp, self, self._clock, settings, self._opened)
        watching = EventsEndpoint(self.events, self.record, self.mcp.changes.closing)
        hot: dict[str, App] = {MCP_PATH: mcp, EVENTS_PATH: watching}
        body_limit = settings.http.body_limit
        routes = action_routes(self.actions, self.walk, body_limit=body_limit, version=__version__)
        public = {VCP_PATH}
        if visitors is not None:
            routes += visitors.routes()
            public |= visitors.metadata_paths
        if settings.directory.serve:
            routes += directory_routes(
                walk=self.walk,
                store=self.store,
                clock=self._clock,
                body_limit=settings.http.body_limit,
                quota=self.cards,
            )
        if settings.agent.behaviour:
            agent, limit = settings.agent, settings.http.body_limit
            endpoint = agent.endpoint or self.url + MESSAGE_SEND_PATH
            form = await resident_form(self.store, self._key, agent.offer, endpoint)
            room = self._envelope_room(form)
            self.resident = Resident(form, self.walk, room)
            hot[MESSAGE_SEND_PATH] = MessageSend(room, self.walk, limit)
            routes.append(Route("/v1/state", RoomRoute(StateRoom(form), self.walk, limit)))
            routes += card_routes(lambda: form, agent.name or form.identity.short())
            public |= {MESSAGE_SEND_PATH, *CARD_PATHS}
        return {
            "hot": hot,
            "sockets": {VCP_PATH: VcpOverWebSocket(self.vcp)},
            "routes": routes,
            "is_public": lambda path: (
                path in public or (settings.directory.serve and is_directory_path(path))
            ),
        }

    def _envelope_room(self, form: ResidentForm) -> EnvelopeRoom:
        agent = self.settings.agent
        self._behaviour = load_behaviour(
            agent.behaviour,
            system_prompt=agent.system_prompt,
            key_variable=agent.key_variable,
            timeout=agent.deadline_seconds,
            limits=self._action_limits(),
        )
        return EnvelopeRoom(
            key=self._key,
            behaviour=self._behaviour,
            state_provider=lambda: form.runtime_state,
            store=self.store,
            clock=self._clock,
            deadline=agent.deadline_seconds,
            freshness=agent.freshness_seconds or None,
            budget=self.budget,
            quota=self.replies,
            pair_bytes=self.settings.storage.pair_bytes,
            sole_writer=True,  # the folder is claimed by this process
        )

    def _action_limits(self) -> ActionLimits:
        set_ = self.settings.actions
        return ActionLimits(
            own=Allowance(characters=set_.own_characters),
            others=Allowance(characters=set_.characters, seconds=set_.seconds),
            queued=set_.queued,
        )

    async def _dismiss_agent(self) -> None:
        if self._behaviour is not None:
            await close_behaviour(self._behaviour)

    def _listen(self) -> HttpServer:
        settings = self.settings
        cert, key = settings.tls.cert, settings.tls.key
        try:
            return HttpServer(settings.host, settings.port, cert=cert, key=key)
        except PortTakenError:
            if not self._may_move_port:
                raise
        server = HttpServer(settings.host, 0, cert=cert, key=key)
        self.notices.append(f"port {settings.port} was taken; listening on {server.port} instead")
        return server

    async def status(self) -> dict[str, Any]:
        """What the first page shows."""
        readiness = await self._readiness()
        return {
            "ready": readiness.ready,
            "state": "ready" if readiness.ready else readiness.reason,
            "vacant_id": self.vacant_id.hex(),
            "short": self.vacant_id.short(),
            "did_key": self.vacant_id.did_key(),
            "url": self.url,
            "data": str(self.settings.data),
            "environment": self.settings.environment,
            "version": __version__,
            "uptime": _duration(self._clock.monotonic() - self._started_at),
            "calls": self._metrics.calls,
            "audit_entries": await self.store.end(log_of(self._chain)) if readiness.ready else "unknown",
            "store": self.settings.store.engine,
            "encryption": "encrypted" if self.vault.encrypts else "plaintext",
        }

    async def _readiness(self) -> Readiness:
        if self._stopping.is_set():
            return Readiness(False, "stopping")
        try:
            await self.store.end(log_of(self._chain))
        except ComityError:
            return Readiness(False, "the store does not answer; run comity doctor")
        failure = self.store.failure
        if failure is None:
            return Readiness(True)
        full = isinstance(failure, StoreFullError)
        what = "the disk is full; free some space" if full else "the store cannot be written to"
        return Readiness(False, f"{what}; the log of this node says more")

    async def _try_store_again(self) -> None:
        """After a commit that failed, so that an idle node is ready again as soon as it can be."""
        if self.store.failure is not None:
            with contextlib.suppress(StoreError):
                await self._note("STORE_WRITTEN_AGAIN")

    async def _note(self, event: str) -> None:
        await self.record.commit((), _own(event))

    def _quota(self, name: str) -> Quota:
        storage = self.settings.storage
        total = {REPLIES: storage.replies_bytes, CARDS: storage.cards_bytes}[name]
        return Quota(self.store, self._clock, name=name, total=total, has_share=self.budget.limits)

    async def _look_at_quotas(self) -> None:
        for quota in (self.replies, self.cards):
            await quota.look()

    async def _forget_replies(self) -> None:
        """Where much is stored, those that were kept for a day: their callers may have gone for good."""
        if self.replies.held < self.replies.total // 2:
            return
        before, after = self._clock.now() - KEPT_SECONDS, 0
        while after is not None:
            (after,) = await self.store.commit(ForgetReplies(before=before, after=after))

    async def _write_refusals(self) -> None:
        self.record.close_minute()

    async def _forget(self) -> None:
        days = self.settings.audit.retention_days
        if days:
            before = timestamp(self._clock.now() - days * _DAY)
            await prune(
                self.store,
                self._chain,
                self._key,
                before=before,
                pruned=self.record.entry(_own("AUDIT_PRUNED")),
            )


def _own(result: str) -> Act:
    """Something that the node does by itself."""
    return Act(room="node", result=result, caller=OWN_PROCESS)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
