"""The part `vcp`: the session service, its doors (WebSocket, TCP), its MCP tools and resources."""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from comity.release import __version__
from comity.runtime.lazy import late
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
    from starlette import routing

    from comity.http import asgi
    from comity.http import server as http_server
    from comity.identity.protocol import tokens
    from comity.mcp.protocol.catalog import Resources, Tool
    from comity.requests import record
    from comity.runtime.node_runtime import NodeRuntime
    from comity.vcp import (
        contexts,
        doors,
        extension_host,
        identity,
        issuers,
        over_mcp,
        plugins,
        service,
        sessions,
    )
    from comity.vcp import resources as vcp_resources
    from comity.vcp import tools as mcp_tools
    from comity.vcp.protocol import agreement, negotiation, registry
else:
    record = late("comity.requests.record")
    agreement = late("comity.vcp.protocol.agreement")
    asgi = late("comity.http.asgi")
    contexts = late("comity.vcp.contexts")
    doors = late("comity.vcp.doors")
    extension_host = late("comity.vcp.extension_host")
    http_server = late("comity.http.server")
    identity = late("comity.vcp.identity")
    issuers = late("comity.vcp.issuers")
    negotiation = late("comity.vcp.protocol.negotiation")
    over_mcp = late("comity.vcp.over_mcp")
    plugins = late("comity.vcp.plugins")
    registry = late("comity.vcp.protocol.registry")
    vcp_resources = late("comity.vcp.resources")
    routing = late("starlette.routing")
    service = late("comity.vcp.service")
    sessions = late("comity.vcp.sessions")
    tokens = late("comity.identity.protocol.tokens")
    mcp_tools = late("comity.vcp.tools")


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
        return mcp_tools.vcp_tools(lambda: cls.opened_tools(runtime))

    @classmethod
    def resources(cls, runtime: OpenNode) -> "Iterable[Resources]":
        return mcp_tools.core_resources(lambda: cls.opened_tools(runtime))

    @classmethod
    def checks(cls, settings: Settings) -> Iterable[CheckResult]:
        names = settings.vcp.secret_issuers
        if not names:
            return []
        found = []
        for name in names:
            try:
                issuers.read_secrets(issuers.secret_file(settings.data, name))
            except KeyRefusedError as refusal:
                remedy = "put the secret there, or take the issuer out of vcp.secret_issuers"
                found.append(CheckResult("vcp issuers", "fail", refusal.message, remedy))
        return found or [CheckResult("vcp issuers", "ok", f"{len(names)} with a shared secret")]

    @classmethod
    async def opened_tools(cls, runtime: OpenNode) -> "mcp_tools.VcpTools":
        return (await runtime()).find(cls).services

    async def open(self, runtime: "NodeRuntime") -> None:
        settings, vcp, clock = runtime.settings, runtime.settings.vcp, runtime.clock
        hosting = [part for part in runtime.parts if isinstance(part, extension_host.HostsExtensions)]
        host = hosting[0].extension_host() if hosting else None
        known = (
            contexts.Contexts(runtime.store, clock, ttl=vcp.session_ttl_seconds)
            if host is None
            else host.contexts
        )
        features = sessions.RunningFeatures(clock, vault=runtime.current_vault)
        runtime.stack.push_async_callback(features.aclose)
        http = runtime.open_http(issuers.CRL_TIMEOUT, issuers.CRL_LIMIT)
        lists = issuers.CrlFetcher(
            http,
            clock,
            https_only=settings.production,
            refresh=vcp.revocation_refresh,
            stored=None
            if settings.store.engine == "memory"
            else issuers.StoredLists(settings.data / issuers.FETCHED_FOLDER),
        )
        runtime.stack.push_async_callback(lists.aclose)
        known_issuers = issuers.issuers_of(settings, runtime.vacant_id)
        await lists.restore(known_issuers.sources())
        own = issuers.OwnRevocations(settings.data, runtime.vacant_id)
        names = issuers.own_names(settings, runtime.vacant_id)
        await asyncio.to_thread(_open_lists, own, names, runtime)

        async def renew() -> None:
            writing = asyncio.ensure_future(asyncio.to_thread(own.renew, runtime.key, int(clock.now())))
            try:
                await asyncio.shield(writing)
            finally:  # a node that has stopped writes nothing to its folder
                await record.wait_uncancelled(writing)

        self._runtime, self._own_lists = runtime, own
        self.views = [View("vcp", "VCP sessions", self._view)]
        self.chores = [Chore(_RENEW_EVERY, renew)]
        checker = identity.IdentityChecker(
            clock,
            mode=tokens.IdentityMode(vcp.identity_mode),
            issuers=known_issuers,
            lists=lists,
            denylist=own.denylist,
        )

        async def this_runtime() -> "NodeRuntime":
            return runtime

        added = added_extensions(runtime.kinds, settings, this_runtime)
        registered = () if host is None else host.registrations()
        policy = negotiation.ServerPolicy(
            core_features=features.running(),
            registry=registry.ExtensionRegistry((*registered, *(each.registration() for each in added))),
            versions=agreement.offered(vcp.versions),
            identity=vcp.identity_policy,
            environment=settings.environment,
            server_id=vcp.server_id or f"comity/{__version__}",
            hello_seconds=vcp.hello_seconds,
            idle_seconds=vcp.idle_seconds,
        )
        self.served = policy.registry.supported
        self.service = service.VcpServer(
            runtime.record,
            clock,
            policy=policy,
            features=features,
            desk=checker,
            contexts=known,
            vault=runtime.current_vault,
            budget=runtime.budget,
            extensions=host,
            plugins=added,
        )
        readable = vcp_resources.VcpResources(
            policy=policy,
            features=features,
            sessions=self.service.sessions,
            contexts=known,
            vault=runtime.current_vault,
            checker=checker,
            extensions=host,
        )
        self.services = mcp_tools.VcpTools(checker, readable, __version__, runtime.uptime)
        self.over_mcp = over_mcp.VcpOverMcp(self.service, clock, own_id=runtime.vacant_id.hex())
        runtime.stack.push_async_callback(self.over_mcp.aclose)

    async def serve(self, runtime: "NodeRuntime") -> None:
        settings = runtime.settings

        async def revoked(scope: "asgi.Scope", _receive: "asgi.Receive") -> Any:
            issuer, now = scope["path_params"]["issuer"], int(runtime.clock.now())
            found = await asyncio.to_thread(self._own_lists.current, issuer, runtime.key, now)
            if found is None:
                raise NotFoundError("this node issues no tokens under this name, and has no list for it")
            return msgspec.to_builtins(found)

        self.sockets = {doors.VCP_PATH: doors.VcpOverWebSocket(self.service)}
        self.public = {doors.VCP_PATH}
        lists = asgi.Endpoint("GET", revoked, feature=self.tool_group, record=runtime.record)
        self.routes = [routing.Route(REVOCATIONS_PREFIX + "{issuer}", lists)]
        self.public_prefixes = (REVOCATIONS_PREFIX,)
        if settings.vcp.tcp_port:
            listening = http_server.bind(settings.host, settings.vcp.tcp_port)
            tls = http_server.tls_context(settings.tls.cert, settings.tls.key)
            tcp = doors.TcpDoor(self.service, listening, tls)
            runtime.stack.push_async_callback(tcp.stop)
            await tcp.start()

    async def _view(self, query: ViewQuery) -> ViewPage:
        rows = [
            (
                session.id[:12],
                session.version,
                session.mode,
                "proven" if session.identity is not None else "anonymous",
                ", ".join(name.removeprefix("VCP-X-") for name in session.extensions) or "none",
                ", ".join(name for name, runs in session.core_features.items() if runs) or "none",
            )
            for session in self.service.sessions
        ]
        shown, more = paged(rows, query)
        columns = ("session", "version", "mode", "identity", "extensions", "core features")
        empty = f"no session is open; open one: `comity hello {self._runtime.url}`"
        return ViewPage(tables=[Table(columns, shown, more=more, empty=empty)])

    async def panel(self) -> Panel:
        return Panel(
            "VCP",
            [
                ("open sessions", f"{len(self.service.sessions):,}"),
                ("last client", self.service.last_client or "no client yet"),
            ],
        )


def _open_lists(own: "issuers.OwnRevocations", names: Iterable[str], runtime: "NodeRuntime") -> None:
    """Create a revocation list for each name that this node issues under."""
    for name in (None, *names):
        own.open_list(name, runtime.key, int(runtime.clock.now()))


def added_extensions(
    kinds: Iterable[object], settings: Settings, runtime: OpenNode
) -> "list[plugins.VcpExtension]":
    """Return those of parts, of the settings and of installed packages, each id once."""
    bringing = [kind for kind in kinds if isinstance(kind, plugins.BringsExtensions)]
    added = [each for kind in bringing for each in kind.vcp_extensions(runtime)]
    added += plugins.named_extensions(settings.vcp.plugins)
    known = {each.id for each in added}
    return added + [each for each in plugins.announced_extensions() if each.id not in known]
