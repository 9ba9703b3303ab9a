"""A modern request: everything needed to understand it stands in its own `_meta`."""

from typing import Any

from comity.core.caller import Caller
from comity.core.mcp.context import Asker
from comity.core.mcp.refusals import invalid_params, unsupported_version
from comity.core.mcp.results import Json
from comity.core.mcp.revisions import META_CAPABILITIES, META_CLIENT, META_VERSION, MODERN
from comity.core.wire.jsonrpc import Params


def meta_of(params: Params | None) -> Json:
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else {}


def is_modern(params: Params | None) -> bool:
    return META_VERSION in meta_of(params)


def asker_of(meta: Json, caller: Caller) -> Asker:
    """Raises McpError when the request does not say what it must."""
    version: Any = meta.get(META_VERSION)
    if not isinstance(version, str):
        raise invalid_params(f"_meta must name the revision under {META_VERSION}")
    if version not in MODERN:
        raise unsupported_version(version)
    declared, info = meta.get(META_CAPABILITIES), meta.get(META_CLIENT)
    if not isinstance(declared, dict):
        raise invalid_params(f"_meta must hold an object under {META_CAPABILITIES}; it may be empty")
    return Asker(
        version=version,
        modern=True,
        caller=caller,
        capabilities=declared,
        info=info if isinstance(info, dict) else {},
    )
