"""The three messages of the handshake as JSON Schema (2020-12), for programs that speak VCP without us.

It describes what a sender should send, and all that we send satisfies it. A reader is more lenient: it overlooks members
that it does not know, and a server sets odd entries of `extensions` aside.
"""

from typing import Any, Final

from comity.vcp.protocol.features import CORE_FEATURES
from comity.vcp.protocol.messages import (
    ERROR_CODES,
    LONGEST_EXTENSION,
    LONGEST_ID,
    LONGEST_IDENTITY,
    LONGEST_MESSAGE,
    LONGEST_SESSION_ID,
    MOST_EXTENSIONS,
)
from comity.vcp.protocol.versions import MOST_OFFERED

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
            "maxLength": LONGEST_EXTENSION,
        },
        "hello": _message(
            "vcp-hello",
            ("version",),
            {
                "version": _VERSION,
                "min_version": {**_VERSION, "default": "1.0"},
                "extensions": _different(_EXTENSION, maxItems=MOST_EXTENSIONS),
                "identity": {"type": ["string", "null"], "maxLength": LONGEST_IDENTITY},
                "client_id": _text(LONGEST_ID),
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
                "server_id": _text(LONGEST_ID),
                "session_id": _text(LONGEST_SESSION_ID),
            },
        ),
        "error": {
            **_message(
                "vcp-error",
                ("code", "message", "retry_after"),
                {
                    "code": {"enum": list(ERROR_CODES)},
                    "message": _text(LONGEST_MESSAGE),
                    "supported_versions": _different(_VERSION, minItems=1, maxItems=MOST_OFFERED),
                    "retry_after": {"type": ["integer", "null"], "minimum": 0},
                },
            ),
            "if": {"properties": {"code": {"const": "VERSION_UNSUPPORTED"}}},
            "then": {"required": ["supported_versions"]},
        },
    },
}
