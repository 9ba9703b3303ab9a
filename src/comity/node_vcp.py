"""The VCP side of a node: the session service, and the rooms behind its MCP tools."""

from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack

from comity.clients.crl import CRL_LIMIT, CRL_TIMEOUT, CrlFetcher
from comity.clients.guarded_http import GuardedHttp
from comity.clients.vcp_revocations import OwnRevocations
from comity.config import Settings, VcpSettings
from comity.core.clock import Clock
from comity.core.identity.issuers import Issuer, IssuerRegistry, SignatureKey
from comity.core.identity.keys import VacantId
from comity.core.identity.verification import IdentityMode
from comity.core.negotiation.policy import ServerPolicy
from comity.core.negotiation.registry import ExtensionRegistry
from comity.core.revocation.reading import CrlSource
from comity.core.revocation.signature import PublicKey
from comity.pipeline.budget import Budget
from comity.pipeline.vcp.contexts import Contexts
from comity.pipeline.vcp.desk import VcpDesk
from comity.pipeline.vcp.features import RunningFeatures
from comity.pipeline.vcp.mcp import VcpRooms
from comity.pipeline.vcp.resources import VcpResources
from comity.pipeline.vcp.service import VcpServer
from comity.release import __version__
from comity.store.protocol import Store
from comity.store.vault import Vault


def vcp_side(
    store: Store,
    clock: Clock,
    settings: Settings,
    *,
    identity: VacantId,
    vault: Callable[[], Vault],
    budget: Budget,
    count_refusal: Callable[[str, str], None],
    hung_up: Callable[[], None],
    uptime: Callable[[], float],
    opened: AsyncExitStack,
) -> tuple[VcpServer, VcpRooms]:
    """`vault` is asked each time, for its key may be taken away."""
    vcp = settings.vcp
    features = RunningFeatures(clock, vault=vault)
    opened.push_async_callback(features.aclose)
    lists = CrlFetcher(
        GuardedHttp(timeout=CRL_TIMEOUT, answer_limit=CRL_LIMIT, allow=settings.dispatch.allowed_hosts),
        clock,
        https_only=settings.production,
    )
    opened.push_async_callback(lists.aclose)
    desk = VcpDesk(
        clock,
        mode=IdentityMode(vcp.identity_mode),
        issuers=IssuerRegistry(_issuers(vcp, identity)),
        lists=lists,
        denylist=OwnRevocations(settings.data, identity).denylist,
    )
    policy = ServerPolicy(
        core_features=features.running(),
        registry=ExtensionRegistry(),
        identity=vcp.identity_policy,
        environment=settings.environment,
        server_id=vcp.server_id or identity.hex(),
        hello_seconds=vcp.hello_seconds,
        idle_seconds=vcp.idle_seconds,
    )
    contexts = Contexts(store, clock, ttl=vcp.session_ttl_seconds)
    service = VcpServer(
        store,
        clock,
        policy=policy,
        features=features,
        desk=desk,
        contexts=contexts,
        vault=vault,
        budget=budget,
        count_refusal=count_refusal,
        hung_up=hung_up,
        audit_level=settings.audit.level,
    )
    resources = VcpResources(
        policy=policy,
        features=features,
        sessions=service.sessions,
        contexts=contexts,
        vault=vault,
        desk=desk,
    )
    return service, VcpRooms(desk, resources, __version__, uptime)


def _issuers(settings: VcpSettings, identity: VacantId) -> Iterator[Issuer]:
    """Those that the settings name, and this node itself."""
    keys = dict(issuer.split("=", 1) for issuer in settings.issuers)
    crls = dict(crl.split("=", 1) for crl in settings.crls)
    for name, key in keys.items():
        public = bytes.fromhex(key)
        source = None
        if name in crls:
            source = CrlSource(issuer_id=name, uri=crls[name], key=PublicKey(public))
        yield Issuer(name=name, signature_keys=(SignatureKey(public),), crl=source)
    yield Issuer(name=identity.hex(), signature_keys=(SignatureKey(identity.public),))
