"""A legacy session: what `initialize` agreed on, and what the client has subscribed to since."""

import base64
import binascii
import functools
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from comity.mcp.protocol.catalog import Selection
from comity.mcp.protocol.context import LEVELS, Handshake, HandshakeResult, LogLevel, McpClient
from comity.mcp.protocol.methods import Server, capabilities
from comity.mcp.protocol.results import (
    UNSPOKEN,
    InputRequest,
    Json,
    chosen_legacy,
    invalid_params,
    missing_capability,
)
from comity.requests.caller import Caller
from comity.wire import strict_json
from comity.wire.canonical import envelope_form
from comity.wire.errors import MalformedError
from comity.wire.jsonrpc import RpcRequest

# The state that a client keeps for the server between two rounds of one request, so that the server stores nothing.


LIFETIME: Final = 600.0
KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12


class Sealer:
    def __init__(self, key: bytes, random_bytes: Callable[[int], bytes]) -> None:
        self._key = key
        self._random = random_bytes

    @functools.cached_property
    def _aead(self) -> Any:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - most clients never need it

        return AESGCM(self._key)

    def seal(self, state: Any, binding: bytes, now: float) -> str:
        nonce = self._random(_NONCE_BYTES)
        body = strict_json.dumps({"until": now + LIFETIME, "state": state})
        return base64.urlsafe_b64encode(nonce + self._aead.encrypt(nonce, body, binding)).decode()

    def open(self, sealed: object, binding: bytes, now: float) -> Any:
        """Return the state. Raise McpError unless it is one of ours, for this request, and not expired."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - most clients never need it

        try:
            data = base64.b64decode(sealed, altchars=b"-_", validate=True) if isinstance(sealed, str) else b""
            if (
                base64.urlsafe_b64encode(data).decode() != sealed
            ):  # another spelling of the same bytes is altered too
                data = b""
            body = self._aead.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], binding)
            value = strict_json.loads(body)
        except (InvalidTag, ValueError, binascii.Error, MalformedError):
            raise invalid_params("requestState is not one of ours for this request; begin again") from None
        if now > value["until"]:
            raise invalid_params("requestState has expired; begin again without it")
        return value["state"]


def binding(owner: str, method: str, params: dict[str, Any]) -> bytes:
    """Return what a state is bound to: the owner and the request, apart from what changes between rounds. The order of
    members does not count.
    """
    same = {k: v for k, v in params.items() if k not in ("_meta", "inputResponses", "requestState")}
    return sha256(envelope_form([owner, method, same])).digest()


MAX_SUBSCRIBED: Final = 1024
MAX_URI_LENGTH: Final = 256
MAX_INTRODUCTION: Final = 16_384
_CAPABILITY_OF: Final = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}


class Remembered(Struct, frozen=True, kw_only=True, rename={"client": "asker"}):
    """The part of a session that is stored so that another process can go on with it."""

    client: McpClient
    log_level: LogLevel = "info"
    subscribed: tuple[str, ...] = ()


class McpSession:
    """`state` is for handlers, and stays in this process."""

    def __init__(self, client: McpClient) -> None:
        self.client = client
        self.log_level: LogLevel = "info"
        self.subscribed: dict[str, None] = {}
        self.state: dict[str, Any] = {}

    @classmethod
    def recalled(cls, kept: Remembered, handshake: Handshake | None) -> "McpSession":
        """Return a stored session. Without a handshake that reads it, what was attached is dropped."""
        client, attached = kept.client, kept.client.attached
        if attached is not None and handshake is not None:
            client = replace(client, attached=handshake.recall(attached))
        elif attached is not None:
            client = replace(client, attached=None, active=frozenset(), token_prefix=None)
        session = cls(client)
        session.log_level = kept.log_level
        session.subscribed = dict.fromkeys(kept.subscribed)
        return session

    def remembered(self) -> Remembered:
        return Remembered(client=self.client, log_level=self.log_level, subscribed=tuple(self.subscribed))

    def apply_setting(self, request: RpcRequest) -> bool:
        """Apply the setting of a successful request. Return whether it had one."""
        params = request.params if isinstance(request.params, dict) else {}
        match request.method:
            case "logging/setLevel":
                self.log_level = params["level"]
            case "resources/subscribe":
                if len(params["uri"]) > MAX_URI_LENGTH:
                    raise invalid_params(f"the uri of a subscription has at most {MAX_URI_LENGTH} characters")
                if len(self.subscribed) >= MAX_SUBSCRIBED and params["uri"] not in self.subscribed:
                    raise invalid_params(f"a session holds at most {MAX_SUBSCRIBED} subscriptions")
                self.subscribed[params["uri"]] = None
            case "resources/unsubscribe":
                self.subscribed.pop(params["uri"], None)
            case _:
                return False
        return True

    def logs(self, level: LogLevel) -> bool:
        return LEVELS.index(level) >= LEVELS.index(self.log_level)


KEPT_METHODS: Final = frozenset({"logging/setLevel", "resources/subscribe", "resources/unsubscribe"})


def without_handshake(caller: Caller) -> McpClient:
    return McpClient(version=UNSPOKEN, modern=False, caller=caller)


def introduced(params: Json, caller: Caller, negotiated: HandshakeResult | None) -> McpClient:
    """Return the client that an `initialize` describes."""
    declared, info = params.get("capabilities"), params.get("clientInfo")
    client = McpClient(
        version=chosen_legacy(params.get("protocolVersion")),
        modern=False,
        caller=caller,
        capabilities=declared if isinstance(declared, dict) else {},
        info=info if isinstance(info, dict) else {},
    )
    return client if negotiated is None else negotiated.agreed(client)


def check_introduction(params: Json) -> None:
    """Refuse an `initialize` that is too large to be stored."""
    said = {name: params.get(name) for name in ("capabilities", "clientInfo")}
    if len(strict_json.dumps(said)) > MAX_INTRODUCTION:
        raise invalid_params(f"capabilities and clientInfo exceed {MAX_INTRODUCTION:,} bytes; send less")


def initialize_result(
    server: Server, selection: Selection, client: McpClient, negotiated: HandshakeResult | None
) -> bytes:
    """Return the result of `initialize`."""
    result: Json = {
        "protocolVersion": client.version,
        "capabilities": capabilities(server, client),
        "serverInfo": server.introduction(client),
    }
    if instructions := server.instructions_for(selection, client):
        result["instructions"] = instructions
    if negotiated is not None and server.handshake is not None:
        result = server.handshake.write_into_initialize(result, negotiated.reply)
    return strict_json.dumps(result)


def demand(client: McpClient, request: InputRequest) -> None:
    """Raise McpError for a question that the client did not declare it can answer."""
    needed: Json = {}
    capability = _CAPABILITY_OF.get(request.method)
    if capability is None:
        raise TypeError(f"a server cannot ask a client for {request.method}")
    if not client.can(capability):
        needed = {capability: {}}
    elif (
        capability == "elicitation"
        and request.params.get("mode") == "url"
        and not client.can(capability, "url")
    ):
        needed = {capability: {"url": {}}}
    elif capability == "sampling" and "tools" in request.params and not client.can(capability, "tools"):
        needed = {capability: {"tools": {}}}
    if needed:
        raise missing_capability(f"the client did not declare that it can answer {request.method}", needed)


def notification(method: str, params: Json | None = None) -> bytes:
    message: Json = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return strict_json.dumps(message)


def question(id_: str, request: InputRequest) -> bytes:
    message: Json = {"jsonrpc": "2.0", "id": id_, "method": request.method}
    if request.params or request.method != "roots/list":
        message["params"] = dict(request.params)
    return strict_json.dumps(message)
