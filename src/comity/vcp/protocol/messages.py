"""The three messages of the handshake, and how strictly each is read (vcp 1.2 to 1.4).

- A message is one JSON object. Unknown members are ignored; a known member of the wrong kind or beyond its bounds makes
  the message invalid.
- A hello is read as the server meets it: entries that are no extension ids stay in it, in the client's order, and are
  removed by `negotiate`; a repeated name counts once, or is refused in strict mode. Only the size of a hello limits
  their number (ruling 43).
- An ack is read against the hello it answers. One that breaks an invariant is refused as a whole.
- What we send is always within the bounds: only valid Structs reach `encode`.
"""

import re
from collections.abc import Collection
from typing import Any, Final, Literal, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType

from comity.vcp.protocol import agreement
from comity.wire import strict_json
from comity.wire.errors import ComityError, InvalidError, MalformedError

# The five extensions of VCP 3.1.


PERSONAL: Final = "VCP-X-Personal"
RELATIONAL: Final = "VCP-X-Relational"
CONSENSUS: Final = "VCP-X-Consensus"
TORCH: Final = "VCP-X-Torch"
INTENT: Final = "VCP-X-Intent"

STATE_BEARING: Final = frozenset((PERSONAL, RELATIONAL, TORCH))

MAX_INTENSITY: Final = 5
MAX_LINEAGE_DEPTH: Final = 1000


ErrorCode = Literal[
    "VERSION_UNSUPPORTED",
    "IDENTITY_REQUIRED",
    "IDENTITY_INVALID",
    "EXTENSION_CONFLICT",
    "RATE_LIMITED",
    "INTERNAL_ERROR",
]

ERROR_CODES: Final[tuple[str, ...]] = get_args(ErrorCode)
HANDSHAKE_LIMIT: Final = 65_536
MAX_EXTENSIONS: Final = 256
MAX_EXTENSION_LENGTH: Final = 128
MAX_IDENTITY_LENGTH: Final = 2048
MAX_ID_LENGTH: Final = 256
MAX_SESSION_ID_LENGTH: Final = 128
MAX_MESSAGE_LENGTH: Final = 1024

_EXTENSION_ID = re.compile(r"VCP-X-[A-Za-z][A-Za-z0-9-]*")
_HELLO_INSIDE = re.compile(rb'"type"\s*+:\s*+"vcp-hello"')
_READ_SLOWLY: Final = 4096
_NO_TEXT: Final = "(not a text)"

encode = msgspec.json.Encoder().encode


class Hello(Struct, frozen=True, kw_only=True, tag_field="type", tag="vcp-hello"):
    version: str
    min_version: str = "1.0"
    extensions: tuple[str, ...] = ()
    identity: str | None = None
    client_id: str | UnsetType = UNSET


class Ack(Struct, frozen=True, kw_only=True, tag_field="type", tag="vcp-ack"):
    version: str
    supported: tuple[str, ...]
    unsupported: tuple[str, ...]
    capabilities: dict[str, dict[str, Any]]
    core_features: dict[str, bool]
    server_id: str | UnsetType = UNSET
    session_id: str | UnsetType = UNSET


class VcpError(Struct, frozen=True, kw_only=True, tag_field="type", tag="vcp-error"):
    """`retry_after` is null where waiting does not help."""

    code: str
    message: str
    supported_versions: tuple[str, ...] | UnsetType = UNSET
    retry_after: int | None = None


