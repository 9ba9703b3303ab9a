"""One reply for one idempotency key (ruling 65): what is stored of each call that has one.

A row `call-keys/<sha256(owner, key)>`, sealed by the vault and bound to its place, in three forms:

| form     | has                                          | until                                        |
|----------|----------------------------------------------|----------------------------------------------|
| open     | the request, as it is sent                   | it is answered, or refused for certain: gone |
| answered | the request and the reply, as they were sent | a day after it began, 64 MiB of all in all; longer if the owner keeps messages |
| emptied  | key, target and times                        | 90 days after that                           |

- The row changes in the transactions of its pair, so that two processes never believe different things about it.
- The log `call-keys` has the rows in the order in which they began, so that the oldest are emptied first.
- A call without a key can be the same call as one before it, as long as that one is not answered: `alike` says how it is
  recognised. Its row is kept under a name that no key has.
- `call-proofs/<pair>:<number>` is the hash of the envelope that is proven to have a number for which several were sent.
"""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final, Self
from uuid import uuid4

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from comity.envelopes.client.calls import DispatchResult, verified_reply
from comity.envelopes.protocol.card import CapabilityCard, deserialize, serialize
from comity.envelopes.protocol.envelope import VacantEnvelope, from_a2a_jsonrpc, recognise
from comity.envelopes.protocol.message import A2AMessage
from comity.identity.protocol.keys import VacantId
from comity.requests.caller import OWN_PROCESS
from comity.runtime.settings import RecordSettings
from comity.store.interface import (
    Append,
    Delete,
    Hold,
    Operation,
    Put,
    Store,
    StoreConflict,
    Trim,
    place_of,
    scan_all,
)
from comity.store.vault import Vault
from comity.wire import strict_json
from comity.wire.canonical import envelope_form
from comity.wire.errors import ComityError, ConflictError, StoreCorruptError
from comity.wire.machine import Clock

KEY_SPACE: Final = "call-keys"
PROOF_SPACE: Final = "call-proofs"
KEPT_SECONDS: Final = 86_400.0
KNOWN_SECONDS: Final = 90 * 86_400.0
MAX_BYTES: Final = 64 * 1024 * 1024

_TIDY_EVERY: Final = 60.0
_PAGE: Final = 100

log = logging.getLogger("comity.calls")


class IdempotencyKeyReusedError(ConflictError):
    """The key was used for another call. Nothing was sent."""

    code = "IDEMPOTENCY_KEY_REUSED"


class ReplyGoneError(ConflictError):
    """The call was made, and what is stored of it no longer has its reply. Nothing was sent."""

    code = "reply_gone"


class KeyRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`key` is empty for a call that was given none. `request` and `reply` are empty once they are gone; `number` is that
    of the request in the chain with `target`, and `card` is what the target was called by.
    """

    key: str
    target: str
    begun: float
    digest: bytes = b""
    number: int = 0
    request: bytes = b""
    reply: bytes = b""
    card: bytes = b""
    answered: float | None = None


class _Begun(Struct, frozen=True, array_like=True):
    name: str
    at: float


class Keeping(Struct, frozen=True):
    """How long a request and its reply are kept, and how many bytes of all in all."""

    seconds: float = KEPT_SECONDS
    bytes: int = MAX_BYTES


def keeping_of(settings: RecordSettings) -> Keeping:
    """Return what the owner wants: as long as a call may be repeated, or longer, for receipts."""
    if not settings.keep_messages:
        return Keeping()
    return Keeping(max(settings.keep_days * 86_400.0, KEPT_SECONDS), settings.keep_bytes)


class CallKeys:
    """The rows of one store. Without a vault nothing is sealed."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        vault: Callable[[], Vault] | None,
        keeping: Keeping = Keeping(),  # noqa: B008 - it has no state
    ) -> None:
        self.clock = clock
        self._keeping = keeping
        self._store = store
        self._vault = vault
        self._tidy_at = 0.0

    def call(self, owner: str, payload: A2AMessage, *, key: str = "", alike: bytes = b"") -> "KeyedCall":
        """Return the call that `owner` makes under a key, or without one and `alike` others."""
        name = _name_of(owner, key) if key else sha256(f"alike\n{owner}\n".encode() + alike).hexdigest()
        return KeyedCall(self, name, key, digest_of(payload))

    async def read(self, name: str) -> tuple[KeyRow | None, int]:
        """Return a row and its version."""
        held = await self._store.get(KEY_SPACE, name)
        if held is None:
            return None, 0
        vault, place = self._vault, place_of("value", KEY_SPACE, name)
        value = held.value if vault is None else vault().open_in(place, held.value)
        if value is None:
            raise StoreCorruptError(
                "what is stored of the call with this key cannot be decrypted; restore vault.key in the data folder, or "
                "set VCP_CONTEXT_ENCRYPTION_KEY"
            )
        try:
            return msgspec.msgpack.decode(value, type=KeyRow), held.version
        except msgspec.MsgspecError:
            raise StoreCorruptError("what is stored of the call with this key cannot be read") from None

    def put(self, name: str, row: KeyRow, expect: int) -> list[Operation]:
        """Return what writes a row; the first operation is the row itself."""
        value, place = msgspec.msgpack.encode(row), place_of("value", KEY_SPACE, name)
        if self._vault is not None:
            value = self._vault().seal_in(place, value)
        expires = row.begun + self._keeping.seconds + KNOWN_SECONDS
        size = len(value) if row.request else 0
        operations: list[Operation] = [
            Put(space=KEY_SPACE, key=name, value=value, expect=expect, expires_at=expires),
            Hold(quota=KEY_SPACE, item=name, holder="", bytes=size),
        ]
        return operations

    def begin(self, name: str, row: KeyRow, expect: int) -> list[Operation]:
        """Return what writes the row of a call that begins."""
        begun = msgspec.msgpack.encode(_Begun(name, row.begun))
        return [*self.put(name, row, expect), Append(log=KEY_SPACE, data=begun)]

    def delete(self, name: str, expect: int) -> list[Operation]:
        return [
            Delete(space=KEY_SPACE, key=name, expect=expect),
            Hold(quota=KEY_SPACE, item=name, holder="", bytes=0),
        ]

    async def proof(self, pair: str, number: int) -> bytes | None:
        held = await self._store.get(PROOF_SPACE, _proof_name(pair, number))
        return None if held is None else held.value

    def prove(self, pair: str, number: int, envelope_hash: bytes) -> Put:
        expires = self.clock.now() + KEPT_SECONDS  # as long as a call that wanted the number may be repeated
        return Put(space=PROOF_SPACE, key=_proof_name(pair, number), value=envelope_hash, expires_at=expires)

    async def answered(self, target: str) -> AsyncIterator[KeyRow]:
        """Yield the rows of the calls to one target whose replies are stored."""
        async for name, _held in scan_all(self._store, KEY_SPACE):
            row, _version = await self.read(name)
            if row is not None and row.target == target and row.reply:
                yield row

    async def tidy_sometimes(self) -> None:
        """Empty old rows, if it was not done a minute ago. The call that was just made does not depend on it."""
        if self.clock.monotonic() < self._tidy_at:
            return
        self._tidy_at = self.clock.monotonic() + _TIDY_EVERY
        try:
            await self.tidy()
        except ComityError as reason:
            log.warning("old calls could not be emptied: %s", reason)

    async def tidy(self) -> None:
        """Empty the rows that are old enough, and the oldest while all of them have more bytes than are kept."""
        while await self._tidy_page():
            pass

    async def _tidy_page(self) -> bool:
        """Return whether there may be more to do."""
        over = await self._store.held(KEY_SPACE) - self._keeping.bytes
        old = self.clock.now() - self._keeping.seconds
        operations: list[Operation] = []
        through = 0
        for record in await self._store.read(KEY_SPACE, limit=_PAGE):
            begun = msgspec.msgpack.decode(record.data, type=_Begun)
            if begun.at > old and over <= 0:
                break
            through = record.position
            held = await self._store.held_item(KEY_SPACE, begun.name)
            emptied = await self._emptied(begun)
            if emptied:
                over -= 0 if held is None else held.bytes
                operations += emptied
        if not through:
            return False
        try:
            await self._store.commit(*operations, Trim(log=KEY_SPACE, through=through))
        except StoreConflict:  # a row changed meanwhile: next time
            return False
        return True

    async def _emptied(self, begun: _Begun) -> list[Operation]:
        try:
            row, version = await self.read(begun.name)
        except StoreCorruptError:  # it stays, so that its key is refused
            return [Hold(quota=KEY_SPACE, item=begun.name, holder="", bytes=0)]
        if row is None or row.begun != begun.at:
            return []
        if not row.key:
            return self.delete(begun.name, version)
        return self.put(begun.name, replace(row, request=b"", reply=b"", card=b""), version)


