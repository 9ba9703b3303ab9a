"""The host of the extensions of VCP 3.1, as the handshake, the sessions and the resources see it.

The part `extensions` brings one. Without it, sessions have a context and no extension of the contract.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from comity.requests.caller import Caller
from comity.store.interface import Operation
from comity.vcp.contexts import Contexts, SessionMemory
from comity.vcp.protocol.agreement import Identity, Session
from comity.vcp.protocol.context import ContextRequest, SessionContext
from comity.vcp.protocol.extension_calls import Audience
from comity.vcp.protocol.registry import Extension
from comity.vcp.protocol.signals import ModelSafeContext, Signal
from comity.vcp.sessions import LiveSessions


class OperationRequest(Struct, frozen=True, kw_only=True):
    op: str
    args: Any
    session: Session
    audience: Audience = "owner"


class AppliedExchange(Struct, frozen=True, kw_only=True):
    """The result of a context request. `request` names what was applied, and `kept` is stored; `before` is what the
    session knew and `context` what it knows now; `signals` are the effective ones, None if those of the context count.
    `operations` makes what has to be stored with it.
    """

    request: ContextRequest
    kept: ContextRequest
    before: SessionMemory
    context: SessionContext
    signals: Mapping[str, Signal] | None
    answers: Mapping[str, Any]
    operations: Callable[[], tuple[Operation, ...]]


class Owner(Struct, frozen=True, kw_only=True):
    """The reader of a resource. `session` is the one that asks, which needs no identity to read its own; `token_prefix`
    is the beginning of the id of the token that it came with (`signed_token.log_prefix`).
    """

    identity: Identity | None = None
    session: Session | None = None
    token_prefix: str | None = None

    @property
    def id(self) -> str | None:
        return None if self.identity is None else self.identity.owner


class FadingContent(Struct, frozen=True):
    """Content that stays as it is for so many seconds; None: until somebody changes it."""

    value: Any
    unchanged_for: float | None


class ResourceReader(Struct, frozen=True):
    """`read` returns the content of one resource, by its id, and raises NotFoundError or ForbiddenError. `ids` are those
    that this owner may read.
    """

    read: Callable[[str, Owner], Awaitable[Mapping[str, Any] | FadingContent]]
    ids: Callable[[Owner], Awaitable[Iterable[str]]]


class ExtensionHost(Protocol):
    contexts: Contexts

    def registrations(self) -> tuple[Extension, ...]:
        """Return the extensions that work here (ruling 16), for the registry of the handshake."""
        ...

    def readers(self, sessions: LiveSessions) -> Mapping[str, ResourceReader]:
        """Return the readers of their resources by host. `sessions` are those that are open."""
        ...

    def turn(self, session: Session) -> AbstractAsyncContextManager[None]:
        """Hold while a session's state is read, changed and written."""
        ...

    async def perform(self, request: OperationRequest, caller: Caller, door: str) -> Any:
        """Run one operation. Raises ExtensionError."""
        ...

    async def exchange(
        self, session: Session, request: ContextRequest, audience: Audience
    ) -> AppliedExchange:
        """Apply a context request to what is stored; nothing is stored yet. Raises ExtensionError."""
        ...

    def stored(self, session_id: str, operations: Sequence[Operation], versions: Sequence[int]) -> None:
        """Take note of what an exchange has stored."""
        ...

    async def model_safe_context(
        self, session: Session, context: SessionContext, *, active: bool
    ) -> ModelSafeContext: ...

    async def owner_of(self, session_id: str) -> str | None:
        """Return the owner of a stored session; None where nothing is stored of it."""
        ...

    def end(self, session_id: str) -> None:
        """Drop what is held in memory of a session that is over; what is stored of it stays for its time."""
        ...


@runtime_checkable
class HostsExtensions(Protocol):
    """The part that brings the host."""

    def extension_host(self) -> ExtensionHost: ...