class HandshakeError(ComityError):
    """A hello that cannot be accepted; `vcp_code` is the code for the peer."""

    code = "handshake"

    def __init__(self, vcp_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.vcp_code = vcp_code


def to_value(message: Hello | Ack | VcpError) -> dict[str, Any]:
    """Return the message as JSON values, for a door that carries it inside another message."""
    value: dict[str, Any] = msgspec.to_builtins(message)
    return value


def is_extension_id(name: str) -> bool:
    return len(name) <= MAX_EXTENSION_LENGTH and _EXTENSION_ID.fullmatch(name) is not None


def is_hello(value: Any) -> bool:
    return type(value) is dict and value.get("type") == "vcp-hello"


def is_meant_as_hello(data: bytes) -> bool:
    """Return whether bytes that strict reading refuses are an invalid hello.

    Repeated keys, too deep nesting and half surrogate pairs are still JSON; anything else is no hello. The last two are
    slow to read, so of a long message only the outside is checked.
    """
    try:
        return is_hello(strict_json.loads(data))
    except MalformedError:
        pass
    if len(data) > _READ_SLOWLY:
        text = data.strip()
        return text.startswith(b"{") and text.endswith(b"}") and _HELLO_INSIDE.search(text) is not None
    try:
        return is_hello(strict_json.loads(data, depth=_READ_SLOWLY, lone_surrogates=True))
    except MalformedError:
        return False


def read_hello(value: Any, *, strict: bool = False) -> Hello:
    """Read a hello. Raises HandshakeError with the code for the client."""
    if not is_hello(value):
        raise HandshakeError("INTERNAL_ERROR", 'a hello is one JSON object with the type "vcp-hello"')
    version = value.get("version")
    if type(version) is not str:
        raise HandshakeError("VERSION_UNSUPPORTED", 'version must be a text such as "3.1"')
    lowest = value.get("min_version")
    if lowest is None:
        lowest = "1.0"
    elif type(lowest) is not str:
        raise HandshakeError("VERSION_UNSUPPORTED", 'min_version must be a text such as "1.0"')
    identity = value.get("identity")
    if identity is not None and (type(identity) is not str or len(identity) > MAX_IDENTITY_LENGTH):
        raise HandshakeError(
            "IDENTITY_INVALID",
            f"identity must be a VCP/I token of at most {MAX_IDENTITY_LENGTH} characters, or null",
        )
    client_id = value.get("client_id", UNSET)
    if client_id is not UNSET and not _is_text(client_id, MAX_ID_LENGTH):
        raise HandshakeError("INTERNAL_ERROR", f"client_id must be a text of 1 to {MAX_ID_LENGTH} characters")
    return Hello(
        version=version,
        min_version=lowest,
        extensions=_requested(value.get("extensions", ()), strict=strict),
        identity=identity,
        client_id=client_id,
    )


def read_ack(value: Any, requested: Collection[str]) -> Ack:
    """Read the answer to a hello that asked for `requested`. Raises InvalidError. A missing `unsupported` is inferred; missing
    features are false (vcp 1.7).
    """
    version = _member(value, "version", lambda it: type(it) is str, 'a text such as "3.1"')
    try:
        agreement.parse(version)
    except MalformedError as fault:
        raise InvalidError(f"the ack's version is malformed: {fault.message}") from None
    supported = _member(value, "supported", _are_ids, "a list of different extension ids")
    if value.get("unsupported") is None:
        unsupported = [name for name in requested if name not in supported]
    else:
        unsupported = _member(value, "unsupported", _are_ids, "a list of different extension ids")
    capabilities = _member(value, "capabilities", _are_objects, "an object of objects")
    flags = {}
    if value.get("core_features") is not None:
        flags = _member(value, "core_features", _are_flags, "an object of booleans")
        flags = {name: flag for name, flag in flags.items() if type(flag) is bool}
    both = set(supported).intersection(unsupported)
    if both:
        raise InvalidError(f"the ack lists {min(both)} as supported and as unsupported")
    if set(supported).union(unsupported) != set(requested):
        raise InvalidError("the ack's supported and unsupported are not the extensions that were requested")
    unexpected = set(capabilities).difference(supported)
    if unexpected:
        raise InvalidError(
            f"the ack describes {min(unexpected)[:MAX_EXTENSION_LENGTH]}, which it does not support"
        )
    if (
        TORCH in supported
        and RELATIONAL not in supported
        and capabilities.get(TORCH, {}).get("degraded") is False
    ):
        raise InvalidError(
            f"the ack says that {TORCH} is not degraded although {RELATIONAL} is not supported"
        )
    return Ack(
        version=version,
        supported=tuple(supported),
        unsupported=tuple(unsupported),
        capabilities=capabilities,
        core_features=agreement.configured(flags),
        server_id=_label(value, "server_id", MAX_ID_LENGTH),
        session_id=_label(value, "session_id", MAX_SESSION_ID_LENGTH),
    )


def read_error(value: Any) -> VcpError:
    """Read an error. Unknown codes are kept."""
    code = _member(value, "code", lambda it: _is_text(it, MAX_EXTENSION_LENGTH), "a short text")
    text = _member(value, "message", lambda it: type(it) is str and it, "a text")[:MAX_MESSAGE_LENGTH]
    supported: tuple[str, ...] | UnsetType = UNSET
    if value.get("supported_versions") is not None:
        supported = tuple(
            _member(value, "supported_versions", _are_versions, "a list of versions such as 3.1")
        )
    wait = value.get("retry_after")
    if wait is not None and (type(wait) is not int or wait < 0):
        raise InvalidError("the error's retry_after must be a whole number of seconds, or null")
    return VcpError(code=code, message=text, supported_versions=supported, retry_after=wait)


def _requested(entries: Any, *, strict: bool) -> tuple[str, ...]:
    if entries == ():
        return ()
    if type(entries) is not list:
        raise HandshakeError("INTERNAL_ERROR", "extensions must be a list of extension ids")
    names = dict.fromkeys(entry if type(entry) is str else _NO_TEXT for entry in entries)
    if strict and (len(names) != len(entries) or _NO_TEXT in names):
        raise HandshakeError("INTERNAL_ERROR", "extensions must list texts, and each only once")
    return tuple(names)


def _member(value: Any, name: str, fits: Any, kind: str) -> Any:
    member = value.get(name)
    if not fits(member):
        raise InvalidError(f"the answer's {name} must be {kind}")
    return member


def _label(value: dict[str, Any], name: str, max_length: int) -> str | UnsetType:
    label = value.get(name)
    if label is None:
        return UNSET
    if not _is_text(label, max_length):
        raise InvalidError(f"the ack's {name} must be a text of 1 to {max_length} characters")
    return str(label)


def _is_text(value: Any, max_length: int) -> bool:
    return type(value) is str and 0 < len(value) <= max_length


def _are_ids(value: Any) -> bool:
    return (
        type(value) is list
        and len(value) <= MAX_EXTENSIONS
        and all(type(name) is str and is_extension_id(name) for name in value)
        and len(set(value)) == len(value)
    )


def _are_objects(value: Any) -> bool:
    return type(value) is dict and all(type(inner) is dict for inner in value.values())


def _are_flags(value: Any) -> bool:
    """Unknown features may have any value."""
    return type(value) is dict and all(
        type(flag) is bool for name, flag in value.items() if name in agreement.CORE_FEATURES
    )


def _are_versions(value: Any) -> bool:
    return type(value) is list and all(_is_text(version, MAX_EXTENSION_LENGTH) for version in value)
