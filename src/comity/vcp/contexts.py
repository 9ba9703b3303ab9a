"""The context of sessions, stored encrypted: `vcp:session:{id}:context` and `vcp:session:{id}:history` (vcp 5.1).

- Only the context of a session with an owner is stored, for `ttl` seconds after the last exchange, so that the owner may
  resume. The context of an anonymous session stays in memory and is never stored (vcp 1.7).
- The encrypted value contains its owner. Every other caller is refused. A session without an owner cannot be resumed.
- A value that cannot be decrypted is not treated as missing: the session gets the error that it may be corrupted.
- The history keeps the last exchanges without the constitution text, which is large and is in the context.
- A write names the versions that were read. If two exchanges of one session run at the same time, the second one gets a
  conflict and is applied to the result of the first.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from comity.store.interface import Operation, Put, Store, Versioned
from comity.store.vault import Vault, stored_json
from comity.vcp.protocol.agreement import Identity, Session
from comity.vcp.protocol.context import ContextRequest, GenerationPreferences, SessionContext
from comity.vcp.protocol.signals import Categorical, Signal
from comity.wire.errors import ForbiddenError, NotFoundError
from comity.wire.machine import Clock

SPACE: Final = "vcp:session"
TTL_SECONDS: Final = 900.0
MAX_REMEMBERED: Final = 32

_MAX_KNOWN: Final = 1024
_MAX_KNOWN_BYTES: Final = 65_536
_Value = TypeVar("_Value")


class UnreadableContextError(ForbiddenError):
    """The value was encrypted under another key, or altered."""

    code = "context_unreadable"


class KeptContext(Struct, frozen=True, kw_only=True):
    owner: str
    context: SessionContext


class ContextExchange(Struct, frozen=True, kw_only=True):
    """One exchange in the history."""

    at: float
    accepted: tuple[str, ...]
    categorical: Categorical | None
    preferences: GenerationPreferences | None
    signals: dict[str, Signal | None]


class History(Struct, frozen=True, kw_only=True):
    owner: str
    exchanges: tuple[ContextExchange, ...] = ()


class SessionMemory(Struct, frozen=True, kw_only=True):
    """What was read of a session: the context, the last exchanges, and their stored versions."""

    context: SessionContext = SessionContext()
    exchanges: tuple[ContextExchange, ...] = ()
    context_version: int = 0
    history_version: int = 0


class SealedValues:
    """Encrypts and decrypts stored values. Recent ones are cached by their encrypted bytes, which never repeat, so a session in
    use decrypts nothing twice.

    A cached value belongs to its vault: without the key it is not used.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[Vault, bytes, Any]] = OrderedDict()

    def seal(self, key: str, value: Any, vault: Vault) -> bytes:
        sealed = vault.seal(_encode(value))
        self._remember(key, sealed, vault, value)
        return sealed

    def open(self, key: str, sealed: bytes, vault: Vault, decode: Callable[[bytes], _Value]) -> _Value:
        """Decrypt and decode a value. Raises UnreadableContextError."""
        known = self._known.get(key)
        if known is not None and known[0] is vault and known[1] == sealed:
            self._known.move_to_end(key)
            remembered: _Value = known[2]
            return remembered
        data = vault.open(sealed)
        if data is None:
            raise unreadable()
        value = decode(data)
        self._remember(key, sealed, vault, value)
        return value

    def _remember(self, key: str, sealed: bytes, vault: Vault, value: Any) -> None:
        if len(sealed) > _MAX_KNOWN_BYTES:
            self._known.pop(key, None)
            return
        self._known[key] = vault, sealed, value
        self._known.move_to_end(key)
        if len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)


