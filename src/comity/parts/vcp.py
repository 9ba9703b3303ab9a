"""VCP: the session service, its doors (WebSocket, TCP), its tools and resources of MCP."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from comity.config import VcpSettings
from comity.parts.part import OpenHouse, Panel, Part

if TYPE_CHECKING:
    from comity.core.identity.issuers import Issuer
    from comity.core.identity.keys import VacantId
    from comity.core.mcp.catalog import Resources, Tool
    from comity.parts.house import House
    from comity.pipeline.vcp.mcp import VcpRooms


class Vcp(Part):
    name = "vcp"
    room = "vcp"

    @classmethod
    def tools(cls, house: OpenHouse) -> "Iterable[Tool]":
        from comity.pipeline.vcp.mcp import vcp_tools

        return vcp_tools(lambda: cls._rooms(house))

    @classmethod
    def resources(cls, house: OpenHouse) -> "Iterable[Resources]":
        from comity.pipeline.vcp.mcp import vcp_resources

        return vcp_resources(lambda: cls._rooms(house))

    @classmethod
    async def _rooms(cls, house: OpenHouse) -> "VcpRooms":
        return (await house()).find(cls).rooms

    async def open(self, house: "House") -> None:
        from comity.clients.crl import CRL_LIMIT, CRL_TIMEOUT, CrlFetcher
        from comity.clients.guarded_http import GuardedHttp
        from comity.clients.vcp_revocations import OwnRevocations
        from comity.core.identity.issuers import IssuerRegistry
        from comity.core.identity.verification import IdentityMode
        from comity.core.negotiation.policy import ServerPolicy
        from comity.core.negotiation.registry import ExtensionRegistry
        from comity.pipeline.vcp.contexts import Contexts
        from comity.pipeline.vcp.features import RunningFeatures
        from comity.pipeline.vcp.identity import IdentityDesk
        from comity.pipeline.vcp.mcp import VcpRooms
        from comity.pipeline.vcp.over_mcp import VcpOverMcp
        from comity.pipeline.vcp.resources import VcpResources
        from comity.pipeline.vcp.service import VcpServer
        from comity.release import __version__

        settings, vcp, clock = house.settings, house.settings.vcp, house.clock
        features = RunningFeatures(clock, vault=house.current_vault)
        house.stack.push_async_callback(features.aclose)
        lists = CrlFetcher(
            GuardedHttp(timeout=CRL_TIMEOUT, answer_limit=CRL_LIMIT, allow=settings.dispatch.allowed_hosts),
            clock,
            https_only=settings.production,
        )
        house.stack.push_async_callback(lists.aclose)
        desk = IdentityDesk(
            clock,
            mode=IdentityMode(vcp.identity_mode),
            issuers=IssuerRegistry(_issuers(vcp, house.vacant_id)),
            lists=lists,
            denylist=OwnRevocations(settings.data, house.vacant_id).denylist,
        )
        policy = ServerPolicy(
            core_features=features.running(),
            registry=ExtensionRegistry(),
            identity=vcp.identity_policy,
            environment=settings.environment,
            server_id=vcp.server_id or house.vacant_id.hex(),
            hello_seconds=vcp.hello_seconds,
            idle_seconds=vcp.idle_seconds,
        )
        contexts = Contexts(house.store, clock, ttl=vcp.session_ttl_seconds)
        self.service = VcpServer(
            house.record,
            clock,
            policy=policy,
            features=features,
            desk=desk,
            contexts=contexts,
            vault=house.current_vault,
            budget=house.budget,
        )
        resources = VcpResources(
            policy=policy,
            features=features,
            sessions=self.service.sessions,
            contexts=contexts,
            vault=house.current_vault,
            desk=desk,
        )
        self.rooms = VcpRooms(desk, resources, __version__, house.uptime)
        self.over_mcp = VcpOverMcp(self.service, clock)

    async def serve(self, house: "House") -> None:
        from comity.doors.http.server import bind, tls_context
        from comity.doors.vcp.tcp import TcpDoor
        from comity.doors.vcp.websocket import VCP_PATH, VcpOverWebSocket

        settings = house.settings
        self.sockets = {VCP_PATH: VcpOverWebSocket(self.service)}
        self.public = {VCP_PATH}
        if settings.vcp.tcp_port:
            listening = bind(settings.host, settings.vcp.tcp_port)
            tcp = TcpDoor(self.service, listening, tls_context(settings.tls.cert, settings.tls.key))
            house.stack.push_async_callback(tcp.stop)
            await tcp.start()

    async def panel(self) -> Panel:
        return Panel("VCP", [("open sessions", f"{len(self.service.sessions):,}")])


def _issuers(settings: VcpSettings, identity: "VacantId") -> "Iterator[Issuer]":
    """Those that the settings name, and this node itself."""
    from comity.core.identity.issuers import Issuer, SignatureKey
    from comity.core.revocation.reading import CrlSource
    from comity.core.revocation.signature import PublicKey

    keys = dict(issuer.split("=", 1) for issuer in settings.issuers)
    crls = dict(crl.split("=", 1) for crl in settings.crls)
    for name, key in keys.items():
        public = bytes.fromhex(key)
        source = None
        if name in crls:
            source = CrlSource(issuer_id=name, uri=crls[name], key=PublicKey(public))
        yield Issuer(name=name, signature_keys=(SignatureKey(public),), crl=source)
    yield Issuer(name=identity.hex(), signature_keys=(SignatureKey(identity.public),))
