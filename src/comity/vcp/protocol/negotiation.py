"""The server's algorithm: from a hello to its one answer (vcp 1.5, steps 2 to 10).

The order is fixed by the specification: version, production, identity, extensions, conflicts, capabilities, core
features. `screen` comes before the identity check, for which a server has to wait, and `conclude` after it. Nothing
depends on anything but the arguments, nor on the order of the server's versions.
"""

from typing import Any, Literal, get_args

from msgspec import UNSET, Struct
from msgspec.structs import force_setattr

from comity.vcp.protocol import agreement
from comity.vcp.protocol.agreement import DEFAULT_VERSIONS, MAX_OFFERED, V3_1, Identity, Session, Version
from comity.vcp.protocol.context import ContextRequest
from comity.vcp.protocol.extension_calls import ExtensionCall
from comity.vcp.protocol.injection import Severity
from comity.vcp.protocol.messages import (
    HANDSHAKE_LIMIT,
    MAX_ID_LENGTH,
    STATE_BEARING,
    Ack,
    ErrorCode,
    HandshakeError,
    Hello,
    VcpError,
    is_extension_id,
)
from comity.vcp.protocol.registry import ExtensionRegistry
from comity.wire.errors import ComityError, ConfigError, ForbiddenError, MalformedError, UnauthenticatedError

# The settings of a server for negotiation. Settings that break the protocol are refused here.


IdentityPolicy = Literal["optional", "required", "verified"]

MIN_HELLO_SECONDS = 2.0
ANSWER_SECONDS = 5.0


class ServerPolicy(Struct, frozen=True, kw_only=True):
    """`core_features` are those that run now, from `agreement.configured`.

    `identity`: `optional` allows anonymous clients extensions with state, for the time of the session; `required` does not;
    `verified` also refuses tokens that no issuer vouches for. `strict` refuses a hello that names an extension twice.
    """

    core_features: dict[str, bool]
    registry: ExtensionRegistry
    versions: tuple[Version, ...] = DEFAULT_VERSIONS
    identity: IdentityPolicy = "optional"
    environment: str = "development"
    server_id: str | None = None
    strict: bool = False
    scan_threshold: Severity = "medium"
    hello_seconds: float = ANSWER_SECONDS
    identity_seconds: float = 4.5
    idle_seconds: float = 300.0
    message_limit: int = 1_048_576

    def __post_init__(self) -> None:
        force_setattr(self, "core_features", agreement.configured(self.core_features))
        _within(
            1 <= len(set(self.versions)) <= MAX_OFFERED, "versions", f"a list of 1 to {MAX_OFFERED} versions"
        )
        _within(self.identity in get_args(IdentityPolicy), "identity", "optional, required or verified")
        _within(self.scan_threshold in get_args(Severity), "scan_threshold", "medium, high or critical")
        _within(
            MIN_HELLO_SECONDS <= self.hello_seconds <= ANSWER_SECONDS,
            "hello_seconds",
            f"from {MIN_HELLO_SECONDS:g} to {ANSWER_SECONDS:g}",
        )
        _within(
            0 < self.identity_seconds < ANSWER_SECONDS,
            "identity_seconds",
            f"above 0 and below {ANSWER_SECONDS:g}",
        )
        _within(0 < self.idle_seconds < float("inf"), "idle_seconds", "above 0")
        _within(self.message_limit >= HANDSHAKE_LIMIT, "message_limit", f"{HANDSHAKE_LIMIT:,} or more")
        if self.server_id is not None:
            _within(0 < len(self.server_id) <= MAX_ID_LENGTH, "server_id", f"1 to {MAX_ID_LENGTH} characters")

    @property
    def production(self) -> bool:
        return agreement.is_production(self.environment)

    @property
    def lacks_encryption(self) -> bool:
        """Whether every hello must be refused (vcp 1.5, step 4)."""
        return not self.core_features["encryption"] and self.production


