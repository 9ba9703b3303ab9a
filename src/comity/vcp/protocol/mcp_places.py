"""The places of a VCP hello in an MCP message, and of its answer (mcp 2.3, ruling 30).

The two founding documents and the SDKs disagree on the place, and clients remove fields that they do not know. So every
place is read, the first hello that is found counts, and the answer is written to every place that the client can read.
A client that sends no hello gets nothing about VCP.
"""

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from msgspec import convert

from comity.mcp.protocol.context import HandshakeResult, member_at
from comity.mcp.protocol.results import META_CAPABILITIES, Json
from comity.vcp.protocol.agreement import DEFAULT_VERSIONS, Session, offered
from comity.vcp.protocol.messages import is_hello

EXTENSION: Final = "space.creed/vcp"
_META_HELLOS: Final = ("space.creed/vcp-hello", "space.creed.vcp/capabilities")
_META_IDENTITY: Final = "space.creed.vcp/identity"
META_CONTEXT: Final = "space.creed.vcp/context"
_META_ACKS: Final = ("space.creed/vcp-ack", "space.creed.vcp/ack")


def not_negotiated(why: str) -> HandshakeResult:
    """Return the result for a hello that could not be checked: the request continues without it (mcp 2.3)."""
    reply = {"type": "vcp-error", "code": "INTERNAL_ERROR", "message": why, "retry_after": None}
    return HandshakeResult(reply=reply)


def not_offered(why: str) -> HandshakeResult:
    """Return the result for a hello where VCP is not spoken. Retrying does not help, so it is no INTERNAL_ERROR. The request
    continues as VCP 1.0, and an error of this kind has to name a version (vcp 1.4).
    """
    error = {"code": "VERSION_UNSUPPORTED", "message": why, "supported_versions": ["1.0"]}
    return HandshakeResult(reply={"type": "vcp-error", **error, "retry_after": None})


def hello_in_initialize(params: Mapping[str, Any]) -> Any:
    """Return the hello; None if there is none."""
    found = _found_in(params)
    return next((hello for hello in found.values() if is_hello(hello)), next(iter(found.values()), None))


def differing_places(params: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the places of an `initialize` that differ from the hello that counts."""
    counts = hello_in_initialize(params)
    return tuple(place for place, hello in _found_in(params).items() if hello != counts)


def _found_in(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return what each place holds, the first place first."""
    found = {
        "initializationOptions.vcp": member_at(params, "initializationOptions", "vcp"),
        "vcp": params.get("vcp"),
        "capabilities.extensions": _declared(params.get("capabilities"), "extensions"),
        "capabilities.experimental": _declared(params.get("capabilities"), "experimental"),
        **{f"_meta.{key}": member_at(params, "_meta", key) for key in _META_HELLOS},
    }
    return {place: hello for place, hello in found.items() if hello is not None}


def hello_in_request(meta: Mapping[str, Any]) -> Any:
    """Return the hello of a modern request, or None. A token beside it counts if the hello has none."""
    hello = _declared(meta.get(META_CAPABILITIES), "extensions")
    if hello is None:
        for key in _META_HELLOS:
            hello = meta.get(key)
            if hello is not None:
                break
        else:
            return None
    identity = meta.get(_META_IDENTITY)
    if isinstance(hello, Mapping) and hello.get("identity") is None and identity is not None:
        return {**hello, "identity": identity}
    return hello


def hello_for_initialize(hello: Json) -> Json:
    """Return the members of `params` that carry a hello to any server, in all places of documents and SDKs."""
    return {
        "initializationOptions": {"vcp": hello},
        "vcp": hello,
        "capabilities": {"extensions": {EXTENSION: {"hello": hello}}},
        "_meta": dict.fromkeys(_META_HELLOS, hello),
    }


def answer_in_initialize(result: Mapping[str, Any]) -> Any:
    """Return the ack or error in the result of an `initialize`, from the first place that has one, or None."""
    found = (
        member_at(result, "serverInfo", "metadata", "vcp"),
        result.get("vcp"),
        member_at(result, "capabilities", "extensions", EXTENSION, "ack"),
        *(member_at(result, "_meta", key) for key in _META_ACKS),
    )
    return next((answer for answer in found if isinstance(answer, Mapping)), None)


def write_into_initialize(result: Json, reply: Json, settings: Json) -> Json:
    server, shown = result["serverInfo"], result["capabilities"]
    extensions = {**shown.get("extensions", {}), EXTENSION: {**settings, "ack": reply}}
    return {
        **result,
        "serverInfo": {**server, "metadata": {"vcp": reply}},
        "capabilities": {**shown, "extensions": extensions},
        "vcp": reply,
        "_meta": {**result.get("_meta", {}), **dict.fromkeys(_META_ACKS, reply)},
    }


def write_into_result(result: Json, reply: Json) -> Json:
    """Write the answer into the result of a modern request, which then belongs to this client only."""
    written = {**result, "_meta": {**result.get("_meta", {}), **dict.fromkeys(_META_ACKS, reply)}}
    shown = written.get("capabilities")
    if isinstance(shown, dict) and "extensions" in shown:
        extensions = shown["extensions"]
        own = {**extensions.get(EXTENSION, {}), "ack": reply}
        written["capabilities"] = {**shown, "extensions": {**extensions, EXTENSION: own}}
    if "cacheScope" in written:
        written["cacheScope"] = "private"
    return written


def _declared(capabilities: Any, kind: str) -> Any:
    value = member_at(capabilities, kind, EXTENSION)
    if value is None or not isinstance(value, Mapping):
        return None
    return value.get("hello", value if "type" in value else None)


class VcpHandshake:
    """The handshake of VCP for an MCP server that offers these versions; without versions VCP is not spoken. `extensions`
    gives the ids of those that it serves; it is called when a client is first shown them.
    """

    extension = EXTENSION
    find = staticmethod(hello_in_initialize)
    find_differing = staticmethod(differing_places)
    find_in_request = staticmethod(hello_in_request)
    write_into_result = staticmethod(write_into_result)
    refused = staticmethod(not_negotiated)
    not_offered = staticmethod(not_offered)

    def __init__(
        self, versions: Collection[str] = (), extensions: Callable[[], Iterable[str]] = tuple
    ) -> None:
        self._versions = [str(version) for version in offered(versions)] if versions else []
        self._extensions = extensions

    @functools.cached_property
    def settings(self) -> Json:
        return {"versions": self._versions, "extensions": [*self._extensions()]} if self._versions else {}

    def hello_for(self, extensions: tuple[str, ...]) -> Json:
        return {"type": "vcp-hello", "version": str(max(DEFAULT_VERSIONS)), "extensions": list(extensions)}

    def write_into_initialize(self, result: Json, reply: Json) -> Json:
        return write_into_initialize(result, reply, self.settings)

    def recall(self, stored: Any) -> Session | None:
        return convert(stored, Session | None)