class Contexts:
    def __init__(self, store: Store, clock: Clock, *, ttl: float = TTL_SECONDS) -> None:
        self._store = store
        self._clock = clock
        self._ttl = ttl
        self._values = SealedValues()
        self._anonymous: dict[str, SessionContext] = {}

    async def known(self, session: Session, vault: Vault) -> SessionContext:
        """Return the context of the session."""
        if owner_of(session) is None:
            return self._anonymous.get(session.id, SessionContext())
        kept = await self._kept(session.id, vault)
        return SessionContext() if kept is None else kept.context

    async def used(self, session: Session, vault: Vault) -> tuple[SessionContext, tuple[Operation, ...]]:
        """Return the context of the session, and the write that renews its time."""
        if owner_of(session) is None:
            return self._anonymous.get(session.id, SessionContext()), ()
        key, now = context_key(session.id), self._clock.now()
        held = await self._store.get(SPACE, key)
        if held is None:
            return SessionContext(), ()
        context = self._open_context(session.id, held, vault).context
        if held.expires_at is None or held.expires_at - now >= self._ttl / 2:
            return context, ()
        again = Put(space=SPACE, key=key, value=held.value, expect=held.version, expires_at=now + self._ttl)
        return context, (again,)

    async def read(
        self, session: Session, vault: Vault, held: Mapping[str, Versioned] | None = None
    ) -> SessionMemory:
        """Read the context of the session to change it. `held` are its stored values if they were read already."""
        if owner_of(session) is None:
            return SessionMemory(context=await self.known(session, vault))
        if held is None:
            held = dict(await self._store.scan(SPACE, prefix=f"vcp:session:{session.id}:"))
        context, history = held.get(context_key(session.id)), held.get(history_key(session.id))
        return SessionMemory(
            context=SessionContext()
            if context is None
            else self._open_context(session.id, context, vault).context,
            exchanges=() if history is None else self._open_history(session.id, history, vault).exchanges,
            context_version=0 if context is None else context.version,
            history_version=0 if history is None else history.version,
        )

    def keeping(
        self,
        session: Session,
        request: ContextRequest,
        before: SessionMemory,
        context: SessionContext,
        vault: Vault,
    ) -> tuple[Operation, ...]:
        """Return the writes that store `context`; they conflict if something was stored since `before` was read. The context of an
        anonymous session is held at once.
        """
        owner = owner_of(session)
        if owner is None:
            self._anonymous[session.id] = context
            return ()
        now = self._clock.now()
        exchange = ContextExchange(
            at=now,
            accepted=request.accepted,
            categorical=request.categorical,
            preferences=request.preferences,
            signals=request.signals,
        )
        history = History(owner=owner, exchanges=(*before.exchanges, exchange)[-MAX_REMEMBERED:])
        kept = KeptContext(owner=owner, context=context)
        return tuple(
            Put(
                space=SPACE,
                key=key,
                value=self._values.seal(key, value, vault),
                expect=version,
                expires_at=now + self._ttl,
            )
            for key, value, version in (
                (context_key(session.id), kept, before.context_version),
                (history_key(session.id), history, before.history_version),
            )
        )

    async def resume(self, session_id: str, identity: Identity | None, vault: Vault) -> SessionContext:
        """Return the context of an earlier session, for its owner only."""
        kept = await self._kept(session_id, vault)
        if kept is None:
            raise NotFoundError("there is no such session, or its context has expired; begin a new one")
        if identity is None or identity.owner is None or identity.owner != kept.owner:
            raise ForbiddenError("this session belongs to another owner; start your own session")
        return kept.context

    async def history(
        self, session_id: str, identity: Identity | None, vault: Vault
    ) -> tuple[ContextExchange, ...]:
        await self.resume(session_id, identity, vault)
        held = await self._store.get(SPACE, history_key(session_id))
        return () if held is None else self._open_history(session_id, held, vault).exchanges

    def forget_anonymous(self, session_id: str) -> None:
        self._anonymous.pop(session_id, None)

    async def _kept(self, session_id: str, vault: Vault) -> KeptContext | None:
        held = await self._store.get(SPACE, context_key(session_id))
        return None if held is None else self._open_context(session_id, held, vault)

    def _open_context(self, session_id: str, held: Versioned, vault: Vault) -> KeptContext:
        return self._values.open(context_key(session_id), held.value, vault, _read_kept)

    def _open_history(self, session_id: str, held: Versioned, vault: Vault) -> History:
        return self._values.open(history_key(session_id), held.value, vault, _read_history)


def context_key(session_id: str) -> str:
    return f"vcp:session:{session_id}:context"


def history_key(session_id: str) -> str:
    return f"vcp:session:{session_id}:history"


def owner_of(session: Session) -> str | None:
    return None if session.identity is None else session.identity.owner


_encode = msgspec.json.Encoder().encode


def unreadable() -> UnreadableContextError:
    return UnreadableContextError("Context decryption failed. Session may be corrupted; begin a new one")


_read_kept = stored_json(KeptContext, unreadable)
_read_history = stored_json(History, unreadable)
