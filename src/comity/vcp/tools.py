"""What the four core tools take and answer, as JSON Schema (vcp 7.1). Inputs are closed.

`vcp_encode_context` takes its dimensions in one object or one by one, so both ways stand in its schema. How long
a token or a code may be is left to its grammar, which has an answer for that.
"""

from collections.abc import Iterable
from typing import Any, Final

from comity.vcp.protocol.context_wire import MOST_VALUES
from comity.vcp.protocol.dimensions import PERSONAL_SYMBOLS, RELATIONSHIP, SITUATIONAL
from comity.vcp.protocol.features import CORE_FEATURES
from comity.vcp.protocol.signals import CATEGORIES, INTENSITIES, SOURCES

Schema = dict[str, Any]

_TEXT: Final[Schema] = {"type": "string"}
_MAYBE_TEXT: Final[Schema] = {"type": ["string", "null"]}
_YES_OR_NO: Final[Schema] = {"type": "boolean"}
_TEXTS: Final[Schema] = {"type": "array", "items": _TEXT}


def _closed(properties: Schema, *required: str) -> Schema:
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": list(required)} if required else schema


def _answer(properties: Schema, *required: str) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required)}


def _about(name: str) -> str:
    if name == RELATIONSHIP:
        return "tie:function, such as colleague:professional"
    return f"{', '.join(SITUATIONAL[name].values)}; or the symbols for them"


_SIGNAL: Final = _closed(
    {
        "category": _TEXT,
        "value": _TEXT,
        "intensity": {"type": "integer", "minimum": INTENSITIES.start, "maximum": INTENSITIES.stop - 1},
        "source": {"type": "string", "description": f"one of {', '.join(SOURCES)}"},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        "declared_at": _MAYBE_TEXT,
        "extended": _MAYBE_TEXT,
    }
)
_DEFINITIONS: Final[Schema] = {
    "signal": _SIGNAL,
    **{
        name: {
            "description": _about(name),
            "anyOf": [_TEXT, {"type": "array", "items": _TEXT, "maxItems": MOST_VALUES}, {"type": "null"}],
        }
        for name in SITUATIONAL
    },
    **{
        name: {
            "description": f"one of {', '.join(CATEGORIES[name])}, alone, with an intensity "
            f"({CATEGORIES[name][0]}:4) or as an object",
            "anyOf": [_TEXT, {"type": "null"}, {"$ref": "#/$defs/signal"}],
        }
        for name in PERSONAL_SYMBOLS
    },
}
"""Each dimension once: it can be given in several places."""


def _defined(names: Iterable[str]) -> Schema:
    return {name: {"$ref": f"#/$defs/{name}"} for name in names}


_SITUATION: Final = _defined(SITUATIONAL)
_PERSON: Final = _defined(PERSONAL_SYMBOLS)

VALIDATE_TOKEN_INPUT: Final = _closed(
    {
        "token": {
            "type": "string",
            "description": "a value token (family.safe.guide@1.2.0), its creed:// address, or an identity token",
        }
    },
    "token",
)
VALIDATE_TOKEN_OUTPUT: Final = _answer(
    {
        "valid": _YES_OR_NO,
        "error": _TEXT,
        "kind": {"enum": ["uvc", "signed_a", "signed_b", None]},
        "verification": {"enum": ["none", "structural", "verified", "refused"]},
        "trust_chain": {"type": "array", "items": {"type": "object"}},
        "canonical": _MAYBE_TEXT,
        "full": _MAYBE_TEXT,
        "domain": _MAYBE_TEXT,
        "approach": _MAYBE_TEXT,
        "role": _MAYBE_TEXT,
        "segments": _TEXTS,
        "depth": {"type": "integer"},
        "version": _MAYBE_TEXT,
        "namespace": _MAYBE_TEXT,
        "uri": _MAYBE_TEXT,
        "issuer": _TEXT,
        "subject": _TEXT,
    },
    "valid",
)
PARSE_CSM1_INPUT: Final = _closed(
    {
        "code": {
            "type": "string",
            "description": "a CSM-1 code: N5+E+F, N5+E+F:ELEM@1.2.0 or CS1|nanny|5|family.safe.guide|E,F. "
            "Personas are N, Z, G, A, M, D and C",
        }
    },
    "code",
)
PARSE_CSM1_OUTPUT: Final = _answer(
    {
        "valid": _YES_OR_NO,
        "error": _TEXT,
        "label": _TEXT,
        "persona": _TEXT,
        "persona_name": _TEXT,
        "persona_code": _TEXT,
        "persona_description": _TEXT,
        "adherence": {"type": "integer"},
        "adherence_level": {"type": "integer"},
        "adherence_name": _TEXT,
        "scopes": _TEXTS,
        "scope_codes": _TEXTS,
        "scope_descriptions": _TEXTS,
        "namespace": _MAYBE_TEXT,
        "version": _MAYBE_TEXT,
        "token": _TEXT,
        "tier": {"enum": ["NANO", "MICRO", "COMPACT"]},
        "encoded": _TEXT,
        "canonical": _TEXT,
        "warnings": _TEXTS,
    },
    "valid",
)
ENCODE_CONTEXT_INPUT: Final = {
    **_closed(
        {
            "dimensions": {
                **_closed({**_SITUATION, **_PERSON}),
                "description": "the situation, and the person unless that is in personal",
            },
            "personal": {
                **_closed({**_PERSON, "signals": {"$ref": "#/$defs/person"}}),
                "description": "how the person is",
            },
            **_SITUATION,
            **_PERSON,
        }
    ),
    "$defs": {**_DEFINITIONS, "person": _closed(_PERSON)},
}
ENCODE_CONTEXT_OUTPUT: Final = _answer(
    {
        "wire_format": _TEXT,
        "json_format": {"type": "object"},
        "dimensions_set": _TEXTS,
        "conformance_level": {"enum": ["VCP-Minimal", "VCP-Standard", "VCP-Extended"]},
        "categorical_wire": _TEXT,
        "metadata": {"type": "object", "additionalProperties": _YES_OR_NO},
    },
    *("wire_format", "json_format", "dimensions_set", "conformance_level", "categorical_wire", "metadata"),
)
STATUS_INPUT: Final = _closed({})
STATUS_OUTPUT: Final = _answer(
    {
        "server": _TEXT,
        "server_version": _TEXT,
        "negotiated": _YES_OR_NO,
        "negotiated_version": _TEXT,
        "session_id": _MAYBE_TEXT,
        "active_extensions": _TEXTS,
        "core_features": _answer(dict.fromkeys(CORE_FEATURES, _YES_OR_NO), *CORE_FEATURES),
        "identity": {"enum": ["anonymous", "structural", "verified"]},
        "session_ended": _MAYBE_TEXT,
        "uptime_seconds": {"type": "number", "minimum": 0},
    },
    *(
        "server",
        "server_version",
        "negotiated_version",
        "active_extensions",
        "core_features",
        "uptime_seconds",
    ),
)