class KeyedCall:
    """One call under its key. `change` is what the next transaction of the pair does to the row."""

    def __init__(self, keys: CallKeys, name: str, key: str, digest: bytes) -> None:
        self.keys = keys
        self.name = name
        self.key = key
        self.text = key or str(uuid4())
        self.row: KeyRow | None = None
        self.known = False
        self.change: Sequence[Operation] = ()
        self._next: KeyRow | None = None
        self._sent: tuple[bytes, bytes] | None = None
        self._version = 0
        self._digest = digest

    async def read(self) -> Self:
        """Read the row. Raise if the key was used for another content, or if the reply to this call is gone."""
        row, self._version = await self.keys.read(self.name)
        self.change, self.known = (), True
        if row is not None and not self.key and (row.answered or not row.request):
            row = None  # a call like it was answered, so this is a new one
        self.row = row
        if row is None:
            return self
        target = VacantId.from_hex(row.target)
        if row.digest != self._digest:
            raise IdempotencyKeyReusedError(
                f"the key {self.key} was used for another message to {target} at {_time(row.begun)}; nothing was sent. Use "
                "another key for another message"
            )
        if not row.request:
            what = (
                f"was sent to {target} at {_time(row.begun)}, no answer came, and it may have been carried out; what was "
                "sent is no longer stored"
                if row.answered is None
                else f"was answered by {target} at {_time(row.answered)}; its reply is no longer stored"
            )
            raise ReplyGoneError(
                f"the call with the key {self.key} {what}. Use another key to make a new call"
            )
        return self

    @property
    def target(self) -> VacantId | None:
        """Return whom the call was sent to; None before it was."""
        return None if self.row is None else VacantId.from_hex(self.row.target)

    @property
    def card(self) -> CapabilityCard | None:
        return deserialize(self.row.card) if self.row is not None and self.row.card else None

    def request(self) -> VacantEnvelope:
        """Return what was sent."""
        assert self.row is not None, "only a call that was made has a request"
        envelope = recognise(from_a2a_jsonrpc(strict_json.loads(self.row.request)))
        if envelope is None:
            raise StoreCorruptError(
                f"what is stored of call {self.row.number} to {self.target} cannot be read"
            )
        self.text = envelope.idempotency_key
        self._sent = envelope.compute_hash(), self.row.request
        return envelope

    def result(self) -> DispatchResult | None:
        """Return the call and its reply, as they were sent; None if none came yet."""
        if self.row is None or not self.row.reply:
            return None
        envelope = self.request()
        card = self.card or CapabilityCard(vacant_id=envelope.to_vacant_id, capability_text="")
        reply = verified_reply(strict_json.loads(self.row.reply), request=envelope, card=card)
        return DispatchResult(envelope, reply, card)

    def body_of(self, envelope: VacantEnvelope) -> bytes | None:
        """Return the bytes that were sent for this envelope; None for another one."""
        if self._sent is None or self._sent[0] != envelope.compute_hash():
            return None
        return self._sent[1]

    def send(self, envelope: VacantEnvelope, body: bytes, card: CapabilityCard) -> None:
        """Let the next transaction write down what is about to be sent."""
        row = self.row
        begun = self.keys.clock.now() if row is None else row.begun
        self._sent = envelope.compute_hash(), body
        self._next = KeyRow(
            key=self.key,
            target=envelope.to_vacant_id.hex(),
            begun=begun,
            digest=self._digest,
            number=envelope.sequence_no,
            request=body,
            card=serialize(card),
        )
        if row is not None and row.request == body:
            self.change = ()
        else:
            write = self.keys.put if row is not None else self.keys.begin
            self.change = write(self.name, self._next, self._version)

    def answer(self, body: bytes) -> None:
        """Let the next transaction store the answer."""
        assert self._next is not None, "only what was sent is answered"
        self._next = replace(self._next, reply=body, answered=self.keys.clock.now())
        self.change = self.keys.put(self.name, self._next, self._version)

    def refuse(self) -> None:
        """Let the next transaction free the key: the call was not taken, by whatever was sent for it."""
        self._next = None
        self.change = self.keys.delete(self.name, self._version) if self._version else ()

    def committed(self, results: Sequence[Any]) -> None:
        """Note what the transaction has made of the row."""
        self._version = results[0] if self._next is not None else 0
        self.row, self.change = self._next, ()


def digest_of(payload: A2AMessage) -> bytes:
    """Return the same for the same content."""
    return sha256(envelope_form(payload.canonical_dict())).digest()


def old_rows(requests: Sequence[tuple[bytes, bytes]], now: float) -> dict[str, KeyRow]:
    """Return the rows of calls that an earlier release stored beside the pair: their names, and what they are."""
    rows = {}
    for request, reply in requests:
        envelope = recognise(from_a2a_jsonrpc(strict_json.loads(request)))
        if envelope is None:
            raise StoreCorruptError("a stored call is not signed as its sender claims")
        key = envelope.idempotency_key
        row = KeyRow(
            key=key,
            target=envelope.to_vacant_id.hex(),
            begun=now,
            digest=digest_of(envelope.payload),
            number=envelope.sequence_no,
            request=request,
            reply=reply,
            answered=now if reply else None,
        )
        rows[_name_of(OWN_PROCESS.owner, key)] = row
    return rows


def _name_of(owner: str, key: str) -> str:
    return sha256(f"key\n{owner}\n{key}".encode("utf-8", "surrogatepass")).hexdigest()


def _proof_name(pair: str, number: int) -> str:
    return f"{pair}:{number:020}"


def _time(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
