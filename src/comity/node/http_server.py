"""The HTTP server of a node: everything that the parts serve behind one guard, and the node's own pages."""

import asyncio
import logging
import os
import shlex
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from comity.http.app import HttpDoor, OffPath, Readiness
from comity.http.guard import HttpAccess, TokenHolder
from comity.http.owner_socket import has_owner_socket, socket_path
from comity.http.peer_address import Proxies
from comity.http.pins import pin_of_file
from comity.http.server import HttpServer, PortTakenError, room_for_connections
from comity.http.serving import FaultPolicy, ServerLimits
from comity.identity.private_files import ensure_private_folder
from comity.identity.secrets import same_token
from comity.node.mcp_server import Mcp
from comity.node.parts import Watching
from comity.release import __version__
from comity.requests.handler import Admission, Call, HandlerDefaults, Identified, Request
from comity.runtime.lazy import late
from comity.runtime.part import Panel
from comity.runtime.settings_file import default_data_folder
from comity.store.audit_trail import log_of
from comity.wire.errors import ComityError, InvalidError, StoreFullError, UnauthenticatedError

if TYPE_CHECKING:
    from comity.node import page
    from comity.node.page import PageDoor
    from comity.runtime.node_runtime import NodeRuntime
else:
    page = late("comity.node.page")

# The smallest handler: it replies with the name under which the node knows the caller. It tests the pipeline end to end.


NONCE_LIMIT = 256


class PingHandler(HandlerDefaults):
    name = "ping"
    deadline = 5.0

    def identify(self, request: Request) -> Identified:
        if not request.caller.is_local:
            raise UnauthenticatedError(
                "a ping needs this node's token; it is in the file `token` of the data folder"
            )
        return Identified(request.caller)

    async def admit(self, call: Call) -> Admission:
        nonce = call.request.body.get("nonce", "") if isinstance(call.request.body, dict) else None
        if not isinstance(nonce, str) or len(nonce) > NONCE_LIMIT:
            raise InvalidError(
                f'a ping is {{"nonce": text of at most {NONCE_LIMIT} characters}}; the nonce may be left out'
            )
        return Admission(checks=("schema",))

    async def handle(self, call: Call) -> dict[str, Any]:
        return {"pong": call.request.body.get("nonce", ""), "principal": call.caller.family, "at": call.at}


log = logging.getLogger("comity.node")

BURST_PACE = 10
"""How much faster an address may use its budget than it gets it."""
MAX_TURN_SECONDS = 0.001
INSIDE_SHARE = 0.75
"""Of the connections that the node has room for; the outside door has the rest."""

_ADMIN = TokenHolder("admin")
_READER = TokenHolder("read")


