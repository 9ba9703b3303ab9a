"""The four core tools of VCP, which every client has (vcp 7.1).

- A malformed token or code is a normal result: `valid` is false, and `error` begins with the label of the protocol. A
  context that cannot be encoded is an error.
- A token is verified by the same code as in a handshake. A value token needs no proof to be valid. The reason why an
  identity token is refused goes to the log; its proof is never shown.
- `vcp_status` shows what a session was promised; without a hello that is VCP 1.0 and no feature (vcp 1.8).
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from comity.identity.protocol.revocation import RevocationStatus
from comity.identity.protocol.tokens import SignedToken, StampedToken, TokenKind, log_prefix, parse_identity
from comity.identity.protocol.uvc import UvcToken, UvcTokenError, UvcUri, parse_uri
from comity.vcp.contexts import UnreadableContextError
from comity.vcp.identity import Decided, IdentityChecker
from comity.vcp.protocol.agreement import CORE_FEATURES, V1_0, Session
from comity.vcp.protocol.context_wire import PERSONAL_SYMBOLS, encode, read_context
from comity.vcp.protocol.csm1 import Csm1Code, Csm1Error
from comity.vcp.protocol.csm1 import parse_csm1 as read_csm1
from comity.vcp.protocol.signals import ContextError
from comity.wire.errors import ComityError, ForbiddenError, MalformedError, UnauthenticatedError

# Errors of the tools: a sentence, and a remedy as the last line (vcp 7.4).


REAUTHENTICATE: Final = "Re-authenticate with a valid VCP/I token"
SCAN_FAILED: Final = "Constitution content failed safety scan"
UNREADABLE: Final = "Context decryption failed. Session may be corrupted"


class VcpToolAnswer(Struct, frozen=True, kw_only=True):
    """The answer of a tool. `text` is for a person or a model; None: the structured content as JSON."""

    structured: dict[str, Any]
    text: str | None = None
    is_error: bool = False


class InactiveExtensionError(ForbiddenError):
    """The request needs an extension that is not active in this session."""

    code = "extension_inactive"

    def __init__(self, extension: str) -> None:
        super().__init__(
            f"Extension {extension} is not active. Re-initialize with the extension in your VCP-Hello"
        )
        self.extension = extension


class RevokedError(ForbiddenError):
    """The requested object was revoked."""

    code = "revoked"

    def __init__(self, reason: str) -> None:
        super().__init__(f"Bundle has been revoked: {reason}")


class RevocationUnknownError(ForbiddenError):
    """The status of the requested object is unknown, so the request is refused."""

    code = "revocation_unknown"

    def __init__(self) -> None:
        super().__init__(
            "Bundle may have been revoked: the revocation list of its issuer was not available; try again later"
        )


def refused(error: ComityError) -> VcpToolAnswer:
    """Return the error as the answer of a tool."""
    fields: dict[str, Any] = {"error": _lines(error), "code": error.code}
    if isinstance(error, ContextError):
        fields |= {"code": error.wire_code.lower(), "field": error.field}
    return VcpToolAnswer(structured=fields, text=fields["error"], is_error=True)


def _lines(error: ComityError) -> str:
    if isinstance(error, UnreadableContextError):
        return UNREADABLE
    if isinstance(error, UnauthenticatedError):
        return f"{error.message}\n{REAUTHENTICATE}"
    if isinstance(error, ContextError) and error.wire_code == "CONSTITUTION_REFUSED":
        return f"{error.message}\n{SCAN_FAILED}"
    return error.message


SERVER: Final = "comity"

_NO_FEATURES: Final = dict.fromkeys(CORE_FEATURES, False)


async def validate_token(
    token: Any, checker: IdentityChecker, decided: Decided = lambda _verdict, _status: None
) -> VcpToolAnswer:
    """`decided` is called with each decision about revocation, for the record."""
    try:
        read = _read_token(token)
    except ComityError as fault:
        label = fault.label if isinstance(fault, UvcTokenError) else fault.code
        return _invalid(f"{label}: {fault.message}", kind=None)
    revoked: list[RevocationStatus] = []

    def note(verdict: Any, status: RevocationStatus) -> None:
        decided(verdict, status)
        if status.refuses:
            revoked.append(status)

    verification = "none"
    chain: list[dict[str, str]] = []
    try:
        identity = await checker.check(str(read), note)
        verification = "verified" if identity.verified else "structural"
        if identity.verified and not isinstance(read, UvcToken):
            chain = _trust_chain(read)
    except UnauthenticatedError as refusal:
        if revoked or not isinstance(read, UvcToken):
            return _invalid(f"identity_invalid: {refusal.message}", kind=_kind(read))
    fields = _uvc(read) if isinstance(read, UvcToken) else _signed(read)
    return VcpToolAnswer(structured={**fields, "verification": verification, "trust_chain": chain})


def parse_csm1(code: Any) -> VcpToolAnswer:
    try:
        return VcpToolAnswer(structured={"valid": True, **describe(read_csm1(code))})
    except Csm1Error as fault:
        error = f"{fault.label}: {fault.message}"
        return VcpToolAnswer(structured={"valid": False, "error": error, "label": fault.label.value})


def describe(code: Csm1Code) -> dict[str, Any]:
    """Return all that a code says, in letters and in words."""
    persona, scopes = code.character, code.places
    fields: dict[str, Any] = {
        "persona": persona.name.upper(),
        "persona_name": persona.name,
        "persona_code": persona.code,
        "persona_description": persona.focus,
        "adherence": code.adherence,
        "adherence_level": code.adherence,
        "adherence_name": code.adherence_name,
        "scopes": [scope.name for scope in scopes],
        "scope_codes": [scope.code for scope in scopes],
        "scope_descriptions": [scope.description for scope in scopes],
        "namespace": code.namespace,
        "version": code.version,
        "tier": code.tier.value,
        "encoded": str(code),
        "canonical": code.canonical(),
        "warnings": [f"{persona.name} is not meant for {scope.name.lower()}" for scope in code.unsuitable],
    }
    return fields if code.token is None else {**fields, "token": str(code.token)}


def encode_context(arguments: Mapping[str, Any]) -> VcpToolAnswer:
    """Encode `dimensions` and `personal`, or the dimensions one by one beside them. The more particular place counts:
    `personal` before `dimensions`, both before a dimension of its own.
    """
    try:
        given = {name: value for name, value in arguments.items() if name not in _OBJECTS}
        given |= _object(arguments, "dimensions")
        personal = {name: given.pop(name) for name in PERSONAL_SYMBOLS if name in given}
        context = read_context(given, personal | _signals(_object(arguments, "personal")))
    except ContextError as fault:
        return refused(fault)
    return VcpToolAnswer(
        structured={
            "wire_format": encode(context),
            "json_format": context.json_format,
            "dimensions_set": list(context.dimensions),
            "conformance_level": context.conformance_level,
            "categorical_wire": context.categorical().wire,
            "metadata": context.metadata,
        }
    )


def status(
    *, server_version: str, uptime: float, session: Session | None, ended: str | None = None
) -> VcpToolAnswer:
    """`session` is None if the client sent no hello, was refused, or the session has `ended`."""
    negotiated = session is not None and session.mode == "negotiated"
    identity = None if session is None else session.identity
    return VcpToolAnswer(
        structured={
            "server": SERVER,
            "server_version": server_version,
            "negotiated": negotiated,
            "negotiated_version": str(V1_0) if session is None else session.version,
            "session_id": None if session is None else session.id,
            "active_extensions": [] if session is None else list(session.extensions),
            "core_features": _NO_FEATURES
            | (session.core_features if session is not None and negotiated else {}),
            "identity": "anonymous"
            if identity is None
            else ("verified" if identity.verified else "structural"),
            "session_ended": ended,
            "uptime_seconds": round(max(0.0, uptime), 3),
        }
    )


_OBJECTS: Final = ("dimensions", "personal")


def _object(arguments: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = arguments.get(name)
    if value is None:
        return {}
    if type(value) is not dict:
        raise ContextError("INVALID", f"{name} must be an object of dimensions", name)
    return value


def _signals(personal: dict[str, Any]) -> dict[str, Any]:
    """Return the dimensions, without the `signals` of the first document around them."""
    return _object(personal, "signals") if personal.keys() == {"signals"} else personal


def _read_token(token: Any) -> UvcToken | SignedToken | StampedToken:
    if type(token) is not str:
        raise MalformedError("token must be a text")
    return parse_uri(token).token if "://" in token else parse_identity(token)


def _kind(token: UvcToken | SignedToken | StampedToken) -> TokenKind:
    if isinstance(token, UvcToken):
        return TokenKind.UVC
    return TokenKind.SIGNED_A if isinstance(token, SignedToken) else TokenKind.SIGNED_B


def _invalid(error: str, *, kind: TokenKind | None) -> VcpToolAnswer:
    return VcpToolAnswer(
        structured={
            "valid": False,
            "error": f"{error}\n{REAUTHENTICATE}",
            "kind": None if kind is None else kind.value,
            "verification": "refused",
            "trust_chain": [],
        }
    )


def _uvc(token: UvcToken) -> dict[str, Any]:
    return {
        "valid": True,
        "kind": TokenKind.UVC.value,
        "canonical": token.dotted,
        "full": str(token),
        "domain": token.domain,
        "approach": token.approach,
        "role": token.role,
        "segments": list(token.segments),
        "depth": token.depth,
        "version": None if token.version is None else str(token.version),
        "namespace": token.namespace,
        "uri": str(UvcUri(UvcToken(token.segments, token.version))),
    }


def _signed(token: SignedToken | StampedToken) -> dict[str, Any]:
    """Describe an identity token, which has no parts of a value token. Its proof is not shown."""
    return {
        "valid": True,
        "kind": _kind(token).value,
        "canonical": token.signed_text,
        "full": None,
        "domain": None,
        "approach": None,
        "role": None,
        "segments": [],
        "depth": 0,
        "version": None,
        "namespace": None,
        "uri": f"vcp://identity/{log_prefix(str(token))}",
        "issuer": token.issuer,
        "subject": token.subject,
    }


def _trust_chain(token: SignedToken | StampedToken) -> list[dict[str, str]]:
    """Return the trusted issuer, then the subject that it vouches for."""
    proof = "ed25519" if isinstance(token, SignedToken) else "hmac-sha256"
    return [
        {"role": "issuer", "id": token.issuer, "trust": "configured"},
        {"role": "subject", "id": token.subject, "trust": proof},
    ]
