"""What a handler knows about its call, and what it can do meanwhile.

- `progress` and `log` cost nothing when the client did not ask for them.
- `ask` asks the client questions, in both eras. In the legacy era the handler waits for the answers. In the modern era the
  handler runs again from its start when the answers are there, so the code before an `ask` must be safe to repeat.
- `cancelled` says that the client no longer waits for the result. The task of an asynchronous handler is also cancelled.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Protocol, get_args

from msgspec import Struct, field
from msgspec.structs import replace

from comity.mcp.protocol.results import (
    META_CAPABILITIES,
    META_CLIENT,
    META_VERSION,
    MODERN,
    InputRequest,
    Json,
    invalid_params,
    unsupported_version,
)
from comity.requests.caller import UNKNOWN, Caller
from comity.wire.jsonrpc import Params

LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
LEVELS: tuple[LogLevel, ...] = get_args(LogLevel)
SEE_LOG: Final = "The hello could not be negotiated; the log of this node says why"


def member_at(value: Any, *path: str) -> Any:
    """Return the value at this path of members, or None."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


class McpClient(Struct, frozen=True, kw_only=True):
    """The client, as its session or, in the modern era, the request itself describes it.
    `attached` is what a hello agreed on, for the handlers that know its type; `active` are its extensions, and
    `token_prefix` the beginning of the id of the token that came with it. `vcp_ended` says why nothing is attached any
    more. Sessions are stored with this; `vcp` is the name there.
    """

    version: str
    modern: bool
    caller: Caller = UNKNOWN
    capabilities: Mapping[str, Any] = {}
    info: Mapping[str, Any] = {}
    active: frozenset[str] = frozenset()
    attached: Any = field(name="vcp", default=None)
    token_prefix: str | None = None
    vcp_ended: str | None = None

    @property
    def owner(self) -> str:
        """Return the owner of stored things."""
        return self.caller.owner

    def can(self, *path: str) -> bool:
        """Return whether the client declared a capability: `can("sampling")`, `can("elicitation", "url")`."""
        return member_at(self.capabilities, *path) is not None

    def has_extension(self, identifier: str) -> bool:
        return self.can("extensions", identifier)


class HandshakeResult(Struct, frozen=True, kw_only=True):
    """The outcome of a hello. `reply` is the answer as it is sent; the rest is what the client has from then on."""

    reply: Json
    active: frozenset[str] = frozenset()
    attached: Any = None
    token_prefix: str | None = None

    def agreed(self, client: McpClient) -> McpClient:
        """Return the client as it is from now on."""
        if self.attached is None:
            return client
        return replace(client, active=self.active, attached=self.attached, token_prefix=self.token_prefix)


class Handshake(Protocol):
    """A handshake that travels inside MCP messages: where its hello and the answer stand. A server
    registers it; without one, a hello gets no answer.
    """

    @property
    def extension(self) -> str:
        """Return the identifier under which the server announces it."""

    @property
    def settings(self) -> Json:
        """Return what is announced before a hello; may be empty."""

    def find(self, params: Mapping[str, Any], /) -> Any:
        """Find the hello in an `initialize`; None where there is none."""

    def find_differing(self, params: Mapping[str, Any], /) -> tuple[str, ...]:
        """Name the places of an `initialize` that hold something else than the hello that counts."""

    def find_in_request(self, meta: Mapping[str, Any], /) -> Any:
        """Find the hello in the `_meta` of a modern request; None where there is none."""

    def hello_for(self, extensions: tuple[str, ...], /) -> Json:
        """Make the hello of a connection that was opened with these extensions."""

    def write_into_initialize(self, result: Json, reply: Json, /) -> Json: ...

    def write_into_result(self, result: Json, reply: Json, /) -> Json:
        """Write the answer into the result of a modern request."""

    def refused(self, why: str, /) -> HandshakeResult:
        """Answer a hello that could not be checked; the request goes on without it."""

    def not_offered(self, why: str, /) -> HandshakeResult:
        """Answer a hello where its protocol is not spoken."""

    def recall(self, stored: Any, /) -> Any:
        """Read what was attached to a stored session; raises msgspec's errors."""


class CancelToken(Protocol):
    def is_set(self) -> bool: ...

    def on_set(self, callback: Callable[[], object]) -> None:
        """Call it when the call is cancelled; at once if it is already."""


class Context(Protocol):
    @property
    def client(self) -> McpClient: ...

    @property
    def connection(self) -> str:
        """Return what distinguishes the clients of one owner: the connection, the session, or what a modern request says."""

    @property
    def demands(self) -> Any:
        """Return what the connection was opened with, for the part that knows it; may be None."""

    @property
    def profile(self) -> str:
        """Return the profile of tools that the connection was opened with."""

    @property
    def folder(self) -> str | None:
        """Return where the client was started, if it is on this machine."""

    @property
    def meta(self) -> Mapping[str, Any]:
        """Return the request's own `_meta`."""

    @property
    def state(self) -> dict[str, Any]:
        """Return the state of the legacy session; in the modern era empty for each request."""

    @property
    def cancelled(self) -> CancelToken: ...

    @property
    def inputs(self) -> Mapping[str, Any]:
        """Return the answers of a repeated request by key, unchecked."""

    @property
    def input_state(self) -> Any:
        """Return the state of an earlier `InputRequired`; None at first."""

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None: ...

    def log(self, level: LogLevel, data: Any, logger: str | None = None) -> None: ...

    async def ask(self, requests: Mapping[str, InputRequest]) -> Mapping[str, Any]:
        """Return the client's answers by key. Raise McpError when the client did not declare that it can answer."""

    async def release_stream(self) -> None:
        """End the open HTTP response; the client comes back for the rest. Do nothing on other carriers."""


def meta_of(params: Params | None) -> Json:
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else {}


def is_modern(params: Params | None) -> bool:
    return META_VERSION in meta_of(params)


def client_of(meta: Json, caller: Caller) -> McpClient:
    """Return the client that the `_meta` of a modern request describes. Raise McpError if something is missing."""
    version: Any = meta.get(META_VERSION)
    if not isinstance(version, str):
        raise invalid_params(f"_meta must name the revision under {META_VERSION}")
    if version not in MODERN:
        raise unsupported_version(version)
    declared, info = meta.get(META_CAPABILITIES), meta.get(META_CLIENT)
    if not isinstance(declared, dict):
        raise invalid_params(f"_meta must hold an object under {META_CAPABILITIES}; it may be empty")
    return McpClient(
        version=version,
        modern=True,
        caller=caller,
        capabilities=declared,
        info=info if isinstance(info, dict) else {},
    )
