"""The extension registry: which extensions a server has, what they advertise, which ones exclude each other.

- An extension is supported once its handler works; the five of VCP 3.1 are described here, ready to be
  registered by the features that implement them.
- A dependency is met if it is active in *this session*: requested by the client and supported by the server. Its flag is
  set last and replaces the value of the builder, so an outdated setting cannot give a wrong flag.
- A conflict holds in both directions, whichever of the two named it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from comity.vcp.protocol import messages as capabilities
from comity.vcp.protocol.agreement import CORE_FEATURES, MAX_OFFERED
from comity.vcp.protocol.messages import (
    ERROR_CODES,
    MAX_EXTENSION_LENGTH,
    MAX_EXTENSIONS,
    MAX_ID_LENGTH,
    MAX_IDENTITY_LENGTH,
    MAX_MESSAGE_LENGTH,
    MAX_SESSION_ID_LENGTH,
    is_extension_id,
)
from comity.wire.errors import ConfigError

CapabilityBuilder = Callable[[], Mapping[str, Any]]


class Dependency(Struct, frozen=True):
    """`flag` is `when_active` while the extension `id` is active, and the opposite otherwise."""

    id: str
    flag: str
    when_active: bool


DEPENDENCIES: Final[Mapping[str, tuple[Dependency, ...]]] = {
    capabilities.TORCH: (Dependency(capabilities.RELATIONAL, "degraded", when_active=False),),
    capabilities.INTENT: (Dependency(capabilities.PERSONAL, "personal_signals", when_active=True),),
}


class Extension(Struct, frozen=True, kw_only=True):
    id: str
    capability: CapabilityBuilder
    dependencies: tuple[Dependency, ...] = ()
    conflicts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not is_extension_id(self.id):
            raise ConfigError(
                f"an extension id is VCP-X- and a name of letters, digits and hyphens, at most "
                f"{MAX_EXTENSION_LENGTH} characters; {self.id[:MAX_EXTENSION_LENGTH]!r} is not"
            )
        if self.id in self.conflicts:
            raise ConfigError(f"{self.id} names itself as a conflict; remove it from its own list")


STANDARD_EXTENSIONS: Final[Mapping[str, Extension]] = {
    id_: Extension(id=id_, capability=build, dependencies=DEPENDENCIES.get(id_, ()))
    for id_, build in (
        (capabilities.PERSONAL, capabilities.personal),
        (capabilities.RELATIONAL, capabilities.relational),
        (capabilities.CONSENSUS, capabilities.consensus),
        (capabilities.TORCH, capabilities.torch),
        (capabilities.INTENT, capabilities.intent),
    )
}


class ExtensionRegistry:
    def __init__(self, extensions: Iterable[Extension] = ()) -> None:
        self._supported: dict[str, Extension] = {}
        self._conflicts: dict[str, set[str]] = {}
        for extension in extensions:
            if extension.id in self._supported:
                raise ConfigError(f"{extension.id} is registered twice; register it once")
            self._supported[extension.id] = extension
            for other in extension.conflicts:
                self._conflicts.setdefault(extension.id, set()).add(other)
                self._conflicts.setdefault(other, set()).add(extension.id)

    @property
    def supported(self) -> tuple[str, ...]:
        return tuple(self._supported)

    def supports(self, id_: str) -> bool:
        return id_ in self._supported

    def conflict(self, active: Iterable[str]) -> tuple[str, str] | None:
        """The first two that cannot be active together, in the order given."""
        if not self._conflicts:
            return None
        before: list[str] = []
        for id_ in active:
            rivals = self._conflicts.get(id_, ())
            for other in before:
                if other in rivals:
                    return other, id_
            before.append(id_)
        return None

    def capabilities(self, active: Iterable[str]) -> dict[str, dict[str, Any]]:
        """What each active extension advertises in a session in which exactly these are active."""
        active = tuple(active)
        objects = {}
        for id_ in active:
            extension = self._supported[id_]
            advertised = dict(extension.capability())
            for dependency in extension.dependencies:
                met = dependency.id in active
                advertised[dependency.flag] = met == dependency.when_active
            objects[id_] = advertised
        return objects


# The three messages of the handshake as JSON Schema (2020-12), for programs that speak VCP without us.


_NUMBER: Final = "(?:0|[1-9][0-9]{0,8})"
_VERSION: Final = {"$ref": "#/$defs/version"}
_EXTENSION: Final = {"$ref": "#/$defs/extension"}


def _text(longest: int) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": longest}


def _message(kind: str, required: tuple[str, ...], members: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["type", *required],
        "properties": {"type": {"const": kind}, **members},
    }


def _different(items: dict[str, Any], **bounds: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "uniqueItems": True, **bounds}


HANDSHAKE_SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "The handshake of VCP 3.1: hello, ack and error",
    "oneOf": [{"$ref": f"#/$defs/{kind}"} for kind in ("hello", "ack", "error")],
    "$defs": {
        "version": {"type": "string", "pattern": rf"^{_NUMBER}\.{_NUMBER}$"},
        "extension": {
            "type": "string",
            "pattern": "^VCP-X-[A-Za-z][A-Za-z0-9-]*$",
            "maxLength": MAX_EXTENSION_LENGTH,
        },
        "hello": _message(
            "vcp-hello",
            ("version",),
            {
                "version": _VERSION,
                "min_version": {**_VERSION, "default": "1.0"},
                "extensions": _different(_EXTENSION, maxItems=MAX_EXTENSIONS),
                "identity": {"type": ["string", "null"], "maxLength": MAX_IDENTITY_LENGTH},
                "client_id": _text(MAX_ID_LENGTH),
            },
        ),
        "ack": _message(
            "vcp-ack",
            ("version", "supported", "unsupported", "capabilities", "core_features"),
            {
                "version": _VERSION,
                "supported": _different(_EXTENSION),
                "unsupported": _different(_EXTENSION),
                "capabilities": {
                    "type": "object",
                    "propertyNames": _EXTENSION,
                    "additionalProperties": {"type": "object"},
                },
                "core_features": {
                    "type": "object",
                    "required": list(CORE_FEATURES),
                    "additionalProperties": {"type": "boolean"},
                },
                "server_id": _text(MAX_ID_LENGTH),
                "session_id": _text(MAX_SESSION_ID_LENGTH),
            },
        ),
        "error": {
            **_message(
                "vcp-error",
                ("code", "message", "retry_after"),
                {
                    "code": {"enum": list(ERROR_CODES)},
                    "message": _text(MAX_MESSAGE_LENGTH),
                    "supported_versions": _different(_VERSION, minItems=1, maxItems=MAX_OFFERED),
                    "retry_after": {"type": ["integer", "null"], "minimum": 0},
                },
            ),
            "if": {"properties": {"code": {"const": "VERSION_UNSUPPORTED"}}},
            "then": {"required": ["supported_versions"]},
        },
    },
}
