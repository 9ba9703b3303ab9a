"""Extensions, and the registry of those that a server has.

- An `Extension` is all that the program knows of one: its part in the handshake, its operations with their MCP tools, its
  resource, its state, and its part in a context request. An extension of others has the first only.
- A dependency is met if it is active in *this session*: requested by the client and supported by the server. Its flag is
  set last and replaces the value of the builder, so an outdated setting cannot give a wrong flag.
- A conflict holds in both directions, whichever of the two named it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from comity.vcp.protocol.agreement import CORE_FEATURES, MAX_OFFERED
from comity.vcp.protocol.extension_calls import ExtensionOperation
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
from comity.vcp.protocol.resource_addresses import StateScope, VcpAddress
from comity.wire.errors import ConfigError

_Value = TypeVar("_Value")


class Dependency(Struct, frozen=True):
    """`flag` is `when_active` while the extension `id` is active, and the opposite otherwise."""

    id: str
    flag: str
    when_active: bool


class StateSlot(Generic[_Value]):
    """One member of the stored state of a session or an owner. `empty` is its value before anything is stored."""

    def __init__(self, scope: StateScope, name: str, empty: _Value) -> None:
        self.scope = scope
        self.name = name
        self.empty = empty

    def of(self, state: Any) -> _Value:
        value: _Value = getattr(getattr(state, self.scope), self.name)
        return value

    def put(self, state: Any, value: _Value) -> Any:
        """Return the state with this value; the same object if nothing changes."""
        scope = getattr(state, self.scope)
        if getattr(scope, self.name) is value:
            return state
        return replace(state, **{self.scope: replace(scope, **{self.name: value})})


class Extension(Struct, frozen=True, kw_only=True):
    """`view` returns what an extension shows of its state, in answers to context requests and as its resource;
    `unchanged_for` for how many seconds that stays so (None: until it is changed). `reads` names the operation, and
    its argument for the id, that a resource without a view is read with. `apply` returns the state after a context
    request. What `apply` does not take is ignored, with `remedy` as the reason.
    """

    id: str
    capability: Callable[[], Mapping[str, Any]]
    dependencies: tuple[Dependency, ...] = ()
    conflicts: tuple[str, ...] = ()
    operations: tuple[ExtensionOperation, ...] = ()
    resource: VcpAddress | None = None
    reads: tuple[str, str] = ("", "")
    state: tuple[StateSlot[Any], ...] = ()
    view: Callable[[Any], Any] | None = None
    unchanged_for: Callable[[Any], float | None] = lambda _call: 0.0
    apply: Callable[[Any, Any, Callable[[str, str], None]], Any] | None = None
    remedy: str = ""

    def __post_init__(self) -> None:
        if not is_extension_id(self.id):
            raise ConfigError(
                f"an extension id is VCP-X- and a name of letters, digits and hyphens, at most "
                f"{MAX_EXTENSION_LENGTH} characters; {self.id[:MAX_EXTENSION_LENGTH]!r} is not"
            )
        if self.id in self.conflicts:
            raise ConfigError(f"{self.id} names itself as a conflict; remove it from its own list")


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
        """Return the first two that cannot be active together, in the order given."""
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
        """Return what each active extension advertises in a session in which exactly these are active."""
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


def _text(max_length: int) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": max_length}


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