class NodeHttp:
    def __init__(self, runtime: "NodeRuntime", *, may_move_port: bool) -> None:
        """Bind the port, so that the address is known; nothing is answered yet."""
        self._runtime = runtime
        settings = runtime.settings
        cert, key = settings.tls.cert, settings.tls.key
        limits = ServerLimits(connections=room_for_connections(INSIDE_SHARE))
        try:
            self._server = HttpServer(settings.host, settings.port, cert=cert, key=key, limits=limits)
        except PortTakenError:
            if not may_move_port:
                raise
            self._server = HttpServer(settings.host, 0, cert=cert, key=key, limits=limits)
            runtime.notices.append(
                f"port {settings.port} was taken; listening on {self._server.port} instead"
            )
        runtime.stack.push_async_callback(self._server.stop)
        runtime.url = self._server.url
        self.pin = "" if cert is None else pin_of_file(cert)
        self._entry = HttpAccess(
            self._find_token, runtime.clock, port=self._server.port, secure=cert is not None
        )

    def _find_token(self, token: str) -> TokenHolder | None:
        runtime = self._runtime
        if same_token(token, runtime.token):
            return _ADMIN
        if same_token(token, runtime.read_token):
            return _READER
        named = runtime.named_tokens.find(token)
        return None if named is None else TokenHolder(named.can, named.name)

    async def start(self) -> None:
        runtime, http = self._runtime, self._runtime.settings.http
        mcp = runtime.find_open(Mcp)
        door = HttpDoor(
            pipeline=runtime.pipeline,
            entry=self._entry,
            metrics=runtime.metrics,
            ping=PingHandler(),
            readiness=self._readiness,
            status=self._status,
            body_limit=http.body_limit,
            hosts=(runtime.settings.host, *http.allowed_hosts),
            origins=http.allowed_origins,
            budget=runtime.budget,
            proxies=http.trusted_proxies,
            visitors=None if mcp is None else mcp.visitors,
            parts=runtime.parts,
            page=self._page(),
            off=[
                OffPath(path, kind.off_sentence(), path in kind.open_paths)
                for kind in runtime.kinds_off
                for path in (*kind.paths, *kind.open_paths)
            ],
        )
        await runtime.outside.begin(partial(self._start_outside, door))
        owner_socket = await asyncio.to_thread(self._private_socket_path)
        await self._server.start(
            door.app,
            shutdown_seconds=http.shutdown_seconds,
            refused=lambda code: runtime.record.refuse("http", code),
            hung_up=lambda: runtime.record.count("http", "hung_up"),
            faults=self._faults(),
            websockets=[path for part in runtime.parts for path in part.sockets],
            owner_socket=owner_socket,
        )
        self.owner_socket = "" if owner_socket is None else str(owner_socket)

    async def _start_outside(
        self, door: HttpDoor, server: HttpServer, is_wanted: Callable[[str], bool]
    ) -> None:
        """Serve the outside door as the first one, but for proxies: none stands there."""
        runtime, budget = self._runtime, self._runtime.budget
        await server.start(
            door.outside_app(is_wanted),
            shutdown_seconds=runtime.settings.http.shutdown_seconds,
            refused=lambda code: runtime.record.refuse("http", code),
            hung_up=lambda: runtime.record.count("http", "hung_up"),
            faults=FaultPolicy(budget.spend_fault, budget.is_in_debt, budget.limits, self._turn_seconds()),
            websockets=door.sockets_outside,
        )

    def _private_socket_path(self) -> Path | None:
        """Return where commands of this user are served; None if the system has no such sockets."""
        if not has_owner_socket():
            return None
        path = socket_path(self._runtime.settings.data)
        ensure_private_folder(path.parent)
        return path

    def _faults(self) -> FaultPolicy:
        """Return the policy. A trusted proxy is not charged for what others send through it, and does not wait for them."""
        budget, proxies = self._runtime.budget, Proxies(self._runtime.settings.http.trusted_proxies)

        def charge(address: str) -> None:
            if not proxies.trusts(address):
                budget.spend_fault(address)

        def takes_turns(address: str) -> bool:
            return budget.limits(address) and not proxies.trusts(address)

        return FaultPolicy(charge, budget.is_in_debt, takes_turns, self._turn_seconds())

    def _turn_seconds(self) -> float:
        rate = self._runtime.settings.rate
        return min(MAX_TURN_SECONDS, rate.per_seconds / rate.requests / BURST_PACE)

    def _page(self) -> "PageDoor | None":
        runtime = self._runtime
        if runtime.find_open(Watching) is None:
            return None
        runtime.new_entry_link = self.new_entry_link
        runtime.end_browser_sessions = self._entry.end_all
        return page.page_door(
            self._entry, self._status, (view for part in runtime.parts for view in part.views)
        )

    def new_entry_link(self, *, reads_only: bool = False) -> str:
        return self._runtime.url + self._entry.new_link(reads_only=reads_only)

    async def _status(self) -> dict[str, Any]:
        """Return what the first page shows."""
        runtime, settings = self._runtime, self._runtime.settings
        readiness = await self._readiness()
        return {
            "ready": readiness.ready,
            "state": "ready" if readiness.ready else readiness.reason,
            "vacant_id": runtime.vacant_id.hex(),
            "short": runtime.vacant_id.short(),
            "did_key": runtime.vacant_id.did_key(),
            "url": runtime.url,
            "data": str(settings.data),
            "flags": _flags_of(settings.data),
            "environment": settings.environment,
            "version": __version__,
            "uptime": round(runtime.uptime(), 3),
            "calls": runtime.metrics.calls,
            "audit_entries": await runtime.store.end(log_of(runtime.chain)) if readiness.ready else "unknown",
            "store": settings.store.engine,
            "encryption": "encrypted" if runtime.vault.encrypts else "plaintext",
            "last_event": 0 if runtime.events is None else runtime.events.last,
            "off": settings.off,
            "panels": {name: panel._asdict() async for name, panel in self._panels()},
        }

    async def _panels(self) -> AsyncIterator[tuple[str, Panel]]:
        for part in self._runtime.parts:
            try:
                panel = await part.panel()
            except Exception:
                log.exception("the panel of the part %s failed", part.name)
                continue
            if panel is not None:
                yield part.name, panel

    async def _readiness(self) -> Readiness:
        runtime = self._runtime
        if runtime.stopping.is_set():
            return Readiness(False, "stopping")
        if runtime.claim is not None and not runtime.claim.is_in_place():
            return Readiness(False, "the data folder was moved or removed")
        try:
            await runtime.store.end(log_of(runtime.chain))
        except ComityError:
            return Readiness(False, "the store does not answer; run `comity doctor`")
        failure = runtime.store.failure
        if failure is None:
            return Readiness(True)
        full = isinstance(failure, StoreFullError)
        what = "the disk is full; free some space" if full else "the store cannot be written to"
        return Readiness(False, f"{what}; the log of this node says more")


def _flags_of(data: Path) -> str:
    """Return the flags that a command needs to find this node."""
    usual = default_data_folder(os.environ, Path.home, sys.platform)
    return "" if data == usual else f" --data {shlex.quote(str(data))}"
