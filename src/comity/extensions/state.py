"""The stored state of the extensions, encrypted: per session, and per owner (rulings 48 and 54).

| what | key | how long |
|---|---|---|
| Personal and Intent of a session | `vcp:session:{id}:extensions` | `session_ttl` seconds after the last use |
| Relational and Torch of an owner | `vcp:owner:{SHA-256 of the owner's id}` | `owner_ttl` seconds after the last use |

- The owner is inside the encrypted value. A session of another owner is refused, even if its id is known.
- The state of a session without an owner stays in memory while its connection lasts, within limits.
- A write names the version it was made from. If another process wrote in between, the store refuses, and the operation
  is applied again to the new state.
- A value that cannot be decrypted is not treated as missing.
- Reading counts as use: a value with less than half of its time left is written again.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from comity.extensions.protocol.personal import PersonalRules, purge_expired
from comity.extensions.protocol.state import ExtensionState, OwnerExtensions, SessionExtensions
from comity.extensions.protocol.torch import owner_hash
from comity.store.interface import Delete, Operation, Put, Store, StoreConflict, Versioned, scan_all
from comity.store.vault import Vault, stored_json
from comity.vcp.contexts import SPACE as SESSION_SPACE
from comity.vcp.contexts import SealedValues, UnreadableContextError, context_key, history_key, unreadable
from comity.vcp.protocol.extension_calls import ExtensionError
from comity.wire.errors import ForbiddenError
from comity.wire.machine import Clock

OWNER_SPACE: Final = "vcp:owner"
SESSION_TTL: Final = 900.0
OWNER_TTL: Final = 90 * 86_400.0
MAX_ANONYMOUS_BYTES: Final = 256 * 1024
MAX_ALL_ANONYMOUS_BYTES: Final = 64 * 1024 * 1024

_MAX_RECENT: Final = 512
_MAX_RECENT_BYTES: Final = 65_536
_SUFFIX: Final = ":extensions"

_State = TypeVar("_State", SessionExtensions, OwnerExtensions)


class OwnedSession(Struct, frozen=True, kw_only=True):
    owner: str
    state: SessionExtensions


class OwnedRelation(Struct, frozen=True, kw_only=True):
    owner: str
    state: OwnerExtensions


class Kept(Struct, Generic[_State], frozen=True, kw_only=True):
    """A state as the store holds it. Version 0: nothing is stored, and the state is empty."""

    state: _State
    version: int = 0
    expires_at: float = 0.0


class LoadedState(Struct, frozen=True, kw_only=True):
    """The state before an operation, and what is needed to write the state after it."""

    session_id: str
    owner: str | None
    session: Kept[SessionExtensions]
    relation: Kept[OwnerExtensions]

    @property
    def state(self) -> ExtensionState:
        return ExtensionState(session=self.session.state, owner=self.relation.state)


class RecentValues:
    """The encrypted values of the last context exchange of a session, so that the next one need not read the store.

    It writes all of them again, each with the version known here. If another process wrote since, the store refuses, and
    they are read again.
    """

    def __init__(self) -> None:
        self._of_session: OrderedDict[str, dict[str, Versioned]] = OrderedDict()

    def take(self, session_id: str, now: float) -> Mapping[str, Versioned] | None:
        """Remove and return the cached state of a session; None if it must be read from the store."""
        held = self._of_session.pop(session_id, None)
        if held is None or any(one.expires_at is not None and one.expires_at <= now for one in held.values()):
            return None
        return held

    def wrote(self, session_id: str, operations: Sequence[Operation], versions: Sequence[int]) -> None:
        puts = [
            (put, version) for put, version in zip(operations, versions, strict=True) if isinstance(put, Put)
        ]
        if sum(len(put.value) for put, _ in puts) > _MAX_RECENT_BYTES:
            return
        self._of_session[session_id] = {
            put.key: Versioned(put.value, version, put.expires_at) for put, version in puts
        }
        if len(self._of_session) > _MAX_RECENT:
            self._of_session.popitem(last=False)

    def forget(self, session_id: str) -> None:
        self._of_session.pop(session_id, None)


class ExtensionStates:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        vault: Callable[[], Vault],
        session_ttl: float = SESSION_TTL,
        owner_ttl: float = OWNER_TTL,
    ) -> None:
        """`vault` is called each time, because its key may be removed."""
        self.recent = RecentValues()
        self._store = store
        self._clock = clock
        self._vault = vault
        self._session_ttl = session_ttl
        self._owner_ttl = owner_ttl
        self._anonymous: dict[str, ExtensionState] = {}
        self._anonymous_bytes: dict[str, int] = {}
        self._all_anonymous_bytes = 0
        self._values = SealedValues()

    async def held(self, session_id: str, owner: str | None) -> Mapping[str, Versioned]:
        """Return all stored values of a session and of its owner, by key."""
        if owner is None:
            return {}
        of_session, of_owner = await asyncio.gather(
            self._store.scan(SESSION_SPACE, prefix=f"vcp:session:{session_id}:"),
            self._store.get(OWNER_SPACE, owner_key(owner)),
        )
        return dict(of_session) | ({} if of_owner is None else {owner_key(owner): of_owner})

    async def load(
        self, session_id: str, owner: str | None, held: Mapping[str, Versioned] | None = None
    ) -> LoadedState:
        """Raises ForbiddenError for a session of another owner, also as UnreadableContextError. `held` are the stored values of
        the session and its owner if they were read already.
        """
        if owner is None:
            anonymous = self._anonymous.get(session_id)
            state = anonymous or ExtensionState()
            version = 0 if anonymous is None else 1
            return LoadedState(
                session_id=session_id,
                owner=None,
                session=Kept(state=state.session, version=version),
                relation=Kept(state=state.owner, version=version),
            )
        vault = self._vault()
        session: Kept[SessionExtensions] = Kept(state=SessionExtensions())
        relation: Kept[OwnerExtensions] = Kept(state=OwnerExtensions())
        key = session_key(session_id)
        held_session = await self._store.get(SESSION_SPACE, key) if held is None else held.get(key)
        if held_session is not None:
            owned = self._values.open(key, held_session.value, vault, _read_session)
            if owned.owner != owner:
                raise ForbiddenError("this session belongs to another owner; start your own session")
            session = _kept(owned.state, held_session)
        key = owner_key(owner)
        held_relation = await self._store.get(OWNER_SPACE, key) if held is None else held.get(key)
        if held_relation is not None:
            found = self._values.open(key, held_relation.value, vault, _read_relation)
            if found.owner != owner:
                raise unreadable()
            relation = _kept(found.state, held_relation)
        return LoadedState(session_id=session_id, owner=owner, session=session, relation=relation)

    def keeping(
        self, before: LoadedState, after: ExtensionState, *, whole: bool = False
    ) -> tuple[Operation, ...]:
        """Return the writes that make `after` the known state: the `whole` of it, or what has changed. The state of an anonymous
        session is held at once.
        """
        if before.owner is None:
            self._hold_anonymous(before.session_id, after)
            return ()
        vault, now, owner = self._vault(), self._clock.now(), before.owner
        operations: list[Operation] = []
        session, relation = before.session, before.relation

        def put(space: str, key: str, owned: OwnedSession | OwnedRelation, version: int, ttl: float) -> None:
            value = self._values.seal(key, owned, vault)
            operations.append(Put(space=space, key=key, value=value, expect=version, expires_at=now + ttl))

        if whole or after.session is not session.state or _is_due(session, now, self._session_ttl):
            owned = OwnedSession(owner=owner, state=after.session)
            put(SESSION_SPACE, session_key(before.session_id), owned, session.version, self._session_ttl)
        if whole or after.owner is not relation.state or _is_due(relation, now, self._owner_ttl):
            known = OwnedRelation(owner=owner, state=after.owner)
            put(OWNER_SPACE, owner_key(owner), known, relation.version, self._owner_ttl)
        return tuple(operations)

    def forget_anonymous(self, session_id: str) -> None:
        self._anonymous.pop(session_id, None)
        self._all_anonymous_bytes -= self._anonymous_bytes.pop(session_id, 0)

    async def forgetting(self, owner: str, session_id: str | None) -> tuple[Operation, ...]:
        """Return the writes that remove a session, or everything that an owner has here."""
        if session_id is not None:
            keys = [
                key for key in _keys_of(session_id) if await self._store.get(SESSION_SPACE, key) is not None
            ]
            return tuple(Delete(space=SESSION_SPACE, key=key) for key in keys)
        operations: list[Operation] = []
        if await self._store.get(OWNER_SPACE, owner_key(owner)) is not None:
            operations.append(Delete(space=OWNER_SPACE, key=owner_key(owner)))
        vault = self._vault()
        async for key, held in scan_all(self._store, SESSION_SPACE):
            if _owner_inside(vault.open(held.value)) == owner:
                operations.append(Delete(space=SESSION_SPACE, key=key))
        return tuple(operations)

    async def owner_of(self, session_id: str) -> str | None:
        """Return the owner of a stored session; None where nothing is stored of it."""
        vault = self._vault()
        for key in _keys_of(session_id):
            held = await self._store.get(SESSION_SPACE, key)
            if held is not None:
                owner = _owner_inside(vault.open(held.value))
                if owner is None:
                    raise unreadable()
                return owner
        return None

    async def purge(self, rules: PersonalRules) -> None:
        """Remove expired signals (vcp 6.1: within a day). A value that changes meanwhile is left for the next time."""
        now = self._clock.now()
        for session_id, state in tuple(self._anonymous.items()):
            kept = purge_expired(state.session.personal, rules, now)
            if kept is not state.session.personal:
                self._hold_anonymous(
                    session_id, replace(state, session=replace(state.session, personal=kept))
                )
        vault = self._vault()
        async for key, held in scan_all(self._store, SESSION_SPACE):
            if key.endswith(_SUFFIX):
                await self._purge_one(key, held, vault, rules)

    async def _purge_one(self, key: str, held: Versioned, vault: Vault, rules: PersonalRules) -> None:
        data = vault.open(held.value)
        if data is None:
            return
        owned = _read_session(data)
        kept = purge_expired(owned.state.personal, rules, self._clock.now())
        if kept is owned.state.personal:
            return
        value = vault.seal(_encode(replace(owned, state=replace(owned.state, personal=kept))))
        with contextlib.suppress(StoreConflict):
            await self._store.commit(
                Put(
                    space=SESSION_SPACE, key=key, value=value, expect=held.version, expires_at=held.expires_at
                )
            )

    def _hold_anonymous(self, session_id: str, state: ExtensionState) -> None:
        size = len(_encode(state.session)) + len(_encode(state.owner))
        before = self._anonymous_bytes.get(session_id, 0)
        in_all = self._all_anonymous_bytes - before + size
        if size > before and (size > MAX_ANONYMOUS_BYTES or in_all > MAX_ALL_ANONYMOUS_BYTES):
            raise ExtensionError(
                "LIMIT_EXCEEDED",
                f"a session without an identity may keep {MAX_ANONYMOUS_BYTES:,} bytes, and all of them "
                f"{MAX_ALL_ANONYMOUS_BYTES:,}; send a hello with an identity",
            )
        self._anonymous[session_id] = state
        self._anonymous_bytes[session_id] = size
        self._all_anonymous_bytes = in_all


def session_key(session_id: str) -> str:
    return f"vcp:session:{session_id}{_SUFFIX}"


def owner_key(owner: str) -> str:
    return f"vcp:owner:{owner_hash(owner)}"


def _keys_of(session_id: str) -> tuple[str, ...]:
    return session_key(session_id), context_key(session_id), history_key(session_id)


def _kept(state: _State, held: Versioned) -> Kept[_State]:
    return Kept(state=state, version=held.version, expires_at=held.expires_at or 0.0)


def _is_due(kept: Kept[Any], now: float, ttl: float) -> bool:
    return kept.version > 0 and kept.expires_at - now < ttl / 2


class _Owned(Struct, frozen=True):
    owner: str


_encode = msgspec.json.Encoder().encode
_read_session: Final = stored_json(OwnedSession, unreadable)
_read_relation: Final = stored_json(OwnedRelation, unreadable)
_read_owned: Final = stored_json(_Owned, unreadable)


def _owner_inside(data: bytes | None) -> str | None:
    try:
        return None if data is None else _read_owned(data).owner
    except UnreadableContextError:
        return None
