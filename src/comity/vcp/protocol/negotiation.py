"""The server's algorithm: from a hello that was read to the one answer it gets (vcp 1.5, steps 2 to 10).

The order is fixed by the specification: version, production, identity, extensions, conflicts, capabilities,
core features. `screen` is what comes before the identity check, `conclude` what comes after it: a server has to wait
for the check.

Nothing here depends on anything but its arguments, and the order of the server's versions means nothing.
"""

from msgspec import UNSET

from comity.vcp.protocol import features, versions
from comity.vcp.protocol.agreement import Identity, Session
from comity.vcp.protocol.capabilities import STATE_BEARING
from comity.vcp.protocol.messages import Ack, HandshakeError, Hello, VcpError, is_extension_id
from comity.vcp.protocol.policy import ServerPolicy
from comity.vcp.protocol.versions import V3_1, Version
from comity.wire.errors import ComityError, MalformedError

INVALID_IDENTITY = VcpError(
    code="IDENTITY_INVALID",
    message="The VCP/I identity token was not accepted; send a hello with a valid one",
)

NO_ENCRYPTION = VcpError(
    code="INTERNAL_ERROR",
    message="This server cannot encrypt what it stores and therefore serves nobody",
)


def screen(hello: Hello, policy: ServerPolicy) -> Version | VcpError:
    """The version of the session, or an error if there is no common one or the node may serve nobody."""
    try:
        highest = versions.parse(hello.version)
        lowest = versions.parse(hello.min_version)
    except MalformedError as fault:
        return _version_unsupported(policy, f"The hello's versions are malformed: {fault.message}")
    if lowest > highest:
        return _version_unsupported(
            policy, f"min_version {lowest} is above version {highest}; send the lower one as min_version"
        )
    version = versions.negotiated(lowest, highest, policy.versions)
    if version is None:
        wanted = str(highest) if lowest == highest else f"{lowest} to {highest}"
        return _version_unsupported(policy, f"No version in common: the client speaks VCP {wanted}")
    if policy.lacks_encryption:
        return NO_ENCRYPTION
    return version


def conclude(
    hello: Hello,
    version: Version,
    policy: ServerPolicy,
    identity: Identity | None,
    *,
    session_id: str | None = None,
) -> Ack | VcpError:
    """`identity` is what checking the hello's token gave; None for a token means that it was not accepted."""
    supports = policy.registry.supports
    requested = [name for name in hello.extensions if supports(name) or is_extension_id(name)]
    if hello.identity is not None:
        if identity is None or (policy.identity == "verified" and not identity.verified):
            return INVALID_IDENTITY
    elif policy.identity != "optional":
        for name in requested:
            if name in STATE_BEARING:
                return VcpError(
                    code="IDENTITY_REQUIRED", message=f"{name} requires a valid VCP/I identity token"
                )
    supported: tuple[str, ...] = ()
    unsupported = tuple(requested)
    if version >= V3_1:
        supported = tuple([name for name in requested if supports(name)])
        unsupported = tuple([name for name in requested if not supports(name)])
    rivals = policy.registry.conflict(supported)
    if rivals is not None:
        return VcpError(
            code="EXTENSION_CONFLICT",
            message=f"{rivals[0]} and {rivals[1]} exclude each other; ask for one of them",
        )
    try:
        capabilities = policy.registry.capabilities(supported)
    except ComityError:
        return VcpError(
            code="INTERNAL_ERROR", message="The server cannot describe its extensions now; try again later"
        )
    return Ack(
        version=str(version),
        supported=supported,
        unsupported=unsupported,
        capabilities=capabilities,
        core_features=features.claimed(policy.core_features, version, production=policy.production),
        server_id=UNSET if policy.server_id is None else policy.server_id,
        session_id=UNSET if session_id is None else session_id,
    )


def refusal(fault: HandshakeError, policy: ServerPolicy) -> VcpError:
    """What a client is told about a hello that could not even be read."""
    if fault.vcp_code == "VERSION_UNSUPPORTED":
        return _version_unsupported(policy, fault.message)
    return VcpError(code=fault.vcp_code, message=fault.message)


def session_from(ack: Ack, session_id: str, identity: Identity | None) -> Session:
    return Session(
        id=session_id,
        version=ack.version,
        extensions=ack.supported,
        capabilities=ack.capabilities,
        core_features=ack.core_features,
        identity=identity,
    )


def implicit_session(policy: ServerPolicy, session_id: str) -> Session:
    """VCP 1.0 for a client that said no hello, whatever versions the server offers (vcp 1.8)."""
    return Session(
        id=session_id,
        version=str(versions.V1_0),
        core_features=features.claimed(policy.core_features, versions.V1_0, production=policy.production),
        mode="implicit",
    )


def _version_unsupported(policy: ServerPolicy, why: str) -> VcpError:
    supported = tuple(map(str, sorted(set(policy.versions))))
    return VcpError(
        code="VERSION_UNSUPPORTED",
        message=f"{why}; the server speaks VCP {supported[0]} to {supported[-1]}",
        supported_versions=supported,
    )
