"""VCP: the session service, its doors (WebSocket, TCP), its tools and resources of MCP."""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from comity.extensions.part import Extensions
from comity.release import __version__
from comity.runtime.part import (
    CheckResult,
    Chore,
    OpenNode,
    Panel,
    Part,
    Table,
    View,
    ViewPage,
    ViewQuery,
    paged,
)
from comity.runtime.settings import Settings
from comity.wire.errors import KeyRefusedError, NotFoundError

if TYPE_CHECKING:
    from comity.http.asgi import Receive, Scope
    from comity.mcp.protocol.catalog import Resources, Tool
    from comity.runtime.node_runtime import NodeRuntime
    from comity.vcp.issuers import OwnRevocations
    from comity.vcp.plugins import VcpExtension
    from comity.vcp.tools import VcpTools


REVOCATIONS_PREFIX: Final = "/v1/revocations/"

_RENEW_EVERY: Final = 3600.0


class Vcp(Part):
    name = "vcp"
    tool_group = "vcp"
    has_core_tools = True
    instructions = "vcp_* negotiate and encode context."
    open_paths = ("/vcp", "/v1/revocations")

    @classmethod
    def tools(cls, runtime: OpenNode) -> "Iterable[Tool]":
        from comity.vcp.tools import vcp_tools

        return vcp_tools(lambda: cls._services(runtime))

    @classmethod
    def resources(cls, runtime: OpenNode) -> "Iterable[Resources]":
        from comity.vcp.tools import vcp_resources

        return vcp_resources(lambda: cls._services(runtime), cls.tool_group)

    @classmethod
    def checks(cls, settings: Settings) -> Iterable[CheckResult]:
        names = settings.vcp.secret_issuers
        if not names:
            return []
        from comity.vcp.issuers import read_secrets, secret_file

        found = []
        for name in names:
            try:
                read_secrets(secret_file(settings.data, name))
            except KeyRefusedError as refusal:
                remedy = "put the secret there, or take the issuer out of vcp.secret_issuers"
                found.append(CheckResult("vcp issuers", "fail", refusal.message, remedy))
        return found or [CheckResult("vcp issuers", "ok", f"{len(names)} with a shared secret")]

    @classmethod
    async def _services(cls, runtime: OpenNode) -> "VcpTools":
        return (await runtime()).find(cls).services

    async def open(self, runtime: "NodeRuntime") -> None:
        from comity.identity.protocol.tokens import IdentityMode
        from comity.vcp.contexts import Contexts
        from comity.vcp.identity import IdentityChecker
        from comity.vcp.issuers import (
            CRL_LIMIT,
            CRL_TIMEOUT,
            CrlFetcher,
            OwnRevocations,
            issuers_of,
            own_names,
        )
        from comity.vcp.over_mcp import VcpOverMcp
        from comity.vcp.protocol.agreement import offered
        from comity.vcp.protocol.negotiation import ServerPolicy
        from comity.vcp.protocol.registry import ExtensionRegistry
        from comity.vcp.resources import VcpResources
        from comity.vcp.service import VcpServer
        from comity.vcp.sessions import RunningFeatures
        from comity.vcp.tools import VcpTools

        settings, vcp, clock = runtime.settings, runtime.settings.vcp, runtime.clock
        part = runtime.find_open(Extensions)
        extensions = None if part is None else part.service
        contexts = (
            Contexts(runtime.store, clock, ttl=vcp.session_ttl_seconds)
            if part is None
            else part.service.contexts
        )
        features = RunningFeatures(clock, vault=runtime.current_vault)
        runtime.stack.push_async_callback(features.aclose)
        http = runtime.open_http(CRL_TIMEOUT, CRL_LIMIT)
        lists = CrlFetcher(http, clock, https_only=settings.production)
        runtime.stack.push_async_callback(lists.aclose)
        own = OwnRevocations(settings.data, runtime.vacant_id)
        await asyncio.to_thread(_open_lists, own, own_names(settings, runtime.vacant_id), runtime)

        async def renew() -> None:
            await asyncio.to_thread(own.renew, runtime.key, int(clock.now()))

        self._runtime, self._own_lists = runtime, own
        self.views = [View("vcp", "VCP sessions", self._view)]
        self.chores = [Chore(_RENEW_EVERY, renew)]
        desk = IdentityChecker(
            clock,
            mode=IdentityMode(vcp.identity_mode),
            issuers=issuers_of(settings, runtime.vacant_id),
            lists=lists,
            denylist=own.denylist,
        )
        added = _added_extensions(runtime)
        policy = ServerPolicy(
            core_features=features.running(),
            registry=ExtensionRegistry(
                (
                    *(() if extensions is None else extensions.registrations()),
                    *(each.registration() for each in added),
                )
            ),
            versions=offered(vcp.versions),
            identity=vcp.identity_policy,
            environment=settings.environment,
            server_id=vcp.server_id or runtime.vacant_id.hex(),
            hello_seconds=vcp.hello_seconds,
            idle_seconds=vcp.idle_seconds,
        )
        self.service = VcpServer(
            runtime.record,
            clock,
            policy=policy,
            features=features,
            desk=desk,
            contexts=contexts,
            vault=runtime.current_vault,
            budget=runtime.budget,
            extensions=extensions,
            plugins=added,
        )
        resources = VcpResources(
            policy=policy,
            features=features,
            sessions=self.service.sessions,
            contexts=contexts,
            vault=runtime.current_vault,
            desk=desk,
            readers=None if part is None else part.readers(self.service.sessions),
            extensions=extensions,
        )
        self.services = VcpTools(desk, resources, __version__, runtime.uptime)
        self.over_mcp = VcpOverMcp(self.service, clock, own_id=runtime.vacant_id.hex())
        runtime.stack.push_async_callback(self.over_mcp.aclose)

    async def serve(self, runtime: "NodeRuntime") -> None:
        from starlette.routing import Route

        from comity.http.asgi import Endpoint
        from comity.http.server import bind, tls_context
        from comity.vcp.doors import VCP_PATH, TcpDoor, VcpOverWebSocket

        settings = runtime.settings

        async def revoked(scope: "Scope", _receive: "Receive") -> Any:
            issuer, now = scope["path_params"]["issuer"], int(runtime.clock.now())
            found = await asyncio.to_thread(self._own_lists.current, issuer, runtime.key, now)
            if found is None:
                raise NotFoundError("this node issues no tokens under this name, and has no list for it")
            return msgspec.to_builtins(found)

        self.sockets = {VCP_PATH: VcpOverWebSocket(self.service)}
        self.public = {VCP_PATH}
        lists = Endpoint("GET", revoked, feature=self.tool_group, record=runtime.record)
        self.routes = [Route(REVOCATIONS_PREFIX + "{issuer}", lists)]
        self.public_prefixes = (REVOCATIONS_PREFIX,)
        if settings.vcp.tcp_port:
            listening = bind(settings.host, settings.vcp.tcp_port)
            tcp = TcpDoor(self.service, listening, tls_context(settings.tls.cert, settings.tls.key))
            runtime.stack.push_async_callback(tcp.stop)
            await tcp.start()

    async def _view(self, query: ViewQuery) -> ViewPage:
        rows = [
            (
                session.id[:12],
                session.version,
                session.mode,
                "proven" if session.identity is not None else "not said",
                ", ".join(name.removeprefix("VCP-X-") for name in session.extensions) or "none",
                ", ".join(name for name, runs in session.core_features.items() if runs) or "none",
            )
            for session in self.service.sessions
        ]
        shown, more = paged(rows, query)
        columns = ("session", "version", "how", "identity", "extensions", "core features")
        empty = f"no session is open; open one: `comity hello {self._runtime.url}`"
        return ViewPage(tables=[Table(columns, shown, more=more, empty=empty)])

    async def panel(self) -> Panel:
        return Panel(
            "VCP",
            [
                ("open sessions", f"{len(self.service.sessions):,}"),
                ("last client", self.service.last_client or "none that gave a name"),
            ],
        )


def _open_lists(own: "OwnRevocations", names: Iterable[str], runtime: "NodeRuntime") -> None:
    """Each name that this node issues under has a list from the start."""
    for name in (None, *names):
        own.open_list(name, runtime.key, int(runtime.clock.now()))


def _added_extensions(runtime: "NodeRuntime") -> "list[VcpExtension]":
    """Those of parts, of the settings and of installed packages, each id once."""
    from comity.vcp.plugins import BringsExtensions, announced_extensions, named_extensions

    async def this_runtime() -> "NodeRuntime":
        return runtime

    kinds: tuple[object, ...] = runtime.kinds
    bringing = [kind for kind in kinds if isinstance(kind, BringsExtensions)]
    added = [each for kind in bringing for each in kind.vcp_extensions(this_runtime)]
    added += named_extensions(runtime.settings.vcp.plugins)
    known = {each.id for each in added}
    return added + [each for each in announced_extensions() if each.id not in known]