def _within(holds: Any, setting: str, allowed: str) -> None:
    if not holds:
        raise ConfigError(f"{setting} must be {allowed}")


INVALID_IDENTITY = VcpError(
    code="IDENTITY_INVALID",
    message="The VCP/I identity token was not accepted; send a hello with a valid one",
)

NO_ENCRYPTION = VcpError(
    code="INTERNAL_ERROR", message="This server refuses connections because it cannot encrypt what it stores"
)


def screen(hello: Hello, policy: ServerPolicy) -> Version | VcpError:
    """Return the version of the session, or an error if there is no common one or no encryption in production."""
    try:
        highest = agreement.parse(hello.version)
        lowest = agreement.parse(hello.min_version)
    except MalformedError as fault:
        return _version_unsupported(policy, f"The hello's versions are malformed: {fault.message}")
    if lowest > highest:
        return _version_unsupported(
            policy, f"min_version {lowest} is above version {highest}; send the lower one as min_version"
        )
    version = agreement.negotiated(lowest, highest, policy.versions)
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
    """`identity` is the result of checking the hello's token; None for a token that was not accepted."""
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
        core_features=agreement.claimed(policy.core_features, version, production=policy.production),
        server_id=UNSET if policy.server_id is None else policy.server_id,
        session_id=UNSET if session_id is None else session_id,
    )


def refusal(fault: HandshakeError, policy: ServerPolicy) -> VcpError:
    """Return the error for a hello that could not be read."""
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
    """Return the VCP 1.0 session of a client that sent no hello, whatever the server offers (vcp 1.8)."""
    return Session(
        id=session_id,
        version=str(agreement.V1_0),
        core_features=agreement.claimed(policy.core_features, agreement.V1_0, production=policy.production),
        mode="implicit",
    )


def _version_unsupported(policy: ServerPolicy, why: str) -> VcpError:
    supported = tuple(map(str, sorted(set(policy.versions))))
    return VcpError(
        code="VERSION_UNSUPPORTED",
        message=f"{why}; the server speaks VCP {supported[0]} to {supported[-1]}",
        supported_versions=supported,
    )


# The questions of the server's machine; each is the request inside an `Ask`.


Happening = Literal[
    "HANDSHAKE_ACK", "HANDSHAKE_ERROR", "SESSION_IMPLICIT", "SESSION_ENDED", "CONTEXT_REFUSED", "CALL_REFUSED"
]


class IdentityRefusedError(UnauthenticatedError):
    """A proven token that is refused. The message goes to its sender; `retry_after` is in seconds, if waiting may
    help.
    """

    def __init__(self, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class SessionEndedError(ForbiddenError):
    """The session cannot be served any more; the client gets the message and `vcp_code`."""

    code = "session_ended"

    def __init__(self, vcp_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.vcp_code: ErrorCode = vcp_code


class CheckIdentity(Struct, frozen=True):
    """Check a token. The answer is an Identity.

    None refuses it, and so does an error about the token itself (unauthenticated, forbidden, invalid, malformed). Any other
    error means that it could not be checked.
    """

    token: str


class ExchangeContext(Struct, frozen=True):
    """Apply a request and answer with a ContextResponse. A SessionEndedError also ends the session."""

    session: Session
    request: ContextRequest


class RunOperation(Struct, frozen=True):
    """Run an operation and answer with its result. A SessionEndedError also ends the session."""

    session: Session
    call: ExtensionCall


class WatchFeatures(Struct, frozen=True):
    """Answer with the core features that run, once they differ from these."""

    features: dict[str, bool]


class Happened(Struct, frozen=True, kw_only=True):
    """For the record; the answer is ignored.

    `code` is that of the error. `invalid_names` are entries of a hello's list that are no extension ids. `client_id` is the
    client's own name: for display, never for a decision (vcp 1.2).
    """

    what: Happening
    session: Session | None = None
    code: str | None = None
    reason: str | None = None
    invalid_names: tuple[str, ...] = ()
    client_id: str = ""
